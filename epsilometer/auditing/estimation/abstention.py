"""The loss that the most confident guesses prove: the adversary abstains in other trials. Losses are in nats.

The success rate averages over all outputs, so it proves the pure loss of a mechanism only if all outputs are equally
revealing. Here the adversary guesses only in trials with a high score, and abstains in the others.

**The bound.** The source is uniform among k candidates, the output y has the density P_j(y) from candidate j, and
P_i(S) <= e^epsilon P_j(S) + delta for any two candidates i, j and every set S. Let p* = e^epsilon / (e^epsilon + k - 1)
and g(y) be the guess. With delta = 0 the guess is right, given any y, with probability P_g(y) / sum_j P_j(y) <= p*. So,
given the outputs of all trials, the guesses are independent, and each guess is right with probability at most p*. The
same holds for any m guesses that were chosen by outputs and candidates alone, so the number of right guesses among the
m satisfies P(right >= v) <= P(Bin(m, p*) >= v).

With delta > 0 the mean of the excess (P(right | y) - p*)_+ is at most delta (1 - p*). The reason: this mean is a sum
over guesses j. Each term is (1 - p*) / k times the mass by which P_j exceeds e^epsilon times the mean of the other
candidates' densities. That mass is at most delta, because the positive part is convex. So a guess is right because of
delta with probability at most delta, and otherwise right with probability at most p*. Hence P(right >= v) <= P(R +
Bin(m - R, p*) >= v), where R ~ Bin(T, delta) counts over all T trials, including those without a guess. For large T
this means epsilon >= ln((k - 1) (TPR - delta) / FPR), where TPR and FPR are the shares of all trials with a right and
with a wrong guess; for m = T this bound is TeDA's eq. 10. Theorem 5.2 of Steinke, Nasr and Jagielski 2023
(arXiv:2305.08846) is the similar result for guesses that are all about one run.

**The levels.** A level is a number of guesses. The adversary guesses in the T, T / 2, T / 4, ... most confident trials.
Each of these numbers is raised to include trials with the same score as the last trial. The result is the largest loss
that any level proves, at error alpha / (2 L) for L distinct levels (Bonferroni). Levels depend only on scores, so a
mechanism whose outputs are all equally revealing has only one level. MultiSplit (Meinshausen, Meier and Buehlmann 2009,
arXiv:0811.2177) and a level chosen on a part of the trials are also valid but prove less. The evidence is the median
losses of 40 runs (T = 10,000, alpha = .01) for three methods: all guesses, MultiSplit (21 splits, a fifth of the trials
to choose), and the levels here. For a Gaussian with mu = 2 they are 1.61, 3.86 and 4.02 nats. For symmetric unary
encoding they are .45, .89 and .91 at epsilon 1, and 1.92, 3.73 and 3.77 at epsilon 4.

The result is a lower bound on the largest pure loss between two candidates of a trial. It is not a bound on an average
loss, so it has a separate column (`worst_output`) and is never the `loss`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import scipy  # loads its parts when they are first used
from numpy.typing import NDArray

from epsilometer.auditing.estimation.successes import clopper_pearson, loss_at, success_bound

LEAST = 16  # fewest guesses of a level; fewer guesses prove almost nothing, even if all are right
_NEGLIGIBLE = 1e-15  # neglected probability that even more guesses are right because of delta


def worst_output(
    right: NDArray[np.bool_], scores: NDArray[np.floating], candidates: int, alpha: float, delta: float = 0.0
) -> float:
    """Return the pure loss that the most confident guesses prove, at confidence 1 - alpha / 2; 0 means no evidence.

    right: [trials], True for a right guess. scores: [trials], larger if the attack is more confident, computed without
    knowledge of the target.
    """
    reached, least = dict(_reached(right, scores)), 0.0
    alpha /= len(reached)
    without_delta = {
        guesses: loss_at(clopper_pearson(successes, guesses, alpha)[0], candidates)
        for guesses, successes in reached.items()
    }
    if not delta:
        return max(without_delta.values())
    for guesses in sorted(reached, key=lambda guesses: -without_delta[guesses]):
        if without_delta[guesses] <= least:  # a delta only reduces what guesses prove
            break
        p = tail(least, reached[guesses], guesses, len(right), candidates=candidates, delta=delta)
        if p <= alpha / 2:
            loss = guess_loss(reached[guesses], guesses, len(right), candidates, alpha=alpha, delta=delta)
            least = max(least, loss)
    return least


def _reached(right: NDArray[np.bool_], scores: NDArray[np.floating]) -> Iterator[tuple[int, int]]:
    """Yield the number of guesses at each level, and how many of these guesses are right.

    Each level is searched only among scores at or above the threshold of the previous one, without sorting.
    """
    yield len(right), int(np.count_nonzero(right))
    hits = scores[np.flatnonzero(right)]
    for most in halves(len(right))[1:]:
        if most > len(scores):
            continue  # this level has the same threshold as the previous one
        cut = len(scores) - most
        scores = np.partition(scores, cut)
        last = scores[cut]
        more, ties = int(np.count_nonzero(scores > last)), int(np.count_nonzero(scores == last))
        yield more + ties, int(np.count_nonzero(hits >= last))
        scores = scores[len(scores) - more :] if ties == 1 else scores[scores > last]
        cut = len(hits) - int(np.count_nonzero(hits > last))
        hits = np.partition(hits, cut)[cut:] if cut < len(hits) else hits[:0]


def levels(ordered: NDArray[np.floating]) -> list[int]:
    """Return the number of guesses at each level; ordered: scores of the trials, the most confident first."""
    return sorted({int(np.searchsorted(-ordered, -ordered[m - 1], side="right")) for m in halves(len(ordered))})


def halves(count: int) -> list[int]:
    """Return the count, half of it, a quarter, and so on, as long as the number is at least `LEAST`."""
    return [count >> i for i in range(max(1, (count // LEAST).bit_length()))]


def guess_loss(
    successes: int, guesses: int, trials: int, candidates: int, *, alpha: float = 0.01, delta: float = 0.0
) -> float:
    """Return the loss that this number of right guesses among `candidates` proves, at confidence 1 - alpha / 2.

    guesses: the number of guesses made in the trials, chosen without knowledge of which are right.
    """
    if not delta:
        return loss_at(clopper_pearson(successes, guesses, alpha)[0], candidates)
    if tail(0.0, successes, guesses, trials, candidates=candidates, delta=delta) > alpha / 2:
        return 0.0

    def excess(loss: float) -> float:
        return tail(loss, successes, guesses, trials, candidates=candidates, delta=delta) - alpha / 2

    # At delta 0 the same guesses prove a larger, finite loss, at which the search ends.
    high = loss_at(clopper_pearson(successes, guesses, alpha)[0], candidates) + 1e-6
    return float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-9))


def tail(loss: float, successes: int, guesses: int, trials: int, *, candidates: int, delta: float) -> float:
    """Return the largest probability of at least this many right guesses: P(R + Bin(guesses - R, p*) >= successes)."""
    free, likely, more = _given_away(guesses, trials, delta)
    reached = scipy.stats.binom.sf(successes - free - 1, guesses - free, success_bound(loss, candidates))
    return float(likely @ reached + more)


@lru_cache(maxsize=32)
def _given_away(guesses: int, trials: int, delta: float) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """Return numbers R of guesses right because of delta, their probabilities, and the probability of a larger R."""
    free = np.arange(min(guesses, int(scipy.stats.binom.isf(_NEGLIGIBLE, trials, delta))) + 1)
    return free, scipy.stats.binom.pmf(free, trials, delta), float(scipy.stats.binom.sf(free[-1], trials, delta))
