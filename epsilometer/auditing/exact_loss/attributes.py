"""Upper bounds, in nats, on the loss of an attribute, such as the author's age, from a mechanism's law.

A text x comes from class a or class b, each with probability 1/2. An adversary sees M(x) and guesses the class. The
adversary's view is a mixture of M(x) over the texts of the class. Total variation (TV) is convex, so for x and y drawn
independently, one from each class,

    TV(E M(x), E M(y)) <= E TV(M(x), M(y)),

and the error of guessing the class is at least the mean error e of guessing between the two texts. So the loss of the
attribute is at most the guess loss at the error e. With more than two classes, a uniform pair of classes is drawn
first, and the loss is between these two classes. The result is only an upper bound; the best adversary may achieve a
far smaller loss.

Pairs are drawn with replacement, so their errors are independent, and betting bounds the mean error at confidence
99.5 % (`estimation.betting`). Assumptions: the adversary sees one rewrite per author, and the audited texts of a class
represent the class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.exact_loss.bracket import Bracket, guess_loss
from epsilometer.auditing.exact_loss.importance import Sampling, draws, sampled_mean
from epsilometer.auditing.exact_loss.losses import ALONE, FULL, Crew, Effort
from epsilometer.auditing.exact_loss.measuring import pair_losses, pairwise, request
from epsilometer.auditing.exact_loss.pairs import weighed
from epsilometer.auditing.exact_loss.rows import ALPHA, average_loss
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import stored
from epsilometer.core.likelihood import shows_more
from epsilometer.core.mechanism import Mechanism, law_of
from epsilometer.core.randomness import Noise

PAIRS = 200

Array = NDArray[np.float64]


def attribute_losses(
    mechanism: Mechanism,
    texts: Sequence[str],
    classes: Sequence[str | None],
    epsilons: Sequence[float],
    seed: int,
    effort: Effort = FULL,
    crew: Crew = ALONE,
) -> Iterator[dict[str, Any]]:
    """Yield a row per budget: the epsilon, and the columns of `ATTRIBUTE_LOSSES` from `classes` on.

    mechanism: must have a law (`measuring.applies`). texts: distinct texts. classes: the class of each text, None for a
    text without a class. Raises UserError for fewer than two classes.
    """
    numbers, count = drawn_pairs(classes, seed)
    pairs, by_epsilon = weighed(numbers, texts), None
    assert pairs.trials is not None
    if pairwise(mechanism):
        by_epsilon = pair_losses(request(mechanism, texts, epsilons, pairs, effort=effort, crew=crew))
    for place, epsilon in enumerate(epsilons):
        if by_epsilon is not None:
            error, method = by_epsilon[place].log_error, by_epsilon[place].method
            average = average_loss(error, pairs.weights)
            least = interval(np.minimum(2 * np.exp(error.low[pairs.trials]), 1.0), ALPHA, fixed=True)[0]
            upper = _guess_loss(math.log(least / 2) if least else -math.inf)
        else:
            average, method = _by_draws(mechanism, texts, numbers, epsilon, most=effort.draws)
            upper = average.high
        if shows_more(mechanism):  # the released text may reveal more than the law describes
            average, upper = Bracket(average.low, math.inf), math.inf
        yield {
            "epsilon": stored(epsilon),
            "classes": count,
            "pairs": len(numbers),
            "sees": law_of(mechanism),
            "average_low": average.low,
            "average_high": average.high,
            "upper": upper,
            "method": method,
        }


def drawn_pairs(classes: Sequence[str | None], seed: int) -> tuple[NDArray[np.int64], int]:
    """Draw PAIRS pairs of texts of different classes; return their indices [PAIRS, 2] and the number of classes."""
    named = np.array(["" if name is None else name for name in classes], dtype=object)
    there = sorted({name for name in classes if name is not None})
    if len(there) < 2:
        raise UserError(f"an attribute needs at least 2 classes, got {len(there)}; name another label", "EPS-A076")
    of_class = [np.flatnonzero([name == each for name in named]) for each in there]
    both = np.array(list(combinations(range(len(there)), 2)))
    uniforms = Noise.named(PAIRS, seed, "pairs of an attribute").uniforms(3)
    chosen = both[(uniforms[:, 0] * len(both)).astype(np.int64)]
    numbers = [
        [of_class[place][int(u * len(of_class[place]))] for place, u in zip(pair, row, strict=True)]
        for pair, row in zip(chosen.tolist(), uniforms[:, 1:].tolist(), strict=True)
    ]
    return np.array(numbers, np.int64), len(there)


def _by_draws(
    mechanism: Mechanism, texts: Sequence[str], numbers: NDArray[np.int64], epsilon: float, *, most: int
) -> tuple[Bracket[float], str]:
    """Return an interval of the loss at the mean error, from one draw per pair, and the name of the method."""
    draw = draws(mechanism, texts, numbers, epsilon)
    assert draw is not None

    def stream(of: NDArray[np.int64]) -> Noise:
        return Noise.named(of, "loss of an attribute", epsilon)

    sampling = Sampling(draws=min(most, len(numbers)), first=min(most, len(numbers)))
    sampled = sampled_mean(draw, np.full(len(numbers), 1 / len(numbers)), stream, sampling, trials=np.arange(PAIRS))
    error = sampled.log_error
    return Bracket(_guess_loss(float(error.high)), _guess_loss(float(error.low))), sampled.method


def _guess_loss(log_error: float) -> float:
    return float(guess_loss(np.asarray(log_error)))
