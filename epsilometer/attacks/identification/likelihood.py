"""The likelihood attack: the optimal adversary, argmax over the candidates of how likely the output is under each.

With a uniformly drawn source, guessing the candidate x of the largest P(y | x) succeeds most often of all adversaries
that see the mechanism's output (Neyman and Pearson for k = 2, Bayes for any k). It looks at what the mechanism's law
describes: the privatised units, the latents after the noise, or what a provider gets too. Where nobody releases that,
it bounds what an adversary with the text alone can do. A text may show more of its source than the units do, such as
its layout or a word that is let through (`mechanism.Writes`): a candidate whose text would have read otherwise with the
same units has likelihood 0. Word-by-word mechanisms keep the number of units, so candidates of another length have
likelihood 0 too: a leak at any epsilon that no claim of such a mechanism covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.attack import ByScore, Context
from epsilometer.core.component import component
from epsilometer.core.laws import log_likelihood
from epsilometer.core.mechanism import HasLaws, HasLikelihood, Mechanism, Rewrites, Writes, law_of


@component
class LikelihoodAttack(ByScore):
    """Applies to mechanisms whose law can be computed."""

    def applies(self, mechanism: Mechanism | None) -> bool:
        """Whether the mechanism offers its law, or the likelihood of its outputs."""
        # Where a setting rules it out, a mechanism has None in the method's place.
        return any(callable(getattr(mechanism, power, None)) for power in ("laws", "log_likelihoods"))

    def sees(self, mechanism: Mechanism | None) -> str:
        """What the mechanism's law describes."""
        return law_of(mechanism)

    def score_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> list[NDArray[np.float64]]:
        """All epsilons at once: what a law needs beyond epsilon (a forward pass) is computed once."""
        mechanism: object = contexts[0].mechanism
        texts, epsilons = contexts[0].texts, [context.epsilon for context in contexts]
        if isinstance(mechanism, HasLikelihood):
            return mechanism.log_likelihoods(texts, candidates, rewrites, epsilons)
        return _by_laws(cast(HasLaws, mechanism), texts, candidates, rewrites, epsilons=epsilons)


def _by_laws(
    mechanism: HasLaws,
    texts: Sequence[str],
    candidates: NDArray[np.integer],
    rewrites: Sequence[Rewrites],
    epsilons: Sequence[float],
) -> list[NDArray[np.float64]]:
    """Returns [n, k] an epsilon: the sum over units, drawn independently of each other."""
    units = [made.units for made in rewrites if made.units is not None]
    if len(units) < len(rewrites):
        raise TypeError("the likelihood attack needs the privatised units of every rewrite")
    laws = mechanism.laws(texts)
    fits = laws.rows.lengths[candidates] == units[0].lengths[:, None]
    # Where one candidate alone has the right length, no law is needed to name it.
    trial, slot = np.nonzero(fits & (fits.sum(axis=1, keepdims=True) > 1))
    scores = []
    for likelihood in log_likelihood(laws, candidates[trial, slot], [u.take(trial) for u in units], epsilons):
        score = np.where(fits, 0.0, -np.inf)
        score[trial, slot] = likelihood
        scores.append(score)
    if isinstance(mechanism, Writes):
        for score, made in zip(scores, rewrites, strict=True):
            _rule_out(mechanism, texts, candidates, made, score=score)
    return scores


def _rule_out(
    mechanism: Writes,
    texts: Sequence[str],
    candidates: NDArray[np.integer],
    rewrites: Rewrites,
    score: NDArray[np.float64],
) -> None:
    """Set scores [n, k] to minus infinity, in place, where the candidate's text would have been another."""
    assert rewrites.units is not None
    for slot in range(candidates.shape[1]):
        rows = np.flatnonzero(np.isfinite(score[:, slot]))
        written = mechanism.write([texts[i] for i in candidates[rows, slot]], rewrites.units.take(rows))
        differs = np.array([rewrites.texts[int(row)] != text for row, text in zip(rows, written, strict=True)], bool)
        score[rows[differs], slot] = -np.inf
