"""The table of a membership audit: the results of each attack on one target.

Each attack has a row, at error probability alpha. The attack with the largest area under the ROC curve also has the row
`strongest`, at alpha / m (Bonferroni), because it is the best of m attacks, chosen afterwards. The loss in this row is
the largest loss of any attack at alpha / m. `results.rates` describes the coverage of the intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.core.randomness import Noise
from epsilometer.studies.training.results.paired_areas import areas
from epsilometer.studies.training.results.rates import (
    Interval,
    MembershipScores,
    area,
    best_threshold,
    curve,
    difference,
    halves,
    leakage,
    loss,
    rates,
    threshold_at,
)


@dataclass(frozen=True)
class Target:
    """A model under attack, and q examples.

    of:         the columns that identify the model's rows.
    inside:     bool [q], whether the model was trained on the example.
    right:      bool [q], whether the model classifies the example correctly.
    scores:     [q] by attack; NaN for examples that the attack does not score.
    thresholds: by attack, for attacks with their own decision rule (`studies.training.membership.Decides`).
    delta:      the delta of claims about the model.
    """

    of: Mapping[str, Any]
    inside: NDArray[np.bool_]
    right: NDArray[np.bool_]
    scores: Mapping[str, NDArray[np.float64]]
    thresholds: Mapping[str, float]
    delta: float


@dataclass(frozen=True)
class MembershipJudging:
    """Settings for judging attacks.

    alpha: the error probability of each interval.
    fprs:  the false positive rates at which true positive rates are measured.
    noise: the random stream that splits the examples into halves.
    """

    alpha: float
    fprs: tuple[float, ...]
    noise: Noise


def rows(target: Target, judging: MembershipJudging) -> list[dict[str, Any]]:
    """Return a row of schema `MEMBERSHIP` for each attack, and the row `strongest`.

    Raises UserError for too few examples.
    """
    gap = difference(target.right[target.inside], target.right[~target.inside], judging.alpha)
    among = [_measured(target, name, judging, judging.alpha) for name in target.scores]
    shared = [_measured(target, name, judging, judging.alpha / len(among)) for name in target.scores]
    best = max(shared, key=lambda row: float(row["auc"]))
    proves = max(shared, key=lambda row: float(row["loss"]))
    of_loss = {key: proves[key] for key in ("loss", "loss_point", "loss_ceiling", "named")}
    strongest = best | of_loss | {"attack": STRONGEST, "best_attack": best["attack"]}
    common = {**target.of, "delta": target.delta, **_columns("gap", gap)}
    return [common | row for row in (*among, strongest)]


def rate_rows(target: Target, judging: MembershipJudging) -> list[dict[str, Any]]:
    """Return a row for each attack and false positive rate (schema `MEMBERSHIP_RATES`)."""
    table = []
    for name, values in target.scores.items():
        chosen, measured = _halves(values, target, judging)
        for fpr in judging.fprs:
            tpr, reached = rates(measured, threshold_at(fpr, chosen.outside), judging.alpha)
            table.append(
                {
                    **target.of,
                    "attack": name,
                    "at": fpr,
                    **_columns("tpr", tpr),
                    **_columns("fpr", reached),
                    "set_on": len(chosen.outside),
                    "members": len(measured.inside),
                    "others": len(measured.outside),
                }
            )
    return table


def curve_rows(target: Target) -> list[dict[str, Any]]:
    """Return a row for each corner of each attack's ROC curve over all examples (schema `MEMBERSHIP_CURVES`)."""
    table = []
    for name, values in target.scores.items():
        for fpr, tpr in zip(*curve(MembershipScores.of(values, target.inside)), strict=True):
            table.append({**target.of, "attack": name, "fpr": float(fpr), "tpr": float(tpr)})
    return table


def area_rows(targets: Sequence[Target], levels: Sequence[float | None]) -> list[dict[str, Any]]:
    """Return a row for each attack and level (schema `MEMBERSHIP_AREAS`), for targets with the same examples.

    levels: from the least noise to the most; each has at least one target. The strongest attack has no row, because a
    different attack may be the strongest at each level.
    """
    by_level = [[target for target in targets if target.of["level"] == level] for level in levels]
    table = []
    for name in targets[0].scores:
        scored = [np.array([target.scores[name] for target in some]) for some in by_level]
        auc = areas(scored, targets[0].inside)
        for number, (level, some) in enumerate(zip(levels, by_level, strict=True)):
            table.append(
                {
                    "attack": name,
                    "level": level,
                    "models": len(some),
                    "auc": float(auc.values[number]),
                    "covariance": auc.covariance[number].tolist(),
                    "pairs": auc.pairs,
                }
            )
    return table


def _measured(target: Target, name: str, judging: MembershipJudging, alpha: float) -> dict[str, Any]:
    """Return the columns of `MEMBERSHIP` for one attack. alpha: the error probability of each interval."""
    values = target.scores[name]
    scores = MembershipScores.of(values, target.inside)
    chosen, measured = _halves(values, target, judging)
    own = target.thresholds.get(name)
    leaked = leakage(measured, best_threshold(chosen) if own is None else own, alpha)
    proved = loss(chosen, measured, alpha, target.delta)
    return {
        "attack": name,
        "best_attack": None,
        "alpha": alpha,
        "members": len(scores.inside),
        "others": len(scores.outside),
        **_columns("auc", area(scores, alpha)),
        **_columns("leakage", leaked),
        "loss": proved.loss,
        "loss_point": proved.point,
        "loss_ceiling": proved.ceiling,
        "named": proved.named,
    }


def _halves(
    values: NDArray[np.float64], target: Target, judging: MembershipJudging
) -> tuple[MembershipScores, MembershipScores]:
    """Return an attack's scores on both halves of the examples.

    Attacks that score the same examples get the same halves, on all targets.
    """
    return halves(MembershipScores.of(values, target.inside), judging.noise.generator(0))


def _columns(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
