"""What a gate judges, and what else than the losses of attacks it may limit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from epsilometer.auditing.gate_statistics import Errors, Judged
from epsilometer.auditing.identifiers.surviving import Identified
from epsilometer.auditing.text_audit import Pool
from epsilometer.auditing.trials.answers import Tally
from epsilometer.auditing.trials.design import Design
from epsilometer.core.mechanism import Mechanism


@dataclass(frozen=True)
class Subject:
    """What is judged: a mechanism at one epsilon (NO_BUDGET for one without), among texts, by attacks.

    identified: the same texts with the identifiers that their file records; None where it is not known to record any.
    tally: counts all rewrites that are judged.
    """

    name: str
    mechanism: Mechanism
    epsilon: float
    pool: Pool
    attacks: Mapping[str, Any]
    design: Design
    identified: Identified | None = None
    tally: Tally = field(default_factory=Tally, compare=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the texts."""
        return hashlib.sha256("\n".join(self.pool.texts).encode()).hexdigest()


class Counted(Protocol):
    """Something that is limited and judged once, of rewrites whose number is fixed beforehand."""

    @property
    def tests(self) -> int:
        """How many limits it has: they share alpha with all others."""
        ...

    def judge(self, of: Subject, budget: int, *, tests: int, errors: Errors) -> tuple[list[Judged], int]:
        """What is judged, by so many rewrites at most, and how many that took; tests: limits in all that is judged.

        Raises UserError where no number of rewrites within the budget, or of the texts, could show the limit kept.
        """
        ...
