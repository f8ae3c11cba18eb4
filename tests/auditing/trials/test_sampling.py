from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chisquare

from epsilometer.auditing.trials import sampling
from epsilometer.auditing.trials.sampling import matched, of_all, sample, variety
from epsilometer.core.randomness import Noise
from tests.support.refusals import refused


def embeddings(count: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, 8)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def law(vectors: np.ndarray, k: int, temperature: float) -> dict[tuple[int, ...], float]:
    """Appendix C as printed, by enumeration: normalised P(x | s), product, Boltzmann policy."""
    distance = 1 - vectors.astype(float) @ vectors.T
    p = np.exp(-distance) / np.exp(-distance).sum(axis=0)  # p[x, s] = P(x | s), TeDA eq. 13
    result = {}
    for order in permutations(range(len(vectors)), k):
        probability = 1 / len(vectors)
        for t in range(1, k):
            score = np.log(p[:, order[:t]]).sum(axis=1)  # eq. 15
            weight = np.exp(temperature * score)  # eq. 16
            weight[list(order[:t])] = 0
            probability *= weight[order[t]] / weight.sum()
        result[order] = probability
    return result


@pytest.mark.parametrize("temperature", [-3.0, 0.0, 2.0])
@pytest.mark.parametrize("k", [2, 3])
def test_against_enumeration(k: int, temperature: float) -> None:
    """Chi-square of 60,000 draws at 1e-6: false alarm 6e-6 over the six cases, at fixed seeds."""
    vectors = embeddings(5)
    candidates = sample(vectors, 60_000, k, temperature, seed=1).candidates
    expected = law(vectors, k, temperature)
    counts = dict.fromkeys(expected, 0)
    for row in candidates:
        counts[tuple(row.tolist())] += 1
    statistic = chisquare(list(counts.values()), np.array(list(expected.values())) * len(candidates))
    assert statistic.pvalue > 1e-6


@pytest.mark.parametrize(("temperature", "extreme"), [(10_000, np.argmax), (-10_000, np.argmin)])
def test_sharp_temperatures_pick_neighbours_and_opposites(temperature: float, extreme: object) -> None:
    vectors = embeddings(300)
    cosine = vectors @ vectors.T
    candidates = sample(vectors, 500, 4, temperature, seed=2).candidates
    for row in candidates:
        for step in range(1, 4):
            score = cosine[row[:step]].sum(axis=0)
            score[row[:step]] = -np.inf if temperature > 0 else np.inf
            best = score[extreme(score)]  # type: ignore[operator]
            assert abs(score[row[step]] - best) < 40 / 10_000  # e^-40 is never drawn


def test_sets_are_distinct_and_targets_uniform() -> None:
    """Binomial bound at 5 standard deviations for each slot: false alarm 4 * 6e-7."""
    trials = sample(embeddings(40), 20_000, 4, -10_000)
    assert all(len(set(row)) == 4 for row in trials.candidates.tolist())
    share = np.bincount(trials.target, minlength=4) / 20_000
    assert np.abs(share - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 20_000)
    np.testing.assert_array_equal(trials.source, trials.candidates[np.arange(20_000), trials.target])


def test_groups_keep_together_and_small_ones_are_left_out() -> None:
    groups = np.array([3] * 10 + [4] * 10 + [9])
    candidates = sample(embeddings(21), 2000, 3, -10_000, groups=groups).candidates
    assert (groups[candidates] == groups[candidates[:, :1]]).all()
    assert 20 not in candidates
    assert set(candidates[:, 0].tolist()) == set(range(20))


def test_few_trials_may_leave_a_group_out() -> None:
    groups = np.array([3] * 10 + [4] * 10 + [5] * 10)
    for seed in range(5):
        candidates = sample(embeddings(30), 2, 2, groups=groups, seed=seed).candidates
        assert (groups[candidates[:, 0]] == groups[candidates[:, 1]]).all()


def test_same_seed_same_trials_and_other_seed_others() -> None:
    vectors = embeddings(50)
    first, again, other = (sample(vectors, 100, seed=s).candidates for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def one_by_one(vectors: np.ndarray, count: int, k: int, temperature: float) -> np.ndarray:
    """Each candidate by inverse CDF over all texts that are left, in float64, from the same uniforms as `sample`."""
    uniforms = Noise.named(count, 0, "trials").uniforms(k + 1)
    cosine = np.rint((vectors @ vectors.T) * 2.0**20).astype(np.float64) / 2**20
    sets = np.empty((count, k), np.int64)
    sets[:, 0] = uniforms[:, 0] * len(vectors)
    for row, draws in zip(sets, uniforms[:, 1:], strict=True):
        for step in range(1, k):
            score = temperature * cosine[row[:step]].sum(axis=0)
            score[row[:step]] = -np.inf
            cdf = np.exp(score - score.max()).cumsum()
            row[step] = np.searchsorted(cdf, draws[step - 1] * cdf[-1], side="right")
    return sets


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("temperature", [-10_000, -2000, -30, 0, 3, 10_000])
def test_candidates_are_those_of_all_texts_one_by_one(temperature: float, k: int) -> None:
    vectors = embeddings(150)
    np.testing.assert_array_equal(
        sample(vectors, 400, k, temperature).candidates, one_by_one(vectors, 400, k, temperature)
    )


def test_pairs_need_similarities_of_their_first_texts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, rows, scores = embeddings(300), list[int](), sampling._scores

    def counted(left: np.ndarray, right: np.ndarray, temperature: float) -> np.ndarray:
        rows.append(len(left))
        return scores(left, right, temperature)

    monkeypatch.setattr(sampling, "_scores", counted)
    first = sample(vectors, 90, 2).candidates[:, 0]
    assert sum(rows) == len(np.unique(first)) < 90


def test_without_a_temperature_embeddings_do_not_matter() -> None:
    unknown = np.full((150, 8), np.nan, np.float32)
    np.testing.assert_array_equal(sample(unknown, 400, 5, 0).candidates, sample(embeddings(150), 400, 5, 0).candidates)


@pytest.mark.parametrize("k", [2, 3])
def test_large_pools_go_by_blocks(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = embeddings(200)
    whole = sample(vectors, 300, k).candidates
    monkeypatch.setattr(sampling, "_GRAM", 0)
    monkeypatch.setattr(sampling, "_BLOCK", 0)
    monkeypatch.setattr(sampling, "_ROWS", 7)
    monkeypatch.setattr(sampling, "_CELLS", 1000)
    np.testing.assert_array_equal(sample(vectors, 300, k).candidates, whole)


@pytest.mark.parametrize(
    ("count", "k", "refusal"),
    [(0, 2, ("EPS-A178", "trials", "1")), (5, 1, ("EPS-A189", "candidates")), (5, 6, ("EPS-A189", "(5)", "6"))],
)
def test_values_out_of_range(count: int, k: int, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        sample(embeddings(5), count, k)


def test_groups_without_partners() -> None:
    with refused("EPS-A190", "2"):
        sample(embeddings(3), 5, 2, groups=np.arange(3))


def test_all_texts_are_candidates_without_a_row_a_trial() -> None:
    """Sources are uniform: a chi-squared of 99 degrees of freedom exceeds 149 with probability 1e-3."""
    trials = of_all(100, 10_000, seed=3)
    assert trials.candidates.shape == (10_000, 100)
    assert trials.candidates.strides[0] == 0
    counts = np.bincount(trials.source, minlength=100)
    assert ((counts - 100) ** 2 / 100).sum() < 149
    assert variety(trials.candidates) == {"distinct": 100, "five_commonest": 0.05}
    assert matched(trials.candidates, np.full(100, 7)).all()
    assert not matched(trials.candidates, np.arange(100)).any()
    with refused("EPS-A188", "2", "1"):
        of_all(1, 10)


@pytest.mark.parametrize("grouped", [False, True])
def test_without_a_temperature_a_set_does_not_depend_on_how_many_are_drawn(grouped: bool) -> None:
    groups = np.arange(9) % 2 if grouped else None
    many, few = (sample(np.zeros((9, 1), np.float32), count, 3, 0, groups=groups) for count in (40_000, 20_000))
    np.testing.assert_array_equal(many.candidates[:20_000], few.candidates)
    np.testing.assert_array_equal(many.source[:20_000], few.candidates[np.arange(20_000), few.target])
