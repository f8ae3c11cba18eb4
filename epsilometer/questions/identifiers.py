"""Surviving identifiers: the share that rewrites still contain, by kind and, if planted, by shape (written form).

A trial is a text with one identifier of a kind. The identifiers are those that the texts' file records. If the file
records none, identifiers are planted (`auditing/identifiers`). The count covers every adversary, because reading an
identifier in a rewrite takes no attack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from epsilometer.auditing.evidence.evidence import By, Covers, Evidence, Hits
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.gate_statistics import Errors, enough_texts, fewest_texts
from epsilometer.auditing.identifiers.surviving import (
    PLANTED,
    Group,
    Identified,
    by_group,
    outcomes,
    precision,
    rewritten,
    surviving_identifiers,
)
from epsilometer.auditing.question import Gives, Need, Observed, Table, TableRequest
from epsilometer.auditing.schemas import SURVIVING
from epsilometer.auditing.subject import Subject
from epsilometer.core.component import component
from epsilometer.core.errors import UserError


@component
class Identifiers:
    """kinds: the kinds of identifiers, None for all that are recorded or usually planted (card numbers, social security
    numbers and IP addresses are planted only if named). partly: True to count identifiers that survive in part, too.
    """

    kinds: Sequence[str] | None = None
    partly: bool = False

    needs: ClassVar[frozenset[Need]] = frozenset()
    gives: ClassVar[frozenset[Gives]] = frozenset({Gives.LOW, Gives.HIGH, Gives.OUTCOMES})
    columns: ClassVar[Sequence[str]] = ()
    usual: ClassVar[int] = PLANTED

    def limit(self, of: Subject, allowed: float) -> Limit:
        """Return a limit on the share of each kind and shape that survives."""
        if not 0 < allowed < 1:
            raise UserError(
                f"the limit of identifiers, a share, must be in (0, 1), got {allowed}: no number of texts can show "
                "that none ever survives; a limit of 0.01 takes about 300 texts of each kind",
                "EPS-Q029",
            )
        source = "the largest share allowed to survive" + (", as a whole or in part" if self.partly else "")
        return Limit(allowed, Scale("identifiers", partly=self.partly), source)

    def tests(self, of: Subject) -> Sequence[str]:
        """Return a name for each kind and shape."""
        return [_name(group) for group in self._groups(of)]

    def amount(self, of: Subject, limit: Limit, budget: int, tests: int, *, errors: Errors) -> int:
        """Return the number of texts per kind and shape."""
        rate, groups, fewest = limit.allowed, self._groups(of), fewest_texts(limit.allowed, tests, errors=errors)
        there = {kind: _identified(of).most(kind) for kind, _ in groups}
        if few := [f"{kind} in {most}" for kind, most in there.items() if most is not None and most < fewest]:
            raise UserError(
                f"a limit of {rate:g} takes {fewest:,} texts per kind to test, but the file has fewer "
                f"({', '.join(few)}); give more texts, a higher limit, or other kinds (identifiers.kinds)",
                "EPS-Q030",
            )
        if budget // len(groups) < fewest:
            raise UserError(
                f"a limit of {rate:g} takes {fewest:,} texts for each of {len(groups)} kinds and shapes to test, in "
                f"all {fewest * len(groups):,} rewrites, and {budget:,} are left; give a larger budget (--budget), a "
                "higher limit, or fewer kinds (identifiers.kinds)",
                "EPS-Q031",
            )
        return min(enough_texts(rate, tests, errors=errors), budget // len(groups))

    def observe(self, of: Subject, count: int) -> Sequence[Observed]:
        """Return the evidence of each kind and shape, on this number of texts each."""
        trials = _identified(of).trials(self.kinds, count, of.design.seed)
        (rewrites,) = rewritten(of.mechanism, trials, [of.epsilon], of.design.seed, tally=of.tally)
        observed = []
        for (kind, shape), some in by_group(trials, rewrites).items():
            outcome = outcomes(some)
            survived = np.array(outcome.whole) | (np.array(outcome.part) & self.partly)
            evidence = Evidence(
                _name((kind, shape)),
                By.COUNT,
                Scale("identifiers", partly=self.partly),
                Hits(int(survived.sum()), len(some)),
                covers=Covers.EVERYONE,
            )
            row: dict[str, Any] = {"shape": shape, "partly": outcome.partly}
            row["precision"] = precision(some, of.design.alpha)
            of_texts = [(trial.original, stood) for (trial, _), stood in zip(some, survived.tolist(), strict=True)]
            observed.append(Observed(evidence, survived.astype(np.float64), of_texts, row))
        return observed

    def table(self, request: TableRequest) -> Table | None:
        """Return the table of `epsilometer.surviving_identifiers`, a row per epsilon, kind and shape.

        Return None if partial survival counts, since this table lists partial and whole survival separately.
        """
        request.check_unused("attacks")
        if self.partly:
            return None
        columns, texts = request.shown(SURVIVING, ()), request.texts
        rewriter = request.rewriter
        assert texts is not None, "a mechanism rewrites texts"
        data = surviving_identifiers(
            texts,
            rewriter,
            request.epsilons,
            self.kinds,
            trials=request.trials,
            settings=request.settings,
            design=request.design,
        )
        return Table.of(data, columns or [column.name for column in data if column.null_count() < len(column)])

    def _groups(self, of: Subject) -> list[Group]:
        return _identified(of).groups(self.kinds)


def _identified(of: Subject) -> Identified:
    return of.identified or Identified(of.pool.texts)


def _name(group: Group) -> str:
    kind, shape = group
    return f"identifiers: {kind}" + ("" if shape is None else f", {shape}")
