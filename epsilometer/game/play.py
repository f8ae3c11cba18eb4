"""The game of an audit: adversaries see rewrites and their candidates, and guess the sources.

Every audit, gate, search and comparison draws its own trials, rewrites them, and calls `play`. The caller names the
random streams, so a guess depends only on the trial, the attack and the stream's name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.attack import Attack, Context, Embedded, Guesses, Queries, applies, guesses_of
from epsilometer.core.cases import Table
from epsilometer.core.mechanism import Mechanism, Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.models.spending import Dry

Streams = Callable[[str, float], Noise]
"""Maps an attack's name and an epsilon to the random streams that break the attack's ties, one stream per trial."""


@dataclass(frozen=True)
class Knowledge:
    """Background knowledge of the adversaries in n trials, the same at every epsilon.

    texts: the audited texts. candidates: int [n, k], indices of texts. mechanism, embedded, prior and public: as in
    `core.attack.Context`. likelihoods: one table of `core.likelihood.computed` per epsilon. Without a table, no attack
    gets computed likelihoods, and guesses have no posteriors.
    """

    texts: Sequence[str]
    candidates: NDArray[np.integer]
    mechanism: Mechanism | None
    embedded: Embedded | None = None
    likelihoods: Sequence[Table | None] | None = None
    prior: Sequence[float] | None = None
    public: bool = False


def asking(attacks: Mapping[str, Attack], mechanism: Mechanism | None) -> dict[str, Queries]:
    """Return the attacks with query access that apply to the mechanism."""
    return {
        name: attack for name, attack in attacks.items() if isinstance(attack, Queries) and applies(attack, mechanism)
    }


def queried(
    attacks: Mapping[str, Attack], mechanism: Mechanism | None, texts: Sequence[str], candidates: NDArray[np.integer]
) -> Counter[str]:
    """Return the number of rewrites of each text that attacks with query access request at each epsilon."""
    return Counter(text for attack in asking(attacks, mechanism).values() for text in attack.queries(texts, candidates))


@contextmanager
def with_queries(
    attacks: Mapping[str, Attack],
    mechanism: Mechanism,
    texts: Sequence[str],
    candidates: NDArray[np.integer],
    *,
    epsilons: Sequence[float],
) -> Iterator[None]:
    """Add the requests of attacks with query access to a dry run's forecast (`Dry`) that the body raises."""
    try:
        yield
    except Dry as dry:
        for attack in asking(attacks, mechanism).values():
            dry = dry.then(partial(attack.ask, mechanism, texts, candidates, epsilons))
        raise dry from None


def play(
    knowledge: Knowledge, outputs: Mapping[float, Rewrites], attacks: Mapping[str, Attack], streams: Streams
) -> dict[float, dict[str, Guesses]]:
    """Return every attack's guesses, by epsilon and then by the attack's name.

    outputs: the rewrites of the same n trials at each epsilon; the epsilons have the order of `knowledge.likelihoods`.
    attacks: the attacks by name; every attack must apply to the mechanism. Each attack gets all epsilons in one call,
    so work that does not depend on epsilon is done once. Raises UserError for a guess that is not a candidate's slot (0
    to k - 1).
    """
    tables = dict(zip(outputs, knowledge.likelihoods or [None] * len(outputs), strict=True))

    def context(name: str, epsilon: float) -> Context:
        return Context(
            knowledge.texts,
            knowledge.mechanism,
            epsilon,
            streams(name, epsilon),
            embedded=knowledge.embedded,
            public=knowledge.public,
            log_likelihoods=tables[epsilon],
            prior=knowledge.prior,
        )

    played: dict[float, dict[str, Guesses]] = {epsilon: {} for epsilon in outputs}
    for name, by_epsilon in guesses_of(attacks, outputs, knowledge.candidates, context):
        for epsilon, guesses in zip(outputs, by_epsilon, strict=True):
            played[epsilon][name] = guesses
    return played
