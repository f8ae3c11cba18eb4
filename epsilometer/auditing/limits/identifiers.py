"""A limit on the share of identifiers that survive, by kind and, for planted ones, by shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from epsilometer.auditing.evidence.evidence import By, Covers, Evidence, Hits
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.gate_statistics import Errors, Judged, enough_texts, fewest_texts, judge
from epsilometer.auditing.identifiers.surviving import Group, Identified, by_group, outcomes, precision, rewritten
from epsilometer.auditing.limits.subject import Subject
from epsilometer.core.errors import UserError

_IDENTIFIERS = "identifiers: "  # before a kind


@dataclass(frozen=True)
class Kinds:
    """Each kind and shape of identifier against the largest share that may survive (`Counted`).

    rate: that share; wanted: the kinds, None for all. budget: of all limits together. partly: whether identifiers that
    survive in part count, too.
    """

    of: Subject
    rate: float
    wanted: Sequence[str] | None
    budget: int
    partly: bool = False

    @property
    def _identified(self) -> Identified:
        return self.of.identified or Identified(self.of.pool.texts)

    @cached_property
    def groups(self) -> list[Group]:
        return self._identified.groups(self.wanted)

    @property
    def tests(self) -> int:
        return len(self.groups)

    def judge(self, of: Subject, budget: int, *, tests: int, errors: Errors) -> tuple[list[Judged], int]:
        count = self._count(budget, tests, errors)
        trials = self._identified.trials(self.wanted, count, of.design.seed)
        (rewrites,) = rewritten(of.mechanism, trials, [of.epsilon], of.design.seed, tally=of.tally)
        source = "the largest share allowed to survive" + (", as a whole or in part" if self.partly else "")
        limit, judged = Limit(self.rate, Scale("identifiers", partly=self.partly), source), []
        for (kind, shape), some in by_group(trials, rewrites).items():
            outcome = outcomes(some)
            counted = [whole or (self.partly and part) for whole, part in zip(*outcome, strict=True)]
            name = f"{_IDENTIFIERS}{kind}" + ("" if shape is None else f", {shape}")
            survived = Hits(sum(counted), len(some))
            evidence = Evidence(name, By.COUNT, limit.scale, survived, covers=Covers.EVERYONE)
            of_group = judge(evidence, limit, tests=tests, errors=errors)
            of_texts = [(trial.original, stood) for (trial, _), stood in zip(some, counted, strict=True)]
            judged.append(
                replace(
                    of_group,
                    shape=shape,
                    partly=outcome.partly,
                    precision=precision(some, of.design.alpha),
                    of_texts=of_texts,
                )
            )
        return judged, len({trial.text for trial in trials})

    def _count(self, budget: int, tests: int, errors: Errors) -> int:
        """Return the number of texts per group. Raises UserError where these could not show the limit kept."""
        rate, groups, fewest = self.rate, self.groups, fewest_texts(self.rate, tests, errors=errors)
        there = {kind: self._identified.most(kind) for kind, _ in groups}
        if few := [f"{kind} in {most}" for kind, most in there.items() if most is not None and most < fewest]:
            raise UserError(
                f"a share of {rate:g} takes {fewest:,} texts a kind to show, and the file records {', '.join(few)}; "
                "give more texts, a higher --max-identifiers, or other kinds (--identifiers)"
            )
        if budget // len(groups) < fewest:
            needed = fewest * len(groups) * (self.budget // budget)
            raise UserError(
                f"a share of {rate:g} takes {fewest:,} texts a kind and shape to show, of {len(groups)} of them; give "
                f"--budget {needed} or more, a higher --max-identifiers, or fewer kinds (--identifiers)"
            )
        return min(enough_texts(rate, tests, errors=errors), budget // len(groups))
