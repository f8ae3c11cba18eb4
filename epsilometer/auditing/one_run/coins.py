"""Many guesses from one run: what n coins that went into a mechanism together prove of its epsilon for one of them.

n fair coins decide, each by itself, one part of an input: whether a record is in a training set, or which of two words
stands at a place of a text. The mechanism runs, and the adversary guesses coins from all that came out, abstaining
where it likes. Let e^epsilon and delta bound how much one coin, the others given, can change the output's law.

**Pure epsilon.** Given the output and the other coins, a coin falls either way with a probability of at most p* =
e^epsilon / (1 + e^epsilon). Coin by coin, of r guesses the right ones are therefore at most binomial given the output,
P(right >= v) <= P(Bin(r, p*) >= v), whichever r coins the adversary picks by looking at the output (Steinke, Nasr and
Jagielski 2023, arXiv:2305.08846, theorem 5.1). So the levels of `abstention` hold here as well.

**With delta** (their theorem 5.2 and appendix D), for a number r of guesses that is fixed beforehand:

    P(right >= v) <= P(B >= v) + 2 n delta max over i >= 1 of P(v > B >= v - i) / i,   B ~ Bin(r, p*).

As printed this fails near 1, where nobody tests: of 2 coins at epsilon 2 and delta .2 it gives P(right >= 1) <= .9972,
and the mechanism that says both coins as they fell with probability .6, and one of them wrongly with .2 each, is never
wrong twice. `fdp` has a bound that holds everywhere, and is larger only where delta is next to nothing.

Several runs on coins of their own are one run of all of them together, since a coin still touches one output only.
Mahloujifar, Melis and Chaudhuri 2024 (arXiv:2410.22235) prove more with a delta, and of a mechanism whose whole
trade-off curve is claimed: `fdp`. For a pure epsilon, whose worst case is randomised response, there is nothing
to gain.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom

from epsilometer.auditing.estimation.abstention import halves, worst_output


def unit_loss(right: NDArray[np.bool_], scores: NDArray[np.floating], alpha: float, delta: float = 0.0) -> float:
    """The epsilon of one coin, in nats, that the guesses prove at confidence 1 - alpha / 2; 0 means no evidence.

    right: [coins], whether each was guessed; scores: [coins], larger where the adversary is surer, computed from the
    output alone. The surest coins count, as many as prove most (Bonferroni over the numbers tried).
    """
    if not delta:
        return worst_output(right, scores, 2, alpha)
    successes = np.cumsum(right[np.argsort(-scores, kind="stable")])
    sizes = halves(len(right))
    level = alpha / len(sizes) / 2
    return max(proved(int(successes[r - 1]), r, len(right), delta=delta, level=level) for r in sizes)


def p_value(successes: int, guesses: int, coins: int, loss: float, delta: float = 0.0) -> float:
    """How likely so many right guesses are at most, where each coin has an epsilon of `loss` and a delta."""
    p = 1 / (1 + math.exp(-loss))
    pure = float(binom.sf(successes - 1, guesses, p))
    if not delta or not successes:
        return pure
    below = np.cumsum(binom.pmf(np.arange(successes - 1, -1, -1), guesses, p))
    return min(1.0, pure + 2 * coins * delta * float((below / np.arange(1, successes + 1)).max()))


def proved(successes: int, guesses: int, coins: int, *, delta: float, level: float) -> float:
    """The epsilon of one coin, in nats, that so many right guesses prove at confidence 1 - level.

    guesses: a number fixed beforehand; coins: all that went into the run, guessed or not.
    """

    def excess(loss: float) -> float:
        return p_value(successes, guesses, coins, loss, delta=delta) - level

    if excess(0.0) > 0:
        return 0.0
    high = 1.0
    while excess(high) <= 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-9))
