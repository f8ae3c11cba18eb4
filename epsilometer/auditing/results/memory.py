"""Answers that repeat: a mechanism that gives the same text the same answer although the noise is new.

Trials count as independent draws of the mechanism. Where it remembers its answers (a response cache, noise seeded by
the text, consistent pseudonyms) or draws nothing (a function of the text), there is one draw for each text, and
intervals over trials describe this deployment, with the answers that it happens to have drawn. From outside the two
look alike, so both are named together. What the law of such a mechanism gives is known from as many draws as there are
texts (`loss_of_law`), and only if each text has an answer of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.successes import loss_at
from epsilometer.text.words import words

FRESH, CONSTANT, IDENTITY = "draws anew", "constant", "identity"
BY_TEXT, BY_WORD = "one answer a text", "one answer a word"
REPEATS = 59  # without a new answer: of fewer, more than 5 % of all repeats could have one, at 95 % confidence
_WORDS = 3  # changed words that two texts share, before texts are taken to be answered word by word


@dataclass(frozen=True)
class Memory:
    """How a mechanism answers a text that it was given before.

    kind: FRESH, CONSTANT, IDENTITY, BY_TEXT or BY_WORD. texts: distinct texts that were rewritten; repeats: rewrites
    of a text beyond its first; changed: how many of these gave another answer.
    """

    kind: str
    texts: int
    repeats: int
    changed: int

    @property
    def repeated(self) -> bool:
        """Whether the mechanism is deterministic or remembers its answers."""
        return self.kind != FRESH

    def said(self) -> str:
        """One sentence on what was seen and what the figures then describe."""
        same = f"each of {self.texts:,} texts got the same answer in all of its rewrites ({self.repeats:,} repeats)"
        if self.kind == CONSTANT:
            return f"all rewrites of {self.texts:,} texts are equal: the mechanism is constant"
        if self.kind == IDENTITY:
            return f"all {self.texts:,} texts came out unchanged: the mechanism is the identity on them"
        if self.kind == BY_WORD:
            return (
                f"{same}, and each changed word the same one in every text: the mechanism is deterministic, or "
                "remembers an answer for each word or name. Figures describe this deployment; for the law of such a "
                "mechanism no probability is stated"
            )
        return (
            f"{same}: the mechanism is deterministic, or remembers its answers. Figures describe this deployment, "
            "with these answers; `loss_of_law` counts each text once"
        )


def memory(texts: Sequence[str], source: NDArray[np.integer], rewrites: Sequence[str]) -> Memory | None:
    """Return how the mechanism answers repeated texts; None for fewer than REPEATS repeats, unless one differs.

    texts: that `source` [n] numbers; rewrites: [n], at one epsilon.
    """
    answers: dict[int, str] = {}
    changed = sum(
        answers.setdefault(number, rewrite) != rewrite
        for number, rewrite in zip(source.tolist(), rewrites, strict=True)
    )
    repeats = len(source) - len(answers)
    if changed:
        return Memory(FRESH, len(answers), repeats, changed)
    return Memory(_kind(texts, answers), len(answers), repeats, 0) if repeats >= REPEATS else None


def _kind(texts: Sequence[str], answers: dict[int, str]) -> str:
    if len(answers) > 1 and len({*answers.values()}) == 1:
        return CONSTANT
    if all(texts[number] == answer for number, answer in answers.items()):
        return IDENTITY
    return BY_WORD if _by_word(texts, answers) else BY_TEXT


def _by_word(texts: Sequence[str], answers: dict[int, str]) -> bool:
    """Whether words that several texts share become the same word in each, some of them another one.

    Only texts with as many words before as after count, since words are compared by their place.
    """
    became: dict[str, set[str]] = {}
    texts_of: dict[str, set[int]] = {}
    for number, answer in answers.items():
        before, after = words(texts[number]), words(answer)
        if len(before) == len(after):
            for word, new in zip(before, after, strict=True):
                became.setdefault(word, set()).add(new)
                texts_of.setdefault(word, set()).add(number)
    shared = [word for word, numbers in texts_of.items() if len(numbers) > 1]
    changed = [word for word in shared if became[word] != {word}]
    return len(changed) >= _WORDS and all(len(became[word]) == 1 for word in changed)


def loss_of_law(right: NDArray[np.bool_], source: NDArray[np.integer], candidates: int, alpha: float) -> float:
    """Return the lower bound on the loss under the law of a mechanism with one answer a text, in nats.

    right: [n], whether the guess was right; source: [n], the text that was rewritten. The shares of right guesses of
    different texts are independent, since each text has an answer of its own; their mean over texts drawn from the same
    population is bounded by betting (`estimation.betting`), at confidence 1 - alpha / 2.
    """
    _, number = np.unique(source, return_inverse=True)
    share = np.bincount(number, right) / np.bincount(number)
    return loss_at(interval(share, alpha, fixed=True)[0], candidates)
