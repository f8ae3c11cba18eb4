"""Ridge regression of a number on the features of the classifiers: TF-IDF, or vectors of the frozen encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.models.classifier import LINEAR, Text
from epsilometer.models.classifiers import encoder, linear, pairs
from epsilometer.text.words import words

_PENALTY = 1.0  # ridge penalty; features of single texts have length 1, so no scaling is needed


def fit(
    kind: str, texts: Sequence[Text], numbers: NDArray[np.float64]
) -> Callable[[Sequence[Text]], NDArray[np.float64]]:
    """Fit a ridge regression to texts and numbers [n]; return the function that predicts the numbers of other texts.

    kind: LINEAR or ENCODER. If no text has a word, LINEAR predicts the mean. Fitting and prediction run on one thread,
    and are deterministic.
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
