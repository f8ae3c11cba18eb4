"""The likelihood attack: the optimal adversary, argmax over the candidates of the likelihood of the output.

With a uniformly drawn source, guessing the candidate x of the largest P(y | x) succeeds most often of all adversaries
that see the mechanism's output (Neyman and Pearson for k = 2, Bayes for any k). It sees what the mechanism's law
describes: the privatised units, the latents after the noise, or also the view of a provider. If these are not released,
it bounds the success of an adversary with the text alone. A text may show more of its source than the units do, such as
its layout or a word that passes unchanged (`mechanism.Writes`): a candidate whose text would differ for the same units
has likelihood 0. Word-by-word mechanisms keep the number of units, so candidates of another length have likelihood 0,
too: a leak at any epsilon that no claim of such a mechanism covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.attack import ByScore, Context
from epsilometer.core.cases import ByCase, Table
from epsilometer.core.component import component
from epsilometer.core.errors import LawError
from epsilometer.core.guarantees import at_budget
from epsilometer.core.likelihood import has_law, log_likelihoods
from epsilometer.core.mechanism import Mechanism, Rewrites, law_of


@component
class LikelihoodAttack(ByScore):
    """The likelihood attack, for mechanisms whose law can be computed."""

    takes_cases: ClassVar[bool] = True

    def applies(self, mechanism: Mechanism | None) -> bool:
        """Return whether the mechanism offers its law, or the likelihood of its outputs."""
        return has_law(mechanism)

    def sees(self, mechanism: Mechanism | None) -> str:
        """Return the view that the mechanism's law describes."""
        return law_of(mechanism)

    def score_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> Sequence[Table]:
        """Score all epsilons at once: work that does not depend on epsilon (a forward pass) is done once or cached."""
        tables = [context.log_likelihoods for context in contexts]
        epsilons = [context.epsilon for context in contexts]
        if all(table is not None for table in tables):
            return _checked(cast(Sequence[Table], tables), epsilons)
        mechanism, texts = cast(Mechanism, contexts[0].mechanism), contexts[0].texts
        scores = log_likelihoods(mechanism, texts, candidates, rewrites, epsilons=epsilons)
        _checked(scores, epsilons)
        prior = contexts[0].prior
        return scores if prior is None else [score + np.log(prior) for score in scores]  # Bayes


def _checked(tables: Sequence[Table], epsilons: Sequence[float]) -> Sequence[Table]:
    """Raise LawError if every rewrite is impossible under each of its candidates: guesses would be random."""
    for table, epsilon in zip(tables, epsilons, strict=True):
        if len(table) and np.isneginf(table.rows if isinstance(table, ByCase) else table).all():
            raise LawError(
                f"all {len(table)} rewrites{at_budget(epsilon)} have probability 0 under the stated output "
                "distribution, for each of their candidates; make the law that of `rewrite`",
                "EPS-A004",
            )
    return tables
