"""Post-processing of noisy votes does not lose a label that noise makes rare."""

from __future__ import annotations

import numpy as np
import pytest

from epsilometer.mechanisms.corpora.shared.post_processing import VotesForTexts, self_trained, spread

LABELS, EACH = 4, 60


def clustered(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors [240, 24] of four overlapping topics, and the topics."""
    generator = np.random.default_rng(seed)
    topics = np.repeat(np.arange(LABELS), EACH)
    vectors = np.eye(LABELS, 24)[topics] + 0.28 * generator.standard_normal((len(topics), 24))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), topics


def test_a_label_that_few_texts_have_is_learnt_as_well_as_the_others() -> None:
    """A tenth of the last topic's texts have its label, the others that of the first topic."""
    vectors, topics = clustered()
    begun = topics.copy()
    begun[-EACH : -EACH // 10] = 0
    labels = self_trained(vectors, begun, LABELS)
    assert (labels[-EACH:] == LABELS - 1).mean() > 0.9
    assert (labels == topics).mean() > 0.9


def test_self_training_keeps_right_labels() -> None:
    vectors, topics = clustered()
    assert (self_trained(vectors, topics, LABELS) == topics).mean() > 0.95


@pytest.mark.parametrize("total", [-40.0, 0.0, 3.0])
def test_a_label_whose_noisy_total_is_below_the_noise_has_the_weight_of_the_noise(total: float) -> None:
    vectors, topics = clustered()
    places = np.arange(0, len(topics), 20)  # 12 exemplars
    counts = 200.0 * np.eye(LABELS)[topics[places]]
    rare = topics[places] == LABELS - 1
    counts[~rare, -1] = (total - counts[:, -1].sum()) / (~rare).sum()
    votes = VotesForTexts(counts, places, vectors, variance=25.0)
    _, labels, weights = spread(votes)
    assert counts[:, -1].sum() == pytest.approx(total, abs=1e-9)
    assert weights[labels == LABELS - 1].sum() == pytest.approx(5 * np.sqrt(len(places)))
    assert weights[labels == 0].sum() == pytest.approx(600)
