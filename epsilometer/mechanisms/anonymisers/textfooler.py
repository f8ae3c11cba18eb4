"""TextFooler: replaces important words by similar words until a classifier errs (Jin et al., AAAI 2020).

In plain words it replaces the words that reveal most by similar words, until a classifier errs.

Candidates are the 50 nearest words with a cosine of at least .5 (.7 in the paper, .5 in its code) and the same
part-of-speech tag; nouns and verbs may replace each other. In a window of 15 words, the angular similarity to the
original must be at least .840845 = 1 - .5 / pi, which is the authors' threshold of .5 on 1 - angle. The list of
stop-words is the authors'. Vectors are those of the auxiliaries, counter-fitted to word relations if there are any (the
authors use counter-fitted Paragram vectors, a download).

`as_published: true` follows TextAttack's recipe (0.3.11) in everything that changes results:

- windows are compared with the text before the replacement, so small changes may add up;
- only the window around the replaced word must be similar, and texts of fewer than 15 words always pass;
- the word is tagged in the part of the original text from 4 words before it to 3 words after it; if the word occurs
  several times in this part, the tag of its first occurrence counts.

By default, windows are compared with the original, in short texts too. The windows of other changed words near the
replaced word are compared as well. The tag is that of the word in its sentence. Tags are those of Universal
Dependencies, by the embedded tagger (in the recipe: NLTK's).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from epsilometer.core.component import component
from epsilometer.mechanisms.anonymisers.shared.draft import Draft
from epsilometer.mechanisms.anonymisers.shared.in_step import Search
from epsilometer.mechanisms.anonymisers.shared.limits import EditLimits, SimilarityRule
from epsilometer.mechanisms.anonymisers.shared.word_edits import in_case_of
from epsilometer.mechanisms.anonymisers.shared.word_search import WordSearch
from epsilometer.text.words import STOP_WORDS

CANDIDATES, LEAST_COSINE = 50, 0.5
LEAST, WINDOW = 0.840845057, 15

# The authors' stop-words, as differences from NLTK's: _MORE are only in the authors' list, _NONE only in NLTK's.
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
    """TextFooler. Settings: see `WordSearch`."""

    stop_words: ClassVar[frozenset[str]] = (STOP_WORDS | {*_MORE.split()}) - {*_NONE.split()}

    @cached_property
    def limits(self) -> EditLimits:
        """The limits: the word's tag, and the similarity of windows."""
        if self.as_published:
            rule = SimilarityRule(LEAST, "angular", WINDOW, previous=True, published=True)
        else:
            rule = SimilarityRule(LEAST, "angular", WINDOW)
        return EditLimits("context" if self.as_published else "sentence", rule if self.similarity == "kept" else None)

    def candidates(self, draft: Draft, position: int) -> Search[list[str]]:
        """Return the candidates: near words, nearest first, in the word's letter case."""
        token = draft.spans.tokens[position]
        (near,) = yield from draft.answers(self._near, [token])
        return [in_case_of(word, token) for word in near]

    def _near(self, words: Sequence[str]) -> list[list[str]]:
        return self.neighbours.of(words, CANDIDATES, LEAST_COSINE)
