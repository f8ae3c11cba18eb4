"""Search for the sigma or the kappa of noise at which an attack on a client's gradient has a target loss.

The attack is `candidates`, which identifies the source among two texts. Every kind of noise is added to the gradients
of the same texts. For an entry of `sent`, these texts are its pool. For a cell of `private_training`, they are training
texts, with gradients at the head's initial weights, and the adversary knows the rest of the batch. All texts have one
label, the most frequent one. The loss follows from the success rate over all pairs of different texts, each equally
likely. The rate is measured in one of two ways:

- `average`: computed from the law of the noise over all pairs (`results.candidates.pair_law`), exact up to rounding.
- `sampled`: estimated from fresh pairs, sources and noise, until a betting interval is narrow
  (`auditing.calibration.sampled`).

With the measure `rouge_l`, the target is a mean ROUGE-L of attacks that search for the text. The means come from the
results of an entry of `reconstruction`. Each level's mean over texts has a betting interval (`estimation.betting`).
alpha is divided among the levels, so all intervals are right with probability 1 - alpha. Two levels enclose the target:
the level of least noise with a mean significantly below it, and the level of most noise with a mean significantly above
it. The search assumes that reconstruction never improves with more noise.

The search runs over the **reversed level**, 1 / sigma or kappa, with which the loss grows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.calibration.computed import WIDTH as EXACT_WIDTH
from epsilometer.auditing.calibration.computed import Met, meet
from epsilometer.auditing.calibration.sampled import (
    FALLING,
    FOUND,
    NOT_MONOTONE,
    OUTSIDE,
    UNDECIDED,
    Batch,
    Calibrated,
    Goal,
    calibrate,
)
from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.successes import loss_at, success_bound
from epsilometer.auditing.trials.design import Design
from epsilometer.core import tables
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.randomness import Noise
from epsilometer.core.von_mises_fisher import mean_cosine
from epsilometer.studies.training import trainings
from epsilometer.studies.training.attacks.reconstruction.candidates import GradientPool
from epsilometer.studies.training.params import NoiseEntry, TrainingParams
from epsilometer.studies.training.reconstruction import BLIND
from epsilometer.studies.training.results.candidates import ATTACK, guesses, pair_law, trials
from epsilometer.studies.training.runs.noise import DirectionalNoise, TrainingNoise
from epsilometer.studies.training.tables import RECONSTRUCTED, reconstruction_path, sent_path

SAMPLED, AVERAGE, ROUGE_L = "sampled", "average", "rouge_l"
MEASURES = (SAMPLED, AVERAGE, ROUGE_L)
KINDS = ("gaussian", "scaled", "vmf")
WIDTH = 1.25  # default ratio of the bounds at which a search by `sampled` stops
_SPAN = 1e3  # sigma is searched between 1 / _SPAN and _SPAN, kappa in the range of the same amounts of noise
_POOL = 1024  # maximum number of texts of a training that are compared
_GROWS = "reconstruction grows with noise: it is shown above the target at a level with more noise than one below"


@dataclass(frozen=True)
class NoiseTarget:
    """The target of a calibration. Raises UserError for values outside their range.

    target:  a loss in nats; for ROUGE_L, a mean in (0, 1).
    measure: one of MEASURES.
    width:   the ratio of the interval's bounds at which the search stops; None for 1.25 (1.01 for `average`).
    budget:  the maximum number of trials per kind of noise, for SAMPLED.
    """

    target: float
    measure: str = SAMPLED
    width: float | None = None
    budget: int = 20_000

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise UserError(f"measure must be one of {', '.join(MEASURES)}, got {self.measure!r}", "EPS-S083")
        if self.measure == ROUGE_L and not 0 < self.target < 1:
            raise UserError(f"the target must be a mean ROUGE-L between 0 and 1, got {self.target}", "EPS-S084")
        if self.measure != ROUGE_L and not success_bound(self.goal((0.1, 1)).target, 2) < 1:
            raise UserError(
                f"no success rate with 2 candidates proves a loss of {self.target:g} nats; set a lower target",
                "EPS-S085",
            )

    def goal(self, ends: tuple[float, float]) -> Goal:
        """Return the goal of a search. ends: the smallest and the largest reversed level."""
        width = (EXACT_WIDTH if self.measure == AVERAGE else WIDTH) if self.width is None else self.width
        return Goal(self.target, *ends, width=width, budget=self.budget)


@dataclass(frozen=True)
class Gradients:
    """Gradients of texts of one class.

    whole: the gradients of all parts together.
    parts: the gradients of each part, for noise that is drawn by parts.
    noise: the entry's noise. Its settings apply to its own kind; other kinds have default settings.
    """

    whole: GradientPool
    parts: Sequence[GradientPool]
    noise: NoiseEntry

    def at(self, kind: str, level: float) -> tuple[Sequence[GradientPool], TrainingNoise]:
        """Return the gradients that noise of this kind and level is added to, and this noise."""
        settings = self.noise if self.noise.kind == kind else NoiseEntry(kind=kind)
        noise = trainings.noise(settings, level)
        by_parts = isinstance(noise, DirectionalNoise) and noise.parts
        return self.parts if by_parts else [self.whole], noise


def calibrate_training(params: TrainingParams, names: Sequence[str], aim: NoiseTarget) -> Iterator[dict[str, Any]]:
    """Yield a row per entry and kind of noise; with ROUGE_L, a row per entry, attack and batch size.

    The rows are computed from results of the stages `sent`, `reconstruction` or `features`. Raises UserError for
    unknown entries and missing results, before any search.
    """
    by_loss = aim.measure != ROUGE_L
    entries = {**params.sent, **params.private_training} if by_loss else dict(params.reconstruction)
    for name in names:
        if name not in entries:
            raise unknown("entry of sent or private_training" if by_loss else "entry of reconstruction", name, entries)
    if not by_loss:
        for name, table in {name: _searched(params, name) for name in names}.items():
            yield from _by_attack(params, name, table, aim)
        return
    if aim.measure == SAMPLED:
        _check_provable(aim, params.audit.alpha)
    gradients = {name: _sent(params, name) if name in params.sent else _trained(params, name) for name in names}
    for (name, of), kind in product(gradients.items(), KINDS):
        yield _row(params, name, of, kind, aim=aim)


def _check_provable(aim: NoiseTarget, alpha: float) -> None:
    """Raise UserError if the budget of trials cannot prove the target even if every guess is right.

    Each right guess multiplies the wealth of the bet by at most 1 / p, where p is the success rate at the target.
    """
    needed = math.ceil(math.log(1 / alpha) / -math.log(success_bound(aim.target, 2)))
    if needed > aim.budget:
        raise UserError(
            f"{aim.budget:,} trials cannot prove a loss of {aim.target:g} nats at alpha {alpha:g}, even if every guess "
            f"is right; set a lower target, a budget of {needed:,} or more, or --measure {AVERAGE}",
            "EPS-S086",
        )


def effective_sigma(kind: str, level: float, dimension: int) -> float:
    """Return the sigma of Gaussian noise of the same size on a gradient of length 1.

    For a draw of concentration kappa with mean cosine A, the result is sqrt(1 / (A kappa)). For other noise, the result
    is the level.
    """
    return math.sqrt(1 / (mean_cosine(level, dimension) * level)) if kind == "vmf" else level


def _row(params: TrainingParams, name: str, of: Gradients, kind: str, *, aim: NoiseTarget) -> dict[str, Any]:
    directional = kind == "vmf"
    root = math.sqrt(of.whole.size) if directional else 1.0
    ends = (root / _SPAN, max(root * _SPAN, _SPAN**2) if directional else _SPAN)
    goal = aim.goal(ends)
    try:
        met = _by_law(of, kind, goal) if aim.measure == AVERAGE else _by_trials(params, name, of, kind, goal=goal)
    except UserError as error:
        return _said(name, kind, aim) | {"status": "not searched", "reason": str(error)}
    spent = met.trials if isinstance(met, Calibrated) else 0
    best, low, high = (None if value is None else _level(kind, value) for value in (met.best, met.low, met.high))
    low, high = (low, high) if directional else (high, low)
    sigma = None if best is None else effective_sigma(kind, best, of.whole.size)
    result = {"level": best, "low": low, "high": high, "effective_sigma": sigma, "trials": spent}
    return _said(name, kind, aim) | {"status": met.status, **result, "reason": _reason(met, aim)}


def _said(name: str, kind: str, aim: NoiseTarget, attack: str = ATTACK, size: int = 1) -> dict[str, Any]:
    """Return an empty row of the results' table: no status, level or reason, and 0 trials."""
    of = {"training": name, "noise": kind, "attack": attack, "size": size, "measure": aim.measure}
    nothing = dict.fromkeys(("level", "low", "high", "effective_sigma"))
    name_of = "kappa" if kind == "vmf" else "sigma"
    return {**of, "target": aim.target, "status": "", "parameter": name_of, **nothing, "trials": 0, "reason": None}


def _level(kind: str, reversed_level: float) -> float:
    if kind == "vmf":
        return reversed_level
    return 1 / reversed_level if reversed_level else math.inf


def _by_law(of: Gradients, kind: str, goal: Goal) -> Met:
    left, right = np.triu_indices(len(of.whole.lengths), 1)

    def figure(reversed_level: float) -> tuple[float, float]:
        pools, noise = of.at(kind, _level(kind, reversed_level))
        right_guesses = pair_law(pools, left, right, noise=noise)
        if right_guesses is None:
            raise UserError(
                "the law of draws by parts, or of zero gradients, is not implemented; set --measure sampled",
                "EPS-S087",
            )
        loss = loss_at(float(right_guesses.mean()), 2)
        return loss, loss

    return meet(figure, goal.target, goal.low, goal.high, width=goal.width, watch=lambda low, high: None)


def _by_trials(params: TrainingParams, name: str, of: Gradients, kind: str, *, goal: Goal) -> Calibrated:
    texts = len(of.whole.lengths)

    def fresh(reversed_level: float, first: int, count: int, _: Sequence[int]) -> list[Batch]:
        pools, noise = of.at(kind, _level(kind, reversed_level))
        seed = (params.audit.seed, params.audit.round, "calibrate", name, kind, reversed_level, first)
        sampled = trials(texts, 2, count, seed)
        (guessed,) = guesses(pools, sampled, [noise], seed=seed)
        return [Batch(int((guessed.slots == sampled.target).sum()), guessed.posteriors)]

    return calibrate(fresh, goal, design=Design(2, 0, params.audit.alpha), lawful=True)


def _reason(met: Met | Calibrated, aim: NoiseTarget) -> str | None:
    """Return the reason why no level was found, or None if one was found."""
    if met.status == FOUND:
        return None
    if met.status == FALLING:
        return "the loss is not monotone: with more noise than in the interval, it exceeds the target"
    if met.status == OUTSIDE:
        if met.low == 0:
            return f"the loss is above {aim.target:g} nats at the largest noise searched; set a higher target"
        return (
            f"the loss stays below {aim.target:g} nats, because too many pairs of texts have the same gradient; set a "
            "lower target"
        )
    return f"{met.status}; raise `budget` (--budget) to allow more" if isinstance(met, Calibrated) else met.status


def _sent(params: TrainingParams, name: str) -> Gradients:
    """Return the gradients of the pool of an entry of `sent`. Raises UserError if they are missing or stale."""
    entry, folder = params.sent[name], sent_path(name)
    if not entry.pool:
        raise UserError(
            f"--training {name} compares texts of a pool, but sent.{name} has no pool; set sent.{name}.pool, for "
            "example to 1024",
            "EPS-S088",
        )
    if not (folder / "about.json").is_file():
        raise UserError(
            f"--training {name} needs the gradients of stage sent; run dvc repro sent@{name} first", "EPS-S089"
        )
    about = tables.read_json(folder / "about.json")
    if about["of"] != entry.texts_and_model:
        raise UserError(
            f"--training {name}: sent.{name} was edited since its stage ran; run dvc repro sent@{name} first",
            "EPS-S090",
        )
    grams = np.load(folder / "gram.npy", allow_pickle=False)
    sizes = about["parts"] if len(grams) > 1 else [about["size"]]
    parts = [GradientPool.of(gram, size) for gram, size in zip(grams, sizes, strict=True)]
    whole = GradientPool.of(grams.sum(0), about["size"]) if len(grams) > 1 else parts[0]
    return Gradients(whole, parts, _own(entry.noise))


def _own(entry: NoiseEntry) -> NoiseEntry:
    """Return the entry's noise if its kind is in KINDS, else Gaussian noise with default settings."""
    return entry if entry.kind in KINDS else NoiseEntry(kind="gaussian")


def _trained(params: TrainingParams, name: str) -> Gradients:
    """Return the gradients of a cell's training texts at the initial weights of its head."""
    cell = params.private_training[name]
    if not trainings.featured_path(cell.features).is_file():
        raise UserError(f"--training {name} needs features; run dvc repro features@{cell.features} first", "EPS-S091")
    texts = trainings.training_texts(params, name)
    rows = np.flatnonzero(texts.labels == np.bincount(texts.labels).argmax())
    order = Noise.named(1, params.audit.seed, "calibrate", name, "pool").generator(0).permutation(len(rows))
    rows = rows[order[:_POOL]]
    gradients = trainings.first_head(params, name, 0).gradients(texts.states[rows], texts.labels[rows])
    every = [gradients.part(number) for number in range(len(gradients.parts))] if cell.noise.parts else [gradients]
    whole = GradientPool.of(gradients.gram(), gradients.size)
    return Gradients(
        whole, [GradientPool.of(gradients.gram(), gradients.size) for gradients in every], _own(cell.noise)
    )


def _searched(params: TrainingParams, name: str) -> pl.DataFrame:
    """Return the results of attacks that search for the text, at every level of an entry of `reconstruction`.

    Raises UserError if the entry has no levels or no such attacks, or if results of a level are missing.
    """
    of, path = params.reconstruction[name].sent, reconstruction_path(name, "texts")
    if not (levels := params.sent[of].levels):
        raise UserError(
            f"--training {name}: the noise of sent.{of} is 'none', which has no levels; give an entry whose noise has "
            "levels",
            "EPS-S092",
        )
    if name not in params.searching:
        raise UserError(
            f"--training {name}: no attack searches for the text, so there is no ROUGE-L; add an attack such as "
            f"decepticons, or set {of} and --measure {SAMPLED}",
            "EPS-S093",
        )
    if not path.is_file():
        raise UserError(
            f"--training {name} needs results of its attacks; run dvc repro reconstruction@{name} first", "EPS-S094"
        )
    table = tables.read(path, RECONSTRUCTED).filter(pl.col("attack") != BLIND)
    if missing := sorted({*levels} - {*table["level"]}):
        raise UserError(
            f"--training {name} has no results at the level {missing[0]:g}; run dvc repro reconstruction@{name} first",
            "EPS-S095",
        )
    return table


def _by_attack(params: TrainingParams, name: str, table: pl.DataFrame, aim: NoiseTarget) -> Iterator[dict[str, Any]]:
    """Yield a row per attack and batch size, from the results per text of an entry of `reconstruction`."""
    sent = params.sent[params.reconstruction[name].sent]
    kind, levels = sent.noise.kind, sorted(sent.levels or (), reverse=sent.noise.kind != "vmf")  # from most noise
    for (attack, size), part in table.group_by("attack", "size", maintain_order=True):
        means = part.group_by("level", "batch").agg(pl.col(ROUGE_L).mean()).sort("batch")
        values = [means.filter(level=level)[ROUGE_L].to_numpy() for level in levels]
        status, below, above = between(values, levels, aim.target, params.audit.alpha)
        low, high = (below, above) if kind == "vmf" else (above, below)
        yield _said(name, kind, aim, attack=str(attack), size=int(size)) | {
            "status": status,
            "low": low,
            "high": high,
            "trials": sum(map(len, values)),
            "reason": _why(status, aim.target, below, above),
        }


def _why(status: str, target: float, below: float | None, above: float | None) -> str | None:
    if status == FOUND:
        return None
    return _GROWS if status == NOT_MONOTONE else _undecided(target, below, above)


def _undecided(target: float, below: float | None, above: float | None) -> str:
    """Return the reason why the levels do not enclose the target."""
    lacking = [f"below {target:g} (add levels with more noise)"] if below is None else []
    lacking += [f"above {target:g} (add levels with less noise, or set a lower target)"] if above is None else []
    return f"no level's mean is surely {', and none is surely '.join(lacking)}; or attack more texts"


def between(
    values: Sequence[NDArray[np.float64]], levels: Sequence[float], target: float, alpha: float
) -> tuple[str, float | None, float | None]:
    """Return a status and the two levels that enclose the target.

    The first is the level of least noise with a mean significantly below the target. The second is the level of most
    noise with a mean significantly above it. With probability 1 - alpha, both means are on the stated side.

    values: one array of numbers in [0, 1] per level; levels: from the most noise to the least.
    """
    sure = [interval(of_level, alpha / len(levels), fixed=True) for of_level in values]
    below = [i for i, (_, high) in enumerate(sure) if high < target]
    above = [i for i, (low, _) in enumerate(sure) if low > target]
    status = FOUND if below and above else UNDECIDED
    if below and above and below[-1] > above[0]:
        status = NOT_MONOTONE
    return status, levels[below[-1]] if below else None, levels[above[0]] if above else None
