"""A source text: the words that may change, their options, and the sentences that an edit changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from epsilometer.mechanisms.anonymisers.shared.in_step import Search, ask
from epsilometer.mechanisms.anonymisers.shared.judges import Tags
from epsilometer.mechanisms.anonymisers.shared.word_edits import Spans, edited, in_case_of

Edit = tuple[tuple[int, int], ...]  # (index of a word, index of its option), sorted
_CHARACTERS = 1 << 17  # largest total length of the texts that one search submits at once


@dataclass(frozen=True, eq=False)
class SourceText:
    """A text and data that depend only on it, shared by all its trials.

    words:   words that may change, in lower case.
    options: possible replacements of each word.
    answers: the class that each task's classifiers must predict.
    """

    spans: Spans
    words: Sequence[str]
    options: Sequence[Sequence[str]]
    answers: Sequence[int] = ()
    _tags_equal: dict[tuple[int, Edit], bool] = field(default_factory=dict)

    def text(self, edit: Edit) -> str:
        """Return the text after an edit. Replacements get the letter case of the words that they replace."""
        return edited(self.spans, self._tokens(edit))

    def changed(self, edit: Edit) -> int:
        """Return the number of word occurrences that an edit changes."""
        return sum(len(self.spans.places[self.words[word]]) for word, _ in edit)

    def parts(self, edit: Edit) -> list[tuple[int, Edit]]:
        """Return the index of each sentence that an edit changes, with the replacements in it."""
        inside = self._sentences
        touched = sorted({number for word, _ in edit for number in inside[word]})
        return [(number, tuple(swap for swap in edit if number in inside[swap[0]])) for number in touched]

    def sentence(self, number: int, edit: Edit) -> tuple[str, ...]:
        """Return the tokens of a sentence after an edit."""
        new = self._tokens(edit)
        return tuple(new.get(i, self.spans.tokens[i]) for i in self.spans.sentences[number])

    def tags_equal(self, edits: Sequence[Edit], tags: Tags) -> Search[list[bool]]:
        """Return, for each edit, True if it does not change the tags of the text."""
        verdicts = self._tags_equal
        parts = {part: None for edit in edits for part in self.parts(edit) if part not in verdicts}
        plain = {(number, ()): None for number, _ in parts}
        answers = yield from ask(tags, [self.sentence(*part) for part in (*plain, *parts)], self.at_once)
        before = {number: answer for (number, _), answer in zip(plain, answers, strict=False)}
        for (number, inside), answer in zip(parts, answers[len(plain) :], strict=True):
            verdicts[number, inside] = answer == before[number]
        return [all(verdicts[part] for part in self.parts(edit)) for edit in edits]

    @property
    def at_once(self) -> int:
        """The number of edited texts to submit at once; smaller for a longer text."""
        return max(8, min(512, _CHARACTERS // (len(self.spans.text) + 1)))

    @cached_property
    def _sentences(self) -> list[set[int]]:
        """The indices of the sentences in which each word occurs."""
        number = {i: n for n, sentence in enumerate(self.spans.sentences) for i in sentence}
        return [{number[i] for i in self.spans.places[word] if i in number} for word in self.words]

    def _tokens(self, edit: Edit) -> dict[int, str]:
        return {
            i: in_case_of(self.options[word][option], self.spans.tokens[i])
            for word, option in edit
            for i in self.spans.places[self.words[word]]
        }
