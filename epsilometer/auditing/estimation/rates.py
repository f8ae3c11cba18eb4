"""Estimates from the scores of a membership attack: curve, area, rates at thresholds, leakage, and a loss in nats.

An example with a score of more than t is called a member. With F_in and F_out the laws of the scores of members and of
others, TPR(t) = 1 - F_in(t), FPR(t) = 1 - F_out(t), and the area under the curve is P(member > other) + P(equal) / 2.

**Coverage of the intervals.** Members are a sample of a model's training texts, the others a sample of texts like them,
and given that model, and the references that it is compared with, scores of different examples are independent draws.
So an interval describes the attack on other examples *of this model*. It does not cover another training run,
whose model has memorised other texts; runs with several seeds, side by side, show that. For the same reason `loss` is
a result about this model and refutes no claim: a claim is about the randomness of training, which
`auditing.one_run.coins` tests by coins.

- `area`: variance of DeLong, DeLong and Clarke-Pearson (1988), the interval on the logit scale (Pepe 2003).
- Rates are binomial at a threshold that does not depend on the examples they are measured on (Clopper and Pearson), so
  examples come in two halves: thresholds are set on the first and measured on the second (`halves`).
- `leakage`: TPR - FPR (Yeom, Giacomelli, Fredrikson and Jha 2018), the adversary's advantage.
- `loss`: ln((TPR - delta) / FPR), or the same of the complements, whichever proves more on the first half
  (`successes.loss_by_rates`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, logit
from scipy.stats import norm

from epsilometer.auditing.estimation.paired_areas import placements
from epsilometer.auditing.estimation.successes import clopper_pearson, loss_by_rates
from epsilometer.core.errors import UserError

_FEW = 10  # members, or others: with fewer, their variance is too uncertain to give an interval alone


@dataclass(frozen=True)
class Interval:
    """A number and the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class MembershipScores:
    """Scores of members [n] and of others [m], larger for members, at least one of each. They may be infinite.

    Raises UserError where either is empty or contains NaN.
    """

    inside: NDArray[np.float64]
    outside: NDArray[np.float64]

    def __post_init__(self) -> None:
        if not (len(self.inside) and len(self.outside)):
            raise UserError(
                f"an attack is measured on members and others, got {len(self.inside)} and {len(self.outside)}; give "
                "scores of both",
                "EPS-A066",
            )
        if np.isnan(self.inside).any() or np.isnan(self.outside).any():
            raise UserError("a score is not a number; leave out examples that the attack does not look at", "EPS-A067")

    @classmethod
    def of(cls, scores: NDArray[np.float64], members: NDArray[np.bool_]) -> MembershipScores:
        """Return the scores [n] of examples by whether they are members [n]; without those that are NaN."""
        seen = ~np.isnan(scores)
        return cls(scores[members & seen], scores[~members & seen])


def halves(scores: MembershipScores, rng: np.random.Generator) -> tuple[MembershipScores, MembershipScores]:
    """Return two random halves: the first to set thresholds on, the second, at least as large, to measure them on.

    Raises UserError for fewer than two members, or two others.
    """
    parts = []
    for values in (scores.inside, scores.outside):
        if len(values) < 2:
            raise UserError(
                f"thresholds are set on some examples and measured on others, got {len(scores.inside)} members and "
                f"{len(scores.outside)} others; give two or more of each",
                "EPS-A068",
            )
        order = rng.permutation(len(values))
        parts.append((values[order[: len(values) // 2]], values[order[len(values) // 2 :]]))
    (chosen_in, rest_in), (chosen_out, rest_out) = parts
    return MembershipScores(chosen_in, chosen_out), MembershipScores(rest_in, rest_out)


def curve(scores: MembershipScores) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the corners of the curve of all thresholds: false and true positive rates, ascending, from 0 to 1."""
    from sklearn.metrics import roc_curve  # loads slowly

    every = np.concatenate([scores.inside, scores.outside])
    _, rank = np.unique(every, return_inverse=True)  # scores may be infinite
    false, true, _ = roc_curve(np.arange(len(every)) < len(scores.inside), rank, drop_intermediate=True)
    return false, true


def area(scores: MembershipScores, alpha: float) -> Interval:
    """Return the area under the curve, at confidence 1 - alpha for many examples."""
    above, below = placements(scores.inside, scores.outside)
    variance = sum(float(part.var(ddof=1)) / len(part) if len(part) > 1 else 0.0 for part in (above, below))
    return area_of(float(above.mean()), variance, min(len(above), len(below)), alpha)


def area_of(value: float, variance: float, pairs: int, alpha: float) -> Interval:
    """Return the interval of an area of this variance, at confidence 1 - alpha for many examples.

    pairs: number of pairs of one member and one other that share no example. Where the variance is 0, as where all
    members score more than all others, the interval is that of this number of pairs with equal outcomes; with few
    pairs, whose variance is uncertain, it is no narrower than that.
    """
    slack = 1 - (alpha / 2) ** (1 / pairs)
    low, high = max(0.0, value - slack), min(1.0, value + slack)
    if not variance or not 0 < value < 1:
        return Interval(value, low, high)
    reach = norm.isf(alpha / 2) * math.sqrt(variance) / (value * (1 - value))
    near = Interval(value, float(expit(logit(value) - reach)), float(expit(logit(value) + reach)))
    return near if pairs >= _FEW else Interval(value, min(low, near.low), max(high, near.high))


def threshold_at(fpr: float, outside: NDArray[np.float64]) -> float:
    """Return the least threshold that at most this share of the scores [m] exceeds: the largest score for few."""
    return float(np.sort(outside)[::-1][min(int(fpr * len(outside)), len(outside) - 1)])


def best_threshold(scores: MembershipScores) -> float:
    """Return the threshold of the largest TPR - FPR on these examples, the highest of equals."""
    every = np.unique(np.concatenate([scores.inside, scores.outside]))[::-1]
    inside, outside = (_exceeding(part, every) for part in (scores.inside, scores.outside))
    return float(every[np.argmax(inside / len(scores.inside) - outside / len(scores.outside))])


def rates(scores: MembershipScores, threshold: float, alpha: float) -> tuple[Interval, Interval]:
    """Return TPR and FPR at a threshold that was set on other examples, each at confidence 1 - alpha."""
    return _share(scores.inside > threshold, alpha), _share(scores.outside > threshold, alpha)


def leakage(scores: MembershipScores, threshold: float, alpha: float) -> Interval:
    """Return TPR - FPR at a threshold that was set on other examples, at confidence 1 - alpha or more."""
    return difference(scores.inside > threshold, scores.outside > threshold, alpha)


def difference(ones: NDArray[np.bool_], others: NDArray[np.bool_], alpha: float) -> Interval:
    """Return the share of True in `ones` less that in `others`, at confidence 1 - alpha or more.

    Both have exact intervals at 1 - alpha / 2, so both hold together.
    """
    of_ones, of_others = _share(ones, alpha / 2), _share(others, alpha / 2)
    return Interval(of_ones.value - of_others.value, of_ones.low - of_others.high, of_ones.high - of_others.low)


@dataclass(frozen=True)
class Loss:
    """The loss by two rates at one threshold.

    loss: in nats, proved for this model at confidence 1 - alpha / 2; 0 means no evidence, never private.

    point: the plug-in value, infinite without errors; ceiling: the loss if there were no errors. threshold, and
    whether members (above) or others (below) were named at it.
    """

    loss: float
    point: float
    ceiling: float
    threshold: float
    named: str


MEMBERS, OTHERS = "members", "others"


def loss(chosen: MembershipScores, measured: MembershipScores, alpha: float, delta: float = 0.0) -> Loss:
    """Return the loss that naming members, or naming others, at one threshold proves.

    chosen: the examples that set threshold and side, by the largest lower bound; measured: other examples, whose counts
    prove the loss. alpha: that of all attacks together divided by their number, where one of several is picked
    afterwards.
    The loss is between neighbours by replacement: members and others belong to equally large training sets.
    """
    named, threshold = _most_telling(chosen, alpha, delta)
    hits, n = int((measured.inside > threshold).sum()), len(measured.inside)
    false, m = int((measured.outside > threshold).sum()), len(measured.outside)
    counts = (hits, n, false, m) if named == MEMBERS else (m - false, m, n - hits, n)
    proved = loss_by_rates(*counts, alpha=alpha, delta=delta)
    ceiling = loss_by_rates(counts[1], counts[1], 0, counts[3], alpha=alpha, delta=delta)
    excess, errors = counts[0] / counts[1] - delta, counts[2] / counts[3]
    point = 0.0 if excess <= errors else math.log(excess / errors) if errors else math.inf
    return Loss(proved, point, ceiling, threshold=threshold, named=named)


def _most_telling(scores: MembershipScores, alpha: float, delta: float) -> tuple[str, float]:
    """Return the side to name, and the threshold, by the lower bound that these examples give."""
    every = np.unique(np.concatenate([scores.inside, scores.outside]))[::-1]
    n, m = len(scores.inside), len(scores.outside)
    hits, false = _exceeding(scores.inside, every), _exceeding(scores.outside, every)
    members = _ratios(hits, n, false, m, level=alpha / 4, delta=delta)
    others = _ratios(m - false, m, n - hits, n, level=alpha / 4, delta=delta)
    if members.max() >= others.max():
        return MEMBERS, float(every[members.argmax()])
    return OTHERS, float(every[others.argmax()])


def _ratios(
    hits: NDArray[np.int64], of: int, false: NDArray[np.int64], of_false: int, *, level: float, delta: float
) -> NDArray[np.float64]:
    """Return for each threshold (TPR - delta) / FPR at the ends of their one-sided intervals at this level."""
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), of - hits + 1, level), 0)
    high = np.where(false < of_false, betaincinv(false + 1, np.maximum(of_false - false, 1), 1 - level), 1)
    ratio: NDArray[np.float64] = (low - delta) / high
    return ratio


def _exceeding(values: NDArray[np.float64], thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many values exceed each threshold."""
    return len(values) - np.searchsorted(np.sort(values), thresholds, side="right")


def _share(hits: NDArray[np.bool_], alpha: float) -> Interval:
    count = int(hits.sum())
    return Interval(count / len(hits), *clopper_pearson(count, len(hits), alpha))
