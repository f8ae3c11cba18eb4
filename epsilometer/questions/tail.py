"""The tail: the delta at 4 nats that an attack's most confident guesses prove. An average loss hides this delta.

Trials are those of `which_text`. Separate trials choose the thresholds of the attack's score (`estimation/tail.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.calibration.search import Guessed, fresh_guesses
from epsilometer.auditing.estimation.tail import Scored, fewest_without, threshold, thresholds
from epsilometer.auditing.evidence.evidence import By, Confident, Covers, Evidence, Hits, Sure
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.gate_statistics import Errors
from epsilometer.auditing.limits.average_law import average_by_law
from epsilometer.auditing.question import Gives, Need, Observed
from epsilometer.auditing.subject import Subject
from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.questions.which_text import outcomes_of_texts

LEARNING = 1000  # number of trials that choose the thresholds, at most half of the budget


@component
class Tail:
    """No settings: the attacks are those of the audit."""

    needs: ClassVar[frozenset[Need]] = frozenset()
    gives: ClassVar[frozenset[Gives]] = frozenset({Gives.LOW, Gives.HIGH, Gives.MORE})
    columns: ClassVar[Sequence[str]] = ()
    usual: ClassVar[int] = 4000
    learns: ClassVar[bool] = True

    def limit(self, of: Subject, allowed: float) -> Limit:
        """Return a limit on the delta at 4 nats that each attack's most confident guesses prove."""
        if not 0 < allowed < 1:
            raise UserError(f"the limit of tail, a probability, must be in (0, 1), got {allowed}", "EPS-Q039")
        return Limit(allowed, Scale.tail(of.design.k), "the largest delta at 4 nats allowed")

    def tests(self, of: Subject) -> Sequence[str]:
        """Return a name for each attack."""
        return [f"{name}, tail" for name in of.attacks]

    def amount(self, of: Subject, limit: Limit, budget: int, tests: int, *, errors: Errors) -> int:
        """Return twice the fewest trials that show the limit is kept if no guess is right; at most the budget."""
        return min(2 * fewest_without(limit.allowed, min(1.0, errors.beta)), budget)

    def observe(self, of: Subject, count: int) -> Sequence[Observed]:
        """Return the evidence of each attack in this number of trials; up to half of them determine thresholds."""
        learning = min(LEARNING, count // 2)
        guesses = fresh_guesses(of.pool, of.mechanism, of.attacks, of.design, stream="tail", tally=of.tally)
        learnt = self.learn(of, guesses(of.epsilon, 0, learning, range(len(of.attacks))))
        every = guesses(of.epsilon, learning, count - learning, range(len(of.attacks)))
        scale = Scale.tail(of.design.k)
        return [
            Observed(Evidence(name, By.ATTACK, scale, data, covers=Covers.THESE), of_texts=outcomes_of_texts(of, each))
            for name, data, each in zip(self.tests(of), self.count(learnt, every), every, strict=True)
        ]

    def by_law(self, of: Subject, limit: Limit, budget: int, *, errors: Errors) -> tuple[Observed | None, str | None]:
        """Return the law's evidence if it proves the limit kept by every adversary. Gates do not use this evidence."""
        return average_by_law(of, limit, budget, ("all_delta_at_4_low", "all_delta_at_4"), errors=errors)

    def learn(self, of: Subject, guessed: Sequence[Guessed]) -> Sequence[Learnt]:
        """Return the thresholds of each attack."""
        scored = [Scored(each.right, each.guesses.scores) for each in guessed]
        return [Learnt(threshold(each, of.design.k, of.design.alpha)[0], thresholds(each)) for each in scored]

    def count(self, learnt: Sequence[Learnt], guessed: Sequence[Guessed]) -> Sequence[Hits | Confident]:
        """Return the counts of confident guesses of each attack."""
        scored = [Scored(each.right, each.guesses.scores) for each in guessed]
        return [of_attack.count(each) for of_attack, each in zip(learnt, scored, strict=True)]


@dataclass(frozen=True)
class Learnt:
    """Thresholds of an attack's score: `best`, beyond which guesses prove the largest delta, and a grid."""

    best: float
    grid: NDArray[np.floating]

    def count(self, scored: Scored) -> Confident:
        """Return the counts of guesses beyond the best threshold, and in each interval of the grid."""
        intervals = scored.between(self.grid).T.tolist()
        between = [Sure(hits, misses) for hits, misses in intervals]
        return Confident(Sure(*scored.beyond(self.best)), between, len(scored.right))
