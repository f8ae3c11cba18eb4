"""Counts of identifiers that survive in rewrites, by kind and shape, and the precision of masking.

The identifiers are those that the texts' file records. If the file records none, identifiers are planted (`planting`).
Identifiers never come from a detector: a mechanism's own detector would find nothing that the mechanism missed. Planted
identifiers are counted by kind and shape; in long texts they are counted only by shape. One identifier is drawn from
each text, so the outcomes of a kind and shape are independent. So the number of survivors is binomial, and its interval
is Clopper and Pearson's. The interval covers only texts and identifiers like these.

`text.identifier_matching` defines survival (it ignores case, accents, possessives and the like). An entity with several
mentions survives if one mention survives. Partial survival, such as that of a surname, is counted separately. An
identifier in another spelling does not count as surviving.

**Precision.** Words of the text that are missing from their place in the rewrite (`difflib`) count as masked. A run of
masked words is correct if it touches an identifier. If identifiers were planted, masked words that identify somebody in
another way count as incorrect, so the share of correct runs is a lower bound. The share's interval is clustered by text
(`worth.intervals`). Precision is not computed for long texts (`planting.LONG`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.auditing.identifiers import planting
from epsilometer.auditing.schemas import SURVIVING
from epsilometer.auditing.text_audit import Named, as_mechanism, distinct
from epsilometer.auditing.trials.answers import Tally
from epsilometer.auditing.trials.design import STANDARD, Design, check_design, check_trials
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.worth.intervals import share_interval
from epsilometer.auditing.worth.leakage import Identifier, by_entity, recorded
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.guarantees import check_epsilons, stored
from epsilometer.core.mechanism import Mechanism, budgets
from epsilometer.core.randomness import Noise
from epsilometer.runtime.progress import warn
from epsilometer.text import identifier_matching
from epsilometer.text.language import LEAST, function_words
from epsilometer.text.words import places, words, write

TRIALS = 500  # texts per recorded kind
PLANTED = 59  # texts per planted kind and shape: if none survives, at most 5 % of all do, at confidence .95


Group = tuple[str, str | None]  # a kind and, for planted identifiers, a shape


@dataclass(frozen=True)
class Occurrence:
    """A text with an identifier of a kind.

    kind: `planting.ANY` if kinds are counted together. mentions: the mentions of the identifier. places: start and end
    of all identifiers in the text. shape, source: for a planted identifier, its shape, and the text without planted
    identifiers.
    """

    kind: str
    text: str
    mentions: Sequence[str]
    places: Sequence[tuple[int, int]]
    shape: str | None = None
    source: str | None = None

    @property
    def group(self) -> Group:
        """The kind and shape; trials with the same kind and shape are counted together."""
        return self.kind, self.shape

    @property
    def original(self) -> str:
        """The text without planted identifiers."""
        return self.text if self.source is None else self.source


@dataclass(frozen=True)
class Identified:
    """Texts and their recorded identifiers. record: None if nothing is recorded; identifiers are then planted."""

    texts: Sequence[str]
    record: Sequence[Sequence[Identifier]] | None = None

    @classmethod
    def of(cls, texts: Sequence[str] | pl.DataFrame) -> Identified:
        """Return distinct texts, from a list or from a table with the columns of a corpus (`corpora.reading.read`).

        Raises UserError for a recorded identifier that is not in its text.
        """
        if not isinstance(texts, pl.DataFrame):
            return cls(distinct(texts))
        table = texts.unique("text", keep="first", maintain_order=True)
        all_texts, record = distinct(table["text"].to_list()), recorded(table)
        for number, (text, some) in enumerate(zip(all_texts, record, strict=True), 1):
            if not all(each.survives(text) for each in some):
                raise UserError(
                    f"text {number} does not contain an identifier recorded for it; correct the record", "EPS-A118"
                )
        return cls(all_texts, record if any(record) else None)

    def say_language(self) -> None:
        """Warn if planted identifiers would be in another language than the texts."""
        share = function_words(self.texts) if self.record is None else None
        if share is not None and share < LEAST:
            warn(
                f"the texts are in another language than English, or no sentences: {share:.1%} of their words are "
                "English function words. The planted sentences are English, with names of the United States; "
                "texts with recorded identifiers give better results"
            )

    def chosen(self, kinds: Sequence[str] | None) -> list[str]:
        """Return the requested kinds, by default all usual kinds. Raises UserError for an unknown kind."""
        there = (
            [*planting.KINDS] if self.record is None else sorted({each.kind for some in self.record for each in some})
        )
        possible = [*there, *planting.ON_REQUEST] if self.record is None else there
        for kind in kinds or ():
            if kind not in possible:
                raise unknown("kind of identifier", kind, possible)
        if kinds is not None and len({*kinds}) < len(kinds):
            raise UserError(f"a kind of identifier is named twice: {', '.join(kinds)}; name each once", "EPS-A119")
        return list(kinds or there)

    def groups(self, kinds: Sequence[str] | None) -> list[Group]:
        """Return the groups to count: the given kinds (None: all), divided by shape if identifiers are planted."""
        chosen = self.chosen(kinds)
        if self.record is not None:
            return [(kind, None) for kind in chosen]
        together = chosen[0] if len(chosen) == 1 else planting.ANY
        short = [(kind, shape) for kind in chosen for shape in planting.shapes(kind)]
        return [*short, *((together, shape) for shape in planting.LONG)]

    def most(self, kind: str) -> int | None:
        """Return the number of texts with an identifier of this kind; None for planted kinds, which have no limit."""
        return None if self.record is None else sum(any(each.kind == kind for each in some) for some in self.record)

    def trials(self, kinds: Sequence[str] | None, count: int, seed: int) -> list[Occurrence]:
        """Return `count` texts per group (fewer if too few have the kind), each with an identifier of the group."""
        if self.record is None:
            return self._planted(kinds, count, seed)
        return [each for kind in self.chosen(kinds) for each in self._recorded(self.record, kind, count, seed=seed)]

    def _planted(self, kinds: Sequence[str] | None, count: int, seed: int) -> list[Occurrence]:
        long = planting.plant_long(self.texts, self.chosen(kinds), count, seed)
        rows = []
        for kind, shape in self.groups(kinds):
            assert shape is not None
            planted = long[shape] if shape in long else planting.plant(self.texts, kind, count, seed, shape=shape)
            rows += [
                Occurrence(kind, each.text, [each.value], each.places, shape=shape, source=each.source)
                for each in planted
            ]
        return rows

    def _recorded(
        self, record: Sequence[Sequence[Identifier]], kind: str, count: int, *, seed: int
    ) -> list[Occurrence]:
        rng = Noise.named(1, seed, "identifiers", kind).generator(0)
        having = [i for i, some in enumerate(record) if any(each.kind == kind for each in some)]
        rows = []
        for i in rng.permutation(having)[:count]:
            entities = [mentions for mentions in by_entity(record[i]) if mentions[0].kind == kind]
            mentions = entities[int(rng.integers(len(entities)))]
            places = _places(self.texts[i], record[i])
            rows.append(Occurrence(kind, self.texts[i], [mention.text for mention in mentions], places))
        return rows


def surviving_identifiers(
    texts: Sequence[str] | pl.DataFrame,
    mechanism: Named,
    epsilons: Sequence[float] | None = None,
    kinds: Sequence[str] | None = None,
    *,
    trials: int | None = None,
    settings: Mapping[str, Any] | None = None,
    design: Design = STANDARD,
) -> pl.DataFrame:
    """Count, by kind and shape, the identifiers at known places in texts that survive a rewrite.

    texts: a list, in which identifiers are planted, or a table with `text`, `identifiers` and `identifier_kinds`, as
    `corpora.reading.read` returns for annotated texts. mechanism, epsilons, settings: as in `epsilometer.audit`. kinds:
    the kinds to count, None for all usual kinds. trials: the number of texts per planted kind and shape (None:
    `PLANTED`). For recorded kinds, the number of texts per kind (None: `TRIALS`), or all texts with the kind if there
    are fewer. Only alpha and seed of the design matter.
    Returns a row per epsilon, kind and shape, with the columns of `SURVIVING`. Raises UserError for values outside
    their range and for an unknown kind.
    """
    check_trials(TRIALS if trials is None else trials)
    check_design(design)
    if epsilons is not None:
        check_epsilons(epsilons)
    identified = Identified.of(texts)
    count = trials or (PLANTED if identified.record is None else TRIALS)
    built = as_mechanism(mechanism, settings, identified.texts)
    every = identified.trials(kinds, count, design.seed)
    at = [float(epsilon) for epsilon in budgets(built, epsilons)]
    identified.say_language()
    rows, tally = [], Tally()
    by_epsilon = rewritten(built, every, at, design.seed, tally=tally)
    tally.say()
    for epsilon, rewrites in zip(at, by_epsilon, strict=True):
        for group, some in by_group(every, rewrites).items():
            survived = clopper_pearson((outcome := outcomes(some)).survived, len(some), design.alpha)
            counts = (len(some), outcome.survived, outcome.partly, outcome.survived / len(some))
            rows.append((stored(epsilon), *group, *counts, *survived, *precision(some, design.alpha)))
    return pl.DataFrame(rows, schema=dict(SURVIVING), orient="row")


def by_group(trials: Sequence[Occurrence], rewrites: Sequence[str]) -> dict[Group, list[tuple[Occurrence, str]]]:
    """Return the trials of each group with their rewrites."""
    groups: dict[Group, list[tuple[Occurrence, str]]] = {}
    for trial, rewrite in zip(trials, rewrites, strict=True):
        groups.setdefault(trial.group, []).append((trial, rewrite))
    return groups


def rewritten(
    mechanism: Mechanism, trials: Sequence[Occurrence], epsilons: Sequence[float], seed: int, *, tally: Tally
) -> list[list[str]]:
    """Return the rewrite of each trial's text, at each epsilon; equal texts are rewritten once.

    tally: counts the rewrites.
    """
    texts = list(dict.fromkeys(trial.text for trial in trials))
    streams = [Noise.named(len(texts), seed, "identifiers", "rewrite", epsilon) for epsilon in epsilons]
    by_epsilon = rewrite_all(mechanism, Job(texts, np.arange(len(texts)), epsilons, streams, tally=tally), paced=True)
    of = {text: i for i, text in enumerate(texts)}
    return [[rewrites.texts[of[trial.text]] for trial in trials] for rewrites in by_epsilon]


class Outcomes(NamedTuple):
    """Two flags per trial: whether the identifier survived as a whole, and whether it survived only in part."""

    whole: list[bool]
    part: list[bool]

    @property
    def survived(self) -> int:
        """The number of identifiers that survived as a whole."""
        return sum(self.whole)

    @property
    def partly(self) -> int:
        """The number of identifiers that survived only in part."""
        return sum(self.part)


def outcomes(some: Sequence[tuple[Occurrence, str]]) -> Outcomes:
    """Return the outcomes of these trials and their rewrites."""
    whole = [any(identifier_matching.stands(each, trial.text, new) for each in trial.mentions) for trial, new in some]
    part = [
        not survived and any(identifier_matching.survives_in_part(each, trial.text, new) for each in trial.mentions)
        for (trial, new), survived in zip(some, whole, strict=True)
    ]
    return Outcomes(whole, part)


Precision = tuple[int | None, float | None, float | None, float | None]


def precision(some: Sequence[tuple[Occurrence, str]], alpha: float) -> Precision:
    """Return the number of masked runs of words, the share of runs that touch an identifier, and the share's interval.

    some: trials of one group and their rewrites. Share and interval are None if nothing was masked; for long texts, all
    four values are None.
    """
    if some[0][0].shape in planting.LONG:
        return None, None, None, None
    touched, source = [], []
    for number, (trial, rewrite) in enumerate(some):
        for start, end in masked(trial.text, rewrite):
            touched.append(any(start < other_end and other < end for other, other_end in trial.places))
            source.append(number)
    return (len(touched), *(share_interval(touched, source, alpha) if touched else (None, None, None)))


def masked(text: str, rewrite: str) -> list[tuple[int, int]]:
    """Return start and end of each run of words that is missing from its place in the rewrite."""
    spans = list(places(text))
    old = [write(words(text[start:end])) for start, end in spans]
    changes = SequenceMatcher(None, old, words(rewrite), autojunk=False).get_opcodes()
    return [(spans[i][0], spans[j - 1][1]) for what, i, j, _, _ in changes if what in ("replace", "delete")]


def _places(text: str, some: Sequence[Identifier]) -> list[tuple[int, int]]:
    """Return start and end of all occurrences of these identifiers in the text."""
    return [match.span() for value in {each.text for each in some} for match in re.finditer(re.escape(value), text)]
