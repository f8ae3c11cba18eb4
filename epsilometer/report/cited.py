"""Figures that a page cites from generated tables; `epsilometer results` fills them in.

In Markdown a figure is between two comments, the first of which names its file (from the page's folder), heading, row
and column:

    <!-- figure: results/teda.md; Losses on queries; dp_mlm, 10; strongest -->2.41 to 3.25<!-- end -->

A row is named by as many of its first cells as distinguish it from all others. If a cell holds several values, such as
`0.014: 0.991, 0.043: 0.786`, a fifth part names one: `; 0.043`. The fifth part `; Holm, tem` corrects a p-value: it is
adjusted for all p-values of that column in the rows that begin with `tem` (Holm 1979).

The same command fills in a **verdict** on a claim, by a rule of `report.agreement` on such a figure:

    <!-- verdict: results/teda.md; Losses on queries; dp_mlm, 10; strongest ABOVE 2 -->agrees<!-- end -->

A premise may follow after `GIVEN`, another such rule: unless it agrees, the verdict is *not testable here*, whichever
it would have been. So a comparison of utilities can require that something is learnt.

`report.tally` counts the claims that agree.
"""

from __future__ import annotations

import re
from pathlib import Path

from epsilometer.auditing.results.comparison import holm
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.report.agreement import AGREES, NOT_TESTABLE, RULE, agreement, decided, interval, multiplied, off_by
from epsilometer.report.tally import tallied

FIGURE = re.compile(r"<!-- figure: (.*?) -->(.*?)<!-- end -->", re.DOTALL)

VERDICT = re.compile(r"<!-- verdict: (.*?) -->(.*?)<!-- end -->", re.DOTALL)


def fill(folder: Path) -> list[Path]:
    """Fill the pages in a folder, and return those that changed. Raises UserError as `filled` does."""
    changed = []
    for page in sorted(folder.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        now = filled(text, page)
        if now != text:
            tables.write_text(now, page)
            changed.append(page)
    return changed


def filled(text: str, page: Path) -> str:
    """Return the text of a page with the present figures of its tables, the verdicts that follow, and their counts.

    Raises UserError naming the page and the figure for a missing file, heading, column or value, and unless exactly one
    row matches; also for an unknown verdict in a counted table.
    """
    text = FIGURE.sub(lambda match: f"<!-- figure: {match[1]} -->{_value(match[1], page)}<!-- end -->", text)
    text = VERDICT.sub(lambda match: f"<!-- verdict: {match[1]} -->{_verdict(match[1], page)}<!-- end -->", text)
    try:
        return tallied(text)
    except UserError as error:
        raise error.at(page) from None


def _verdict(claim: str, page: Path) -> str:
    claim, _, premise = claim.partition(" GIVEN ")
    if premise and _verdict(premise, page) != AGREES:
        return NOT_TESTABLE
    rule = RULE.match(claim)
    if rule is None:
        raise _wrong(page, claim, "it has no rule (ABOVE, BELOW, NEAR, IS, IS NOT, NO EFFECT AT)")
    cell = _value(rule["cell"], page)
    other = _value(rule["other"], page) if ";" in rule["other"] else rule["other"]
    of, other_of = (int(rule[name]) if rule[name] else None for name in ("of", "other_of"))
    try:
        if rule["factor"]:
            cell = off_by(cell, float(rule["factor"]))
        if rule["times"]:
            other = multiplied(other, float(rule["times"]))
        off = 0 if rule["exact"] else float(rule["off"]) if rule["off"] else None
        verdict = agreement(cell, rule["rule"], other, rule["by"], of=of, other_of=other_of, off=off)
        if rule["against"] is None or verdict == NOT_TESTABLE:
            return verdict
        if other_of:
            other = "{} to {}".format(*interval(other, other_of))
        against = float(rule["against"])
        testable = decided(cell, rule["rule"], other, rule["by"], against=against, of=of, off=off or 0)
        return verdict if testable else NOT_TESTABLE
    except UserError as error:
        raise _wrong(page, claim, str(error)) from None


def _value(reference: str, page: Path) -> str:
    file, heading, row, column, *part = (piece.strip() for piece in f"{reference};;;".split(";"))
    path = page.parent / file
    if not path.is_file():
        raise _wrong(page, reference, f"there is no file {file}")
    head, rows = _table(path.read_text(encoding="utf-8"), heading)
    if column not in head:
        raise _wrong(page, reference, f"no table under {heading!r} has a column {column!r}; it has {', '.join(head)}")
    matching = [cells for cells in rows if _begins(cells, row)]
    if len(matching) != 1:
        raise _wrong(page, reference, f"{len(matching)} rows begin with {row!r}, and exactly one must")
    cell = matching[0][head.index(column)]
    if not (named := part[0]):
        return cell
    if named.startswith("Holm, "):
        return _by_holm(cell, [cells[head.index(column)] for cells in rows if _begins(cells, named[len("Holm, ") :])])
    value = re.search(rf"(?:^|, ){re.escape(named)}: ([^,]+)", cell)
    if value is None:
        raise _wrong(page, reference, f"the cell has no value at {named}")
    return value[1]


def _begins(cells: list[str], row: str) -> bool:
    return f"{', '.join(cells)}, ".startswith(f"{row}, ")


def _by_holm(cell: str, family: list[str]) -> str:
    """Return the p-value in a cell, adjusted for those in the cells of a family; cells without a number have none."""
    p_values = [interval(other)[0] for other in family if re.search(r"\d", other)]
    adjusted = dict(zip(p_values, holm(p_values), strict=True))
    return f"{adjusted[interval(cell)[0]]:.2g}"


def _table(text: str, heading: str) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of the first table under a heading; empty if there is none."""
    section = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    lines = re.search(r"(?:^\|.*\n?)+", section[1], re.MULTILINE) if section else None
    if lines is None:
        return [], []
    split = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[0].splitlines()]
    return split[0], split[2:]


def _wrong(page: Path, reference: str, what: str) -> UserError:
    return UserError(
        f"{page}: the figure {reference!r} cannot be filled: {what}; correct the reference, or the table", "EPS-R015"
    )
