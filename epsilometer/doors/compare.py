"""A comparison of the losses or similarities of two mechanisms, by a question with an outcome per trial.

Both mechanisms are observed in the same trials. The sign test counts the trials in which their outcomes differ. If both
mechanisms leak equally, such a trial favours either of them with the same probability. For outcomes of 0 or 1, the sign
test is McNemar's exact test. `auditing/results/comparison.py` has the test of the strongest of several attacks, and
Holm's correction over all rows. If attackers learn from rewrites, the test compares two trained attackers. The test
says nothing about attackers trained on other rewrites.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import polars as pl

from epsilometer.auditing import text_audit as api
from epsilometer.auditing.evidence.evidence import Covers
from epsilometer.auditing.question import Gives, Observed, Question, check
from epsilometer.auditing.results.comparison import Comparison, compare_strongest, holm
from epsilometer.auditing.results.comparison import compare as by_sign
from epsilometer.auditing.results.detectable import least_of_strongest
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.auditing.results.losses import Printed
from epsilometer.auditing.subject import Subject, subject
from epsilometer.auditing.text_audit import Named
from epsilometer.auditing.trials.answers import Tally
from epsilometer.auditing.trials.design import STANDARD, Design, check_trials
from epsilometer.auditing.trials.unread import say_language
from epsilometer.cells import comparing
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import NO_BUDGET, stored
from epsilometer.doors.ask import answers, turned_round
from epsilometer.questions.which_text import WhichText

COMPARED = {
    "figure": pl.String,
    "compared": pl.String,
    "trials": pl.Int64,
    "first more": pl.Int64,
    "second more": pl.Int64,
    "p value": pl.Float64,
    "p Holm": pl.Float64,
    "detectable": pl.Float64,
    "first low": pl.Float64,
    "first high": pl.Float64,
    "second low": pl.Float64,
    "second high": pl.Float64,
    "finding": pl.String,
}
SIDES = ("first", "second")
_ANY = 0.5  # a limit in the range of every figure: shares, probabilities and nats

Side = tuple[Named, float | None]
"""A mechanism and its epsilon; None for a mechanism without a privacy budget."""
Figures = Mapping[str, Observed]


class Comparisons(Printed):
    """The table of a comparison, which prints its findings."""

    short = ("figure", "p Holm", "finding")


def compare(question: Question, first: Subject, second: Subject, trials: int | None = None) -> Comparisons:
    """Compare two subjects by the figures of a question, in the same trials.

    first, second: subjects with the same texts and the same design. trials: None for the question's usual number.
    Columns: figure (the attack, kind or metric), compared (the figures that the row compares), trials, `first more` and
    `second more` (numbers of trials in which the first or the second has the larger outcome), `p value`, `p Holm`,
    `detectable`, the bounds of both figures (`first low`, ..., each wrong with probability at most alpha / 2) and the
    `finding` in words. The probability that any finding is wrong is at most alpha. If a row shows no difference,
    `detectable` is the smallest difference of `first more` and `second more`, as shares of the trials, that the test
    detects with probability .9 (1 if it detects none). If several attacks ran on both subjects, the first row is
    `strongest`. Figures that only one subject has are in the last rows, without a comparison. Raises UserError for a
    question without an outcome per trial, for subjects that lack what the question needs, and for subjects with
    different trials.
    """
    if Gives.OUTCOMES not in question.gives:
        raise UserError(
            f"{type(question).__name__} has no outcome for each trial, so nothing can be paired; compare by another "
            "question, such as which_text",
            "EPS-Q006",
        )
    if first.digest != second.digest or first.design != second.design:
        raise UserError(
            "the two subjects differ in texts or design, so their trials differ; give both the same", "EPS-Q007"
        )
    sides = observed_by(question, (first, second), trials)
    names = comparing.labels(*((of.name, stored(of.epsilon)) for of in (first, second)))
    at_least = question.limit(first, _ANY).at_least
    (rows,) = compared([sides], [names], first.design.alpha, at_least=at_least)
    return Comparisons(rows, schema=COMPARED, orient="row")


def observed_by(question: Question, subjects: Sequence[Subject], trials: int | None = None) -> list[Figures]:
    """Return the figures of each subject by name, in the same trials. trials: None for the question's usual number."""
    subjects = [replace(of, tally=Tally()) for of in subjects]
    for of in subjects:
        check(question, of)
    count = question.usual if trials is None else trials
    check_trials(count)
    sides: list[Figures] = [{each.name: each for each in question.observe(of, count)} for of in subjects]
    for of in subjects:
        of.tally.say()
    return sides


def compared_all(question: Question, subjects: Sequence[Subject], sides: Sequence[Figures]) -> list[dict[str, Any]]:
    """Return the rows of every pair of subjects, with the subjects' names in `first` and `second`.

    sides: the result of `observed_by`. The probability that any finding of any pair is wrong is at most alpha.
    """
    names = [comparing.labels((of.name, stored(of.epsilon)), ("", None))[0] for of in subjects]
    pairs = list(combinations(range(len(subjects)), 2))
    at_least, alpha = question.limit(subjects[0], _ANY).at_least, subjects[0].design.alpha
    labels = [(names[i], names[j]) for i, j in pairs]
    rows = compared([(sides[i], sides[j]) for i, j in pairs], labels, alpha, at_least=at_least)
    return [
        {"first": subjects[i].name, "second": subjects[j].name, **row}
        for (i, j), some in zip(pairs, rows, strict=True)
        for row in some
    ]


def compared(
    pairs: Sequence[Sequence[Figures]], labels: Sequence[Sequence[str]], alpha: float, *, at_least: bool
) -> list[list[dict[str, Any]]]:
    """Return the rows of each pair of subjects; the probability that any finding is wrong is at most alpha.

    pairs: the figures of both subjects, by name. labels: the names of both subjects of each pair. at_least: True if a
    larger figure is better.
    """
    tests = [_tested(sides, alpha) for sides in pairs]
    corrected = iter(holm([test.p for some in tests for test in some]))
    level = alpha / max(1, sum(map(len, tests)))  # a p-value up to this level is a finding, whatever other tests show
    every = []
    for sides, names, some in zip(pairs, labels, tests, strict=True):
        rows = []
        for test in some:
            p = next(corrected)
            finding = _finding(test.pair, names, significant=p <= alpha, at_least=at_least)
            least = test.least(level) if test.least and p > alpha else None
            rows.append({**test.row, "p Holm": p, "detectable": least, "finding": f"{finding} {test.by}, p = {p:.2g}"})
        every.append([*rows, *_alone(sides, names, alpha)])
    return every


def compare_on(
    texts: Sequence[str] | pl.DataFrame,
    first: Side,
    second: Side,
    trials: int | None = None,
    *,
    question: Question,
    design: Design = STANDARD,
    name: str = "texts",
) -> list[dict[str, Any]]:
    """Compare on texts, or on a table with the question's columns; return the rows. name: the name of the texts."""
    if isinstance(question, WhichText):
        texts = texts["text"].to_list() if isinstance(texts, pl.DataFrame) else texts
        count = question.usual if trials is None else trials
        return comparing.compare_texts(texts, first, second, count, design=design, name=name)
    left, right = (_subject(texts, side, design) for side in (first, second))
    for of in (left, right):
        say_language(of.pool.texts, {**of.attacks, of.name: of.mechanism})
    return [{"dataset": name, **row} for row in compare(question, left, right, trials).to_dicts()]


def _subject(texts: Sequence[str] | pl.DataFrame, side: Side, design: Design) -> Subject:
    """Return a mechanism on texts as a subject, with the attacks that see the released views."""
    named, epsilon = side
    listed = texts["text"].to_list() if isinstance(texts, pl.DataFrame) else texts
    built = api.as_mechanism(named, None, listed)
    comparing.budgeted(built, api.label(named), epsilon)
    of = subject(texts, built, epsilon, design=design)
    return replace(of, name=api.label(named), attacks=api.seeing(of.attacks, built, "released"))


@dataclass(frozen=True)
class _Tested:
    """The sign test of one figure that both subjects have.

    p: the p-value before Holm's correction. row: the columns without the finding. by: the last words of the finding.
    least: a function that returns the smallest difference detected at a level; None if no difference could be found.
    """

    pair: Comparison
    p: float
    row: Mapping[str, Any]
    by: str
    least: Callable[[float], float] | None


def _tested(sides: Sequence[Figures], alpha: float) -> list[_Tested]:
    """Return a test of each figure that both subjects have; the strongest attack comes first."""
    first, second = sides
    both = [name for name in first if name in second]
    for name in both:
        _check_same(first[name], second[name])
    pairs = {name: by_sign(first[name].values, second[name].values) for name in both}
    outcomes = {name: [{name: side[name].values} for side in sides] for name in both}
    attacks = [name for name in both if first[name].evidence.covers is Covers.THESE]
    if len(attacks) > 1 and all(_same(first[attacks[0]], first[name]) for name in attacks):
        outcomes[STRONGEST] = [{name: side[name].values for name in attacks} for side in sides]
        pairs = {STRONGEST: compare_strongest(*outcomes[STRONGEST])} | pairs
    turned = {name for name in attacks if any(turned_round(side[name]) for side in sides)}
    bounds = [_bounds(side, attacks, alpha) for side in sides]
    tests = []
    for name, pair in pairs.items():
        below = name in turned or (bool(turned) and name == STRONGEST)
        p = 1.0 if below else pair.p_value
        by = "under the attacks on both" if name == STRONGEST else f"{'under' if name in attacks else 'by'} {name}"
        row = {"figure": name, "compared": ", ".join(attacks) if name == STRONGEST else name, "trials": pair.trials}
        row |= {"first more": pair.first_only, "second more": pair.second_only, "p value": p}
        row |= {
            f"{which} {end}": at for which, each in zip(SIDES, bounds, strict=True) for end, at in each[name].items()
        }
        first_won, second_won = outcomes[name]
        least = None if below else partial(least_of_strongest, first_won, second_won)
        tests.append(_Tested(pair, p, row, by=by, least=least))
    return tests


def _alone(sides: Sequence[Figures], names: Sequence[str], alpha: float) -> list[dict[str, Any]]:
    """Return the rows of figures that only one of the two subjects has."""
    rows = []
    for number, which in enumerate(SIDES):
        side, other = sides[number], sides[1 - number]
        alone = [each for name, each in side.items() if name not in other]
        for row in answers(alone, NO_BUDGET, alpha)[: len(alone)]:
            ends = f"{row['low']:.3g} to {row['high']:.3g}"
            finding = f"{row['figure']} was measured only for {names[number]}: {ends}"
            rows.append(
                {"figure": row["figure"], "trials": row["trials"]}
                | {f"{which} {end}": row[end] for end in ("low", "high")}
                | {"finding": finding}
            )
    return rows


def _bounds(side: Figures, attacks: Sequence[str], alpha: float) -> dict[str, dict[str, float]]:
    """Return the bounds of each figure, and of the strongest of these attacks."""
    every = answers(list(side.values()), NO_BUDGET, alpha)[: len(side)]
    strongest = answers([side[name] for name in attacks], NO_BUDGET, alpha)[-1:]
    named = [(row["figure"], row) for row in every] + [(STRONGEST, row) for row in strongest]
    return {name: {end: row[end] for end in ("low", "high")} for name, row in named}


def _finding(pair: Comparison, names: Sequence[str], *, significant: bool, at_least: bool) -> str:
    verb = "preserve texts" if at_least else "leak"
    if not significant:
        return f"no evidence that {names[0]} and {names[1]} {verb} differently"
    less, more = names if pair.first_only < pair.second_only else reversed(names)
    return f"{more} preserves texts better than {less}" if at_least else f"{less} leaks less than {more}"


def _check_same(first: Observed, second: Observed) -> None:
    """Raise UserError unless both figures were observed in the same trials."""
    if not _same(first, second):
        raise UserError(
            f"the trials of {first.name} are not the same for both ({len(first.values)} and {len(second.values)} "
            "outcomes), so they cannot be paired; correct the question, so that its trials depend only on texts, seed "
            "and number",
            "EPS-Q008",
        )


def _same(first: Observed, second: Observed) -> bool:
    """Return True if both figures have equally many outcomes (at least one), and their trials have the same texts."""
    texts = [[text for text, _ in each.of_texts] for each in (first, second)]
    return 0 < len(first.values) == len(second.values) and texts[0] == texts[1]
