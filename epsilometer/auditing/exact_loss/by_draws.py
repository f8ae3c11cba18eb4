"""The mean loss over pairs of texts by importance sampling, for mechanisms whose outputs cannot be enumerated.

Each of these mechanisms can compute the probability of a given output, or draw from a law between those of two texts
(`core/between.py`). Their outputs are, for example, generated text, text in which unseen coins delete and insert words,
or the joint view of a provider and a reader. `importance.py` explains the method, and the meaning of "at least" in a
row. If pairs come from trials, each draw uses the pair of a different trial, so the interval covers all pairs that
trials can draw. Single pairs get no figures here: each pair would need as many draws as the mean over all pairs.
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
from epsilometer.auditing.exact_loss.rows import Group, average_loss, curve_rows, groups, head, tail
from epsilometer.core.mechanism import DrawsBetween, HasLikelihood, Mechanism
from epsilometer.core.randomness import Noise

Rows = list[dict[str, Any]]
_WIDTH = 0.2  # nats: draws end once the interval is this narrow
_FIRST = 200  # draws before the interval is first computed


def applies(mechanism: Mechanism) -> bool:
    """Return True if a mechanism can draw between two texts, or can compute the probabilities of its outputs."""
    return isinstance(mechanism, (DrawsBetween, HasLikelihood))


def tables(request: Request, pairs: Pairs, most: int) -> tuple[Rows, Rows]:
    """Return the rows of `EXACT` and of `EXACT_CURVES`, for each budget and group of pairs.

    most: the largest number of draws for each budget and group.
    """
    sampling = Sampling(width=_WIDTH, draws=most, first=min(_FIRST, most))
    losses: Rows = []
    curves: Rows = []
    for number in range(len(request.epsilons)):
        sampled: Sampled | None = None
        for group in groups(request, pairs, number):
            if sampled is None or len(group.places) < len(pairs):  # otherwise, the previous group has the same pairs
                sampled = _sampled(group, sampling)
            error = Bracket(*(float(np.exp(end)) for end in (sampled.log_error.low, sampled.log_error.high)))
            of_group = curve_rows(group, sampled.deltas(LEVELS), error)
            losses.append(_row(group, sampled) | _over_all(tail(of_group), group))
            curves += of_group
    return losses, curves


def _sampled(group: Group, sampling: Sampling) -> Sampled:
    """Return the results of draws for the mean error of a group's pairs."""
    request, epsilon = group.request, group.epsilon
    draw = draws(request.mechanism, request.texts, request.pairs[group.places], epsilon)
    assert draw is not None

    def stream(numbers: NDArray[np.int64]) -> Noise:
        return Noise.named(numbers, "exact loss", epsilon)

    return sampled_mean(draw, group.weights, stream, sampling, trials=group.trials)


def _over_all(of_tail: dict[str, Any], group: Group) -> dict[str, Any]:
    """Return the tail, with bounds over all pairs that trials can draw, because each draw uses a different trial."""
    if group.pairs.sets is not None:
        return of_tail
    return of_tail | {"all_delta_at_4_low": of_tail["delta_at_4_low"], "all_delta_at_4": of_tail["delta_at_4"]}


def _row(group: Group, sampled: Sampled) -> dict[str, Any]:
    error = Bracket(np.array([sampled.log_error.low]), np.array([sampled.log_error.high]))
    average = average_loss(error, np.ones(1), group.pairs.candidates)
    row = head(group, average, sampled.method)
    row["verdict"] = NO_CLAIM if group.request.mechanism.guarantee(group.epsilon) is None else NOT_CHECKED
    if sampled.method == AT_LEAST:
        row |= {"average": average.low, "error": None}
    if group.pairs.sets is None:
        row |= {"all_low": average.low, "all_high": average.high}
    return row
