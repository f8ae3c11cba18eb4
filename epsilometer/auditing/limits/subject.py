"""The subject of a gate, and its limits other than those on attack loss."""

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
    """The subject of a gate: a mechanism at one epsilon (NO_BUDGET for one without), among texts, with attacks.

    identified: the same texts with the identifiers that their file records; None where no record is known.
    tally: counts all judged rewrites.
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
    """A limit that is judged once, on a number of rewrites that is fixed beforehand."""

    @property
    def tests(self) -> int:
        """The number of its limits, which share alpha with all others."""
        ...

    def judge(self, of: Subject, budget: int, *, tests: int, errors: Errors) -> tuple[list[Judged], int]:
        """Return the results, within this budget of rewrites, and the rewrites spent; tests: the number of all limits.

        Raises UserError where no number of rewrites within the budget, or of the texts, could show the limit kept.
        """
        ...
