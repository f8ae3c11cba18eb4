"""Part-of-speech match: the similarity of two texts' sequences of part-of-speech tags.

The similarity is 1 - Levenshtein distance / length of the longer sequence. For texts with the same number of words, it
is at least the share of words whose tag is unchanged. The embedded tagger knows only English, and gives Universal
Dependencies tags. Both texts are tagged without punctuation, so a mechanism that drops punctuation is not penalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.text.words import words

if TYPE_CHECKING:
    from epsilometer.models.tagging import Tagger

_RUN = 60  # words tagged at a time: the tagger reads at most 256 word pieces


@component
class PartOfSpeech:
    """Part-of-speech match: 1 for equal tags, including two texts without words."""

    english: ClassVar[bool] = True

    @cached_property
    def _tagger(self) -> Tagger:
        from epsilometer.models.tagging import Tagger

        return Tagger()

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the [n] similarities, 0 to 1."""
        from rapidfuzz.distance import Levenshtein

        tags = self.tags(list(dict.fromkeys([*originals, *rewrites])))
        pairs = zip(originals, rewrites, strict=True)
        return np.array([Levenshtein.normalized_similarity(tags[a], tags[b]) for a, b in pairs], np.float64)

    def tags(self, texts: Sequence[str]) -> dict[str, list[str]]:
        """Return, for each text, the tags of its words in order."""
        split = {text: words(text) for text in texts}
        runs = [(text, split[text][i : i + _RUN]) for text in texts for i in range(0, len(split[text]), _RUN)]
        tags: dict[str, list[str]] = {text: [] for text in texts}
        for (text, _), tagged in zip(runs, self._tagger.tag([run for _, run in runs]), strict=True):
            tags[text] += tagged.upos
        return tags
