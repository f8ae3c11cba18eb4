"""The subject of a question: a mechanism at one privacy budget, on texts, with attacks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from epsilometer.auditing.identifiers.surviving import Identified
from epsilometer.auditing.text_audit import Attacks, Named, Pool, applicable, as_mechanism, chosen_attacks, label
from epsilometer.auditing.trials.answers import Tally
from epsilometer.auditing.trials.design import STANDARD, Design, as_installed
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import check_epsilons
from epsilometer.core.mechanism import Mechanism, budgets, check_guarantees


@dataclass(frozen=True)
class Subject:
    """A mechanism at one epsilon (NO_BUDGET without a budget), on texts, with the attacks that apply to the mechanism.

    identified: the same texts with the identifiers that their file records, or None. table: the texts (column `text`)
    with the other columns of their file; None if the texts were given as a list. tally: counts all rewrites.
    """

    name: str
    mechanism: Mechanism
    epsilon: float
    pool: Pool
    attacks: Mapping[str, Any]
    design: Design
    identified: Identified | None = None
    table: pl.DataFrame | None = None
    tally: Tally = field(default_factory=Tally, compare=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the texts."""
        return hashlib.sha256("\n".join(self.pool.texts).encode()).hexdigest()

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the texts' file."""
        return ["text"] if self.table is None else self.table.columns

    def at(self, epsilon: float) -> Subject:
        """Return the same subject at another epsilon, with a new tally."""
        (budget,) = budgets(self.mechanism, [epsilon], "epsilon")
        check_guarantees(self.mechanism, [budget])
        return replace(self, epsilon=float(budget), tally=Tally())

    def seeded(self, seed: int) -> Subject:
        """Return the same subject with other random streams."""
        return replace(self, design=replace(self.design, seed=seed))


def subject(
    texts: Sequence[str] | pl.DataFrame,
    mechanism: Named,
    epsilon: float | None = None,
    attacks: Attacks | None = None,
    settings: Mapping[str, Any] | None = None,
    design: Design | None = None,
) -> Subject:
    """Return a subject; mechanism, epsilon, attacks, settings, design: as in `epsilometer.audit`.

    texts: a list, or a table with a column `text`, the columns that questions read, and the identifiers that its file
    records, if any (`surviving_identifiers`). design: None for the standard design, at the temperature for these
    attacks. Raises UserError if a named attack does not apply to the mechanism.
    """
    identified = Identified.of(texts)
    if epsilon is not None:
        check_epsilons([epsilon])
    built = as_mechanism(mechanism, settings, identified.texts)
    (at,) = budgets(built, None if epsilon is None else [epsilon], "epsilon")
    check_guarantees(built, [at])
    chosen = chosen_attacks(attacks)
    applied = applicable(chosen, built)
    if attacks is not None and (idle := [name for name in chosen if name not in applied]):
        raise UserError(
            f"{', '.join(idle)} cannot attack {label(mechanism)}; leave {'them' if len(idle) > 1 else 'it'} out",
            "EPS-A155",
        )
    design = Design(temperature=temperature_of(attacks)) if design is None else design
    return Subject(
        label(mechanism),
        built,
        float(at),
        pool=Pool(identified.texts),
        attacks=applied,
        design=as_installed(design),
        identified=identified,
        table=texts.unique("text", keep="first", maintain_order=True) if isinstance(texts, pl.DataFrame) else None,
    )


def temperature_of(attacks: Attacks | None) -> float:
    """Return the temperature for these attacks: 0 unless one of them needs embeddings."""
    embeds = attacks is None or any(
        getattr(each, "extra", None) == "models" for each in chosen_attacks(attacks).values()
    )
    return STANDARD.temperature if embeds else 0.0
