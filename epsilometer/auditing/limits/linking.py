"""A limit on linking people to their rewrites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.evidence.evidence import By, Covers, Evidence, Means
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.gate_statistics import Errors, Judged, judge
from epsilometer.auditing.limits.subject import Subject
from epsilometer.auditing.linking.loss import STANDARD, linked, rewritten
from epsilometer.auditing.linking.people import People, draw
from epsilometer.core.errors import UserError
from epsilometer.core.linking import LinkingAttack

_LINKING = "linking: "  # before an attack's name
_AMPLE = 2  # multiple of the sets that could show a limit kept, since the number of chance links varies


@dataclass(frozen=True)
class Linking:
    """The largest loss that each attack by linking may show (`Counted`).

    among: number of rewrites in a set.
    """

    people: People
    attacks: Mapping[str, LinkingAttack]
    max_loss: float
    among: int = STANDARD.among

    def __post_init__(self) -> None:
        if not self.max_loss > 0:
            raise UserError(f"max_linking_loss, in nats, must be > 0, got {self.max_loss}")
        self.people.check(self.among)

    @property
    def tests(self) -> int:
        """The number of limits, one per attack."""
        return len(self.attacks)

    def judge(self, of: Subject, budget: int, *, tests: int, errors: Errors) -> tuple[list[Judged], int]:
        """Judge the attacks on as many sets as that takes; a set takes as many rewrites as it has people."""
        limit = Limit(self.max_loss, Scale("linking", self.among), "the largest loss by linking allowed")
        fewest, most = _fewest(limit, self.among, budget // self.among, tests, errors=errors), budget // self.among
        sets = draw(self.people, min(_AMPLE * fewest, most), self.among, of.design.seed)
        (rewrites,) = rewritten(of.mechanism, self.people, sets, [of.epsilon], seed=of.design.seed, tally=of.tally)
        texts, judged = [self.people.texts[i] for i in sets.ravel().tolist()], []
        for name, right in linked(self.people, sets, rewrites, self.attacks, seed=of.design.seed).items():
            shares = Means(right.mean(axis=1).tolist(), self.among)
            evidence = Evidence(f"{_LINKING}{name}", By.ATTACK, limit.scale, shares, covers=Covers.THESE)
            of_attack = judge(evidence, limit, tests=tests, errors=errors)
            judged.append(replace(of_attack, of_texts=list(zip(texts, right.ravel().tolist(), strict=True))))
        return judged, sets.size


def _fewest(limit: Limit, among: int, most: int, tests: int, *, errors: Errors) -> int:
    """Return the fewest sets, in steps of a tenth, that could show the limit exceeded, and kept by an attack at chance.

    Raises UserError where these are more than `most`.
    """
    if limit.rate > 1 - 1e-6:
        raise UserError(f"no rate of links exceeds a loss of {limit.allowed:g} nats; give a lower --max-linking-loss")
    sets = 10
    while not (
        interval(np.full(sets, 1 / among), 2 * errors.beta, fixed=True)[1]
        <= limit.rate
        < interval(np.ones(sets), 2 * errors.alpha / tests, fixed=True)[0]
    ):
        sets += -(-sets // 10)
    if sets > most:
        raise UserError(
            f"a loss of {limit.allowed:g} nats by linking takes {sets:,} sets of {among} rewrites to show; give "
            "a larger --budget, a smaller --among, or a higher --max-linking-loss"
        )
    return sets
