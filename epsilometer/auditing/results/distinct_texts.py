"""A check that a mechanism behaves the same in an audit and in a release: some trials are rerun as in a release.

An audit rewrites the same texts many times, under seeded noise; a release rewrites each text once. A mechanism that
protects texts only if they repeat, or only if the noise has a seed, would pass every other test. So some trials are run
again in batches of distinct texts under the operating system's noise. If the mechanism treats both runs alike, each
attack has the same success rate in both runs. McNemar's exact test compares the two rates.

An audit of a black box cannot detect other dependences, such as on the day or on the number of texts rewritten so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.results.comparison import compare
from epsilometer.auditing.results.detectable import least_difference
from epsilometer.auditing.trials.rewriting import Job, joined, rewrite_all
from epsilometer.auditing.trials.sampling import Trials
from epsilometer.core.attack import Attack, Guesses
from epsilometer.core.randomness import Noise
from epsilometer.game.play import Knowledge, play

MOST = 200  # largest number of trials that are run again
_FALSE_ALARM = 0.001  # error probability over all attacks
UNSEEN = (
    "No audit of a black box finds a mechanism that leaks only on some days, only after many texts, or only to "
    "callers that it knows."
)


@dataclass(frozen=True)
class Noticed:
    """The comparison of the audit with the rerun.

    attack: the attack whose success rate differs most between the two runs. trials, distinct: the attack's shares of
    right guesses in the audit and in the rerun. texts: the number of rerun texts. p_value: corrected for the number of
    attacks (Bonferroni). least: the smallest difference that would be detected with probability .9.
    """

    attack: str
    texts: int
    trials: float
    distinct: float
    p_value: float
    least: float

    @property
    def differs(self) -> bool:
        """True if the runs differ; for a mechanism that treats both alike, this has probability at most .001."""
        return self.p_value <= _FALSE_ALARM

    def said(self) -> str:
        """Return one sentence, with the smallest difference that would be detected."""
        rates = (
            f"{self.attack} is right for {self.distinct:.0%} of these texts, and in {self.trials:.0%} of the audit's "
            "trials on them"
        )
        if self.differs:
            return (
                f"batches of distinct texts under the operating system's noise ({self.texts} in all) are rewritten "
                f"differently from the trials: {rates} (p = {self.p_value:.1g}). The mechanism can tell an audit from "
                "a release, so no figure here describes a release"
            )
        return (
            f"batches of distinct texts under the operating system's noise ({self.texts} in all) show no difference "
            f"from the trials: {rates}; a difference of {self.least:.2f} would have been found with probability .9"
        )


def batches(trials: Trials) -> list[NDArray[np.int64]]:
    """Return the indices of at most MOST trials, in batches without a repeated text."""
    order = np.argsort(trials.source, kind="stable")
    source = trials.source[order]
    starts = np.flatnonzero(np.append(True, source[1:] != source[:-1]))
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    first = np.argsort(turn, kind="stable")[:MOST]
    return [first[turn[first] == number] for number in range(int(turn[first].max()) + 1)]


def noticed(
    knowledge: Knowledge,
    trials: Trials,
    epsilon: float,
    attacks: Mapping[str, Attack],
    *,
    guesses: Mapping[str, Guesses],
) -> Noticed:
    """Rerun trials on distinct texts, and compare the attacks' success rates with those in the audit.

    knowledge: the adversary's knowledge in all trials, without tables of likelihoods. guesses: the audit's guesses at
    this epsilon, by attack.
    """
    assert knowledge.mechanism is not None
    parts = batches(trials)
    rows = np.concatenate(parts)
    each = []
    for part in parts:
        job = Job(knowledge.texts, trials.source[part], [epsilon], [Noise.operating_system(len(part))])
        each += rewrite_all(knowledge.mechanism, job)
    rewrites = joined(each)
    again = replace(knowledge, candidates=trials.candidates[rows])
    attacks = {name: attack for name, attack in attacks.items() if name in guesses}
    played = play(again, {epsilon: rewrites}, attacks, lambda *_: Noise.operating_system(len(rows)))[epsilon]
    target = trials.target[rows]
    compared = {
        name: compare(guesses[name].slots[rows] == target, guess.slots == target) for name, guess in played.items()
    }
    name, most = min(compared.items(), key=lambda item: item[1].p_value)
    level = _FALSE_ALARM / len(compared)
    return Noticed(
        attack=name,
        texts=len(rows),
        trials=float((guesses[name].slots[rows] == target).mean()),
        distinct=float((played[name].slots == target).mean()),
        p_value=min(1.0, len(compared) * most.p_value),
        least=least_difference(most, level),
    )
