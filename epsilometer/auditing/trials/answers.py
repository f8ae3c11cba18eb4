"""Counts of rewrites without content: withheld, truncated, empty, or the same for every text.

Attacks learn nothing from a rewrite without content, so it lowers every loss. Each audit counts and reports these
rewrites.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from epsilometer.auditing.trials.memory import Memory, Recollection
from epsilometer.core.flaws import Flaw, holds_reasoning
from epsilometer.core.guarantees import at_budget, stored
from epsilometer.core.mechanism import Repeated, Rewrites
from epsilometer.core.outcomes import UNUSABLE
from epsilometer.runtime.progress import note, warn

_PAIR = 2  # number of distinct texts to remember: two are enough to detect that not all texts are equal


@dataclass(frozen=True)
class Answers:
    """Counts over some rewrites. Two `Answers` can be added.

    rewrites:   the number of rewrites.
    withheld:   answers that a service refused or filtered.
    truncated:  other answers that a service truncated at its length limit.
    empty:      other rewrites without a visible character.
    missing:    withheld, truncated and empty answers of a service or a model. An empty rewrite by a function or a
                program may be intended, and does not count as missing.
    reasoning:  rewrites that contain a model's marked reasoning.
    apart:      answers whose reasoning is not part of the rewrite.
    sources, released: at most two distinct texts and rewrites.
    """

    rewrites: int = 0
    withheld: int = 0
    truncated: int = 0
    empty: int = 0
    missing: int = 0
    reasoning: int = 0
    apart: int = 0
    sources: frozenset[str] = field(default=frozenset(), repr=False)
    released: frozenset[str] = field(default=frozenset(), repr=False)

    @classmethod
    def of(cls, rewrites: Rewrites, sources: Sequence[str]) -> Answers:
        """Count rewrites of these texts, one rewrite per text."""
        texts, count = rewrites.texts, len(rewrites.texts)
        if isinstance(texts, Repeated):
            numbers, texts = texts.numbers, texts.texts
        else:
            numbers = np.arange(count)
        flaws = np.zeros(count, np.uint8) if rewrites.flaws is None else rewrites.flaws
        withheld = flaws & Flaw.WITHHELD > 0
        truncated = (flaws & Flaw.TRUNCATED > 0) & ~withheld
        blank = np.array([not text.strip() for text in texts], bool)[numbers]
        empty = blank & ~withheld & ~truncated
        answered = np.full(count, rewrites.flaws is not None)
        if rewrites.outcomes is not None:
            answered |= np.array([status == UNUSABLE for status in rewrites.outcomes.status], bool)
        return cls(
            rewrites=count,
            withheld=int(withheld.sum()),
            truncated=int(truncated.sum()),
            empty=int(empty.sum()),
            missing=int(((withheld | truncated | empty) & answered).sum()),
            reasoning=int(np.array([holds_reasoning(text) for text in texts], bool)[numbers].sum()),
            apart=int((flaws & Flaw.REASONED > 0).sum()),
            sources=_some(sources),
            released=_some(rewrites.texts),
        )

    def __add__(self, other: Answers) -> Answers:
        return Answers(
            self.rewrites + other.rewrites,
            withheld=self.withheld + other.withheld,
            truncated=self.truncated + other.truncated,
            empty=self.empty + other.empty,
            missing=self.missing + other.missing,
            reasoning=self.reasoning + other.reasoning,
            apart=self.apart + other.apart,
            sources=_some([*self.sources, *other.sources]),
            released=_some([*self.released, *other.released]),
        )

    @property
    def constant(self) -> bool:
        """True if all rewrites of two or more texts are equal."""
        return len(self.sources) == _PAIR and len(self.released) == 1

    @property
    def columns(self) -> dict[str, int | bool]:
        """The counts as columns of a table."""
        counts = {name: getattr(self, name) for name in ("withheld", "truncated", "empty", "reasoning", "apart")}
        return {**counts, "constant": self.constant}

    @property
    def lacking(self) -> str:
        """The counts of withheld, truncated and empty rewrites in words; empty if there are none."""
        kinds = {"withheld": self.withheld, "truncated": self.truncated, "empty": self.empty}
        said = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
        return f"{said} of {self.rewrites:,} rewrites" if said else ""

    @property
    def sentences(self) -> list[str]:
        """Warnings about the rewrites, one sentence each; empty if there are none."""
        said = [self.lacking] if self.lacking else []
        if self.constant:
            said.append(f"all {self.rewrites:,} rewrites are equal, so the release is constant")
        if self.reasoning:
            said.append(
                f"{self.reasoning:,} of {self.rewrites:,} rewrites contain the model's reasoning (<think>), which "
                "counts as part of the rewrite; set separate_reasoning to leave it out"
            )
        if self.apart:
            said.append(
                f"{self.apart:,} of {self.rewrites:,} answers came with reasoning, which the rewrite leaves out"
            )
        return said


def _some(texts: Sequence[str]) -> frozenset[str]:
    """Return at most two distinct texts."""
    if isinstance(texts, Repeated):
        texts = [texts.texts[i] for i in np.unique(texts.numbers).tolist()]
    other = next((text for text in texts if text != texts[0]), None)
    return frozenset(texts[:1] if other is None else (texts[0], other))


NONE = Answers()


class Tally:
    """Running counts of rewrites by epsilon."""

    def __init__(self) -> None:
        self._by_epsilon: dict[float | None, Answers] = {}
        self._recollections: dict[float | None, Recollection] = {}

    @classmethod
    def of(cls, rewrites: Mapping[float, Rewrites], sources: Sequence[str]) -> Tally:
        """Count the rewrites of these texts at each epsilon."""
        tally = cls()
        for epsilon, output in rewrites.items():
            tally.add(epsilon, output, sources)
        return tally

    def add(self, epsilon: float, rewrites: Rewrites, sources: Sequence[str]) -> None:
        """Count these rewrites of these texts."""
        self._by_epsilon[stored(epsilon)] = self.at(epsilon) + Answers.of(rewrites, sources)
        self._recollections.setdefault(stored(epsilon), Recollection()).add(sources, rewrites.texts)

    def at(self, epsilon: float) -> Answers:
        """Return the counts at an epsilon."""
        return self._by_epsilon.get(stored(epsilon), NONE)

    def memory(self, epsilon: float) -> Memory | None:
        """Return statistics of answers to repeated texts at an epsilon; None with too few repeats."""
        recollection = self._recollections.get(stored(epsilon))
        return None if recollection is None else recollection.memory

    @property
    def total(self) -> Answers:
        """The counts over all epsilons."""
        return sum(self._by_epsilon.values(), NONE)

    def say(self) -> None:
        """Print the warnings at each epsilon."""
        for epsilon, answers in self._by_epsilon.items():
            say(answers, at_budget(epsilon))

    def say_memory(self) -> None:
        """Print, for each epsilon, the effect of repeated answers on an audit's figures."""
        for epsilon, recollection in self._recollections.items():
            memory = recollection.memory
            if memory is not None and memory.repeated and not self._by_epsilon[epsilon].constant:
                by_law = "; `loss_of_law` counts each text once" if memory.by_text else ""
                note(f"{memory.said()}{by_law}{at_budget(epsilon)}")


def say(answers: Answers, place: str = "") -> None:
    """Print the sentences on standard error, those on missing answers as a warning. place: text after each sentence."""
    for sentence in answers.sentences:
        (warn if answers.missing and sentence == answers.lacking else note)(f"{sentence}{place}")
