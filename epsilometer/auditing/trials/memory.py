"""Repeated answers: a mechanism that gives the same text the same answer although the noise is new.

Trials count as independent draws of the mechanism. If it remembers its answers (a response cache, noise seeded by
the text, consistent pseudonyms) or draws nothing (a function of the text), there is one draw for each text. Intervals
over trials then describe this deployment, with the answers that it happens to have drawn. From outside the two look
alike, so both are named together. The law of such a mechanism is known from as many draws as there are texts
(`text_audit.loss_of_law`), and only if each text has an answer of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from epsilometer.text.words import words

FRESH, CONSTANT, IDENTITY = "draws anew", "constant", "identity"
BY_TEXT, BY_WORD = "one answer a text", "one answer a word"
REPEATS = 59  # repeats without a new answer: with fewer, more than 5 % of all could have one, at 95 % confidence
_WORDS = 3  # changed words that two texts share, from which texts are assumed to be answered word by word


@dataclass(frozen=True)
class Memory:
    """The way a mechanism answers a repeated text.

    kind: FRESH, CONSTANT, IDENTITY, BY_TEXT or BY_WORD. texts: number of distinct rewritten texts; repeats: rewrites
    of a text beyond its first; changed: the number of repeats with another answer.
    """

    kind: str
    texts: int
    repeats: int
    changed: int = 0

    @property
    def repeated(self) -> bool:
        """True for a mechanism that is deterministic or remembers its answers."""
        return self.kind != FRESH

    @property
    def by_text(self) -> bool:
        """True if each text has one answer of its own, so that one draw per text is known of the law."""
        return self.kind in (CONSTANT, IDENTITY, BY_TEXT)

    def said(self) -> str:
        """Return a sentence on the repeats and on their effect on the figures; empty for fresh draws."""
        same = f"each of {self.texts:,} texts has the same rewrite every time ({self.repeats:,} repeats)"
        if self.kind == CONSTANT:
            return f"all rewrites of {self.texts:,} texts are equal: the mechanism is constant, or caches such answers"
        if self.kind == IDENTITY:
            return f"{same}, the text itself: the mechanism is the identity on them, or caches such answers"
        if self.kind == BY_WORD:
            return (
                f"{same}, and each changed word is the same in every text: the mechanism is deterministic or caches an "
                "answer per word or name; figures describe this deployment, and no probability is stated for such a "
                "mechanism"
            )
        if self.kind == BY_TEXT:
            return (
                f"{same}: the mechanism is deterministic or caches its answers; figures describe this deployment with "
                "these answers"
            )
        return ""


@dataclass
class Recollection:
    """The first answer to each text, and the number of later ones that differ. Adds up over batches of rewrites."""

    answers: dict[str, str] = field(default_factory=dict)
    repeats: int = 0
    changed: int = 0

    def add(self, sources: Sequence[str], rewrites: Sequence[str]) -> None:
        """Compare rewrites of these texts with the first answers."""
        for source, rewrite in zip(sources, rewrites, strict=True):
            if source in self.answers:
                self.repeats += 1
                self.changed += self.answers[source] != rewrite
            else:
                self.answers[source] = rewrite

    @property
    def memory(self) -> Memory | None:
        """Return the mechanism's memory; None for fewer than REPEATS repeats, unless one of them differs."""
        if self.changed:
            return Memory(FRESH, len(self.answers), self.repeats, self.changed)
        return Memory(_kind(self.answers), len(self.answers), self.repeats) if self.repeats >= REPEATS else None


def _kind(answers: Mapping[str, str]) -> str:
    if len(answers) > 1 and len({*answers.values()}) == 1:
        return CONSTANT
    if all(text == answer for text, answer in answers.items()):
        return IDENTITY
    return BY_WORD if _by_word(answers) else BY_TEXT


def _by_word(answers: Mapping[str, str]) -> bool:
    """Return whether each word that several texts share became one word in all of them, and some changed.

    Only texts with as many words before as after count, since words are compared by their place.
    """
    became: dict[str, set[str]] = {}
    texts_of: dict[str, set[str]] = {}
    for text, answer in answers.items():
        before, after = words(text), words(answer)
        if len(before) == len(after):
            for word, new in zip(before, after, strict=True):
                became.setdefault(word, set()).add(new)
                texts_of.setdefault(word, set()).add(text)
    changed = [word for word, texts in texts_of.items() if len(texts) > 1 and became[word] != {word}]
    return len(changed) >= _WORDS and all(len(became[word]) == 1 for word in changed)
