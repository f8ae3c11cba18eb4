"""TextFooler: important words are replaced by similar words until a classifier errs (Jin et al., AAAI 2020).

Candidates are the 50 nearest words with a cosine of at least .5 (the paper says .7, the code .5), of the same tag,
where nouns and verbs may stand for each other; the text must stay similar in the window of 15 words, by at least
.840845 = 1 - .5 / pi, the angular similarity that the authors' threshold amounts to. Stop-words are the authors' own.
Vectors are those of the auxiliaries, counter-fitted to their word relations where they have any (published:
counter-fitted Paragram, a download).

`as_published: true` is TextAttack's recipe (0.3.11) with what changes its results: windows are compared with the text
before the swap, so that many small steps may lead far; the window of the swapped word alone counts; texts of fewer
than 15 words pass; and the tag is that of the first of equal words among 4 words before and 3 after, in the original.
By default windows are compared with the original, those of all changed words that the swap is near, short texts too,
and the tag is read in the word's own sentence. Tags are Universal Dependencies' by the embedded tagger (there:
NLTK's).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from epsilometer.core.component import component
from epsilometer.mechanisms.anonymisers.shared.draft import Draft
from epsilometer.mechanisms.anonymisers.shared.in_step import Search
from epsilometer.mechanisms.anonymisers.shared.limits import Limits, Similarity
from epsilometer.mechanisms.anonymisers.shared.word_edits import in_case_of
from epsilometer.mechanisms.anonymisers.shared.word_search import WordSearch
from epsilometer.text.words import STOP_WORDS

CANDIDATES, LEAST_COSINE = 50, 0.5
LEAST, WINDOW = 0.840845057, 15

# The authors' stop-words, by their differences from NLTK's.
_MORE = """
    across afterwards almost alone along already also although among amongst another anyhow anyone anything anyway
    anywhere around back beforehand behind beside besides beyond cannot could due either else elsewhere empty enough
    even ever everyone everything everywhere except first former formerly hence hereafter hereby herein hereupon
    however hundred indeed latter latterly least may meanwhile mine moreover mostly must namely neither never
    nevertheless next nobody none noone nothing nowhere one onto others otherwise per please somehow something
    sometime somewhere thence thereafter thereby therefore therein thereupon throughout thru thus toward towards
    unless upon used whatever whence whenever whereafter whereas whereby wherein whereupon wherever whether whither
    whoever whole whose within without would yet
"""
_NONE = """
    be because did do does doing each few further had has have having he'd he'll he's i'd i'll i'm i've it'd it'll m
    ma own re she'd she'll should so some they'd they'll they're they've very we'd we'll we're we've will
"""


@component
class TextFooler(WordSearch):
    """As `WordSearch`."""

    stop_words: ClassVar[frozenset[str]] = (STOP_WORDS | {*_MORE.split()}) - {*_NONE.split()}

    @cached_property
    def limits(self) -> Limits:
        """Tags, and the similarity of windows."""
        if self.as_published:
            rule = Similarity(LEAST, "angular", WINDOW, previous=True, published=True)
        else:
            rule = Similarity(LEAST, "angular", WINDOW)
        return Limits("context" if self.as_published else "sentence", rule if self.similarity == "kept" else None)

    def candidates(self, draft: Draft, position: int) -> Search[list[str]]:
        """The near words, nearest first, in the word's case."""
        token = draft.spans.tokens[position]
        (near,) = yield from draft.known(self._near, [token])
        return [in_case_of(word, token) for word in near]

    def _near(self, words: Sequence[str]) -> list[list[str]]:
        return self.neighbours.of(words, CANDIDATES, LEAST_COSINE)
