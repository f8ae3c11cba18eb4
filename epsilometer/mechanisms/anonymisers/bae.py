"""BAE-R: replaces important words by predictions of a masked language model (Garg and Ramakrishnan, EMNLP 2020).

In plain words it replaces the words that reveal most by words that a language model expects in their place.

Candidates are the 50 likeliest whole words at the word's place with the same part-of-speech tag; nouns and verbs may
replace each other. In the window of 15 words around a changed word (the similarity window), the angular similarity to
the original, 1 - angle / pi, must be at least .936338. The authors require 1 - angle >= .8, which is the same, since
.936338 = 1 - .2 / pi.

`as_published: true` follows TextAttack's recipe (0.3.11) in everything that changes results:

- the threshold of .936338 applies to the cosine, which is less strict;
- word pieces that continue a word are candidates, too (the authors exclude them);
- only the similarity window around the replaced word is compared, not the windows of other changed words near it. Texts
  of fewer than 15 words always pass;
- the word is tagged in the part of the original text from 4 words before it to 3 words after it. If the word occurs
  several times in this part, the tag of its first occurrence counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from epsilometer.core.component import component
from epsilometer.mechanisms.anonymisers.shared.draft import Draft
from epsilometer.mechanisms.anonymisers.shared.in_step import Search
from epsilometer.mechanisms.anonymisers.shared.limits import EditLimits, SimilarityRule
from epsilometer.mechanisms.anonymisers.shared.word_edits import in_case_of, is_word
from epsilometer.mechanisms.anonymisers.shared.word_search import WordSearch
from epsilometer.models.embedded import masked_lm
from epsilometer.models.fill_mask import FillMask, Place

CANDIDATES = 50
LEAST, WINDOW = 0.936338023, 15
_SPARE = 30  # extra predictions, since some predictions are not words


@component
class BAE(WordSearch):
    """BAE-R. masked_lm: a masked language model by id or folder; None: the embedded one. More: see `WordSearch`."""

    masked_lm: str | Path | None = None

    @cached_property
    def limits(self) -> EditLimits:
        """The limits on edits: the word's tag stays the same, and windows stay similar."""
        rule = SimilarityRule(LEAST, "cosine" if self.as_published else "angular", WINDOW, published=self.as_published)
        return EditLimits("context" if self.as_published else "sentence", rule if self.similarity == "kept" else None)

    @cached_property
    def _model(self) -> FillMask:
        return FillMask(self.masked_lm or masked_lm())

    def candidates(self, draft: Draft, position: int) -> Search[list[str]]:
        """Return the likeliest words for a mask at this position of the current text, likeliest first."""
        token = draft.spans.tokens[position]
        start = draft.spans.starts[position]
        start += sum(len(new) - len(draft.spans.tokens[i]) for i, new in draft.edits.items() if i < position)
        (expected,) = yield from draft.answers(self._expected, [(draft.text(), start, start + len(token))])
        return [in_case_of(word, token) for word in expected if word != token.lower()]

    def _expected(self, places: Sequence[tuple[str, int, int]]) -> list[list[str]]:
        numbered = [Place(i, start, end) for i, (_, start, end) in enumerate(places)]
        texts = [text for text, _, _ in places]
        outputs, _ = self._model.likeliest(texts, numbered, CANDIDATES + _SPARE, whole=not self.as_published)
        words = [[self._model.outputs[o] for o in row] for row in outputs.tolist()]
        return [[word for word in dict.fromkeys(row) if is_word(word)][:CANDIDATES] for row in words]
