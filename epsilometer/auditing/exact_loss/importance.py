"""The guess loss and delta(level) of pairs of texts, from draws between their laws, with intervals by betting.

Consider a draw from a law m between P and P'. Let log_rho = ln(sqrt(P P') / m) and L = ln(P / P') (`core/between.py`).
Let w = e^(log_rho - |L - level| / 2), and let log_bound be an upper bound on the exponent of w. Then

    E_m[w] = e^(-level / 2) (1 - delta(level)),    0 <= w <= e^log_bound.

At level 0, half of this mean is the error of guessing between the two texts. The mean of w / e^log_bound, a number
in [0, 1], gets an interval by betting (Waudby-Smith and Ramdas, JRSS B 2024; `auditing/estimation/betting.py`). This
interval stays valid however often it is computed. So draws come in stages, each of which doubles the number of draws,
until the interval of the loss is narrow enough.

For texts of independent units, log_rho is the same for all draws, so a large loss takes no more draws than a small
loss. If log_rho depends on the draw (generated text), or if m is a mixture, log_bound is 0. Then n draws cannot show
that the mean is below about ln(2 / alpha) / n, so they prove a loss of at most about (ln n) - 1 nats. An interval wider
than one nat is reported as "at least".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.exact_loss.bracket import Bracket, guess_losses
from epsilometer.core.between import Between, tilted
from epsilometer.core.errors import LawError, UserError
from epsilometer.core.guarantees import at_budget
from epsilometer.core.likelihood import log_likelihoods
from epsilometer.core.mechanism import DrawsBetween, HasLaws, HasLikelihood, Mechanism, Rewrites
from epsilometer.core.randomness import Noise

IMPORTANCE, AT_LEAST = "importance", "at least"
_NAT = 1.0  # an interval wider than this, in nats, is reported as "at least"
_ROUNDING = 1e-6  # nats
# Indices of the uniforms that choose one of two texts, and a pair; mechanisms use smaller indices.
_COIN, _WHICH = 1 << 33, 1 << 34

Draw = Callable[[NDArray[np.integer], Noise], Between]
"""Takes indices of pairs [n] and their streams; returns one draw between the two texts of each pair."""

Stream = Callable[[NDArray[np.int64]], Noise]
"""Takes indices of draws [n] and returns their streams; draws of different pairs have different indices."""


@dataclass(frozen=True)
class Sampling:
    """Settings of draws for a loss. Raises UserError for values outside their range.

    width: draws stop once the loss's interval is this narrow, in nats.
    draws: the largest number of draws.
    first: the number of draws in the first stage.
    alpha: each interval has confidence 1 - alpha.
    """

    width: float = 0.1
    draws: int = 10_000
    first: int = 200
    alpha: float = 0.01

    def __post_init__(self) -> None:
        if not self.width > 0:
            raise UserError(f"width, in nats, must be > 0, got {self.width}", "EPS-A082")
        if not 1 <= self.first <= self.draws:
            raise UserError(f"first must be between 1 and draws ({self.draws}), got {self.first}", "EPS-A083")
        if not 0 < self.alpha < 1:
            raise UserError(f"alpha must be in (0, 1), got {self.alpha}", "EPS-A084")


@dataclass(frozen=True)
class Sampled:
    """The results of draws for a pair of texts, or for the mean over pairs.

    log_error: ln of the error of guessing between two texts, at confidence 1 - alpha.
    draws:     the number of draws.
    method:    IMPORTANCE if the loss's interval is at most a nat wide, otherwise AT_LEAST.
    """

    log_error: Bracket[NDArray[np.float64]]
    draws: int
    method: str
    _between: Between = field(repr=False)
    _alpha: float = field(repr=False)

    def deltas(self, levels: NDArray[np.float64]) -> Bracket[NDArray[np.float64]]:
        """Return intervals of delta at levels [m] in nats, averaged over both directions, from the same draws.

        All intervals hold together at confidence 1 - alpha, so any of them may be selected afterwards.
        """
        means = [_log_mean(self._between, level, self._alpha / len(levels)) for level in levels.tolist()]
        ends = np.array([(mean.low, mean.high) for mean in means]) + levels[:, None] / 2
        low, high = np.exp(np.minimum(ends, 0.0)).T
        return Bracket(1 - high, 1 - low)


def sampled(draw: Draw, pairs: int, stream: Stream, sampling: Sampling) -> list[Sampled]:
    """Return the losses of the pairs 0, ..., pairs - 1. Each stage draws for all pairs that are not yet settled."""
    parts: list[list[Between]] = [[] for _ in range(pairs)]
    results: dict[int, Sampled] = {}
    first = 0
    for count in stages(sampling):
        if not (unsettled := [pair for pair in range(pairs) if pair not in results]):
            break
        numbers = np.repeat(np.array(unsettled, np.int64), count)
        between = draw(numbers, stream(numbers << 32 | np.tile(first + np.arange(count), len(unsettled))))
        first += count
        for place, pair in enumerate(unsettled):
            parts[pair].append(_part(between, slice(place * count, (place + 1) * count)))
            result = _judged(_joined(parts[pair]), sampling.alpha)
            if _open(result.log_error) <= sampling.width or first == sampling.draws:
                results[pair] = result
    return [results[pair] for pair in range(pairs)]


def sampled_mean(
    draw: Draw,
    weights: NDArray[np.float64],
    stream: Stream,
    sampling: Sampling,
    trials: NDArray[np.int64] | None = None,
) -> Sampled:
    """Return the loss at the mean error of pairs with weights [n], which sum to 1. Each draw is for one pair.

    A pair is drawn with probability proportional to its largest possible contribution to the mean, e^log_bound times
    its weight. trials: [m], the index of each trial's pair, if pairs come from trials. In this case draw i uses the
    pair of trial i, so draws are independent, and the result is the loss over all pairs that trials can draw.
    """
    if trials is not None:
        return _of_trials(draw, trials, stream, sampling)
    places = np.arange(len(weights))
    one_of_each = stream(-1 - places)  # these draws only give the bounds
    bounds = draw(places[:1], one_of_each[:1]).log_bound
    bounds = draw(places, one_of_each).log_bound if bounds[0] < 0 else np.zeros(len(weights))
    if np.isneginf(bounds).all():
        return _judged(Between(bounds, np.zeros(len(bounds)), bounds), sampling.alpha)
    shares = weights * np.exp(bounds - bounds.max())
    total = math.log(shares.sum()) + float(bounds.max())

    def draw_any(numbers: NDArray[np.integer], noise: Noise) -> Between:
        chosen = np.searchsorted(np.cumsum(shares / shares.sum()), noise.uniforms(1, _WHICH)[:, 0], side="right")
        chosen = np.minimum(chosen, np.flatnonzero(shares)[-1])
        between = draw(chosen, noise)
        return Between(between.log_rho - bounds[chosen] + total, between.loss, np.full(len(numbers), total))

    return sampled(draw_any, 1, stream, sampling)[0]


def _of_trials(draw: Draw, trials: NDArray[np.int64], stream: Stream, sampling: Sampling) -> Sampled:
    """Return the loss at the mean error of all pairs that trials can draw, from one draw per trial."""
    parts: list[Between] = []
    most = min(sampling.draws, len(trials))
    for count in stages(replace(sampling, draws=most, first=min(sampling.first, most))):
        numbers = sum(len(part.loss) for part in parts) + np.arange(count)
        between = draw(trials[numbers], stream(numbers))
        parts.append(replace(between, log_bound=np.zeros(count)))  # must also hold for pairs that are not drawn
        result = _judged(_joined(parts), sampling.alpha)
        if _open(result.log_error) <= sampling.width:
            break
    return result


def draws(mechanism: Mechanism, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> Draw | None:
    """Return a function that draws between pairs [n, 2] of texts at a budget; None without a law or likelihood."""
    lawful: object = mechanism
    if isinstance(lawful, DrawsBetween):
        between = lawful.draws_between
        return lambda numbers, noise: _checked(between(texts, pairs[numbers], epsilon, noise), pairs[numbers], epsilon)
    if isinstance(lawful, HasLikelihood):
        return lambda numbers, noise: mixed(mechanism, texts, pairs[numbers], (epsilon, noise))
    if isinstance(lawful, HasLaws):
        laws = lawful.laws(texts)
        return lambda numbers, noise: tilted(laws, pairs[numbers], epsilon, noise)[1]
    return None


def mixed(mechanism: Mechanism, texts: Sequence[str], pairs: NDArray[np.integer], at: tuple[float, Noise]) -> Between:
    """Return a draw for each pair [n, 2] of texts: a fair coin chooses which of the two texts is rewritten.

    at: the budget and the streams. A draw has the law m = (P + P') / 2, for which ln(sqrt(P P') / m) = -ln cosh(L / 2).
    """
    epsilon, noise = at
    heads = noise.uniforms(1, _COIN)[:, 0] < 0.5
    rewrites = mechanism.rewrite([texts[i] for i in np.where(heads, *pairs.T)], epsilon, noise)
    log_p = of_own_rewrites(mechanism, texts, pairs, rewrites, epsilon=epsilon)
    loss = log_p[:, 0] - log_p[:, 1]
    size = np.abs(loss)
    return Between(math.log(2) - size / 2 - np.log1p(np.exp(-size)), loss, np.zeros(len(loss)))


def of_own_rewrites(
    mechanism: Mechanism,
    texts: Sequence[str],
    candidates: NDArray[np.integer],
    rewrites: Rewrites,
    *,
    epsilon: float,
) -> NDArray[np.float64]:
    """Return log-likelihoods [n, k] of rewrites; rewrite i has its source in row i of the candidates [n, k].

    Raises LawError for a rewrite that is impossible under all of its candidates: the mechanism then does not follow its
    stated likelihood, and no loss can be computed.
    """
    (log_p,) = log_likelihoods(mechanism, texts, candidates, [rewrites], epsilons=[epsilon])
    impossible = np.flatnonzero(np.isneginf(log_p).all(axis=1))
    if len(impossible):
        raise LawError(
            f"log_likelihoods gives a rewrite of one of the inputs {candidates[impossible[0]].tolist()} (counted from "
            f"0){at_budget(epsilon)} probability 0 under each of them; make it the likelihood of `rewrite`",
            "EPS-A085",
        )
    return log_p


def _checked(between: Between, pairs: NDArray[np.integer], epsilon: float) -> Between:
    """Return the draws. Raises LawError if they contain NaN, or exceed their stated bound."""
    size = between.log_rho - np.abs(between.loss) / 2
    possible = ~np.isneginf(between.log_rho)
    wrong = np.flatnonzero(possible & ~(size <= between.log_bound + _ROUNDING))
    if len(wrong):
        row = wrong[0]
        raise LawError(
            f"draws_between of the inputs {pairs[row].tolist()} (counted from 0){at_budget(epsilon)} returns log_rho "
            f"{between.log_rho[row]:g} and a loss of {between.loss[row]:g}, which exceed its log_bound of "
            f"{between.log_bound[row]:g} or are not numbers; correct it",
            "EPS-A086",
        )
    return between


def stages(sampling: Sampling) -> Iterator[int]:
    """Yield the number of draws of each stage; each stage after the first doubles the total."""
    done = 0
    while done < sampling.draws:
        count = min(max(sampling.first, done), sampling.draws - done)
        yield count
        done += count


def _judged(between: Between, alpha: float) -> Sampled:
    log_mean = _log_mean(between, 0.0, alpha)
    log_error = Bracket(np.array(log_mean.low - math.log(2)), np.array(log_mean.high - math.log(2)))
    method = IMPORTANCE if _open(log_error) <= _NAT else AT_LEAST
    return Sampled(log_error, len(between.loss), method, _between=between, _alpha=alpha)


def _open(log_error: Bracket[NDArray[np.float64]]) -> float:
    """Return the width of the guess loss's interval, in nats; 0 if both bounds are infinite."""
    losses = guess_losses(log_error)
    return 0.0 if losses.low == losses.high else float(losses.high - losses.low)


def _log_mean(between: Between, level: float, alpha: float) -> Bracket[float]:
    """Return an interval of ln of the mean of e^(log_rho - |L - level| / 2), averaged over both directions of L."""
    bound = float(between.log_bound[0])
    if np.isneginf(bound):  # no output is possible under both texts
        return Bracket(-math.inf, -math.inf)
    ways = (np.exp(between.log_rho - bound - np.abs(loss - level) / 2) for loss in (between.loss, -between.loss))
    low, high = interval(np.minimum(sum(ways) / 2, 1.0), alpha)
    return Bracket(bound + (math.log(low) if low else -math.inf), bound + math.log(high))


def _part(between: Between, rows: slice) -> Between:
    return Between(between.log_rho[rows], between.loss[rows], between.log_bound[rows])


def _joined(parts: Sequence[Between]) -> Between:
    columns = zip(*((part.log_rho, part.loss, part.log_bound) for part in parts), strict=True)
    return Between(*(np.concatenate(column) for column in columns))
