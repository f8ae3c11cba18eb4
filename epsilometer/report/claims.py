"""Claims of papers, each tested by a rule on the project's own figures: `claims/PAPER.yaml`.

A claim has the paper's statement and its place, the figure that the paper prints, this project's figure, and a rule,
which gives the verdict (`report.agreement`). Text may cite figures as `{full/losses-on-queries; tem, 5; strongest}`
(`report.cited`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from epsilometer.core import tables, yaml_text
from epsilometer.core.errors import UserError
from epsilometer.report import archive, cited
from epsilometer.report.agreement import (
    AGREES,
    DISAGREES,
    NOT_TESTABLE,
    UNDECIDED,
    agreement,
    decided,
    interval,
    multiplied,
    off_by,
)
from epsilometer.report.cited import REFERENCE, Figures

BY_CONSTRUCTION, BY_CHANCE = "by construction", "by chance"
VERDICTS = (AGREES, DISAGREES, UNDECIDED, NOT_TESTABLE, BY_CONSTRUCTION)
HERE = "{rule}"  # placeholder in a verdict, replaced by the rule's word
_ERROR, _ERROR_OF_HEADS = 0.01, 0.05  # error of a 99 % interval; bound on the error of a range of at least three seeds
_HEADS = "/what-heads-score;"
_PLACE = re.compile(r"<!-- verdicts -->.*?<!-- end -->", re.DOTALL)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rule(_Strict):
    """A relation of a cell to another value (`report.agreement`).

    cell: a reference. other: a number, a word or a reference. by: the distance that `NEAR` allows, which may have an
    interval. of, other_of: the numbers of texts behind `cell` and `other` if they are shares. off: the amount by which
    chance may change a cell without an interval. factor: this change as a factor. exact: True if chance plays no part.
    times: a factor for `other`. against: how far on the wrong side of `other` the true value lies in the alternative
    that the paper denies. premise: another rule; if it does not agree, the claim is not testable.
    """

    cell: str
    relation: Literal["ABOVE", "BELOW", "NEAR", "IS", "IS NOT", "NO EFFECT AT"]
    other: str
    by: str | None = None
    of: int | None = None
    other_of: int | None = None
    off: float | None = None
    factor: float | None = None
    exact: bool = False
    times: float | None = None
    against: float | None = None
    premise: Rule | None = None

    def verdict(self, figures: Figures) -> str:
        """Return the verdict. Raises UserError, naming the cell, if it cannot be compared."""
        if self.premise is not None and self.premise.verdict(figures) != AGREES:
            return NOT_TESTABLE
        cell = figures.value(self.cell)
        other = figures.value(self.other) if ";" in self.other else self.other
        try:
            return self._verdict(cell, other)
        except UserError as error:
            raise UserError(f"The rule on {self.cell!r} gives no verdict: {error}", error.code) from None

    def _verdict(self, cell: str, other: str) -> str:
        if self.factor:
            cell = off_by(cell, self.factor)
        if self.times:
            other = multiplied(other, self.times)
        off = 0 if self.exact else self.off
        verdict = agreement(cell, self.relation, other, self.by, of=self.of, other_of=self.other_of, off=off)
        if self.against is None or verdict == NOT_TESTABLE:
            return verdict
        if self.other_of:
            other = "{} to {}".format(*interval(other, self.other_of))
        testable = decided(cell, self.relation, other, self.by, against=self.against, of=self.of, off=off or 0)
        return verdict if testable else NOT_TESTABLE

    @property
    def error(self) -> float:
        """An upper bound on the probability that the rule disagrees if the claim holds; 0 if chance plays no part."""
        if self.exact:
            return 0.0
        return _ERROR_OF_HEADS if _HEADS in self.cell + self.other else _ERROR


class Claim(_Strict):
    """A claim and its test.

    place: the place in the paper. ours: True if this project makes the claim, not the paper. printed, here: the paper's
    figure and this project's. verdict: a word of `VERDICTS`, or `{rule}` for the rule's word, with a reason.
    """

    claim: str
    place: str = ""
    ours: bool = False
    printed: str = ""
    here: str = ""
    rule: Rule | None = None
    verdict: str = HERE


class Group(_Strict):
    """Claims in one table. about, after: paragraphs above and below the table."""

    about: str = ""
    claims: list[Claim]
    after: str = ""


class Section(_Strict):
    """Claims under one heading."""

    name: str
    about: str = ""
    groups: list[Group]


class Paper(_Strict):
    """The claims of a paper. name: a short name; title: the page's title; about: authors, journal and data."""

    name: str
    title: str
    about: str
    sections: list[Section]


class Judged(NamedTuple):
    """A claim with its verdict. word: one of `VERDICTS`; text: the word with the reason."""

    section: str
    claim: Claim
    word: str
    text: str


def read(path: Path) -> Paper:
    """Return the claims in a file. Raises UserError, naming the file and the entry, for an invalid entry."""
    try:
        return Paper.model_validate(yaml_text.load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(
            f"{path}: {place}: {first['msg']}. See epsilometer/report/claims.py for the fields.", "EPS-R027"
        ) from None


def judged(paper: Paper, figures: Figures) -> list[Judged]:
    """Return the claims of a paper with their verdicts. Raises UserError for a claim without a known verdict."""
    return [_judged(section, claim, figures) for section, claim in _claims(paper)]


def _claims(paper: Paper) -> Iterator[tuple[str, Claim]]:
    for section in paper.sections:
        for group in section.groups:
            for claim in group.claims:
                yield section.name, claim


def _judged(section: str, claim: Claim, figures: Figures) -> Judged:
    if HERE in claim.verdict and claim.rule is None:
        raise UserError(f"The claim {claim.claim!r} has no rule. Give it one, or a verdict of its own.", "EPS-R028")
    by_rule = claim.rule.verdict(figures) if claim.rule else ""
    text = _cited(claim.verdict.replace(HERE, by_rule), figures)
    word = next((word for word in VERDICTS if text.startswith(word)), None)
    if word is None:
        raise UserError(
            f"The claim {claim.claim!r} has the verdict {text!r}. Begin it with: {', '.join(VERDICTS)}.", "EPS-R021"
        )
    return Judged(section, claim, word, text)


def tally(claims: list[Judged]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of a table: the number of each verdict by section, and for all sections.

    The column `by chance` is the sum of the rules' error rates. It is an upper bound on the expected number of
    disagreements if all of the paper's claims are true.
    """
    names = dict.fromkeys(each.section for each in claims)
    rows = [counts(name, [each for each in claims if each.section == name]) for name in names]
    return COUNTED, [*rows, counts("all", claims)]


def fill(root: Path) -> list[Path]:
    """Update the figures in pages under docs/ of a project, and return the pages that changed. Raises as `filled`."""
    changed = []
    for page in sorted((root / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        now = filled(text, root)
        if now != text:
            tables.write_text(now, page)
            changed.append(page)
    return changed


def filled(text: str, root: Path) -> str:
    """Return the text of a page with updated figures (`cited.filled`) and updated verdicts on all papers' claims.

    The verdicts are between `<!-- verdicts -->` and `<!-- end -->`.
    """
    figures = Figures(root)
    text = cited.filled(text, figures)
    return _PLACE.sub(lambda _: f"<!-- verdicts -->\n{_summary(root, figures)}\n<!-- end -->", text)


def _summary(root: Path, figures: Figures) -> str:
    every = {path: read(path) for path in sorted((root / "claims").glob("*.yaml"))}
    rows = [counts(f"[{paper.name}](../claims/{path.name})", judged(paper, figures)) for path, paper in every.items()]
    return archive.markdown(["claims of", *COUNTED[1:]], rows)


COUNTED = ["section", "of the paper", AGREES, DISAGREES, BY_CHANCE, *VERDICTS[2:], "ours", "ours that agree"]


def counts(name: str, claims: list[Judged]) -> list[str]:
    """Return a row of the table of verdicts (`COUNTED`)."""
    of_paper, ours = (Counter(each.word for each in claims if each.claim.ours is which) for which in (False, True))
    chance = sum(_error(each) for each in claims if not each.claim.ours)
    numbers = [str(number) for number in (of_paper.total(), *(of_paper[word] for word in VERDICTS))]
    return [name, *numbers[:3], f"{chance:.2f}", *numbers[3:], str(ours.total()), str(ours[AGREES])]


def _error(each: Judged) -> float:
    tested = each.claim.rule is not None and each.word in (AGREES, DISAGREES, UNDECIDED)
    return each.claim.rule.error if each.claim.rule and tested else 0.0


def page(paper: Paper, figures: Figures) -> str:
    """Return the page of a paper's claims in Markdown."""
    every = judged(paper, figures)
    parts = [f"# {paper.title}", paper.about, "## Verdicts", archive.markdown(*tally(every))]
    left = iter(every)
    for section in paper.sections:
        parts += [f"## {section.name}", section.about]
        for group in section.groups:
            rows = [_row(next(left), figures) for _ in group.claims]
            parts += [
                group.about,
                archive.markdown(["claim", "where", "printed", "here", "verdict"], rows),
                group.after,
            ]
    return "\n\n".join(_cited(part, figures) for part in parts if part) + "\n"


def _row(each: Judged, figures: Figures) -> list[str]:
    claim = each.claim
    place = "; ".join(filter(None, (claim.place, "ours to show" if claim.ours else "")))
    return [claim.claim, place, _cited(claim.printed, figures), _cited(claim.here, figures), each.text]


def _cited(text: str, figures: Figures) -> str:
    return REFERENCE.sub(lambda match: figures.value(match[1]), text)
