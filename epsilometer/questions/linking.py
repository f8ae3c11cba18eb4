"""Linking: an adversary who knows facts about people looks for their rewrites (`auditing/linking/loss`).

A trial is a set of people. Its value is the share of people whom an attack links to the right rewrite. Sets are
independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from pydantic import model_validator

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.evidence.evidence import By, Covers, Evidence, Means
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.gate_statistics import Errors
from epsilometer.auditing.linking.loss import (
    STANDARD,
    LinkingDesign,
    chosen_attacks,
    linked,
    linking_loss,
    recorded_linking_loss,
    rewritten,
)
from epsilometer.auditing.linking.people import People, draw
from epsilometer.auditing.question import Gives, Need, Observed, Table, TableRequest
from epsilometer.auditing.schemas import LINKS
from epsilometer.auditing.subject import Subject
from epsilometer.core.component import LINKING, component, file
from epsilometer.core.errors import UserError
from epsilometer.core.linking import LinkingAttack

_SHOWN = ("epsilon", "attack", "rewrites", "sets", "success_rate", "low", "high", "loss", "upper", "ceiling")
_AMPLE = 2  # sets drawn, as a multiple of `_fewest`, since an attack may guess right more often than by chance


@component
class Linking:
    """facts: the column with known facts about each person. author: instead of facts, the column with each text's
    author; the adversary then knows all other texts of a person. among: the number of rewrites in a set. attacks: None
    for all.
    """

    facts: str | None = None
    author: str | None = None
    among: int = STANDARD.among
    attacks: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None

    needs: ClassVar[frozenset[Need]] = frozenset({Need.COLUMNS})
    gives: ClassVar[frozenset[Gives]] = frozenset({Gives.LOW, Gives.HIGH, Gives.OUTCOMES})
    usual: ClassVar[int] = STANDARD.sets

    @model_validator(mode="after")
    def _check(self) -> Linking:
        if (self.facts is None) == (self.author is None):
            raise ValueError(
                "linking takes either a column of facts or one of authors; give linking.facts or linking.author"
            )
        return self

    @property
    def columns(self) -> Sequence[str]:
        """The column of facts, or of authors."""
        return [name for name in (self.facts, self.author) if name is not None]

    @property
    def components(self) -> Sequence[Path]:
        """The files of the attacks."""
        return [file(LINKING, name) for name in self._chosen()]

    def limit(self, of: Subject, allowed: float) -> Limit:
        """Return a limit on the loss, in nats, of each attack."""
        if not allowed > 0:
            raise UserError(f"the limit of linking, in nats, must be > 0, got {allowed}", "EPS-Q032")
        self.people(of.table).check(self.among)
        return Limit(allowed, Scale("linking", self.among), "the largest loss by linking allowed")

    def tests(self, of: Subject) -> Sequence[str]:
        """Return a name for each attack."""
        return [_name(attack) for attack in self._chosen()]

    def amount(self, of: Subject, limit: Limit, budget: int, tests: int, *, errors: Errors) -> int:
        """Return the number of sets. Each set takes as many rewrites as it has people."""
        most = budget // self.among
        return min(_AMPLE * _fewest(limit, self.among, most, tests, errors=errors), most)

    def observe(self, of: Subject, count: int) -> Sequence[Observed]:
        """Return the evidence of each attack on this number of sets."""
        people, seed = self.people(of.table), of.design.seed
        sets = draw(people, count, self.among, seed)
        (rewrites,) = rewritten(of.mechanism, people, sets, [of.epsilon], seed=seed, tally=of.tally)
        texts, observed = [people.texts[i] for i in sets.ravel().tolist()], []
        for attack, right in linked(people, sets, rewrites, self._chosen(), seed=seed).items():
            shares = right.mean(axis=1)
            scale, data = Scale("linking", self.among), Means(shares.tolist(), self.among)
            evidence = Evidence(_name(attack), By.ATTACK, scale, data, covers=Covers.THESE)
            of_texts = list(zip(texts, right.ravel().tolist(), strict=True))
            observed.append(Observed(evidence, shares, of_texts))
        return observed

    def table(self, request: TableRequest) -> Table:
        """Return the table of `epsilometer.linking_loss`, for fresh or recorded rewrites."""
        request.check_unused("attacks")
        columns, people = request.shown(LINKS, _SHOWN), self.people(request.texts)
        sets, of = self.usual if request.trials is None else request.trials, request.design
        design = LinkingDesign(self.among, sets, of.alpha, of.seed)
        if request.rewrites is not None:
            return Table.of(recorded_linking_loss(people, request.rewrites, self.attacks, design), columns)
        data = linking_loss(
            people, request.rewriter, request.epsilons, self.attacks, settings=request.settings, design=design
        )
        return Table.of(data, columns)

    def people(self, table: pl.DataFrame | None) -> People:
        """Return the people of a table of texts, with the facts known about them."""
        assert table is not None, "the columns are checked first"
        (column,) = self.columns
        values = table[column]
        if isinstance(values.dtype, pl.List):
            values = values.list.join("\n")
        return _people(tuple(table["text"]), tuple(values), by_author=self.author is not None)

    def _chosen(self) -> dict[str, LinkingAttack]:
        return chosen_attacks(self.attacks)


@lru_cache(maxsize=1)
def _people(texts: tuple[str, ...], values: tuple[str | None, ...], by_author: bool) -> People:
    """Return the people. The result is cached, so that the note on omitted texts appears once."""
    return People.by_author(texts, values) if by_author else People.by_claims(texts, values)


def _name(attack: str) -> str:
    return f"linking: {attack}"


def _fewest(limit: Limit, among: int, most: int, tests: int, *, errors: Errors) -> int:
    """Return the fewest sets that show that a perfect attack exceeds the limit, and that an attack at chance keeps it.

    The search starts at 10 sets and adds a tenth of the sets at each step. Raises UserError above `most` sets.
    """
    if limit.rate > 1 - 1e-6:
        raise UserError(f"no rate of links can exceed a loss of {limit.allowed:g} nats; give a lower limit", "EPS-Q033")
    sets = 10
    while not (
        interval(np.full(sets, 1 / among), 2 * errors.beta, fixed=True)[1]
        <= limit.rate
        < interval(np.ones(sets), 2 * errors.alpha / tests, fixed=True)[0]
    ):
        sets += -(-sets // 10)
    if sets > most:
        raise UserError(
            f"a limit of {limit.allowed:g} nats on linking takes {sets:,} sets of {among} rewrites to test; give "
            "a larger budget (--budget), a smaller linking.among, or a higher limit",
            "EPS-Q034",
        )
    return sets
