"""The rules that an attack by linking must follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from epsilometer.auditing.conformance.rules import FALSE_ALARM, TEXTS, Check, Rule, checked, lacks
from epsilometer.core.attack import choose
from epsilometer.core.linking import LinkingAttack
from epsilometer.core.randomness import Noise

_PEOPLE = 200
_CLOSE = 1e-5  # tolerance for differences due to the order of summation


def check_linking(attack: LinkingAttack) -> list[Check]:
    """Return the checks of an attack by linking. Rewrites either repeat the facts about people, or are all equal."""
    return checked(_Checks(attack).rules())


@dataclass(frozen=True)
class _Checks:
    """An attack by linking under test. Each person has a different text of TEXTS as facts."""

    attack: LinkingAttack

    @cached_property
    def _facts(self) -> list[list[str]]:
        return [[text] for text in TEXTS]

    @cached_property
    def _scores(self) -> NDArray[np.floating]:
        return self.attack.link(self._facts, TEXTS)

    def rules(self) -> Iterator[Rule]:
        yield "link exists and returns a finite number for each person and rewrite", self._interface
        yield "two calls return equal scores", self._deterministic
        yield "scores depend on facts and rewrites, not on their order", self._unordered
        yield "facts about other people do not change a score", self._alone
        yield "for rewrites without information, links are right by chance", self._blind
        yield "a rewrite that equals a fact has that fact's largest score", self._direction

    def _interface(self) -> str | None:
        if problem := lacks(self.attack, "link", 2, "epsilometer/core/linking.py"):
            return problem
        if not isinstance(self._scores, np.ndarray) or self._scores.dtype.kind not in "iuf":
            return "link must return an array of numbers"
        if self._scores.shape != (len(TEXTS), len(TEXTS)):
            return f"link must return [people, rewrites], {(len(TEXTS), len(TEXTS))}, got {self._scores.shape}"
        empty = self.attack.link(self._facts, [""] * len(TEXTS))
        if not (np.isfinite(self._scores).all() and np.isfinite(empty).all()):
            return "some scores are not finite; return a finite score for each rewrite, also an empty one"
        return None

    def _deterministic(self) -> str | None:
        if np.array_equal(self.attack.link(self._facts, TEXTS), self._scores):
            return None
        return (
            "two calls with the same facts and rewrites differ; use no random numbers, since ties are broken elsewhere"
        )

    def _unordered(self) -> str | None:
        who, which = np.array([3, 1, 5, 0, 4, 2]), np.array([5, 3, 0, 1, 2, 4])
        again = self.attack.link([self._facts[i] for i in who], [TEXTS[i] for i in which])
        if np.allclose(again, self._scores[np.ix_(who, which)], rtol=_CLOSE, atol=_CLOSE):
            return None
        return "scores change with the order of people or rewrites; use their content alone"

    def _alone(self) -> str | None:
        if np.allclose(self.attack.link(self._facts[:1], TEXTS), self._scores[:1], rtol=_CLOSE, atol=_CLOSE):
            return None
        return "a person's scores depend on facts about other people; use that person's facts alone"

    def _blind(self) -> str | None:
        facts = [[f"{text}, {number}"] for number in range(_PEOPLE // len(TEXTS)) for text in TEXTS]
        rewrites = ["nothing is said here"] * len(facts)
        guesses = choose(np.asarray(self.attack.link(facts, rewrites), float), Noise.named(len(facts), "conformance"))
        right = int((guesses == np.arange(len(facts))).sum())
        if binom.sf(right - 1, len(facts), 1 / len(facts)) < FALSE_ALARM:
            return (
                f"for equal rewrites, {right} of {len(facts)} people are linked correctly, so scores depend on "
                "positions; use the content of rewrites alone"
            )
        return None

    def _direction(self) -> str | None:
        right = int((self._scores.argmax(axis=1) == np.arange(len(TEXTS))).sum())
        if right == len(TEXTS):
            return None
        return (
            f"for rewrites equal to the facts, {right} of {len(TEXTS)} have the largest score; return larger scores "
            "for a better fit"
        )
