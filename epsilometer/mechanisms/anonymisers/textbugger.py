"""TextBugger: puts bugs into important words until a classifier errs (Li et al., NDSS 2019).

In plain words it puts small misspellings into the words that reveal most, until a classifier errs.

The bugs of a word are: an inserted space, a deleted letter, two swapped neighbouring letters (each at a random place,
never at the first or last letter), each letter in turn replaced by a homoglyph, and the 5 nearest words by the
auxiliaries' vectors, in the word's letter case. The whole text's similarity to the original must be at least .8. The
similarity is the cosine, as in the paper; under `as_published: true` it is the angular similarity, as in TextAttack's
recipe (0.3.11). That recipe uses numpy's global random generator; this mechanism uses the text's stream. Tags may
change.

The homoglyphs are TextAttack's, mostly Cyrillic, Greek or Armenian letters. Readers do not notice them, but filters do,
and `unicodedata.normalize` replaces only a few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from epsilometer.core.component import component
from epsilometer.mechanisms.anonymisers.shared.draft import Draft
from epsilometer.mechanisms.anonymisers.shared.in_step import Search
from epsilometer.mechanisms.anonymisers.shared.limits import EditLimits, SimilarityRule
from epsilometer.mechanisms.anonymisers.shared.word_edits import in_case_of
from epsilometer.mechanisms.anonymisers.shared.word_search import WordSearch

NEIGHBOURS = 5
LEAST = 0.8
HOMOGLYPHS = str.maketrans("-9876543210'abcdefghijklmnopqrstuvwxyz", "˗৭Ȣ𝟕бƼᏎƷᒿlO`ɑЬϲԁе𝚏ɡհіϳ𝒌ⅼｍոорԛⲅѕ𝚝սѵԝ×уᴢ")


@component
class TextBugger(WordSearch):
    """TextBugger. Settings: see `WordSearch`."""

    draws: ClassVar[bool] = True

    @cached_property
    def limits(self) -> EditLimits:
        """The limit: the similarity of the whole text."""
        rule = SimilarityRule(LEAST, "angular" if self.as_published else "cosine")
        return EditLimits(None, rule if self.similarity == "kept" else None)

    def candidates(self, draft: Draft, position: int) -> Search[list[str]]:
        """Return the candidates: the five kinds of bugs, in the paper's order."""
        token = draft.spans.tokens[position]
        (near,) = yield from draft.answers(self._near, [token])
        return [*bugs(token, draft.rng), *(in_case_of(word, token) for word in near)]

    def _near(self, words: Sequence[str]) -> list[list[str]]:
        return self.neighbours.of(words, NEIGHBOURS)


def bugs(word: str, rng: np.random.Generator) -> Iterator[str]:
    """Yield the bugs of a word that change its letters; short words have fewer kinds."""
    if len(word) > 2:
        at = int(rng.integers(1, len(word) - 1))
        yield f"{word[:at]} {word[at:]}"
        at = int(rng.integers(1, len(word) - 1))
        yield word[:at] + word[at + 1 :]
    if len(word) > 3:
        at = int(rng.integers(1, len(word) - 2))
        yield word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    for at, letter in enumerate(word):
        if ord(letter) in HOMOGLYPHS:
            yield word[:at] + letter.translate(HOMOGLYPHS) + word[at + 1 :]
