"""The sampled batches are those that the accountant assumes, because both use the same schedule."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from epsilometer.accounting.sampling import batches
from epsilometer.accounting.schedule import Poisson, Shuffled
from epsilometer.core.randomness import Noise


def participation(schedule: Poisson | Shuffled, seed: int = 0) -> np.ndarray:
    """Which example was in which step, [steps, texts]."""
    out = np.zeros((schedule.steps, schedule.texts), bool)
    for step, batch in enumerate(batches(schedule, Noise.named(schedule.steps, seed))):
        assert np.array_equal(batch, np.unique(batch))
        out[step, batch] = True
    return out


def test_poisson_coins_are_fair_and_independent() -> None:
    """Totals of steps and of examples are binomial (two chi-square tests), and neighbours in text and time independent.

    False alarm: 1e-4 for each of the four. Batches of one size fail the first, passes over all examples the second.
    """
    schedule = Poisson(texts=60, batch=20, epochs=1000)
    chosen = participation(schedule)
    assert len(chosen) == schedule.steps == 3000
    for counts, trials in ((chosen.sum(1), 60), (chosen.sum(0), 3000)):
        law = stats.binom(trials, 1 / 3)
        cells = np.searchsorted(law.ppf([0.2, 0.4, 0.6, 0.8]), counts)
        ends = np.concatenate([[0], law.cdf(law.ppf([0.2, 0.4, 0.6, 0.8])), [1]])
        expected = np.diff(ends) * len(counts)
        assert stats.chisquare(np.bincount(cells, minlength=5), expected).pvalue > 1e-4
    both = (chosen[:, :-1] & chosen[:, 1:]).sum(), (chosen[:-1] & chosen[1:]).sum()
    for times, pairs in zip(both, (3000 * 59, 2999 * 60), strict=True):
        # Neighbouring pairs overlap, so the variance is slightly more than binomial: p^2 (1 - p^2) + 2 (p^3 - p^4).
        variance = pairs * (1 / 9 * 8 / 9 + 2 * (1 / 27 - 1 / 81))
        assert abs(times - pairs / 9) < 3.9 * variance**0.5


def test_empty_batches_are_steps() -> None:
    schedule = Poisson(texts=4, batch=1, epochs=50)
    sizes = participation(schedule).sum(1)
    assert len(sizes) == 200
    assert (sizes == 0).sum() > 30  # 63 are expected, (3/4)^4 of 200; fewer than 31 occur in 1 of 10 million runs


def test_a_pass_of_shuffled_batches_has_every_example_once_and_all_passes_are_alike() -> None:
    schedule = Shuffled(texts=50, batch=12, epochs=3)
    chosen = participation(schedule)
    assert schedule.steps == 15
    assert np.array_equal(chosen.sum(1), 3 * schedule.sizes)
    for start in (0, 5, 10):
        assert (chosen[start : start + 5].sum(0) == 1).all()
        assert np.array_equal(chosen[start : start + 5], chosen[:5])
    assert not np.array_equal(chosen, participation(schedule, seed=1))


@pytest.mark.parametrize("kind", [Poisson, Shuffled])
def test_a_step_has_the_same_batch_wherever_one_begins(kind: type[Poisson] | type[Shuffled]) -> None:
    schedule = kind(texts=31, batch=7, epochs=4)
    noise = Noise.named(schedule.steps, "any")
    whole = [batch.tolist() for batch in batches(schedule, noise)]
    for first in (1, 7, 19, 20):
        assert [batch.tolist() for batch in batches(schedule, noise, first)] == whole[first:]
