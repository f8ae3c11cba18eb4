"""The mean loss over pairs of texts under a mechanism whose law is known only output by output: by importance sampling.

Generated text, hidden coins, and what a provider and a reader see together: `importance.py` says how, and when a row
says "at least". Single pairs, which would each need as many draws as the mean over all, have no figures here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_CHECKED
from epsilometer.auditing.exact_loss.bracket import Bracket
from epsilometer.auditing.exact_loss.importance import AT_LEAST, Sampled, Sampling, draws, sampled_mean
from epsilometer.auditing.exact_loss.losses import LEVELS, Request
from epsilometer.auditing.exact_loss.pairs import Pairs
from epsilometer.auditing.exact_loss.rows import Group, average_loss, curve_rows, groups, head
from epsilometer.core.mechanism import DrawsBetween, HasLikelihood, Mechanism
from epsilometer.core.randomness import Noise

Rows = list[dict[str, Any]]
_WIDTH = 0.2  # nats of an interval at which draws end
_FIRST = 200  # draws before one looks


def applies(mechanism: Mechanism) -> bool:
    """Whether it can be drawn from between two texts, or says how likely its outputs are."""
    return isinstance(mechanism, (DrawsBetween, HasLikelihood))


def tables(request: Request, pairs: Pairs, most: int) -> tuple[Rows, Rows]:
    """Rows of `EXACT` and of `EXACT_CURVES`, for each budget and group of pairs; most: draws for each."""
    sampling = Sampling(width=_WIDTH, draws=most, first=min(_FIRST, most))
    losses: Rows = []
    curves: Rows = []
    for number in range(len(request.epsilons)):
        sampled: Sampled | None = None
        for group in groups(request, pairs, number):
            if sampled is None or len(group.places) < len(pairs):  # else the pairs are those of the group before
                sampled = _sampled(group, sampling)
            losses.append(_row(group, sampled))
            curves += curve_rows(group, sampled.deltas(LEVELS))
    return losses, curves


def _sampled(group: Group, sampling: Sampling) -> Sampled:
    """The mean over the pairs of a group."""
    request, epsilon = group.request, group.epsilon
    draw = draws(request.mechanism, request.texts, request.pairs[group.places], epsilon)
    assert draw is not None

    def stream(numbers: NDArray[np.int64]) -> Noise:
        return Noise.named(numbers, "exact loss", epsilon)

    return sampled_mean(draw, group.weights, stream, sampling)


def _row(group: Group, sampled: Sampled) -> dict[str, Any]:
    error = Bracket(np.array([sampled.log_error.low]), np.array([sampled.log_error.high]))
    average = average_loss(error, np.ones(1), group.pairs.candidates)
    row = head(group, average, sampled.method)
    row["verdict"] = NO_CLAIM if group.request.mechanism.guarantee(group.epsilon) is None else NOT_CHECKED
    if sampled.method == AT_LEAST:
        row |= {"average": average.low, "error": None}
    return row
