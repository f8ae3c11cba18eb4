"""Attributions of a classifier's prediction to a text's words: a signed score per word for the predicted class.

integrated_gradients: embedding minus padding's embedding, times the logit's mean gradient along the line between the
    two embeddings (`shared.integrated_gradients`). A linear classifier gets `linear` instead, which equals integrated
    gradients along a line from a text without words.
linear:     coefficient times value of the word's features; only for linear classifiers.
occlusion:  probability of the text minus probability of the text without the word.
lime:       captum's Lime: coefficients of a linear model fitted to the probabilities of texts that lack random words.

A word is a token of the tagger with letters, in lower case. All its occurrences share one score, and are removed
together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError, unknown
from epsilometer.mechanisms.anonymisers.shared.integrated_gradients import MOST_STEPS, STEPS, integrated_gradients
from epsilometer.mechanisms.anonymisers.shared.word_edits import Spans, edited, spans
from epsilometer.models.classifier import LINEAR, TRANSFORMER, Classifier
from epsilometer.text.words import words

GRADIENTS = "integrated_gradients"
METHODS = (GRADIENTS, "occlusion", "lime", "linear")


@dataclass(frozen=True)
class Attribution:
    """Settings of attributions. Raises UserError for an unknown method, and for numbers outside their range.

    steps:     number of Gauss-Legendre nodes of integrated gradients, before any doubling.
    tolerance: largest relative error of the sum of the scores, which should equal the difference of the logits.
    samples:   number of perturbed texts per text that lime classifies.
    """

    method: str = GRADIENTS
    steps: int = STEPS
    tolerance: float = 0.05
    samples: int = 200

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise unknown("attribution", self.method, METHODS)
        if not 1 <= self.steps <= MOST_STEPS or self.samples < 2 or not self.tolerance > 0:
            raise UserError(
                f"attribution needs 1 to {MOST_STEPS} steps, at least 2 samples and a tolerance above 0, got "
                f"steps {self.steps}, samples {self.samples}, tolerance {self.tolerance}",
                "EPS-M015",
            )


@dataclass(frozen=True)
class Attributions:
    """The scores of the words of n texts.

    scores:     for each text, its words in lower case, in order of appearance, with their scores.
    incomplete: bool [n], True if the sum of the scores of all word pieces differs by more than the tolerance from the
                logit of the text minus the logit of padding.
    """

    scores: Sequence[Mapping[str, float]]
    incomplete: NDArray[np.bool_] = field(repr=False)


def attributions(classifier: Classifier, texts: Sequence[str], settings: Attribution) -> Attributions:
    """Return the scores of the words of n texts, for the class that the classifier predicts for each text.

    A text's scores do not depend on other texts. Raises UserError if this kind of classifier lacks the method.
    """
    if not texts:
        return Attributions([], np.zeros(0, bool))
    cut = [spans(text) for text in texts]
    incomplete = np.zeros(len(texts), bool)
    scores: Sequence[Mapping[str, float]]
    if settings.method == "occlusion":
        scores = _occlusion(classifier, cut)
    elif settings.method == "lime":
        scores = [_lime(classifier, spans, settings.samples) if spans.places else {} for spans in cut]
    elif classifier.kind == LINEAR:
        scores = _linear(classifier, cut)
    elif classifier.kind == TRANSFORMER and settings.method == GRADIENTS:
        scores, incomplete = integrated_gradients(classifier, cut, steps=settings.steps, tolerance=settings.tolerance)
    else:
        raise UserError(
            f"a classifier of kind {classifier.kind!r} does not support the attribution {settings.method!r}; use "
            "occlusion or lime",
            "EPS-M016",
        )
    return Attributions(scores, incomplete)


def _occlusion(classifier: Classifier, cut: Sequence[Spans]) -> list[dict[str, float]]:
    """Return scores by `occlusion`. Whole texts and texts that lack one word are classified in one call."""
    without = [edited(spans, dict.fromkeys(places, "")) for spans in cut for places in spans.places.values()]
    probabilities = classifier.probabilities([spans.text for spans in cut] + without)
    owner = np.repeat(np.arange(len(cut)), [len(spans.places) for spans in cut])
    whole, missing = probabilities[: len(cut)], probabilities[len(cut) :]
    target = whole.argmax(axis=1)
    falls = iter((whole[owner, target[owner]] - missing[np.arange(len(owner)), target[owner]]).tolist())
    return [{word: next(falls) for word in spans.places} for spans in cut]


def _linear(classifier: Any, cut: Sequence[Spans]) -> list[dict[str, float]]:
    """Return scores by `linear`. A feature's part of the logit is divided evenly among the tokens with that feature."""
    features = classifier.features([spans.text for spans in cut])
    target = classifier.probabilities([spans.text for spans in cut]).argmax(axis=1)
    column = {word: i for i, word in enumerate(classifier.vocabulary)}
    scores = []
    for row, of_text in enumerate(cut):
        part = features[[row]]
        weights = classifier.coefficients[target[row], part.indices] * part.data
        share = dict(zip(part.indices.tolist(), weights.tolist(), strict=True))
        counted = [[column[f] for f in words(token) if f in column] for token in of_text.tokens]
        times = np.bincount([f for token in counted for f in token], minlength=1)
        scores.append(
            {
                word: sum(share.get(f, 0.0) / times[f] for place in places for f in counted[place])
                for word, places in of_text.places.items()
            }
        )
    return scores


def _lime(classifier: Classifier, spans: Spans, samples: int) -> dict[str, float]:
    """Return a text's scores by `lime`. The text seeds the choice of removed words, so equal texts get equal scores."""
    import torch
    from captum.attr import Lime

    target = int(classifier.probabilities([spans.text]).argmax())
    places = list(spans.places.values())

    def forward(present: Any) -> Any:
        texts = [
            edited(
                spans, {place: "" for of_word, here in zip(places, row, strict=True) if not here for place in of_word}
            )
            for row in present.bool().tolist()
        ]
        return torch.from_numpy(classifier.probabilities(texts)[:, target])

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int.from_bytes(hashlib.blake2b(spans.text.encode(), digest_size=7).digest()))
        coefficients = Lime(forward).attribute(
            torch.ones(1, len(places)), n_samples=samples, perturbations_per_eval=samples
        )
    return dict(zip(spans.places, coefficients[0].tolist(), strict=True))
