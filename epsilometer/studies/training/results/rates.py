"""Estimates from the scores of a membership attack: ROC curve, area, rates at thresholds, leakage, and a loss in nats.

An example with a score above t is called a member. Let F_in and F_out be the distribution functions of the scores of
members and of others. Then TPR(t) = 1 - F_in(t), FPR(t) = 1 - F_out(t), and the area under the ROC curve is
P(member > other) + P(equal) / 2.

**Coverage of the intervals.** Members are a sample of a model's training texts, the others a sample of similar texts.
Given the model and the references, scores of different examples are independent. So an interval describes the attack on
other examples *of this model*. The interval does not cover another training, whose model has memorised other texts;
several seeds show this variation. So `loss`, too, is about this model, and refutes no claim. A claim is about the
randomness of training; `auditing.estimation.coins` tests such claims.

- `area`: the variance is that of DeLong, DeLong and Clarke-Pearson (1988), and the interval is on the logit scale (Pepe
  2003).
- Rates at a threshold are binomial (Clopper and Pearson) if the threshold does not depend on the examples. So examples
  are split: thresholds are set on the first half, and rates are measured on the second (`halves`).
- `leakage`: TPR - FPR, the adversary's advantage (Yeom, Giacomelli, Fredrikson and Jha 2018).
- `loss`: ln((TPR - delta) / FPR) for an adversary who names members, or ln((TNR - delta) / FNR) for one who names
  non-members (`successes.loss_by_rates`). The first half of the examples determines which adversary is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, logit
from scipy.stats import norm

from epsilometer.auditing.estimation.successes import clopper_pearson, loss_by_rates
from epsilometer.core.errors import UserError
from epsilometer.studies.training.results.paired_areas import placements

_FEW = 10  # with fewer members or others, the estimated variance alone gives no reliable interval


@dataclass(frozen=True)
class Interval:
    """An estimate with a lower and an upper bound."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class MembershipScores:
    """Scores of members, inside [n], and of others, outside [m]; larger for members. They may be infinite.

    Raises UserError if `inside` or `outside` is empty or contains NaN.
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
            raise UserError("a score is NaN; leave out examples that the attack does not score", "EPS-A067")

    @classmethod
    def of(cls, scores: NDArray[np.float64], members: NDArray[np.bool_]) -> MembershipScores:
        """Divide the scores [n] of examples by membership [n]. NaN scores are left out."""
        seen = ~np.isnan(scores)
        return cls(scores[members & seen], scores[~members & seen])


def halves(scores: MembershipScores, rng: np.random.Generator) -> tuple[MembershipScores, MembershipScores]:
    """Return two random halves: one for setting thresholds, the other, at least as large, for measuring rates.

    Raises UserError if there are fewer than two members, or fewer than two others.
    """
    parts = []
    for values in (scores.inside, scores.outside):
        if len(values) < 2:
            raise UserError(
                f"thresholds and rates need separate examples, got {len(scores.inside)} members and "
                f"{len(scores.outside)} others; give two or more of each",
                "EPS-A068",
            )
        order = rng.permutation(len(values))
        parts.append((values[order[: len(values) // 2]], values[order[len(values) // 2 :]]))
    (chosen_in, rest_in), (chosen_out, rest_out) = parts
    return MembershipScores(chosen_in, chosen_out), MembershipScores(rest_in, rest_out)


def curve(scores: MembershipScores) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the corners of the ROC curve: false and true positive rates, ascending, from 0 to 1."""
    from sklearn.metrics import roc_curve  # loads slowly

    every = np.concatenate([scores.inside, scores.outside])
    _, rank = np.unique(every, return_inverse=True)  # ranks, because scores may be infinite
    false, true, _ = roc_curve(np.arange(len(every)) < len(scores.inside), rank, drop_intermediate=True)
    return false, true


def area(scores: MembershipScores, alpha: float) -> Interval:
    """Return the area under the ROC curve with an interval at confidence 1 - alpha, valid for many examples."""
    above, below = placements(scores.inside, scores.outside)
    variance = sum(float(part.var(ddof=1)) / len(part) if len(part) > 1 else 0.0 for part in (above, below))
    return area_of(float(above.mean()), variance, min(len(above), len(below)), alpha)


def area_of(value: float, variance: float, pairs: int, alpha: float) -> Interval:
    """Return the interval of an area with this variance, at confidence 1 - alpha, valid for many examples.

    pairs: the number of disjoint pairs of one member and one other. If the variance is 0, for example if all members
    score above all others, the interval is that of Clopper and Pearson for `pairs` trials with equal outcomes. With few
    pairs, the estimated variance is unreliable, and the interval is never narrower than this exact interval.
    """
    slack = 1 - (alpha / 2) ** (1 / pairs)
    low, high = max(0.0, value - slack), min(1.0, value + slack)
    if not variance or not 0 < value < 1:
        return Interval(value, low, high)
    reach = norm.isf(alpha / 2) * math.sqrt(variance) / (value * (1 - value))
    near = Interval(value, float(expit(logit(value) - reach)), float(expit(logit(value) + reach)))
    return near if pairs >= _FEW else Interval(value, min(low, near.low), max(high, near.high))


def threshold_at(fpr: float, outside: NDArray[np.float64]) -> float:
    """Return the smallest score in `outside` [m] with a false positive rate of at most `fpr` on these scores."""
    return float(np.sort(outside)[::-1][min(int(fpr * len(outside)), len(outside) - 1)])


def best_threshold(scores: MembershipScores) -> float:
    """Return the threshold with the largest TPR - FPR on these examples; of equally good ones, the highest."""
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
    """Return the share of True in `ones` minus that in `others`, with an interval at confidence 1 - alpha or more.

    Each share has an exact interval at 1 - alpha / 2, so both intervals are right with probability 1 - alpha or more.
    """
    of_ones, of_others = _share(ones, alpha / 2), _share(others, alpha / 2)
    return Interval(of_ones.value - of_others.value, of_ones.low - of_others.high, of_ones.high - of_others.low)


@dataclass(frozen=True)
class Loss:
    """The loss by two rates at one threshold.

    loss:      a lower bound in nats for this model, at confidence 1 - alpha / 2; 0 means no evidence.
    point:     the point estimate; infinite if there are no errors.
    ceiling:   the lower bound if there were no errors.
    threshold: the threshold.
    named:     MEMBERS if the adversary calls examples above the threshold members, OTHERS if it calls the rest
               non-members.
    """

    loss: float
    point: float
    ceiling: float
    threshold: float
    named: str


MEMBERS, OTHERS = "members", "others"


def loss(chosen: MembershipScores, measured: MembershipScores, alpha: float, delta: float = 0.0) -> Loss:
    """Return the loss that naming members, or naming non-members, proves at one threshold.

    The loss is between neighbours by replacement, because members and others belong to equally large training sets.

    chosen: the examples on which the threshold and `named` are chosen, by the largest lower bound.
    measured: other examples, whose counts prove the loss.
    alpha: the error probability; divide it by the number of attacks if the best is chosen afterwards.
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
    """Return MEMBERS or OTHERS, and the threshold, with the largest lower bound on these examples."""
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
    """Return, for each threshold, a lower bound on (TPR - delta) / FPR from one-sided bounds on both rates.

    hits, false: true and false positives at each threshold; of, of_false: the numbers of examples; level: the error of
    each bound.
    """
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), of - hits + 1, level), 0)
    high = np.where(false < of_false, betaincinv(false + 1, np.maximum(of_false - false, 1), 1 - level), 1)
    ratio: NDArray[np.float64] = (low - delta) / high
    return ratio


def _exceeding(values: NDArray[np.float64], thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the number of values that exceed each threshold."""
    return len(values) - np.searchsorted(np.sort(values), thresholds, side="right")


def _share(hits: NDArray[np.bool_], alpha: float) -> Interval:
    count = int(hits.sum())
    return Interval(count / len(hits), *clopper_pearson(count, len(hits), alpha))
