"""The result of checking a claim against its worst case. Losses are in nats."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The result of checking a claim at one privacy budget.

    method:   "exact" (all pairs of `inputs`, all outputs), "largest found" (all pairs of a sample of `inputs`, all
              outputs), "Monte Carlo" (a lower bound from `draws` draws for each of `inputs`, on events that half of
              them chose), "not checked" (a mechanism that lists no inputs can only be audited) or "none" (no claim).
    verdict:  violated, not refuted, not testable, not checked, or no claim.
    reason:   why a claim is not testable or not checked and what to do about it, what a check by draws could not see,
              and whether the noise is as claimed; or None.
    worst:    the loss of the witness, at least 0; infinite where an output is possible under one input only. With a
              delta, where the law does not meet the claim without it: the loss at this delta of the pair whose delta is
              largest at the claimed loss. claimed: the claimed loss of its pair. The witness has the least difference
              of the two. None where nothing was compared. For a claim that is a curve both are numbers of its kind:
              rho, a divergence in nats, or mu.
    witness:  the inputs x, x' and the output y; from draws y may be an event, in words.
    bound:    an upper bound on the excess over the claim of any pair of the whole vocabulary, where the structure of
              the law gives one.
    testable: the largest claim that this number of draws could refute, if the most frequent output at one input never
              came at the other; None where the law is computed.
    noise_p:  for continuous noise, the probability that noise of the claimed density fits no better (`noise_fit`).
    largest:  the largest loss between any two of the compared inputs, whatever is claimed for them; from draws a lower
              bound.
    """

    epsilon: float
    method: str
    verdict: str
    reason: str | None = None
    claimed: float | None = None
    worst: float | None = None
    witness: tuple[str, str, str] | None = None
    inputs: int = 0
    draws: int | None = None
    bound: float | None = None
    testable: float | None = None
    noise_p: float | None = None
    largest: float | None = None

    @property
    def slack(self) -> float | None:
        """claimed - worst, the least over all compared pairs: negative where the claim is violated."""
        return None if self.worst is None or self.claimed is None else self.claimed - self.worst
