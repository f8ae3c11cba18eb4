"""The input and the output of every way to compute exact losses: a request about pairs of texts, and their losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.claims.verdicts import rounding
from epsilometer.auditing.exact_loss.bracket import Bracket
from epsilometer.core.mechanism import Mechanism
from epsilometer.runtime.scaling import HERE, Engine

Array = NDArray[np.float64]

# The levels, in nats, at which delta is computed: dense where they decide the risk of being named among k texts.
LEVELS = np.unique(np.concatenate([np.arange(0, 2, 0.1), np.arange(2, 16, 0.25), 2.0 ** np.arange(4, 11, 0.25)]))


@dataclass(frozen=True)
class Effort:
    """The amount of computation.

    width:     the rounding error to allow in a guess loss, in nats each way.
    all_pairs: whether the relative epsilon is over all pairs of texts, where these can be compared, instead of only
               over the requested pairs. Where that takes tenths of a second it always is.
    draws:     the largest number of draws, where a mean loss is known only from draws.
    """

    width: float = 0.02
    all_pairs: bool = True
    draws: int = 6400


FULL = Effort()


@dataclass(frozen=True)
class Crew:
    """The engine that compares the pairs, and the way its workers build the mechanism. It cannot change a figure.

    build: picklable; None if pairs are compared in this process.
    """

    engine: Engine = HERE
    build: Callable[[], Mechanism] | None = None


ALONE = Crew()


@dataclass(frozen=True)
class Request:
    """Pairs of texts whose losses are requested at every budget.

    pairs:   int64 [n, 2] numbers of texts.
    claims:  for each budget the claimed losses [n] of the pairs in nats, infinite where nothing is claimed.
    width:   the rounding error to allow in a guess loss, in nats each way.
    crew:    the engine that compares the pairs, where units have laws.
    """

    mechanism: Mechanism
    texts: Sequence[str]
    pairs: NDArray[np.int64]
    epsilons: Sequence[float]
    claims: Sequence[Array]
    width: float = FULL.width
    crew: Crew = ALONE


@dataclass(frozen=True)
class PairLosses:
    """The losses of n pairs of texts at one budget.

    log_error:       [n] ln of the Bayes error of guessing between the two texts.
    delta:           [n, levels] delta at LEVELS, the mean of both directions.
    larger_delta:    [n, levels] the upper value of delta in the direction where it is larger.
    pure:            [n] the largest loss of any output in nats, in either direction; None if it was not computed.
    delta_at_claim:  [n] delta at the claim in the larger direction; 1 where nothing is claimed. None if it was not
                     computed.
    method:          "exact", "importance" or "at least".
    """

    log_error: Bracket[Array]
    delta: Bracket[Array]
    larger_delta: Array
    pure: Array | None = None
    delta_at_claim: Bracket[Array] | None = None
    method: str = "exact"

    def room(self, claims: Array, delta: float) -> Array | None:
        """Return [n] the slack of a claim at each pair beyond all rounding: negative where the claim is violated.

        Without a delta it is in nats, of the pure losses, since an output that one text alone can give violates such a
        claim however rare it is; otherwise it is a probability, of delta at the claim. Infinite where nothing is
        claimed; None where neither was computed. claims: [n] in nats; delta: that of the claim.
        """
        covered = np.isfinite(claims)
        if not delta and self.pure is not None:
            claimed = np.where(covered, claims, 0.0)
            left = claimed - self.pure + rounding(claimed)
        elif self.delta_at_claim is not None:
            left = delta - self.delta_at_claim.low * (1 - 1e-9)
        else:
            return None
        return np.where(covered, left, math.inf)


def joined(parts: Sequence[PairLosses], order: NDArray[np.integer]) -> PairLosses:
    """Return the losses of pairs that were compared in parts, in order: pair i is number order[i] of all parts."""

    def whole(arrays: Sequence[Array]) -> Array:
        return np.concatenate(arrays)[order]

    def brackets(each: Sequence[Bracket[Array]]) -> Bracket[Array]:
        return Bracket(whole([bracket.low for bracket in each]), whole([bracket.high for bracket in each]))

    pure = [part.pure for part in parts if part.pure is not None]
    at_claim = [part.delta_at_claim for part in parts if part.delta_at_claim is not None]
    return PairLosses(
        log_error=brackets([part.log_error for part in parts]),
        delta=brackets([part.delta for part in parts]),
        larger_delta=whole([part.larger_delta for part in parts]),
        pure=whole(pure) if pure else None,
        delta_at_claim=brackets(at_claim) if at_claim else None,
        method=parts[0].method,
    )
