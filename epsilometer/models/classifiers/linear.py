"""Logistic regression on TF-IDF of words: a baseline without a neural network, with exact attributions to words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.models.classifier import LINEAR, Examples, Text, each_once, write_about
from epsilometer.models.classifiers import pairs
from epsilometer.models.logits import probabilities_on_grid
from epsilometer.text.vectors import read_arrays, write_arrays
from epsilometer.text.words import words

_WEIGHTS = "weights.npz"
_STRENGTH = 3.0  # scikit-learn's C; on 4,500 generated reviews, 1 is less accurate, and so is 20 for some labels
_STEPS = 1000  # most steps of the optimiser


class Linear:
    """A linear classifier: logits = TF-IDF(text) · coefficients + intercepts.

    vocabulary:   V words, as defined by `text.words`.
    frequencies:  float64 [V], inverse document frequencies.
    coefficients: float64 [c, V] for c classes. For pairs: [c, 4 V + 1] (`classifiers.pairs`).
    intercepts:   float64 [c].

    With two classes, the single logit z of the regression becomes the logits -z / 2 and z / 2.
    """

    kind = LINEAR

    def __init__(
        self,
        classes: Sequence[str],
        vocabulary: Sequence[str],
        frequencies: NDArray[np.float64],
        coefficients: NDArray[np.float64],
        *,
        intercepts: NDArray[np.float64],
    ) -> None:
        self.classes = list(classes)
        self.vocabulary = list(vocabulary)
        self.frequencies, self.coefficients, self.intercepts = frequencies, coefficients, intercepts

    @classmethod
    def fit(cls, examples: Examples, weights: NDArray[np.float64] | None = None) -> Linear:
        """Train on these examples, deterministically. If no text has a word, the logits are the log class frequencies.

        weights: [n], the weight of each example; None: 1.
        """
        singles = pairs.single(examples.texts)
        if not any(map(words, singles)):
            counts = Counter(examples.labels)
            classes, shares = sorted(counts), np.array([counts[name] for name in sorted(counts)]) / len(examples)
            return cls(classes, [], np.empty(0), np.empty((len(classes), 0)), intercepts=np.log(shares))
        vectorizer = tf_idf(singles)
        features = pairs.features(examples.texts, vectorizer.transform)
        classes, coefficients, intercepts = logistic_regression(features, examples.labels, weights)
        vocabulary = vectorizer.get_feature_names_out().tolist()
        return cls(classes, vocabulary, vectorizer.idf_, coefficients, intercepts=intercepts)

    @classmethod
    def load(cls, folder: Path, about: Mapping[str, Any]) -> Linear:
        """Return the classifier in a folder."""
        frequencies, coefficients, intercepts, vocabulary = read_arrays(
            folder / _WEIGHTS, "frequencies", "coefficients", "intercepts", "vocabulary"
        )
        return cls(about["classes"], vocabulary.tolist(), frequencies, coefficients, intercepts=intercepts)

    def save(self, folder: Path) -> None:
        """Write the words and weights."""
        folder.mkdir(parents=True, exist_ok=True)
        write_arrays(
            folder / _WEIGHTS,
            frequencies=self.frequencies,
            coefficients=self.coefficients,
            intercepts=self.intercepts,
            vocabulary=np.array(self.vocabulary),
        )
        write_about(folder, self.kind, self.classes, {})

    def features(self, texts: Sequence[Text]) -> Any:
        """Return the sparse TF-IDF [n, V] of the texts, or features [n, 4 V + 1] of pairs (`classifiers.pairs`).

        A row of TF-IDF has length 1. It is zero for a text without a word of the vocabulary.
        """
        return pairs.features(texts, self._vectorizer.transform) if self.vocabulary else np.empty((len(texts), 0))

    def probabilities(self, texts: Sequence[Text]) -> NDArray[np.float64]:
        """Return [n, c]: each text's probability of each class."""

        def compute(distinct: Sequence[Text]) -> NDArray[np.float64]:
            return probabilities_on_grid(self.features(distinct) @ self.coefficients.T + self.intercepts)

        return each_once(texts, compute, len(self.classes))

    @cached_property
    def _vectorizer(self) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(analyzer=words, vocabulary=self.vocabulary)
        vectorizer.idf_ = self.frequencies
        return vectorizer


def tf_idf(texts: Sequence[str]) -> Any:
    """Return a scikit-learn vectorizer fitted to these texts. At least one text must have a word."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer=words).fit(texts)


def logistic_regression(
    features: Any, labels: Sequence[str], weights: NDArray[np.float64] | None = None
) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
    """Return the classes, sorted, and the coefficients [c, d] and intercepts [c] of a logistic regression.

    features: [n, d], dense or sparse. weights: [n], the weight of each example; None: 1. The fit uses one thread, since
    several threads change the last bits of sums.
    """
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        model = LogisticRegression(C=_STRENGTH, max_iter=_STEPS).fit(features, labels, weights)
    coefficients, intercepts = model.coef_, model.intercept_
    if len(model.classes_) == 2:  # scikit-learn returns only the logit of the second class
        coefficients, intercepts = (np.concatenate([-array, array]) / 2 for array in (coefficients, intercepts))
    return model.classes_.tolist(), coefficients, intercepts
