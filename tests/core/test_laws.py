from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import scipy.special
from scipy.stats import chisquare

from epsilometer.core import laws as laws_module
from epsilometer.core.laws import Laws, log_likelihood, log_softmax, sample
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise

SCORES = np.random.default_rng(0).normal(size=(6, 5))


def some_laws() -> Laws:
    def log_probabilities(rows: np.ndarray, epsilons: Sequence[float]) -> Iterator[np.ndarray]:
        for epsilon in epsilons:
            law = epsilon * SCORES[rows]
            law[:, 4] = np.where(rows == 5, -np.inf, law[:, 4])
            yield law - np.log(np.exp(law).sum(axis=1, keepdims=True))

    return Laws(Ragged.of([[0, 1, 2], [5], [], [3, 3]]), 5, log_probabilities)


def test_sampling_follows_the_law() -> None:
    """Chi-square at 1e-6 for each of five rows: false alarm 5e-6, at a fixed seed."""
    source = np.repeat([0, 3], 20_000)
    (sequences,) = sample(some_laws(), source, [1.3], [Noise.named(len(source), "s")])
    for text, position, row in [(0, 0, 0), (0, 1, 1), (0, 2, 2), (3, 0, 3), (3, 1, 3)]:
        units = sequences.take(np.flatnonzero(source == text)).values.reshape(20_000, -1)[:, position]
        (log_p,) = some_laws().log_probabilities(np.array([row]), [1.3])
        assert chisquare(np.bincount(units, minlength=5), 20_000 * np.exp(log_p[0])).pvalue > 1e-6


def test_a_draw_does_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    source = np.array([3, 0, 1, 2, 0, 3])
    noise = Noise.named(6, "t")
    together = sample(some_laws(), source, [0.5, 2.0], [noise, noise])
    monkeypatch.setattr(laws_module, "_CELLS", 1)
    for i in range(6):
        alone = sample(some_laws(), source[[i]], [0.5, 2.0], [noise[np.array([i])]] * 2)
        for single, many in zip(alone, together, strict=True):
            assert single.row(0).tolist() == many.row(i).tolist()


def test_likelihood_against_a_loop() -> None:
    texts = np.array([0, 3, 1, 2, 0, 1])
    units = [Ragged.of([[0, 1, 2], [4, 0], [3], [], [1], [4]]), Ragged.of([[2, 2, 2], [1, 1], [0], [], [0], [4]])]
    likelihoods = log_likelihood(some_laws(), texts, units, [0.7, 3.0])
    for total, rewrites, epsilon in zip(likelihoods, units, [0.7, 3.0], strict=True):
        for i, text in enumerate(texts):
            rows = some_laws().rows.row(text)
            twin = -np.inf
            if len(rows) == len(rewrites.row(i)):
                laws = [next(some_laws().log_probabilities(np.array([r]), [epsilon]))[0] for r in rows]
                twin = sum(law[u] for law, u in zip(laws, rewrites.row(i), strict=True))
            assert total[i] == pytest.approx(twin)
    assert likelihoods[0][4] == -np.inf  # another length
    assert likelihoods[0][5] == -np.inf  # an impossible unit
    assert likelihoods[0][3] == 0  # an empty text has likelihood 1


def test_rows_are_normalised_alike_however_many_stand_together() -> None:
    weights = np.random.default_rng(0).normal(size=(9, 20_000)) * 30
    weights[2, :3] = -np.inf
    assert (log_softmax(weights) == scipy.special.log_softmax(weights, axis=1)).all()
