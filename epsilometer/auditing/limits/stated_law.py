"""A test of a mechanism's stated law by rewrites. Only a law that passes may prove that a limit is kept.

A fair coin chooses one text of each pair to rewrite, and attacks guess which of the two texts was rewritten. If the
sampler follows the law,

- an attack's hits are independent, and the probability of a hit is the posterior of its guess
  (`posteriors.departure`). Attacks may read the released text instead, because the text reveals no more than the view
  that the law describes;
- the number of an attack's hits has lighter tails than a binomial at the rate that the loss allows (Hoeffding 1956);
- units are drawn from their laws (`claims.law_fit`).

So if the sampler follows the law, the p-value is at most x with probability at most x, for any x.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from epsilometer.auditing.claims.law_fit import law_fit
from epsilometer.auditing.estimation.posteriors import departure
from epsilometer.auditing.estimation.successes import success_bound
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.text_audit import chosen_attacks
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.core.likelihood import computed
from epsilometer.core.randomness import Noise
from epsilometer.game.play import Knowledge, play

_ATTACKS = ("likelihood", "lexical", "length")


def law_p_value(of: Subject, texts: Sequence[str], pairs: NDArray[np.integer], loss: float) -> float | None:
    """Return the p-value of rewrites under the stated law: m times the smallest of m p-values.

    pairs: [n, 2], indices of texts; one text of each pair is rewritten. loss: the largest average loss over these pairs
    under the law, in nats. Returns None if the mechanism cannot compute the probabilities of its outputs, or if its
    rewrites lack the units or latents that the law describes.
    """
    used, places = np.unique(pairs, return_inverse=True)
    texts, pairs = [texts[i] for i in used.tolist()], places.reshape(-1, 2)
    count, name = len(pairs), (of.design.seed, "gate", "stated law", of.epsilon)
    target = (Noise.named(count, *name, "source").uniforms(1)[:, 0] < 0.5).astype(np.int64)
    source = pairs[np.arange(count), target]
    job = Job(texts, source, [of.epsilon], [Noise.named(count, *name, "rewrite")], tally=of.tally)
    rewrites = rewrite_all(of.mechanism, job, paced=True)
    (table,) = computed(of.mechanism, texts, pairs, rewrites, epsilons=[of.epsilon])
    if table is None:
        return None
    played = play(
        Knowledge(texts, pairs, of.mechanism, likelihoods=[table]),
        {of.epsilon: rewrites[0]},
        chosen_attacks(_ATTACKS),
        lambda attack, _: Noise.named(count, *name, "attack", attack),
    )
    p_values = [p for p in law_fit(of.mechanism, texts, source, rewrites, epsilons=[of.epsilon]) if p is not None]
    for guess in played[of.epsilon].values():
        hits = int(np.count_nonzero(guess.slots == target))
        assert guess.posteriors is not None, "likelihoods give posteriors"
        p_values += [departure(hits, guess.posteriors), float(binom.sf(hits - 1, count, success_bound(loss, 2)))]
    return min(1.0, len(p_values) * min(p_values))
