"""Ridge regression of a number on the features of the classifiers: TF-IDF, or the frozen encoder's vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.models.classifier import LINEAR, Text
from epsilometer.models.classifiers import encoder, linear, pairs
from epsilometer.text.words import words

_PENALTY = 1.0  # features of single texts have length 1, and so has the cosine of a pair's sides at most


def fit(
    kind: str, texts: Sequence[Text], numbers: NDArray[np.float64]
) -> Callable[[Sequence[Text]], NDArray[np.float64]]:
    """Return a deterministic function from other texts to their numbers [n], fitted to these texts and numbers [n].

    kind: linear or encoder. Without any word in the texts it is the mean. On one thread, as
    `linear.logistic_regression`.
    """
    from sklearn.linear_model import Ridge
    from threadpoolctl import threadpool_limits

    singles, mean = pairs.single(texts), float(numbers.mean())
    if kind == LINEAR and not any(map(words, singles)):
        return lambda others: np.full(len(others), mean)
    vectorizer = linear.tf_idf(singles) if kind == LINEAR else None

    def features(others: Sequence[Text]) -> Any:
        return pairs.features(others, vectorizer.transform) if vectorizer else encoder.features(others)

    with threadpool_limits(1):
        model = Ridge(_PENALTY).fit(features(texts), numbers - mean)

    def numbers_of(others: Sequence[Text]) -> NDArray[np.float64]:
        with threadpool_limits(1):
            predicted: NDArray[np.float64] = model.predict(features(others)) + mean
        return predicted

    return numbers_of
