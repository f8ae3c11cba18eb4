"""Anomalies of an audit that deserve a look: unusual outputs, and loss curves with an unusual shape.

An anomaly neither proves nor refutes a claim. Losses are in nats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.claims.stated import Stated
from epsilometer.auditing.estimation.posteriors import DEPARTS
from epsilometer.auditing.trials.unread import much
from epsilometer.core.mechanism import Latents
from epsilometer.text.words import words

# Names of the rows of `estimates` for the best attack, corrected for its selection:
STRONGEST = "strongest"  # among the attacks that see only the released view
STRONGEST_INSIDE = "strongest_inside"  # among all attacks, including those that see latents or a provider's view
CHOSEN = (STRONGEST, STRONGEST_INSIDE)
_FLAT = 4.0  # budgets that differ by at least this factor should not give the same loss
_MANY = 0.5  # smallest reported share of unchanged outputs, or of equal outputs
_SOME = 0.01  # smallest reported share of empty outputs


@dataclass(frozen=True)
class Outputs:
    """Descriptive figures of the rewrites of a cell at one epsilon.

    words:            the mean number of words in the sources.
    units, units_max: the mean and the largest number of privatised units per text; None without units.
    empty, unchanged: the shares of empty rewrites, and of rewrites equal to their source.
    commonest:        the share of the most frequent rewrite.
    signal:           see `signal_to_noise`.
    """

    words: float
    units: float | None
    units_max: int | None
    empty: float
    unchanged: float
    commonest: float
    signal: float | None


def describe(
    originals: Sequence[str], rewrites: Sequence[str], units: NDArray[np.integer] | None, latents: Latents | None
) -> Outputs:
    """Describe rewrites. originals, rewrites: one text and one rewrite per trial. units: [trials], numbers of units."""
    count = len(rewrites)
    return Outputs(
        words=sum(len(words(text)) for text in originals) / count,
        units=None if units is None else float(units.mean()),
        units_max=None if units is None else int(units.max()),
        empty=sum(not text.strip() for text in rewrites) / count,
        unchanged=sum(a == b for a, b in zip(originals, rewrites, strict=True)) / count,
        commonest=Counter(rewrites).most_common(1)[0][1] / count,
        signal=None if latents is None else signal_to_noise(latents),
    )


def composed(stated: Stated, units: float | None, claims: NDArray[np.float64]) -> float | None:
    """Return the claim re-expressed for whole texts, in nats; None without a claim, or if the result is infinite.

    A claim for each token, word or triple is multiplied by the measured mean number of units (TeDA figure 7: basic
    composition). For any other claim, the result is the median over trials of the claimed loss between two candidates.
    units: the mean number of units, None without units. claims: [trials], the claimed losses in nats.
    """
    if not stated.claimed:
        return None
    if units is not None and stated.per_unit is not None:
        return stated.per_unit * units
    median = float(np.median(claims))
    return median if np.isfinite(median) else None


def signal_to_noise(latents: Latents, rows: int = 512) -> float:
    """Return the mean of |before| / |after - before| in L2 norm (TeDA figure 10) over the first `rows` texts."""
    before, after = (np.asarray(x[:rows], np.float64) for x in (latents.before, latents.after))
    noise = np.linalg.norm(after - before, axis=1)
    return float((np.linalg.norm(before, axis=1) / np.maximum(noise, np.finfo(float).tiny)).mean())


def disagreements(right: dict[str, NDArray[np.bool_]]) -> list[tuple[str, str, int, int]]:
    """Return the disagreements of every two attacks as tuples (right, wrong, trials, first).

    right: an attack that is right in some trials. wrong: an attack that is wrong in these trials. trials: their number.
    first: the index of the earliest. The argument holds, by attack, bool [trials], True for a right guess.
    """
    pairs = []
    for winner, loser in permutations(sorted(right), 2):
        trials = np.flatnonzero(right[winner] & ~right[loser])
        if len(trials):
            pairs.append((winner, loser, len(trials), int(trials[0])))
    return pairs


def anomalies(estimates: pl.DataFrame, outputs: pl.DataFrame) -> list[str]:
    """Return sentences on anomalies, from tables with schemas `ESTIMATES` and `OUTPUTS`.

    Controls have unusual outputs and losses by design, so for a control only a falling curve and a departure from its
    law are reported.
    """
    remarks = []
    cell = ["dataset", "mechanism"]
    controls = estimates.filter("control")["mechanism"].unique().to_list()
    for (dataset, mechanism), rows in estimates.sort(*cell, "epsilon").group_by(cell, maintain_order=True):
        name = f"{mechanism} on {dataset}"
        attacks = rows.filter(~pl.col("attack").is_in(CHOSEN)).group_by("attack", maintain_order=True)
        curves = {str(attack): curve.to_dicts() for (attack,), curve in attacks}
        everything = rows.filter(attack=STRONGEST_INSIDE).to_dicts()
        shapes = [_departing(curves), _falling(curves)]
        shapes += [] if mechanism in controls else [_flat(curves), _chance(everything)]
        remarks += [f"{name}: {what}" for what in shapes if what]
    used = outputs.filter(~pl.col("mechanism").is_in(controls)).sort(*cell, "epsilon")
    for row in used.unique(cell, keep="first", maintain_order=True).to_dicts():
        name = f"{row['mechanism']} on {row['dataset']}"
        hardly = much(row["unknown_words"], row["cut_texts"])
        remarks += [f"{name}: {what}, so a low loss says little" for what in hardly]
    for row in used.to_dicts():
        name = f"{row['mechanism']} on {row['dataset']}"
        name += "" if row["epsilon"] is None else f" at ε = {row['epsilon']:g}"
        remarks += [f"{name}: {what}" for what in _odd(row)]
    return remarks


def _departing(curves: Mapping[str, list[dict[str, Any]]]) -> str | None:
    """Return a sentence on the clearest case of hits or outputs that contradict the stated law, or None."""
    cases = [
        (p, of, attack, row)
        for attack, curve in curves.items()
        for row in curve
        if row["departs"]
        for of, p in (("hits", row["departure_p"]), ("outputs", row["fit_p"]))
        if p is not None
    ]
    if not cases:
        return None
    p, of, attack, row = min(cases, key=lambda case: case[0])
    at = "" if row["epsilon"] is None else f" at ε = {row['epsilon']:g}"
    what = f"{row['successes']} hits of the attack {attack}" if of == "hits" else "such outputs"
    doubted = "Exact losses, posteriors and the likelihood attack rely on this law, so they are in doubt"
    return f"{DEPARTS}: under the law, {what} in {row['trials']} trials{at} have p = {p:.2g}. {doubted}"


def _falling(curves: Mapping[str, list[dict[str, Any]]]) -> str | None:
    """Return a sentence on the largest decrease of an attack's loss from one budget to a larger one, or None.

    A decrease counts only if the two intervals do not overlap.
    """
    deepest, words = 0.0, None
    for attack, curve in curves.items():
        for earlier, later in combinations(curve, 2):
            if earlier["loss"] - later["upper"] > deepest:
                deepest = earlier["loss"] - later["upper"]
                words = (
                    f"not monotone: under the attack {attack} the loss falls from at least {earlier['loss']:.2f} nats "
                    f"at ε = {earlier['epsilon']:g} to at most {later['upper']:.2f} at ε = {later['epsilon']:g}"
                )
    return words


def _flat(curves: Mapping[str, list[dict[str, Any]]]) -> str | None:
    """Return a sentence on attacks whose losses hardly differ between budgets, or None."""
    flat = []
    for attack, curve in curves.items():
        if len(curve) < 3 or curve[-1]["epsilon"] < _FLAT * curve[0]["epsilon"]:
            continue
        low, high = max(row["loss"] for row in curve), min(row["upper"] for row in curve)
        if low <= high and curve[-1]["loss"] > 0:
            flat.append(f"{attack} ({low:.2f} to {high:.2f} nats)")
            ends = f"from ε = {curve[0]['epsilon']:g} to {curve[-1]['epsilon']:g}"
    return f"flat: {ends}, all loss intervals overlap under {', '.join(flat)}" if flat else None


def _chance(curve: list[dict[str, Any]]) -> str | None:
    if not curve or curve[-1]["loss"] > 0:
        return None
    largest = curve[-1]["epsilon"]
    return "no attack does better than chance" + ("" if largest is None else f" at the largest budget, ε = {largest:g}")


def _odd(row: dict[str, Any]) -> list[str]:
    remarks = []
    if row["empty"] >= _SOME:
        remarks.append(f"{row['empty']:.1%} of the rewrites are empty")
    if row["unchanged"] >= _MANY:
        remarks.append(f"{row['unchanged']:.1%} of the rewrites equal their source")
    if row["commonest"] >= _MANY:
        remarks.append(f"{row['commonest']:.1%} of the rewrites are the same text")
    return remarks
