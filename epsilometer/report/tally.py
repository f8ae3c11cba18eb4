"""Count the claims of a page that agree, by section; `epsilometer results` counts them from the page's tables.

In Markdown the counts are between two comments:

    <!-- tally -->
    …
    <!-- end -->

They count the tables whose last column is `verdict`. Rows that say `ours to show`, or whose printed figure is
`not tested`, are claims of ours, not of a paper: they have columns of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from epsilometer.core.errors import UserError
from epsilometer.report.agreement import AGREES, DISAGREES, NOT_TESTABLE, UNDECIDED

BY_CONSTRUCTION = "by construction"
_VERDICTS = (AGREES, DISAGREES, UNDECIDED, NOT_TESTABLE, BY_CONSTRUCTION)
_TALLY = re.compile(r"<!-- tally -->.*?<!-- end -->", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


class Claim(NamedTuple):
    """A row of a table of claims. ours: True if the paper does not claim it."""

    section: str
    ours: bool
    verdict: str


def tallied(text: str) -> str:
    """Returns the text of a page with its claims counted. Raises UserError as `claims` does."""
    return _TALLY.sub(lambda _: f"<!-- tally -->\n{_table(list(claims(text)))}\n<!-- end -->", text)


def claims(text: str) -> Iterator[Claim]:
    """Yields the claims of a page. Raises UserError if the last cell of a claim does not begin with a verdict."""
    section, of_claims = "", False
    for line in _COMMENT.sub("", text).splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ")
        if not line.startswith("|"):
            of_claims = False
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[-1] == "verdict":
            of_claims = True
        elif of_claims and cells[-1].strip("-"):
            verdict = next((word for word in _VERDICTS if cells[-1].startswith(word)), None)
            if verdict is None:
                raise UserError(
                    f"under {section!r} the claim {cells[0]!r} has the verdict {cells[-1]!r}; "
                    f"begin it with one of: {', '.join(_VERDICTS)}"
                )
            yield Claim(section, "ours to show" in cells[0] or cells[1] == "not tested", verdict)


def _table(all_claims: list[Claim]) -> str:
    sections = dict.fromkeys(claim.section for claim in all_claims)
    rows = [_row(section, [claim for claim in all_claims if claim.section == section]) for section in sections]
    head = ["section", "of the paper", *_VERDICTS, "ours", "ours that agree"]
    table = [head, ["---"] * len(head), *rows, _row("all", all_claims)]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def _row(name: str, some: list[Claim]) -> list[str]:
    of_paper, ours = (Counter(claim.verdict for claim in some if claim.ours is which) for which in (False, True))
    counts = of_paper.total(), *(of_paper[word] for word in _VERDICTS), ours.total(), ours[AGREES]
    return [name, *map(str, counts)]
