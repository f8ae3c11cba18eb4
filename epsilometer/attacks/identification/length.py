"""The length attack: guesses the candidate that is as long as the rewrite, to measure the loss due to length alone.

A text has five lengths: the numbers of words (runs of letters and digits), of tokens between white space, of
characters, of white-space characters and of punctuation marks. The adversary does not know which lengths the mechanism
preserves. Word-by-word mechanisms preserve the number of words. A mechanism that masks every word with a sign preserves
the number of tokens. The identity preserves all five lengths. With d_j the absolute difference of candidate and rewrite
in length j,

    score = - sum over j of ln(d_j + 0.1).

An equal length is strong evidence for a candidate. A different length, however different, is weak evidence against the
candidate. So the preserved lengths decide, and the other lengths break ties. Nothing is fitted to the trials, so no
trial is held out and no correction is needed. A rewrite of lower-case words with single spaces is compared with the
candidates in the same form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.attack import ByScore, Context
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites
from epsilometer.text.words import words, write

_SIGNS = re.compile(r"[\W_]+")  # all characters that `str.isalnum` rejects
_CLOSE = 0.1  # added to a difference, so that an equal length scores ln(11) more than a difference of one


@component
class LengthAttack(ByScore):
    """The length attack. It needs no model and ignores the meaning of words."""

    def score_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> list[NDArray[np.float64]]:
        """Score all epsilons at once. The candidates' lengths are computed once."""
        used, place = np.unique(candidates, return_inverse=True)
        texts = [contexts[0].texts[i] for i in used]
        lengths = np.stack(
            [_lengths(texts)[0], _lengths([write(words(text)) for text in texts])[0]]
        )  # [2, candidates, 5]
        place = place.reshape(candidates.shape)
        scores = []
        for output in rewrites:
            counts, bare = _lengths(output.texts)
            score = np.zeros(candidates.shape)
            for length, of in zip(lengths.T, counts.T, strict=True):  # [candidates, 2] and [n]
                score -= np.log(np.abs(length[place, bare[:, None]] - of[:, None]) + _CLOSE)
            scores.append(score)
        return scores


def _lengths(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lengths [n, 5] (words, tokens, characters, white space, punctuation), and a flag [n].

    The flag is 1 for a text that consists of lower-case words with single spaces, else 0.
    """
    counts, bare = np.empty((len(texts), 5), np.int64), np.empty(len(texts), np.int64)
    for i, text in enumerate(texts):
        of, tokens = words(text), text.split()
        inked = sum(map(len, tokens))  # number of characters other than white space
        counts[i] = len(of), len(tokens), len(text), len(text) - inked, inked - len(_SIGNS.sub("", text))
        bare[i] = text == write(of)
    return counts, bare
