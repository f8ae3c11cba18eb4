"""A batch of distinct texts under the operating system's noise, beside the trials: does a mechanism notice an audit?

An audit rewrites the same texts again and again, under seeded noise; a release rewrites each text once. A mechanism
that protects only where a text repeats, or where the noise has a seed, passes every other test. So some trials, the
first of each text, are run again as one batch of distinct texts under the operating system's noise. If the mechanism
treats both alike, each attack is as often right in the one run as in the other (McNemar's exact test).

What depends on something else, such as the day or the number of texts rewritten so far, no audit of a black box sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from epsilometer.auditing.results.comparison import compare, least_difference
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.trials.sampling import Trials
from epsilometer.core.attack import Attack, Guesses
from epsilometer.core.randomness import Noise
from epsilometer.game.play import Knowledge, play

MOST = 200  # texts of the batch
_FALSE_ALARM = 0.001  # over all attacks
UNSEEN = (
    "A mechanism that leaks only on some days, only after many texts, or only to callers that it knows is not found by "
    "any audit of a black box."
)


@dataclass(frozen=True)
class Noticed:
    """attack: the one whose success differs most. trials, distinct: its shares of right guesses in both runs.

    texts: how many were run again. p_value: over all attacks (Bonferroni). least: the smallest difference that would
    have been found with probability .9.
    """

    attack: str
    texts: int
    trials: float
    distinct: float
    p_value: float
    least: float

    @property
    def differs(self) -> bool:
        """Whether the runs differ; a mechanism that treats both alike is called so with probability .001 at most."""
        return self.p_value <= _FALSE_ALARM

    def said(self) -> str:
        """One sentence, with the smallest difference that would have been found."""
        rates = f"{self.attack} is right in {self.distinct:.0%} of them and in {self.trials:.0%} of the same trials"
        if self.differs:
            return (
                f"a batch of {self.texts} distinct texts under the operating system's noise is rewritten otherwise "
                f"than the trials: {rates} (p = {self.p_value:.1g}). The mechanism can tell an audit from a release, "
                "so no figure here describes a release"
            )
        return (
            f"a batch of {self.texts} distinct texts under the operating system's noise shows no difference from the "
            f"trials: {rates}; a difference of {self.least:.2f} would have been found with probability .9"
        )


def batch_of_distinct(trials: Trials) -> np.ndarray:
    """Return the first trial of each text that was rewritten, at most MOST, in the order of trials."""
    return np.sort(np.unique(trials.source, return_index=True)[1])[:MOST]


def noticed(
    knowledge: Knowledge, trials: Trials, epsilon: float, attacks: Mapping[str, Attack], guesses: Mapping[str, Guesses]
) -> Noticed | None:
    """Return whether the mechanism treats distinct texts otherwise than the trials; None without a mechanism.

    knowledge: of the trials, without tables of likelihoods. guesses: of the trials at this epsilon, by attack.
    """
    if knowledge.mechanism is None:
        return None
    rows = batch_of_distinct(trials)
    noise = Noise.operating_system(len(rows))
    (rewrites,) = rewrite_all(knowledge.mechanism, Job(knowledge.texts, trials.source[rows], [epsilon], [noise]))
    again = Knowledge(
        knowledge.texts,
        trials.candidates[rows],
        knowledge.mechanism,
        embedded=knowledge.embedded,
        prior=knowledge.prior,
        public=knowledge.public,
    )
    played = play(again, {epsilon: rewrites}, attacks, lambda *_: Noise.operating_system(len(rows)))[epsilon]
    target = trials.target[rows]
    compared = {
        name: compare(guesses[name].slots[rows] == target, guess.slots == target) for name, guess in played.items()
    }
    name, found_most = min(compared.items(), key=lambda item: item[1].p_value)
    level = _FALSE_ALARM / len(compared)
    return Noticed(
        attack=name,
        texts=len(rows),
        trials=float((guesses[name].slots[rows] == target).mean()),
        distinct=float((played[name].slots == target).mean()),
        p_value=min(1.0, len(compared) * found_most.p_value),
        least=least_difference(found_most, level),
    )
