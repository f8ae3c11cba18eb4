"""A limit on the share of identifiers that survive, by kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from epsilometer.auditing.gate_statistics import Errors, Judged, RateLimit, enough_texts, fewest_texts, judge_rate
from epsilometer.auditing.identifiers.surviving import Identified, precision, rewritten, stands
from epsilometer.auditing.limits.subject import Subject
from epsilometer.core.errors import UserError

_IDENTIFIERS = "identifiers: "  # before a kind


@dataclass(frozen=True)
class Kinds:
    """Each kind of identifier against the largest share that may survive (`Counted`).

    rate: that share; wanted: the kinds, None for all. budget: of all that is judged.
    """

    of: Subject
    rate: float
    wanted: Sequence[str] | None
    budget: int

    @property
    def _identified(self) -> Identified:
        return self.of.identified or Identified(self.of.pool.texts)

    @cached_property
    def kinds(self) -> list[str]:
        return self._identified.chosen(self.wanted)

    @property
    def tests(self) -> int:
        return len(self.kinds)

    def judge(self, of: Subject, budget: int, *, tests: int, errors: Errors) -> tuple[list[Judged], int]:
        count = self._count(budget, tests, errors)
        trials = [trial for kind in self.kinds for trial in self._identified.trials(kind, count, of.design.seed)]
        (rewrites,) = rewritten(of.mechanism, trials, [of.epsilon], of.design.seed, tally=of.tally)
        limit, judged = RateLimit(self.rate, "the largest share allowed to survive"), []
        for kind in self.kinds:
            some = [(trial, new) for trial, new in zip(trials, rewrites, strict=True) if trial.kind == kind]
            survived = [(trial.original, stands(trial, new)) for trial, new in some]
            count, name = sum(stood for _, stood in survived), f"{_IDENTIFIERS}{kind}"
            of_kind = judge_rate(name, count, len(some), limit, tests=tests, errors=errors)
            judged.append(replace(of_kind, precision=precision(some, of.design.alpha), of_texts=survived))
        return judged, len({trial.text for trial in trials})

    def _count(self, budget: int, tests: int, errors: Errors) -> int:
        """Texts a kind. Raises UserError where so many could not show the limit kept."""
        rate, kinds, fewest = self.rate, self.kinds, fewest_texts(self.rate, tests, errors=errors)
        there = {kind: self._identified.most(kind) for kind in kinds}
        if few := [f"{kind} in {most}" for kind, most in there.items() if most is not None and most < fewest]:
            raise UserError(
                f"a share of {rate:g} takes {fewest:,} texts a kind to show, and the file records {', '.join(few)}; "
                "give more texts, a higher --max-identifiers, or other kinds (--identifiers)"
            )
        if budget // len(kinds) < fewest:
            needed = fewest * len(kinds) * (self.budget // budget)
            raise UserError(
                f"a share of {rate:g} takes {fewest:,} texts a kind to show, of {len(kinds)} kinds; give --budget "
                f"{needed} or more, a higher --max-identifiers, or fewer kinds (--identifiers)"
            )
        return min(enough_texts(rate, tests, errors=errors), budget // len(kinds))
