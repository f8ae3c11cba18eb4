"""The table of a membership audit: what each attack achieves on one target.

A row an attack, at the error alpha; and a row `strongest`, of the attack with the largest area under its curve, at
alpha / m for m attacks (Bonferroni): the best of several after the fact is larger by chance. Its loss is the largest of
any of them, at that level. See `auditing.estimation.rates` for what the intervals cover, and what not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.estimation.paired_areas import areas
from epsilometer.auditing.estimation.rates import (
    Interval,
    Scores,
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
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.core.randomness import Noise


@dataclass(frozen=True)
class Target:
    """A model under attack, and q examples.

    of:         what its rows are named by.
    inside:     bool [q], which examples it was trained on; right: bool [q], which of them it classifies right.
    scores:     by attack, [q], NaN where the attack does not look.
    thresholds: by attack, of those with a rule of their own (`core.membership.Decides`).
    delta:      that claims for it are made at.
    """

    of: Mapping[str, Any]
    inside: NDArray[np.bool_]
    right: NDArray[np.bool_]
    scores: Mapping[str, NDArray[np.float64]]
    thresholds: Mapping[str, float]
    delta: float


@dataclass(frozen=True)
class Judging:
    """alpha: error of each interval; fprs: at which TPR is measured; noise: a stream, for the halves of examples."""

    alpha: float
    fprs: tuple[float, ...]
    noise: Noise


def rows(target: Target, judging: Judging) -> list[dict[str, Any]]:
    """A row an attack and one of the strongest (schema `MEMBERSHIP`). Raises UserError for too few examples."""
    gap = difference(target.right[target.inside], target.right[~target.inside], judging.alpha)
    among = [_measured(target, name, judging, judging.alpha) for name in target.scores]
    shared = [_measured(target, name, judging, judging.alpha / len(among)) for name in target.scores]
    best = max(shared, key=lambda row: float(row["auc"]))
    proves = max(shared, key=lambda row: float(row["loss"]))
    of_loss = {key: proves[key] for key in ("loss", "loss_point", "loss_ceiling", "named")}
    strongest = best | of_loss | {"attack": STRONGEST, "best_attack": best["attack"]}
    common = {**target.of, "delta": target.delta, **_columns("gap", gap)}
    return [common | row for row in (*among, strongest)]


def rate_rows(target: Target, judging: Judging) -> list[dict[str, Any]]:
    """A row an attack and false positive rate (schema `MEMBERSHIP_RATES`)."""
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
    """The corners of each attack's curve, of all examples (schema `MEMBERSHIP_CURVES`)."""
    table = []
    for name, values in target.scores.items():
        for fpr, tpr in zip(*curve(Scores.of(values, target.inside)), strict=True):
            table.append({**target.of, "attack": name, "fpr": float(fpr), "tpr": float(tpr)})
    return table


def area_rows(targets: Sequence[Target], levels: Sequence[float | None]) -> list[dict[str, Any]]:
    """A row an attack and level (schema `MEMBERSHIP_AREAS`), of targets that are asked about the same examples.

    levels: from the least noise to the most; each has a target or more. There is no row of the strongest attack: it is
    another one at each level, picked afterwards.
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


def _measured(target: Target, name: str, judging: Judging, alpha: float) -> dict[str, Any]:
    """One attack at this level."""
    values = target.scores[name]
    scores = Scores.of(values, target.inside)
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


def _halves(values: NDArray[np.float64], target: Target, judging: Judging) -> tuple[Scores, Scores]:
    """The halves of all attacks on all targets are alike, where they look at the same examples."""
    return halves(Scores.of(values, target.inside), judging.noise.generator(0))


def _columns(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
