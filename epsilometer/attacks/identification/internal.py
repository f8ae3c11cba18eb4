"""TeDA's internal embedding attack: guesses the candidate whose latent has the largest cosine with the noisy latent.

The attack is equation 3 of TeDA. The adversary sees the mechanism's latent after the noise, not only the text decoded
from that latent. The cosine ignores the noise's distribution. The attack `likelihood` uses this distribution, and is
optimal: no attack on the latent has a higher expected success.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.attack import ByScore, Context
from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.latents import latents_after, slices
from epsilometer.core.mechanism import LATENTS, HasLatents, Mechanism, Rewrites


@component
class InternalAttack(ByScore):
    """The internal embedding attack, for mechanisms that encode a text as one vector."""

    def applies(self, mechanism: Mechanism | None) -> bool:
        """Return True if the mechanism encodes a text as one latent vector."""
        return isinstance(mechanism, HasLatents)

    def sees(self, mechanism: Mechanism | None) -> str:
        """Return the view that the attack uses: the latents after the noise."""
        return LATENTS

    def score_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> list[NDArray[np.float64]]:
        """Score all epsilons at once. The candidates' texts are encoded once."""
        mechanism: object = contexts[0].mechanism
        if not isinstance(mechanism, HasLatents):
            raise UserError(
                "the internal attack needs latents, which this mechanism does not have; use a mechanism such as adept "
                "or dp_bart",
                "EPS-A001",
            )
        latents = mechanism.encode(contexts[0].texts)
        afters = [latents_after(output, latents.shape[1]) for output in rewrites]
        scores = [np.empty(candidates.shape) for _ in rewrites]
        for part in slices(len(candidates), candidates.shape[1] * latents.shape[1]):
            before = latents[candidates[part]]
            lengths = np.maximum(np.linalg.norm(before, axis=2), 1e-30)
            for score, after in zip(scores, afters, strict=True):
                noisy = np.asarray(after[part], np.float64)
                noisy /= np.maximum(np.linalg.norm(noisy, axis=1, keepdims=True), 1e-30)
                score[part] = np.einsum("nkd,nd->nk", before, noisy) / lengths
        return scores
