"""The two budgets of a mechanism for a target average loss, and its losses at these budgets.

The first budget has the target average loss over the compared pairs. The second is the largest budget with at most this
average loss and a delta at 4 nats of at most .01. Without the condition on delta, the mechanism `coin`, which publishes
a share of the texts verbatim, would win at equal average loss.

Both budgets come from bisection, which assumes that losses rise with budgets. If a loss falls somewhere as the budget
grows, bisection returns one of several solutions. The losses of a mechanism come from one of three sources: its law;
the law of its latents, which gives an upper bound on the loss of the text; or attacks. A search by attacks uses the
same random numbers at every budget. It uses the loss estimated from the attacks' hits, without an interval, so the true
loss may be larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epsilometer.attacks.identification.embedding import EmbeddingAttack
from epsilometer.attacks.identification.lexical import LexicalAttack
from epsilometer.auditing.calibration.computed import Met, meet
from epsilometer.auditing.calibration.sampled import FALLING, FOUND, OUTSIDE
from epsilometer.auditing.ceilings.share import BY_ATTACKS, BY_LATENTS, BY_LAW
from epsilometer.auditing.estimation.successes import loss_at
from epsilometer.auditing.estimation.tail import TAIL as TAIL_NATS
from epsilometer.auditing.estimation.tail import Scored, lower_end
from epsilometer.auditing.exact_loss.bracket import guess_losses
from epsilometer.auditing.exact_loss.losses import LEVELS, Effort
from epsilometer.auditing.exact_loss.measuring import pair_losses, pairwise, request
from epsilometer.auditing.exact_loss.pairs import Pairs, of_trials
from epsilometer.auditing.exact_loss.rows import average_loss
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.trials.sampling import Trials
from epsilometer.core.attack import Embedded
from epsilometer.core.likelihood import shows_more
from epsilometer.core.mechanism import Mechanism, law_of, releases
from epsilometer.core.randomness import Noise
from epsilometer.game.play import Knowledge, play
from epsilometer.studies.leaderboard.tables import AVERAGE, TAIL

ALLOWED = 0.01  # delta at 4 nats
_WIDTH = 1.01  # a search by law ends when its largest candidate budget is at most this times the smallest
_COARSE = 1.03  # the same ratio for a search by attacks
_EFFORT = Effort(width=0.01)
_DRAWS = 5  # rewrites of each text of a pair, for attacks
_ALPHA = 0.01
_ATTACKS = {"embedding": EmbeddingAttack(), "lexical": LexicalAttack()}

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Lost:
    """The losses at a budget over the compared pairs, in nats.

    average: bounds on the average loss.
    delta:   bounds on delta at 4 nats.
    pure:    the largest loss of any output; None if it is unknown.
    worst:   the largest guess loss of a pair; None if it is unknown.
    """

    average: tuple[float, float]
    delta: tuple[float, float]
    pure: float | None = None
    worst: float | None = None


class Curve(Protocol):
    """A mechanism's loss as a function of its budget.

    by:    the source of the loss: BY_LAW, BY_LATENTS or BY_ATTACKS.
    width: the precision of a search for budgets, as a ratio above 1.
    """

    @property
    def by(self) -> str: ...
    @property
    def width(self) -> float: ...
    def at(self, epsilon: float) -> Lost:
        """Return the losses at a budget."""
        ...


@dataclass(frozen=True)
class ByLaw:
    """Losses computed from the law of the release or of its latents. texts: the texts to which `pairs` refers."""

    mechanism: Mechanism
    texts: Sequence[str]
    pairs: Pairs
    width: float = _WIDTH
    _held: dict[float, Lost] = field(default_factory=dict, repr=False)

    @property
    def by(self) -> str:
        """The source of the loss: BY_LAW for the law of a published view, else BY_LATENTS."""
        return BY_LAW if law_of(self.mechanism) in releases(self.mechanism) else BY_LATENTS

    def at(self, epsilon: float) -> Lost:
        """Return the same as `Curve.at`."""
        if epsilon not in self._held:
            asked_of = request(self.mechanism, self.texts, [epsilon], self.pairs, effort=_EFFORT)
            (losses,) = pair_losses(asked_of)
            weights, level = self.pairs.weights, int(np.flatnonzero(LEVELS == TAIL_NATS)[0])
            average = average_loss(losses.log_error, weights)
            ends = (losses.delta.low, losses.delta.high)
            low, high = (min(1.0, float(weights @ end[:, level])) for end in ends)
            self._held[epsilon] = Lost(
                (average.low, average.high),
                (low, high),
                None if losses.pure is None else float(losses.pure.max()),
                float(guess_losses(losses.log_error).high.max()),
            )
        return self._held[epsilon]


@dataclass(frozen=True)
class ByAttacks:
    """Losses by the stronger of two attacks on the released text, with the same random numbers at every budget.

    embedded: sentence embeddings of the texts.
    """

    mechanism: Mechanism
    texts: Sequence[str]
    trials: Trials
    embedded: Embedded
    stream: tuple[str | int, ...]
    by: str = BY_ATTACKS
    width: float = _COARSE
    _held: dict[float, Lost] = field(default_factory=dict, repr=False)

    def at(self, epsilon: float) -> Lost:
        """Return the same as `Curve.at`."""
        if epsilon not in self._held:
            count = len(self.trials.target)
            noise = Noise.named(count, *self.stream, "attacked")
            (rewrites,) = rewrite_all(self.mechanism, Job(self.texts, self.trials.source, [epsilon], [noise]))
            played = play(
                Knowledge(self.texts, self.trials.candidates, self.mechanism, embedded=self.embedded),
                {epsilon: rewrites},
                _ATTACKS,
                lambda attack, _: Noise.named(count, *self.stream, "attack", attack),
            )
            tried = [Scored(guess.slots == self.trials.target, guess.scores) for guess in played[epsilon].values()]
            rate = max(float(scored.right.mean()) for scored in tried)
            loss = float(loss_at(min(rate, 1 - 0.5 / count), 2))  # if every guess is right, count half a wrong guess
            tail = lower_end(tried, 2, _ALPHA) or 0.0
            self._held[epsilon] = Lost((loss, loss), (tail, tail))
        return self._held[epsilon]


def curve(
    mechanism: Mechanism,
    texts: Sequence[str],
    pairs: NDArray[np.int64],
    embedded: Embedded,
    *,
    stream: Sequence[str | int],
) -> Curve:
    """Return the curve by law if the mechanism's law gives the loss of each pair, else the curve by attacks.

    pairs: [n, 2], indices of texts; stream: the name of the random streams of the attacks.
    """
    if pairwise(mechanism) and not shows_more(mechanism):
        trials = Trials(pairs.astype(np.int32), np.zeros(len(pairs), np.int16))
        return ByLaw(mechanism, texts, of_trials(trials, texts))
    both = np.repeat(pairs, 2 * _DRAWS, axis=0).astype(np.int32)
    sources = np.tile(np.repeat([0, 1], _DRAWS), len(pairs)).astype(np.int16)
    return ByAttacks(mechanism, texts, Trials(both, sources), embedded=embedded, stream=tuple(stream))


@dataclass(frozen=True)
class Budget:
    """The result of a search for a budget.

    kind:    AVERAGE for the first budget, TAIL for the second.
    epsilon: the budget; None if no budget qualifies.
    lost:    the losses at epsilon; None if no budget qualifies.
    reason:  why no budget qualifies, or why the budget misses the target loss; None if there is nothing to explain.
    """

    kind: str
    epsilon: float | None
    lost: Lost | None
    reason: str | None = None


def budgets(losses: Curve, target: float, ends: tuple[float, float]) -> list[Budget]:
    """Return the first and the second budget for an average loss of `target` nats.

    The first has this average loss. The second is the largest budget with at most this average loss and with a delta at
    4 nats within ALLOWED. ends: the smallest and the largest budget to search.
    """
    met = meet(lambda epsilon: losses.at(epsilon).average, target, *ends, width=losses.width, watch=_unwatched)
    if met.status in (OUTSIDE, FALLING) or met.best is None:
        return _none(met, losses, target, ends)
    best, below, above = (losses.at(epsilon) for epsilon in (met.best, met.low, met.high))
    if best.average[0] <= target * losses.width and best.average[1] >= target / losses.width:
        first = Budget(AVERAGE, met.best, best)
        return [first, _with_little_tail(losses, first, target, ends)]
    why = f"its loss jumps from {below.average[1]:.3g} to {above.average[0]:.3g} nats"
    beneath = Budget(AVERAGE, met.low, below, why)
    return [Budget(AVERAGE, met.best, best, why), _with_little_tail(losses, beneath, target, ends)]


def _none(met: Met, losses: Curve, target: float, ends: tuple[float, float]) -> list[Budget]:
    """Return the two budgets after a failed search.

    If both ends of the range lose less than the target, the first budget is the largest budget of the range. Otherwise
    no budget qualifies.
    """
    if met.low > 0 and met.status == OUTSIDE:
        why = f"at the largest budget searched it loses less than {target:g} nats"
        largest = Budget(AVERAGE, ends[1], losses.at(ends[1]), why)
        return [largest, _with_little_tail(losses, largest, target, ends)]
    least = losses.at(ends[0]).average[0]
    lost = "surely tells some texts apart" if np.isinf(least) else f"loses {least:.3g} nats"
    why = f"even at epsilon {ends[0]:g} it {lost}" if met.status == OUTSIDE else "its loss falls with its budget"
    return [Budget(kind, None, None, why) for kind in (AVERAGE, TAIL)]


def _with_little_tail(losses: Curve, first: Budget, target: float, ends: tuple[float, float]) -> Budget:
    """Return the second budget. first: the first budget.

    If the tail binds, the search first covers the whole range, so that its result does not depend on the target loss. A
    second search, up to the first budget, follows if that search fails or its result exceeds the first budget.
    """
    low = ends[0]
    assert first.epsilon is not None
    assert first.lost is not None
    if first.lost.delta[1] <= ALLOWED:
        return Budget(TAIL, first.epsilon, first.lost, first.reason)
    if losses.at(low).delta[1] > ALLOWED:
        return Budget(TAIL, None, None, f"even at epsilon {low:g} its delta at 4 nats is above {ALLOWED:g}")

    def tail(epsilon: float) -> tuple[float, float]:
        return (losses.at(epsilon).delta[1],) * 2

    met = meet(tail, ALLOWED, *ends, width=losses.width, watch=_unwatched)
    if met.status != FOUND or met.low > first.epsilon:  # delta does not rise with the budget everywhere
        met = meet(tail, ALLOWED, low, first.epsilon, width=losses.width, watch=_unwatched)
    lost = losses.at(met.low)  # the largest budget tried whose tail is within ALLOWED
    if lost.average[0] > target * losses.width:
        why = (
            f"where its delta at 4 nats is within {ALLOWED:g}, it loses {lost.average[0]:.3g} nats, at a smaller budget"
        )
        return Budget(TAIL, None, None, why)
    return Budget(TAIL, met.low, lost)


def _unwatched(low: float, high: float) -> None:
    """Show no progress."""
