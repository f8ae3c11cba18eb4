"""Count the claims of a page that agree, by section; `epsilometer results` counts them from the page's tables.

In Markdown the counts are between two comments:

    <!-- tally -->
    …
    <!-- end -->

They count the tables whose last column is `verdict`. Rows that say `ours to show`, or whose printed figure is
`not tested`, are claims of ours, not of a paper: they have columns of their own.

The column `by chance` bounds the number of disagreements to expect if all of the paper's claims held: of each row that
can disagree, the rate at which its rule is wrong. It is .01, that of 99 % intervals; of heads, which have the range of
their seeds, .05; and 0 for a rule that is EXACT.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from epsilometer.core.errors import UserError
from epsilometer.report.agreement import AGREES, DISAGREES, NOT_TESTABLE, UNDECIDED

BY_CONSTRUCTION, BY_CHANCE = "by construction", "by chance"
_VERDICTS = (AGREES, DISAGREES, UNDECIDED, NOT_TESTABLE, BY_CONSTRUCTION)
_TALLY = re.compile(r"<!-- tally -->.*?<!-- end -->", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ERROR, _ERROR_OF_HEADS = 0.01, 0.05  # of three seeds; of more it is smaller


class Claim(NamedTuple):
    """A row of a table of claims.

    ours: True if the paper does not claim it; error: the probability at most of a disagreement if the claim holds.
    """

    section: str
    ours: bool
    verdict: str
    error: float


def tallied(text: str) -> str:
    """Return the text of a page with its claims counted. Raises UserError as `claims` does."""
    return _TALLY.sub(lambda _: f"<!-- tally -->\n{_table(list(claims(text)))}\n<!-- end -->", text)


def claims(text: str) -> Iterator[Claim]:
    """Yields the claims of a page. Raises UserError if the last cell of a claim does not begin with a verdict."""
    section, of_claims = "", False
    for whole in text.splitlines():
        line = _COMMENT.sub("", whole)
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
                    f"begin it with one of: {', '.join(_VERDICTS)}",
                    "EPS-R021",
                )
            error = _error(whole) if verdict in (AGREES, DISAGREES, UNDECIDED) else 0.0
            yield Claim(section, "ours to show" in cells[0] or cells[1] == "not tested", verdict, error)


def _error(line: str) -> float:
    rule = next(iter(re.findall("<!-- verdict: (.*?) -->", line)), " EXACT ").partition(" GIVEN ")[0]
    if " EXACT " in rule:
        return 0.0
    return _ERROR_OF_HEADS if "; What heads score; " in rule else _ERROR


def _table(all_claims: list[Claim]) -> str:
    sections = dict.fromkeys(claim.section for claim in all_claims)
    rows = [_row(section, [claim for claim in all_claims if claim.section == section]) for section in sections]
    head = ["section", "of the paper", AGREES, DISAGREES, BY_CHANCE, *_VERDICTS[2:], "ours", "ours that agree"]
    table = [head, ["---"] * len(head), *rows, _row("all", all_claims)]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def _row(name: str, some: list[Claim]) -> list[str]:
    of_paper, ours = (Counter(claim.verdict for claim in some if claim.ours is which) for which in (False, True))
    chance = sum(claim.error for claim in some if not claim.ours)
    counts = [str(count) for count in (of_paper.total(), *(of_paper[word] for word in _VERDICTS))]
    return [name, *counts[:3], f"{chance:.2f}", *counts[3:], str(ours.total()), str(ours[AGREES])]
