"""How many identifiers at known places in texts stand in the rewrites, by kind, and what was masked beside them.

The identifiers are those that the texts' file records, or, where it records none, such as are planted (`planting`);
never what a detector finds, since one that a mechanism masks by would find nothing that the mechanism missed. Of a kind
one identifier is drawn from each text, so that texts, and with them outcomes, are independent: their number is binomial
and the interval is Clopper and Pearson's. It covers texts like these with identifiers like these, no others.

An identifier survives by the rule of `worth.leakage`, which asks for the whole value, whatever its case and separators.
A number, which has no word of three letters, also survives where all its digits, six or more, stand in a row. An entity
of several mentions survives where one of them does. What is left of a value, as a first name, is not counted.

**Precision.** Words of the text that the rewrite does not have in their place (`difflib`) are masked; a run of them
that touches an identifier was masked rightly. Where identifiers were planted, whatever else identifies somebody in the
texts counts as masked wrongly, so the share is a lower bound. Its interval is clustered by text (`worth.intervals`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

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
from epsilometer.auditing.worth.leakage import Identifier, by_entity, recorded, survives
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.guarantees import check_epsilons, stored
from epsilometer.core.mechanism import Mechanism, budgets
from epsilometer.core.randomness import Noise
from epsilometer.runtime.progress import warn
from epsilometer.text.language import LEAST, function_words
from epsilometer.text.words import places, words, write

TRIALS = 500  # texts a kind
_DIGITS = 6  # that identify without the letters around them


@dataclass(frozen=True)
class Occurrence:
    """A text with an identifier of a kind; mentions: of that one; places: start and end of all that the text has.

    source: the text as it was, where the identifier was planted in it.
    """

    kind: str
    text: str
    mentions: Sequence[str]
    places: Sequence[tuple[int, int]]
    source: str | None = None

    @property
    def original(self) -> str:
        """The text without what was planted."""
        return self.text if self.source is None else self.source


@dataclass(frozen=True)
class Identified:
    """Texts, and the identifiers that their file records of each; None where it records none: they are planted."""

    texts: Sequence[str]
    record: Sequence[Sequence[Identifier]] | None = None

    @classmethod
    def of(cls, texts: Sequence[str] | pl.DataFrame) -> Identified:
        """Distinct texts, of a list or of a table with the columns of a corpus (`corpora.reading.read`).

        Raises UserError for a record of something that does not stand in its text.
        """
        if not isinstance(texts, pl.DataFrame):
            return cls(distinct(texts))
        table = texts.unique("text", keep="first", maintain_order=True)
        all_texts, record = distinct(table["text"].to_list()), recorded(table)
        for number, (text, some) in enumerate(zip(all_texts, record, strict=True), 1):
            if any(not (survives(each.text, text) or each.text in text) for each in some):
                raise UserError(f"text {number} does not hold an identifier that is recorded of it; correct the record")
        return cls(all_texts, record if any(record) else None)

    def say_language(self) -> None:
        """Warns where what is planted is in another language than the texts."""
        share = function_words(self.texts) if self.record is None else None
        if share is not None and share < LEAST:
            warn(
                f"the texts are in another language than English, or no sentences: {share:.1%} of their words are "
                "English function words. What is planted are English sentences with names of the United States; "
                "texts whose identifiers are recorded tell more"
            )

    def chosen(self, kinds: Sequence[str] | None) -> list[str]:
        """The kinds that are asked for, or all. Raises UserError for one that is not there."""
        there = (
            [*planting.KINDS] if self.record is None else sorted({each.kind for some in self.record for each in some})
        )
        for kind in kinds or ():
            if kind not in there:
                raise unknown("kind of identifier", kind, there)
        if kinds is not None and len({*kinds}) < len(kinds):
            raise UserError(f"a kind of identifier is named twice: {', '.join(kinds)}; name each once")
        return list(kinds or there)

    def most(self, kind: str) -> int | None:
        """How many texts have an identifier of the kind; None where as many as one likes are planted."""
        return None if self.record is None else sum(any(each.kind == kind for each in some) for some in self.record)

    def trials(self, kind: str, count: int, seed: int) -> list[Occurrence]:
        """So many texts, or all that have the kind, with an identifier of it each."""
        if self.record is None:
            planted = planting.plant(self.texts, kind, count, seed)
            return [
                Occurrence(kind, text, [value], [(start, start + len(value))], source=source)
                for text, value, start, source in planted
            ]
        rng = Noise.named(1, seed, "identifiers", kind).generator(0)
        having = [i for i, some in enumerate(self.record) if any(each.kind == kind for each in some)]
        rows = []
        for i in rng.permutation(having)[:count]:
            entities = [mentions for mentions in by_entity(self.record[i]) if mentions[0].kind == kind]
            mentions = entities[int(rng.integers(len(entities)))]
            places = _places(self.texts[i], self.record[i])
            rows.append(Occurrence(kind, self.texts[i], [mention.text for mention in mentions], places))
        return rows


def surviving_identifiers(
    texts: Sequence[str] | pl.DataFrame,
    mechanism: Named,
    epsilons: Sequence[float] | None = None,
    kinds: Sequence[str] | None = None,
    *,
    trials: int = TRIALS,
    settings: Mapping[str, Any] | None = None,
    design: Design = STANDARD,
) -> pl.DataFrame:
    """Count, by kind, the identifiers at known places in texts that survive a rewrite.

    texts: a list, in which identifiers are planted, or a table with `text`, `identifiers` and `identifier_kinds`, as
    `corpora.reading.read` gives it of annotated texts. mechanism, epsilons, settings: as in `epsilometer.audit`. kinds:
    which, None for all. trials: texts a kind, at most those that have one. Of the design alpha and seed matter.
    Returns a row an epsilon and kind, with the columns of `SURVIVING`. Raises UserError for values outside their range
    and for a kind that is not there.
    """
    check_trials(trials)
    check_design(design)
    if epsilons is not None:
        check_epsilons(epsilons)
    identified = Identified.of(texts)
    built = as_mechanism(mechanism, settings, identified.texts)
    every = [trial for kind in identified.chosen(kinds) for trial in identified.trials(kind, trials, design.seed)]
    at = [float(epsilon) for epsilon in budgets(built, epsilons)]
    identified.say_language()
    rows, tally = [], Tally()
    by_epsilon = rewritten(built, every, at, design.seed, tally=tally)
    tally.say()
    for epsilon, rewrites in zip(at, by_epsilon, strict=True):
        for kind in dict.fromkeys(trial.kind for trial in every):
            some = [(trial, new) for trial, new in zip(every, rewrites, strict=True) if trial.kind == kind]
            named = (stored(epsilon), kind, identified.record is None)
            rows.append((*named, *_survival(some, design.alpha), *precision(some, design.alpha)))
    return pl.DataFrame(rows, schema=dict(SURVIVING), orient="row")


def rewritten(
    mechanism: Mechanism, trials: Sequence[Occurrence], epsilons: Sequence[float], seed: int, *, tally: Tally
) -> list[list[str]]:
    """The rewrite of each trial's text, at each epsilon; a text that serves several kinds is rewritten once.

    tally: counts the rewrites.
    """
    texts = list(dict.fromkeys(trial.text for trial in trials))
    streams = [Noise.named(len(texts), seed, "identifiers", "rewrite", epsilon) for epsilon in epsilons]
    by_epsilon = rewrite_all(mechanism, Job(texts, np.arange(len(texts)), epsilons, streams, tally=tally), paced=True)
    of = {text: i for i, text in enumerate(texts)}
    return [[rewrites.texts[of[trial.text]] for trial in trials] for rewrites in by_epsilon]


def stands(trial: Occurrence, rewrite: str) -> bool:
    """Whether the trial's identifier survives, by the module's rule."""
    return any(_stands(mention, trial.text, rewrite) for mention in trial.mentions)


def _stands(value: str, text: str, rewrite: str) -> bool:
    if survives(value, rewrite):
        return True
    if not survives(value, text) and value.casefold() in rewrite.casefold():  # recorded from within a word
        return True
    digits = [] if re.search(r"[^\W\d_]{3}", value) else re.findall(r"\d", value)
    in_a_row = r"[\W_]*".join(digits)
    return len(digits) >= _DIGITS and bool(re.search(rf"(?<!\d){in_a_row}(?!\d)", rewrite))


def _survival(some: Sequence[tuple[Occurrence, str]], alpha: float) -> tuple[int, int, float, float, float]:
    """Texts, how many survived, their share and its interval."""
    survived = sum(stands(trial, rewrite) for trial, rewrite in some)
    return len(some), survived, survived / len(some), *clopper_pearson(survived, len(some), alpha)


def precision(
    some: Sequence[tuple[Occurrence, str]], alpha: float
) -> tuple[int, float | None, float | None, float | None]:
    """Runs of words that were masked, the share of them that touch an identifier, and its interval.

    some: texts and their rewrites. The share is None where nothing was masked.
    """
    touched, source = [], []
    for number, (trial, rewrite) in enumerate(some):
        for start, end in masked(trial.text, rewrite):
            touched.append(any(start < other_end and other < end for other, other_end in trial.places))
            source.append(number)
    return (len(touched), *(share_interval(touched, source, alpha) if touched else (None, None, None)))


def masked(text: str, rewrite: str) -> list[tuple[int, int]]:
    """Start and end of each run of words of the text that the rewrite does not have in their place."""
    spans = list(places(text))
    old = [write(words(text[start:end])) for start, end in spans]
    changes = SequenceMatcher(None, old, words(rewrite), autojunk=False).get_opcodes()
    return [(spans[i][0], spans[j - 1][1]) for what, i, j, _, _ in changes if what in ("replace", "delete")]


def _places(text: str, some: Sequence[Identifier]) -> list[tuple[int, int]]:
    """Wherever the text holds one of these values."""
    return [match.span() for value in {each.text for each in some} for match in re.finditer(re.escape(value), text)]
