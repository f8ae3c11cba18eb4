"""The result of checking a claim against its worst case. Losses are in nats."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The result of checking a claim at one privacy budget.

    method:   "exact" (all pairs of all inputs, all outputs), "largest found" (all pairs of a sample of inputs, all
              outputs), "Monte Carlo" (a lower bound from `draws` draws for each input; one half of the draws chooses
              events, the other half tests them), "not checked" (the mechanism lists no inputs, so only an audit can
              test the claim) or "none" (no claim).
    verdict:  violated, not refuted, not testable, not checked, or no claim.
    reason:   why a claim is not testable or not checked, and the remedy; which leaks a check by draws could miss; and
              whether the noise is as claimed. None if there is nothing to say.
    claimed, worst: two losses of one pair of inputs: the loss that the claim allows this pair, and the pair's largest
              loss. The pair is the one with the smallest difference claimed - worst. `worst` is never negative. It is
              infinite if some output is possible under one input of the pair, but not under the other. If the claim has
              a delta, and would be violated at delta 0, the pair is instead the one with the largest delta at the
              claimed loss. `worst` is then the loss of this pair at the claim's delta. If the claim is a curve,
              `claimed` and `worst` are parameters of its kind: rho, a divergence in nats, or mu. Both are None if
              nothing was compared.
    witness:  the inputs x, x' of that pair, and the output y with the pair's largest loss. If outputs were drawn, y may
              be an event in words.
    inputs:   the number of compared inputs.
    bound:    an upper bound on worst - claimed over all pairs of the whole vocabulary, if the law's structure gives
              one.
    testable: the largest claim that this check's draws could refute in the best case, in which the typical outputs of
              one input never occur at another input. None if the law is computed.
    noise_p:  for continuous noise, the p-value of the claimed density (`noise_fit`).
    largest:  the largest loss between any two of the compared inputs, whatever the claim is; a lower bound if outputs
              were drawn.
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
        """claimed - worst, the smallest over all compared pairs; negative if the claim is violated."""
        return None if self.worst is None or self.claimed is None else self.claimed - self.worst
