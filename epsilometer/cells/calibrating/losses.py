"""The epsilon at which a loss meets a target: in the cells of a project, or on your own texts. Losses are in nats.

If a cell cannot be searched, its row states the reason, and the search continues with the next cell.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import fisher_exact

from epsilometer.auditing import text_audit as api
from epsilometer.auditing.calibration.journal import Journal
from epsilometer.auditing.calibration.sampled import (
    ATTRIBUTE,
    FALLING,
    FOUND,
    OUTSIDE,
    POSTERIORS,
    UNDECIDED,
    Calibrated,
    Goal,
    Point,
    Watch,
)
from epsilometer.auditing.calibration.search import search as find_epsilon
from epsilometer.auditing.estimation.posteriors import DEPARTS
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.auditing.text_audit import Named
from epsilometer.auditing.trials.design import STANDARD, Design, check_design
from epsilometer.auditing.trials.unread import MECHANISM, say, say_language, unread
from epsilometer.cells.calibrating.by_law import (
    AVERAGE,
    MEASURES,
    ComparedByLaw,
    LossTarget,
    far_loss,
    of_cell,
    of_texts,
)
from epsilometer.cells.calibrating.by_law import row as exact_row
from epsilometer.cells.params import TextsParams
from epsilometer.core import tables
from epsilometer.core.attack import Embedded
from epsilometer.core.component import IDENTIFICATION, file
from epsilometer.core.errors import LawError, UserError, unknown
from epsilometer.core.mechanism import build_mechanism, has_budget
from epsilometer.core.values import check_number
from epsilometer.corpora.reading import PREPARED
from epsilometer.project.code import digest
from epsilometer.project.sections import Cell
from epsilometer.runtime.progress import now_and_then, span
from epsilometer.text.words import words

NOT_SEARCHED = "not searched"
LENGTH = "length"  # the attack that reads only the length of a rewrite
RANGE = (0.001, 1000.0)  # default range of epsilon
ROW = {
    "dataset": pl.String,
    "mechanism": pl.String,
    "target": pl.Float64,
    "sees": pl.String,
    "status": pl.String,
    "epsilon": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "trials": pl.Int64,
    "by": pl.String,
    "attacks": pl.String,
    "reason": pl.String,
}
SAMPLED = "sampled"
WIDTH = 1.25  # default ratio high / low of the interval, for a sampled loss
_ALIKE = 0.01  # success rates count as equal if Fisher's exact test gives a larger p-value
_LOWER, _RAISE = "lower `low` (--low)", "raise `high` (--high)"


@dataclass(frozen=True)
class Search:
    """The settings of a search for epsilon; the defaults are those of `epsilometer calibrate`.

    attack: the attack whose loss must meet the target; STRONGEST for the strongest of all attacks.
    sees: the view that attacks may read: "text", "released" (for a word mechanism also its units), or "inside" (all).
    match: "words" if the candidates of a trial have equal numbers of words, "none" if the numbers may differ. None: as
    in the parameter file.
    low, high: the smallest and the largest epsilon to search. None: as in the parameter file, or RANGE without one.
    width: the search stops when high / low of the interval is at most this ratio. None: 1.25, or 1.01 for an exact
    loss.
    budget: the maximum number of rewrites.
    measure: the figure that must meet the target. SAMPLED is the loss that attacks prove. ATTRIBUTE is the largest loss
    of any attribute, in a project's cells under `anonymity`. The other measures follow from the mechanism's law,
    without rewriting: "average" is the mean loss over pairs of texts, "worst" is the loss of the worst pair, and
    "delta" is the worst pair's delta at a loss of `at` nats. For these measures, the two texts of a pair have equal
    numbers of words unless match is "none".
    question: outside a project, the question whose figure must meet the target: a name, the path of a file or an object
    (`doors/calibrate.py`). `measure` and `at` have an effect only for the question which_text. `attack`, `sees` and
    `match` have an effect only for questions that count guesses among candidates.

    Raises UserError for values outside their range.
    """

    attack: str = STRONGEST
    sees: str = "released"
    match: str | None = None
    low: float | None = None
    high: float | None = None
    width: float | None = None
    budget: int = 20_000
    measure: str = SAMPLED
    at: float | None = None
    question: Any = "which_text"  # str | Path | Question, a protocol that Prefect cannot read as a parameter

    def __post_init__(self) -> None:
        for option, value, allowed in (
            ("match", self.match, (None, "words", "none")),
            ("sees", self.sees, api.VIEWS),
            ("measure", self.measure, (SAMPLED, ATTRIBUTE, *MEASURES)),
        ):
            if value not in allowed:
                raise UserError(
                    f"{option} must be one of {', '.join(filter(None, allowed))}, got {value!r}", "EPS-S062"
                )
        for option in ("low", "high", "width", "at"):
            if (number := getattr(self, option)) is not None:
                check_number(number, option)
        self.goal(1.0)
        self.aim(0.5)

    def goal(self, target: float, low: float | None = None, high: float | None = None) -> Goal:
        """Return the goal for a target in nats.

        Its range of epsilon is this search's `low` to `high`. The arguments replace an end that is None. RANGE replaces
        an end that is still None.
        """
        low, high = self.low or low, self.high or high
        least, most = min(RANGE[0], (high or 1) / 2), max(RANGE[1], (low or 1) * 2)
        return Goal(target, low or least, high or most, self.width or WIDTH, budget=self.budget)

    def aim(self, target: float) -> LossTarget | None:
        """Return the target if the measure is an exact figure; None if attacks measure the loss."""
        if self.measure in (SAMPLED, ATTRIBUTE) and self.at is None:
            return None
        return LossTarget(self.measure, target, self.at)


STANDARD_SEARCH = Search()


def check_names(params: TextsParams, mechanisms: Sequence[str], datasets: Sequence[str], attack: str) -> None:
    """Raise UserError for a mechanism, a data set or an attack that params.yaml does not have."""
    for kind, names, entries in (
        ("mechanism", mechanisms, params.mechanisms),
        ("data set", datasets, params.datasets),
        ("attack", [] if attack == STRONGEST else [attack], params.attacks),
    ):
        for name in names:
            if name not in entries:
                raise unknown(kind, name, entries)


def calibrate_cell(
    params: TextsParams, cell: Cell, target: float, search: Search, watch: Callable[[str], Watch]
) -> dict[str, Any]:
    """Return the row of one cell in params.yaml. Measurements are stored in data/calibrating, for later searches."""
    of = {"dataset": cell.dataset, "mechanism": cell.mechanism, "target": target, "sees": search.sees}
    if (aim := search.aim(target)) is None:
        matched = (search.match or params.match(cell.dataset)) == "words"
        compare = partial(of_cell, params, cell, partial(search.goal, 1.0), "words" if matched else "none")
        return _row(of, partial(_search_cell, params, cell, target, search=search, watch=watch), compare)
    compare = partial(of_cell, params, cell, partial(search.goal, 1.0), search.match)
    return exact_row(of, aim, compare, f"{cell.mechanism} on {cell.dataset}", width=search.width)


def progress(label: str, search: Search = STANDARD_SEARCH) -> Watch:
    """Return a function that reports a search's progress now and then, with an upper estimate of the time left."""
    say, before, begun = now_and_then(), 0, time.monotonic()

    def watch(spent: int, low: float, high: float) -> None:
        nonlocal before, begun
        # The speed is that of the last batch, because earlier batches may come from a journal, which takes no time.
        rate = (time.monotonic() - begun) / max(1, spent - before)
        before, begun = spent, time.monotonic()
        done = f"epsilon between {low:.3g} and {high:.3g} after {spent} of at most {search.budget} rewrites"
        say(f"{label}: {done}, at most about {span(rate * (search.budget - spent))} to go")

    return watch


def calibrate_texts(
    texts: Sequence[str],
    mechanism: Named,
    target: float,
    search: Search = STANDARD_SEARCH,
    settings: Mapping[str, Any] | None = None,
    design: Design = STANDARD,
    name: str = "texts",
) -> dict[str, Any]:
    """Return the row of one mechanism on your own texts. name: the name of the texts in the row."""
    if search.measure == ATTRIBUTE:
        raise UserError(
            "the attribute loss needs a project's labelled data sets; leave out the texts, or the measure", "EPS-S063"
        )
    check_design(design)
    goal, texts = search.goal(target), api.distinct(texts)
    built = api.as_mechanism(mechanism, settings, texts)
    label = api.label(mechanism)
    of = {"dataset": name, "mechanism": label, "target": target, "sees": search.sees}
    if (aim := search.aim(target)) is not None:
        compare = partial(of_texts, built, texts, goal, search.match, design=design, measure=aim.measure)
        return exact_row(of, aim, compare, f"{label} on {name}", width=search.width)
    attacks = api.chosen_attacks(None if search.attack == STRONGEST else [search.attack])
    matched = search.match == "words"
    groups = np.array([len(words(text)) for text in texts]) if matched else None

    def run() -> tuple[Calibrated, bool]:
        if not has_budget(built):
            raise UserError(
                "this mechanism has no privacy budget, so there is none to calibrate; audit it instead", "EPS-S064"
            )
        say(unread(built, texts))
        say_language(texts, {**attacks, MECHANISM: built})
        allowed = api.seeing(api.applicable(attacks, built), built, search.sees)
        watch = progress(f"{label} on {name}", search)
        return find_epsilon(api.Pool(texts, groups=groups), built, allowed, goal, design=design, watch=watch), matched

    match = "words" if matched else "none"
    return _row(of, run, partial(of_texts, built, texts, goal, match, design=design, measure=AVERAGE))


def reason(calibrated: Calibrated, matched: bool, still: str | None = None) -> str | None:
    """Return why no epsilon was found, or a remark on the epsilon that was found; None if there is nothing to remark.

    matched: True if the candidates already had equal numbers of words. still: the description from `far_loss`: the
    loss under the stated law far below the range, if even that loss exceeds the target.
    """
    first, last = calibrated.points[0], calibrated.points[-1]
    if calibrated.status == OUTSIDE:
        above = calibrated.low == 0
        if above and not matched and (length := _length(calibrated)) is not None:
            return (
                f"the length of rewrites alone proves {_said(first, length)} and {_said(last, length)}, so no epsilon "
                f"meets {calibrated.target:g}; `match: words` (--match words) compares only texts of equal length"
            )
        if _falls(first, last):
            remedy = _RAISE if above else _LOWER
            return f"the loss falls: {_said(first)} and {_said(last)}; {remedy} to search beyond that"
        if above and still is not None:
            least = f"under the stated law it is {still}: no epsilon meets the target"
            return f"the smallest loss is {_said(first)}; {least}"
        if above:
            return f"the smallest loss is {_said(first)}, above the target; {_LOWER} to search below"
        if not any(point.between()[0] for point in calibrated.points):
            return f"no loss was proved at any epsilon; the largest is {_said(last)}; {_RAISE} to search beyond"
        return f"the largest loss is {_said(last)}, below the target; {_RAISE} to search beyond"
    if calibrated.contradiction:
        high, low = map(_said, calibrated.contradiction)
        if calibrated.status == FALLING:
            return f"the loss falls as epsilon grows: {high} and {low}; above the interval it is below the target"
        if calibrated.status == UNDECIDED:
            open_still = f"{calibrated.trials} rewrites did not decide"
            return f"the loss seems to fall: {high} and {low}; {open_still}; raise `budget` (--budget)"
        if calibrated.best is None:
            return f"the loss does not rise throughout: {high} and {low}; it is above the target at {first.epsilon:g}"
        return f"the loss does not rise throughout: {high} and {low}; below the interval no loss exceeds the target"
    if calibrated.status == FOUND:
        return None
    return f"{calibrated.trials} rewrites did not decide; a larger `budget` (--budget) allows more"


def _said(point: Point, attack: int | None = None) -> str:
    """Describe the loss at a point. attack: the index of the attack; None for the strongest.

    If every guess is right, the description is "more than N trials can show".
    """
    loss = point.loss if attack is None else point.losses[attack]
    if loss == math.inf:
        return f"more than {max(point.trials)} trials can show at epsilon {point.epsilon:g}"
    low, high = point.between(attack)
    least = f"{low:.2f}" if low else "0"
    return f"{loss:.2f} nats at the observed rate (between {least} and {high:.2f}) at epsilon {point.epsilon:g}"


def _falls(first: Point, last: Point) -> bool:
    """Return True if the strongest attack is right significantly less often at the last epsilon than at the first."""
    counts = []
    for point in (first, last):
        i = point.losses.index(point.loss)
        counts.append([point.successes[i], point.trials[i] - point.successes[i]])
    return first.loss > last.loss and fisher_exact(counts).pvalue <= _ALIKE


def _row(
    of: Mapping[str, Any], run: Callable[[], tuple[Calibrated, bool]], compare: Callable[[], ComparedByLaw]
) -> dict[str, Any]:
    """Return a row with the columns of `of`.

    run: searches, and returns two values: the result, and True if candidates had equal numbers of words. compare:
    returns the mechanism and the pairs of texts for its exact loss.
    """
    try:
        calibrated, matched = run()
    except LawError:  # an invalid law must stop the command, instead of becoming the reason in a row
        raise
    except UserError as error:
        nothing = {"epsilon": None, "low": None, "high": None, "trials": 0, "by": None, "attacks": None}
        return {**of, "status": NOT_SEARCHED, **nothing, "reason": str(error)}
    ends = {"epsilon": calibrated.best, "low": calibrated.low, "high": calibrated.high}
    result = {**ends, "trials": calibrated.trials, "by": calibrated.by, "attacks": ", ".join(calibrated.attacks)}
    departs = f"{DEPARTS}, so the search used hits, not posteriors" if calibrated.departs else None
    optimal = calibrated.status == OUTSIDE and calibrated.low == 0 and calibrated.by == POSTERIORS
    still = far_loss(compare, calibrated.target, calibrated.points[0].epsilon) if optimal else None
    said = [part for part in (departs, reason(calibrated, matched, still)) if part]
    return {**of, "status": calibrated.status, **result, "reason": "; ".join(said) or None}


def _search_cell(
    params: TextsParams, cell: Cell, target: float, search: Search, watch: Callable[[str], Watch]
) -> tuple[Calibrated, bool]:
    if cell.epsilons is None:
        raise UserError(
            f"{cell.mechanism} has no privacy budget, so there is none to calibrate; audit it instead", "EPS-S065"
        )
    if len(cell.epsilons) < 2 and None in (search.low, search.high):
        raise UserError(
            "params.yaml gives it one epsilon, which is not a range to search; give low and high", "EPS-S066"
        )
    goal = search.goal(target, min(cell.epsilons), max(cell.epsilons))
    named = params.attacks if search.attack == STRONGEST else {search.attack: params.attacks[search.attack]}
    table = tables.read(f"data/prepared/{cell.dataset}.parquet", PREPARED)
    table = table.filter(pl.col("split") == params.datasets[cell.dataset].use)
    embeddings = Path(f"data/embeddings/{cell.dataset}.npy")
    match = search.match or params.match(cell.dataset)
    inputs = [cell.mechanism, cell.settings, named, params.embedding.model_dump(), params.trials.model_dump()]
    resources = [Path(cell.resource)] if cell.resource else []
    belongs_to = digest(
        [*inputs, match, params.audit.seed],
        table["text"],
        [Path(__file__), params.code(cell), *(file(IDENTIFICATION, name) for name in named)],
        [*resources, embeddings, *named_files([named, cell.settings, *named.values()])],
        project=Path(params.root).resolve(),
    )
    texts = api.distinct(table["text"].to_list())
    setting = f"mechanisms.{cell.mechanism}.settings"
    built = build_mechanism(str(params.code(cell)), cell.settings, cell.resource, setting)
    attacks = api.seeing(api.applicable(api.chosen_attacks(named), built), built, search.sees)
    say(unread(built, texts))
    embedded = Embedded(params.embedding.model, params.embedding.precision, np.load(embeddings))
    calibrated = find_epsilon(
        api.Pool(texts, embedded, table["words"].to_numpy() if match == "words" else None),
        built,
        attacks,
        goal,
        design=Design(
            params.trials.candidates, params.temperature(cell.dataset), params.audit.alpha, params.audit.seed
        ),
        journal=Journal(Path(f"data/calibrating/{cell.mechanism}-{cell.dataset}-{belongs_to}.jsonl")),
        watch=watch(f"{cell.mechanism} on {cell.dataset}"),
    )
    return calibrated, match == "words"


def _length(calibrated: Calibrated) -> int | None:
    """Return the index of the attack `length` if the loss of this attack exceeds the target throughout the range.

    The loss must exceed the target at both ends of the range, and the success rates there must not differ
    significantly. Returns None otherwise.
    """
    if LENGTH not in calibrated.attacks:
        return None
    i, ends = calibrated.attacks.index(LENGTH), (calibrated.points[0], calibrated.points[-1])
    counts = [[end.successes[i], end.trials[i] - end.successes[i]] for end in ends]
    exceed = min(end.losses[i] for end in ends) > calibrated.target
    return i if exceed and fisher_exact(counts).pvalue > _ALIKE else None


def named_files(settings: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Return the existing paths among the keys of settings (such as a user's own attack) and among the values."""
    names = [
        name
        for by_setting in settings
        for name in (*by_setting, *by_setting.values())
        if isinstance(name, str) and name
    ]
    return [Path(name) for name in names if Path(name).exists()]
