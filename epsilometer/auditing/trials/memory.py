"""Repeated answers: a mechanism that gives the same text the same answer, although the noise is new.

Intervals assume that trials are independent draws of the mechanism. If a mechanism stores its answers (a response
cache, noise seeded by the text, consistent pseudonyms) or is deterministic, there is only one draw per text. Intervals
over trials then describe this deployment with its stored answers. An audit cannot distinguish stored from deterministic
answers, so messages mention both possibilities. If each text also has a separate answer, the number of texts is the
number of draws from the mechanism's law (`text_audit.loss_of_law`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from epsilometer.text.words import words

FRESH, CONSTANT, IDENTITY = "draws anew", "constant", "identity"
BY_TEXT, BY_WORD = "one answer a text", "one answer a word"
REPEATS = 59  # if none of 59 repeats has a new answer, at most 5 % of all repeats have one, at 95 % confidence
_WORDS = 3  # if this many words, each in two or more texts, are replaced consistently, answers are per word


@dataclass(frozen=True)
class Memory:
    """The way a mechanism answers a repeated text.

    kind: FRESH, CONSTANT, IDENTITY, BY_TEXT or BY_WORD. texts: the number of distinct rewritten texts. repeats: the
    number of rewrites beyond the first of each text. changed: the number of repeats with another answer.
    """

    kind: str
    texts: int
    repeats: int
    changed: int = 0

    @property
    def repeated(self) -> bool:
        """True if the mechanism is deterministic or stores its answers."""
        return self.kind != FRESH

    @property
    def by_text(self) -> bool:
        """True if each text has one separate answer, so there is one draw from the law per text."""
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
                f"{same}, and each changed word has the same replacement in every text: the mechanism is "
                "deterministic or caches an answer per word or name; figures describe this deployment, without error "
                "probabilities"
            )
        if self.kind == BY_TEXT:
            return (
                f"{same}: the mechanism is deterministic or caches its answers; figures describe this deployment with "
                "these answers"
            )
        return ""


@dataclass
class Recollection:
    """The first answer to each text, and counts of later answers, over batches of rewrites."""

    answers: dict[str, str] = field(default_factory=dict)
    repeats: int = 0
    changed: int = 0

    def add(self, sources: Sequence[str], rewrites: Sequence[str]) -> None:
        """Compare these rewrites with the first answers to their texts."""
        for source, rewrite in zip(sources, rewrites, strict=True):
            if source in self.answers:
                self.repeats += 1
                self.changed += self.answers[source] != rewrite
            else:
                self.answers[source] = rewrite

    @property
    def memory(self) -> Memory | None:
        """The mechanism's memory; None for fewer than REPEATS repeats, unless some repeat has another answer."""
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
    """Return True if each word in several texts has one replacement in all of them, and at least _WORDS words change.

    Only texts whose rewrite has as many words as the text are compared, since words are compared by their place.
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
