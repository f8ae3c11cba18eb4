"""Views of a text: each view consists of the features of one kind. A mechanism may hide a code in such features.

Kinds of features are, for example, letter case, invisible characters, and tokens without their order. A view contains
features of its own kind only. So a code in these features can be found even if everything else in the text changes.
Texts are not normalised, since normalisation could remove codes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

BUCKETS = 1 << 20  # number of hashed features
_LONGEST = 4  # largest number of characters in an n-gram
_RUN = 8  # characters in a run of letter cases or of invisible characters
_PLACES = 256  # number of leading tokens or characters whose position is part of the feature
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads neighbouring code points far apart


def presence(view: str, texts: Sequence[str]) -> csr_matrix:
    """Return the binary features of each text in a view, [texts, BUCKETS]. Equal texts are processed once."""
    from sklearn.feature_extraction import FeatureHasher

    number = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    if view == GRAMS:
        features = _grams([*number])
    else:
        hasher = FeatureHasher(BUCKETS, input_type="string", alternate_sign=False)
        features = hasher.transform([*_STRINGS[view](text)] for text in number)
    features.sum_duplicates()
    features.data = np.ones(len(features.data))
    return features[[number[text] for text in texts]]


def _grams(texts: Sequence[str]) -> csr_matrix:
    """Return the counts of n-grams of 1 to 4 code points, including white space: [texts, BUCKETS]."""
    from scipy.sparse import csr_matrix

    points = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32).astype(np.uint64) + np.uint64(1)
    text = np.repeat(np.arange(len(texts)), [len(each) for each in texts])
    rows, columns, value = [], [], np.zeros(len(points), np.uint64)
    for length in range(1, min(_LONGEST, len(points)) + 1):
        ends = points[length - 1 :]
        value = (value[: len(ends)] ^ ends) * _FACTOR
        value ^= value >> np.uint64(29)
        inside = text[: len(ends)] == text[length - 1 :]
        rows.append(text[: len(ends)][inside])
        columns.append((value[inside] >> np.uint64(44)).astype(np.int64))
    row, column = (np.concatenate(parts) if parts else np.empty(0, np.int64) for parts in (rows, columns))
    return csr_matrix((np.ones(len(row)), (row, column)), (len(texts), BUCKETS))


def _tokens(text: str) -> Iterator[str]:
    """Yield the tokens between white space, and the pairs of adjacent tokens."""
    split = text.split()
    yield from split
    yield from map(" ".join, pairwise(split))


def _places(text: str) -> Iterator[str]:
    """Yield the first 256 tokens, each with its position."""
    for place, token in enumerate(text.split()[:_PLACES]):
        yield f"{place} {token}"


def _case(text: str) -> Iterator[str]:
    """Yield features of the sequence of upper-case and lower-case letters."""
    return _signs("".join("U" if sign.isupper() else "l" for sign in text if sign.isupper() or sign.islower()))


def _invisible(text: str) -> Iterator[str]:
    """Yield features of the sequence of invisible characters, such as zero-width ones."""
    return _signs("".join(sign for sign in text if sign != " " and unicodedata.category(sign)[0] in "CZM"))


def _lengths(text: str) -> Iterator[str]:
    """Yield the numbers of characters, of tokens, and of characters inside tokens."""
    split = text.split()
    yield from (f"characters {len(text)}", f"tokens {len(split)}", f"in tokens {sum(map(len, split))}")


def _signs(signs: str) -> Iterator[str]:
    """Yield the first 256 characters, each with its position, and all runs of 8 characters."""
    for place, sign in enumerate(signs[:_PLACES]):
        yield f"{place} {sign}"
    for start in range(len(signs) - _RUN + 1):
        yield signs[start : start + _RUN]


GRAMS = "n-grams"
_STRINGS: dict[str, Callable[[str], Iterator[str]]] = {
    "tokens": _tokens,
    "places": _places,
    "letter case": _case,
    "invisible characters": _invisible,
    "lengths": _lengths,
}
VIEWS = (GRAMS, *_STRINGS)
