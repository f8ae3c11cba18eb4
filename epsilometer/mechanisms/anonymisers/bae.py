"""BAE-R: important words are replaced by what a masked language model expects (Garg and Ramakrishnan, EMNLP 2020).

In plain words it replaces the words that reveal most by words that a language model expects in their place.

Candidates are the 50 likeliest whole words at the word's place with the same tag; nouns and verbs may replace each
other. In a window of 15 words, the text's similarity to the original must stay at or above .936338 = 1 - .2 / pi, the
angular similarity equal to the authors' threshold of .8.

`as_published: true` follows TextAttack's recipe (0.3.11) in everything that changes results: there .936338 is a
threshold on the cosine, which is looser; pieces inside words count as words and become candidates (the authors leave
them out); only the window of the swapped word counts; texts of fewer than 15 words always pass; and the tag is read in
the original text, in a window of 4 words before and 3 after, at the word's first occurrence in that window.
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
_SPARE = 30  # extra outputs to consider, since some of them are not words


@component
class BAE(WordSearch):
    """masked_lm: the masked language model, by id or folder; None: the embedded one. Other settings: `WordSearch`."""

    masked_lm: str | Path | None = None

    @cached_property
    def limits(self) -> EditLimits:
        """Return the limits: the word's tag, and the similarity of windows."""
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
