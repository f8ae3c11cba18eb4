"""How much of a text its rewrite keeps: meaning by a sentence encoder, and three measures of the surface.

    cosine       of the sentence embeddings (Reimers and Gurevych 2019); 1 for the same text
    edit         1 - Levenshtein distance / length of the longer, in characters
    overlap      Jaccard index of the sets of words
    kept         share of the words that are still there, counted with repeats

The surface measures look at words as `language.words` yields them: case, layout and punctuation do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import t

from epsilometer.language.words import words, write

MEASURES = ("cosine", "edit", "overlap", "kept")


def surface(originals: Sequence[str], rewrites: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """edit, overlap and kept of each pair of texts: [n] each, from 0 to 1."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cpdist

    left, right = [words(text) for text in originals], [words(text) for text in rewrites]
    plain = [[write(text) for text in side] for side in (left, right)]
    edit = cpdist(*plain, scorer=Levenshtein.normalized_similarity, dtype=np.float64)
    overlap = np.array([_part(len({*a} & {*b}), len({*a} | {*b})) for a, b in zip(left, right, strict=True)])
    kept = np.array([_part((Counter(a) & Counter(b)).total(), len(a)) for a, b in zip(left, right, strict=True)])
    return {"edit": edit, "overlap": overlap, "kept": kept}


def summary(values: dict[str, NDArray[np.float64]], alpha: float) -> pl.DataFrame:
    """One row: each measure's mean, and its Student t interval at confidence 1 - alpha (`_low`, `_high`)."""
    row: dict[str, float] = {}
    for name, found in values.items():
        mean, error = float(found.mean()), float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else 0.0
        reach = error * float(t.ppf(1 - alpha / 2, len(found) - 1)) if error else 0.0
        row |= {name: mean, f"{name}_low": mean - reach, f"{name}_high": mean + reach}
    return pl.DataFrame([row])


def _part(number: int, of: int) -> float:
    return number / of if of else 1.0  # nothing in, nothing out: all of it is kept
