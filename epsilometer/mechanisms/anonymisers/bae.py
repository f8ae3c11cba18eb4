"""BAE-R: important words are replaced by what a masked language model expects (Garg and Ramakrishnan, EMNLP 2020).

Candidates are the 50 likeliest whole words at the word's place, of the same tag, where nouns and verbs may stand for
each other. The text must stay similar to the original in the window of 15 words by at least .936338 = 1 - .2 / pi, the
angular similarity that the authors' threshold of .8 amounts to.

`as_published: true` is TextAttack's recipe (0.3.11) with what changes its results: .936338 is a threshold on the
cosine there, a looser one; pieces inside words are candidates as if they were words (the authors leave them out); the
window of the swapped word alone counts, texts of fewer than 15 words pass, and the tag is that of the first of equal
words among 4 words before and 3 after, in the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from epsilometer.core.component import component
from epsilometer.mechanisms.anonymisers.shared.draft import Draft
from epsilometer.mechanisms.anonymisers.shared.in_step import Search
from epsilometer.mechanisms.anonymisers.shared.limits import Limits, Similarity
from epsilometer.mechanisms.anonymisers.shared.word_edits import in_case_of, is_word
from epsilometer.mechanisms.anonymisers.shared.word_search import WordSearch
from epsilometer.models.embedded import masked_lm
from epsilometer.models.fill_mask import FillMask, Place

CANDIDATES = 50
LEAST, WINDOW = 0.936338023, 15
_SPARE = 30  # outputs beyond these that are looked at, since some are no words


@component
class BAE(WordSearch):
    """masked_lm: the masked language model, by id or folder; by default the embedded one. The rest as `WordSearch`."""

    masked_lm: str | Path | None = None

    @cached_property
    def limits(self) -> Limits:
        """Tags, and the similarity of windows."""
        rule = Similarity(LEAST, "cosine" if self.as_published else "angular", WINDOW, published=self.as_published)
        return Limits("context" if self.as_published else "sentence", rule if self.similarity == "kept" else None)

    @cached_property
    def _model(self) -> FillMask:
        return FillMask(self.masked_lm or masked_lm())

    def candidates(self, draft: Draft, position: int) -> Search[list[str]]:
        """The likeliest words where the text, as it stands, has a mask; likeliest first."""
        token = draft.spans.tokens[position]
        start = draft.spans.starts[position]
        start += sum(len(new) - len(draft.spans.tokens[i]) for i, new in draft.edits.items() if i < position)
        (expected,) = yield from draft.known(self._expected, [(draft.text(), start, start + len(token))])
        return [in_case_of(word, token) for word in expected if word != token.lower()]

    def _expected(self, places: Sequence[tuple[str, int, int]]) -> list[list[str]]:
        numbered = [Place(i, start, end) for i, (_, start, end) in enumerate(places)]
        texts = [text for text, _, _ in places]
        outputs, _ = self._model.likeliest(texts, numbered, CANDIDATES + _SPARE, whole=not self.as_published)
        words = [[self._model.outputs[o] for o in row] for row in outputs.tolist()]
        return [[word for word in dict.fromkeys(row) if is_word(word)][:CANDIDATES] for row in words]
