"""The likelihood attack: guesses the candidate x with the largest likelihood P(y | x) of the output y.

If sources are uniformly random, no adversary that sees the same output has a higher expected success (Neyman and
Pearson for k = 2, Bayes for any k). The adversary sees the output that the mechanism's law describes: the privatised
units, the latents after the noise, or a provider's view. If this output is not released, the attack's success is an
upper bound for adversaries that see only the text.

A rewritten text may reveal more about its source than the units do, such as the source's layout or a word that passes
unchanged (`mechanism.Writes`). So for each candidate, the text is written again from the observed units. If that text
differs from the observed rewrite, the candidate has likelihood 0. Word-by-word mechanisms preserve the number of units,
so candidates with another number of units have likelihood 0, too. The number of units leaks at every epsilon, and the
claims of word-by-word mechanisms do not cover this leak.
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
        """Return True if the mechanism states its law, or the likelihood of its outputs."""
        return has_law(mechanism)

    def sees(self, mechanism: Mechanism | None) -> str:
        """Return the view that the mechanism's law describes."""
        return law_of(mechanism)

    def score_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> Sequence[Table]:
        """Score all epsilons at once. Work that does not depend on epsilon, such as a forward pass, is done once."""
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
    """Raise LawError if every rewrite is impossible under all its candidates; else guesses would be random."""
    for table, epsilon in zip(tables, epsilons, strict=True):
        if len(table) and np.isneginf(table.rows if isinstance(table, ByCase) else table).all():
            raise LawError(
                f"all {len(table)} rewrites{at_budget(epsilon)} have probability 0 under the stated output "
                "distribution, for each of their candidates; correct the law so that it describes `rewrite`",
                "EPS-A004",
            )
    return tables
