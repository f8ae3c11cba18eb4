"""The source of a rewrite: an attack names one of k candidate texts (TeDA, arXiv:2603.22968).

A trial is a candidate set and a fresh rewrite of one of its texts. The loss, in nats, follows from the rate of right
guesses (TeDA eq. 10). An upper bound covers only the attacks that ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from epsilometer.auditing.calibration.search import Guessed, fresh_guesses
from epsilometer.auditing.evidence.evidence import By, Confident, Covers, Evidence, Hits
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.external import audit_recorded
from epsilometer.auditing.gate_statistics import Errors, fewest_rewrites
from epsilometer.auditing.limits.average_law import average_by_law
from epsilometer.auditing.question import Gives, Need, Observed, Table, TableRequest
from epsilometer.auditing.results.losses import SHORT
from epsilometer.auditing.schemas import AUDIT
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.text_audit import audit
from epsilometer.core.component import component
from epsilometer.core.errors import UserError


@component
class WhichText:
    """No settings: the attacks are those of the audit."""

    needs: ClassVar[frozenset[Need]] = frozenset()
    gives: ClassVar[frozenset[Gives]] = frozenset({Gives.LOW, Gives.HIGH, Gives.OUTCOMES, Gives.MORE})
    columns: ClassVar[Sequence[str]] = ()
    usual: ClassVar[int] = 2000
    learns: ClassVar[bool] = False

    def limit(self, of: Subject, allowed: float) -> Limit:
        """Return a limit on the loss of each attack, in nats."""
        if not allowed > 0:
            raise UserError(f"the limit of which_text, in nats, must be > 0, got {allowed}", "EPS-Q040")
        return Limit(allowed, Scale.loss(of.design.k), "the largest loss allowed")

    def tests(self, of: Subject) -> Sequence[str]:
        """Return the names of the attacks."""
        return list(of.attacks)

    def amount(self, of: Subject, limit: Limit, budget: int, tests: int, *, errors: Errors) -> int:
        """Return twice the fewest trials that show the limit is kept if attacks guess at chance; at most the budget."""
        if not 0 < limit.rate < 1:
            raise UserError(
                f"no success rate can exceed a loss of {limit.allowed:g} nats; give a lower limit", "EPS-Q041"
            )
        fewest = fewest_rewrites(limit.allowed, of.design.k, errors)
        return budget if fewest is None else min(2 * fewest, budget)

    def observe(self, of: Subject, count: int) -> Sequence[Observed]:
        """Return the evidence of each attack in this number of trials."""
        guesses = fresh_guesses(
            of.pool, of.mechanism, of.attacks, of.design, stream="which text", tally=of.tally, paired=True
        )
        every = guesses(of.epsilon, 0, count, range(len(of.attacks)))
        observed = []
        for name, each in zip(of.attacks, every, strict=True):
            hits = Hits(int(np.count_nonzero(each.right)), count)
            evidence = Evidence(name, By.ATTACK, Scale.loss(of.design.k), hits, covers=Covers.THESE)
            observed.append(Observed(evidence, each.right.astype(np.float64), outcomes_of_texts(of, each)))
        return observed

    def by_law(self, of: Subject, limit: Limit, budget: int, *, errors: Errors) -> tuple[Observed | None, str | None]:
        """Return the law's evidence if it proves the limit kept by every adversary. Gates do not use this evidence."""
        return average_by_law(of, limit, budget, ("all_low", "all_high"), errors=errors)

    def learn(self, of: Subject, guessed: Sequence[Guessed]) -> Sequence[None]:
        """Return None for each attack, since right guesses are counted without thresholds."""
        return [None] * len(guessed)

    def count(self, learnt: Sequence[None], guessed: Sequence[Guessed]) -> Sequence[Hits | Confident]:
        """Return the number of right guesses of each attack."""
        return [Hits(int(np.count_nonzero(each.right)), len(each.right)) for each in guessed]

    def table(self, request: TableRequest) -> Table:
        """Return the table of `epsilometer.audit`, or of `audit_recorded` for recorded rewrites."""
        if request.rewrites is None:
            return request.measured(audit, self.usual, AUDIT, SHORT)
        columns = request.shown(AUDIT, SHORT)
        return Table.of(audit_recorded(request.rewrites, request.attacks, request.trials, request.design), columns)


def outcomes_of_texts(of: Subject, guessed: Guessed) -> list[tuple[str, bool]]:
    """Return, for each trial, the source text and True if the attack guessed it."""
    texts = (of.pool.texts[i] for i in guessed.source.tolist())
    return list(zip(texts, guessed.right.tolist(), strict=True))
