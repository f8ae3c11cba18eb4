"""The input and output of every method for exact losses: a request about pairs of texts, and their losses."""

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

# The levels, in nats, at which delta is computed. They are dense where delta determines the risk among k texts.
LEVELS = np.unique(np.concatenate([np.arange(0, 2, 0.1), np.arange(2, 16, 0.25), 2.0 ** np.arange(4, 11, 0.25)]))


@dataclass(frozen=True)
class Effort:
    """The amount of computation.

    width:     the rounding error to allow in a guess loss, in nats each way.
    all_pairs: True to compute the relative epsilon over all pairs of texts, if all pairs can be compared; False to
               compute it over the requested pairs only. All pairs are always compared if that takes only tenths of a
               second.
    draws:     the largest number of draws, for mean losses that are estimated from draws.
    """

    width: float = 0.02
    all_pairs: bool = True
    draws: int = 6400


FULL = Effort()


@dataclass(frozen=True)
class Crew:
    """The engine that compares the pairs. It does not affect results.

    build: a picklable function with which workers build the mechanism; None if pairs are compared in this process.
    """

    engine: Engine = HERE
    build: Callable[[], Mechanism] | None = None


ALONE = Crew()


@dataclass(frozen=True)
class Request:
    """Pairs of texts whose losses are requested at every budget.

    pairs:   int64 [n, 2], indices of texts.
    claims:  for each budget the claimed losses [n] of the pairs in nats, infinite without a claim.
    width:   the rounding error to allow in a guess loss, in nats each way.
    crew:    the engine that compares the pairs, if units have laws.
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
    larger_delta:    [n, levels] an upper bound of the larger of both directions' deltas.
    pure:            [n] the largest loss of any output in nats, in either direction; None if it was not computed.
    delta_at_claim:  [n] delta at the claimed loss, the larger of both directions; 1 without a claim. None if it was not
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
        """Return the slack of a claim at each pair [n], after rounding errors; it is negative if the claim is violated.

        If the claim's delta is 0, the slack is the claimed loss minus the pure loss, in nats. Otherwise, or without
        pure losses, the slack is the claim's delta minus delta at the claimed loss. The slack is infinite for pairs
        without a claim. Returns None if the required losses were not computed. claims: [n] in nats. delta: the delta of
        the claim.
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
    """Join the losses of pairs that were compared in parts. order: [n], the place of pair i among all parts."""

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
