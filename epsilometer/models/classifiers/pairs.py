"""Features of a pair of texts with feature vectors u and v: u, v, |u - v|, u * v, and the cosine of u and v.

All but the cosine follow Conneau et al., "Supervised Learning of Universal Sentence Representations from Natural
Language Inference Data" (EMNLP 2017), section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from epsilometer.models.classifier import Text


def single(texts: Sequence[Text]) -> list[str]:
    """Return single texts unchanged; for pairs, return all first texts, then all second texts."""
    sides = [(text,) if isinstance(text, str) else text for text in texts]
    return [side[i] for i in range(max(map(len, sides), default=0)) for side in sides]


def features(texts: Sequence[Text], of: Callable[[Sequence[str]], Any]) -> Any:
    """Return the features [n, d] of single texts, or [n, 4 d + 1] of pairs.

    of: a function that returns the features [n, d] of single texts, dense or sparse. Its rows have length 1 or 0.
    """
    if not texts or isinstance(texts[0], str):
        return of(single(texts))
    both = of(single(texts))
    u, v = both[: len(texts)], both[len(texts) :]
    if isinstance(both, np.ndarray):
        product = u * v
        return np.concatenate([u, v, abs(u - v), product, product.sum(axis=1, keepdims=True)], axis=1)
    from scipy.sparse import csr_array, hstack

    product = u.multiply(v)
    cosine = csr_array(np.asarray(product.sum(axis=1)).reshape(-1, 1))
    return csr_array(hstack([u, v, abs(u - v), product, cosine]))
