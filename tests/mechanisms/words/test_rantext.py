"""RANTEXT: the law of the radius in both tails, the law of words by brute force and by sampling, and its claims."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from epsilometer.auditing.claims.verdicts import NOT_REFUTED, VIOLATED
from epsilometer.auditing.claims.worst_case import check_claim
from epsilometer.core.component import build, find
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.rantext import RanText, tau
from epsilometer.mechanisms.words.shared.embedded import vectors
from epsilometer.mechanisms.words.shared.laplace_norm import LaplaceNorm
from epsilometer.text.vectors import WordVectors
from tests.support.refusals import refused

ALPHA = 1e-9  # a test of a distribution fails by chance once in 10^9 seeds, and wrong laws must be below it
WORDS = ["the", "cat", "sat", "7", "mat", "unknown"]
PLANE = np.array([(0, 0), (1, 0.1), (0.2, 0.8), (-0.7, 0.3), (0.9, 1), (-0.2, -0.4)])


def make(resource: Path, **settings: Any) -> RanText:
    mechanism: RanText = build(find("mechanisms", "rantext", "rewrite"), {"resource": resource, **settings}, "rantext")
    return mechanism


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """plane.npz: 6 words in 2 dimensions; space.npz: 80 words in 50."""
    path = tmp_path_factory.mktemp("rantext")
    WordVectors(WORDS, PLANE).save(path / "plane.npz")
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(80, 50)) * rng.uniform(0.5, 1.5, 50)
    vectors[:40] = vectors[rng.integers(40, 50, 40)] + 0.4 * vectors[:40]
    WordVectors([f"w{i}" for i in range(80)], vectors).save(path / "space.npz")
    return path


def law(mechanism: RanText, epsilon: float) -> NDArray[np.float64]:
    (log_p,) = mechanism.laws(mechanism.inputs).log_probabilities(np.arange(len(mechanism.vocabulary)), [epsilon])
    return log_p


def test_the_length_of_one_laplace_number_is_exponential() -> None:
    length, at = LaplaceNorm(np.array([0.0, 3.0])), np.array([1e-8, 1e-3, 0.5, 1, 7, 100, 1500])
    np.testing.assert_allclose(length.log_sf(at), -at / 3, rtol=2e-5, atol=5e-5)
    np.testing.assert_allclose(length.log_cdf(at), np.log(-np.expm1(-at / 3)), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("at", [0.01, 0.7, 3, 20, 60])
def test_the_length_of_two_is_that_of_a_double_integral(at: float) -> None:
    """Tails down to 5e-25, against mpmath: P(r > t) is an integral over the angle."""
    first, second = 1.0, 0.4

    def beyond(angle: Any) -> Any:
        rate = mpmath.cos(angle) / first + mpmath.sin(angle) / second
        return mpmath.exp(-at * rate) * (1 + at * rate) / rate**2 / first / second

    expected = mpmath.quad(beyond, mpmath.linspace(0, mpmath.pi / 2, 9))
    length = LaplaceNorm(np.array([second, first]))
    assert length.log_sf(np.array([at]))[0] == pytest.approx(float(mpmath.log(expected)), abs=2e-5)
    assert length.log_cdf(np.array([at]))[0] == pytest.approx(float(mpmath.log(1 - expected)), rel=1e-4, abs=1e-9)


def test_the_length_of_many_is_that_of_draws() -> None:
    """Kolmogorov and Smirnov on 20,000 draws at 10^-9; scales off by 4 % are told apart."""
    rng = np.random.default_rng(0)
    scales = rng.uniform(0.2, 2, 60)
    draws = np.linalg.norm(rng.laplace(size=(20_000, 60)) * scales, axis=1)
    assert stats.kstest(draws, lambda at: np.exp(LaplaceNorm(scales).log_cdf(at))).pvalue > ALPHA
    assert stats.kstest(draws, lambda at: np.exp(LaplaceNorm(1.04 * scales).log_cdf(at))).pvalue < ALPHA


def test_the_upper_tail_of_many_is_that_of_weighted_draws() -> None:
    """200,000 draws 1.3 times as wide, weighted. Off by six standard errors (40 %) with a probability of about 2e-9."""
    rng, wider = np.random.default_rng(1), 1.3
    scales = rng.uniform(0.2, 2, 60)
    numbers = rng.exponential(wider, size=(200_000, 60))
    weights = wider**60 * np.exp(-(1 - 1 / wider) * numbers.sum(axis=1))
    at = 24.0
    beyond = weights * (np.linalg.norm(numbers * scales, axis=1) > at)
    mean, error = beyond.mean(), beyond.std() / math.sqrt(len(beyond))
    assert error < 0.07 * mean
    assert abs(np.exp(LaplaceNorm(scales).log_sf(np.array([at])))[0] - mean) < 6 * error


def brute_force(epsilon: float, as_published: bool) -> NDArray[np.float64]:
    """P(y | x) of the six words: Gauss and Legendre in the radius between all distances, the density by angles."""
    distance = np.linalg.norm(PLANE[:, None] - PLANE, axis=-1)
    first, second = np.ptp(PLANE, axis=0) / tau(epsilon)
    borders = np.concatenate([np.unique(distance), 3 * distance.max() * np.arange(1, 30)])
    node, weight = np.polynomial.legendre.leggauss(60)
    angle, angle_weight = (node + 1) * np.pi / 4, weight * np.pi / 4
    total = np.zeros_like(distance)
    for low, high in itertools.pairwise(borders):
        for r, share in zip(low + (node + 1) * (high - low) / 2, weight * (high - low) / 2, strict=True):
            rate = np.cos(angle) / first + np.sin(angle) / second
            density = r * (np.exp(-r * rate) * angle_weight).sum() / first / second
            score = 1 - distance / r
            weights = np.where(score > 0, np.exp(epsilon / 2 * score), 0.0 if as_published else 1.0)
            total += share * density * weights / weights.sum(axis=1, keepdims=True)
    return total


@pytest.mark.parametrize("as_published", [True, False])
@pytest.mark.parametrize("epsilon", [0.5, 1.99, 2.0, 6.0, 30.0])
def test_the_law_and_its_worst_case_are_those_of_brute_force(folder: Path, epsilon: float, as_published: bool) -> None:
    mechanism = make(folder / "plane.npz", as_published=as_published)
    expected = np.log(brute_force(epsilon, as_published))
    np.testing.assert_allclose(np.exp(expected).sum(axis=1), 1, atol=1e-7)
    np.testing.assert_allclose(law(mechanism, epsilon), expected, atol=3e-3)
    worst = (expected[:, None] - expected[None]).max()
    assert check_claim(mechanism, epsilon).largest == pytest.approx(worst, abs=3e-3)


def process(
    vectors: NDArray[np.float64], x: int, epsilon: float, *, as_published: bool, count: int
) -> NDArray[np.int64]:
    """Draw words as the equations say: noise, its length, the words within it, one of these by its score."""
    rng = np.random.default_rng(5)
    scales = np.ptp(vectors, axis=0) / tau(epsilon)
    radius = np.linalg.norm(rng.laplace(size=(count, vectors.shape[1])) * scales, axis=1)[:, None]
    distance = np.linalg.norm(vectors - vectors[x], axis=1)
    weights = np.exp(epsilon / 2 * np.maximum(1 - distance / radius, 0))
    if as_published:
        weights *= distance < radius
    cdf = np.cumsum(weights, axis=1)
    return (rng.random((count, 1)) * cdf[:, -1:] >= cdf).sum(axis=1)


def fit(sample: NDArray[np.integer], log_p: NDArray[np.float64]) -> float:
    """p-value of Pearson's chi-square, outputs of an expectation below 20 in one class."""
    expected, seen = np.exp(log_p) * len(sample), np.bincount(sample, minlength=len(log_p))
    often = expected >= 20
    pooled = [np.append(counts[often], counts[~often].sum()) for counts in (seen, expected)]
    return float(stats.chisquare(*(counts[pooled[1] > 0] for counts in pooled), sum_check=False).pvalue)


@pytest.mark.parametrize("as_published", [True, False])
@pytest.mark.parametrize(("data", "epsilon"), [("plane", 1.5), ("plane", 8.0), ("space", 8.0)])
def test_the_process_and_the_sampler_follow_the_law(
    folder: Path, data: str, epsilon: float, as_published: bool
) -> None:
    """Chi-square at 10^-9 each of 40,000 draws; the law of another epsilon is told apart."""
    mechanism, x, count = make(folder / f"{data}.npz", as_published=as_published), 3, 40_000
    rewrites = mechanism.rewrite([mechanism.vocabulary.words[x]] * count, epsilon, Noise.named(count, 0, "rantext"))
    assert rewrites.units is not None
    for sample in (
        process(mechanism.vectors.exact, x, epsilon, as_published=as_published, count=count),
        rewrites.units.values,
    ):
        assert fit(sample, law(mechanism, epsilon)[x]) > ALPHA
        assert fit(sample, law(mechanism, 1.5 * epsilon)[x]) < ALPHA


@pytest.mark.parametrize("data", ["plane", "space"])
@pytest.mark.parametrize("epsilon", [0.05, 2.0001, 10, 5000])
def test_the_corrected_form_keeps_its_claim_and_its_bound(folder: Path, data: str, epsilon: float) -> None:
    finding = check_claim(make(folder / f"{data}.npz"), epsilon)
    assert (finding.verdict, finding.method) == (NOT_REFUTED, "exact")
    assert finding.bound is not None
    assert finding.slack is not None
    assert -finding.slack - 1e-9 <= finding.bound <= 1e-9


def test_the_published_form_breaks_its_claim_from_two_on(folder: Path) -> None:
    """A jump of tau: below 2 the list holds every word, at 2 the radius is a fifth."""
    mechanism = make(folder / "space.npz", as_published=True)
    assert tau(2.0) / tau(1.9999) == pytest.approx(4.56, abs=0.01)
    assert check_claim(mechanism, 1.99).verdict == NOT_REFUTED
    losses = [check_claim(mechanism, epsilon) for epsilon in (2.0, 4.0, 10.0)]
    assert [finding.verdict for finding in losses] == [VIOLATED] * 3
    assert min(finding.largest for finding in losses if finding.largest) > 15


@pytest.mark.parametrize(("epsilon", "least", "most"), [(1.0, 0, 0), (1.99, 0, 0), (2.0001, 0.99, 1), (10.0, 0.9, 1)])
def test_pairs_of_the_embedded_vectors_exceed_the_published_claim(
    tmp_path: Path, epsilon: float, least: float, most: float
) -> None:
    """Of the ordered pairs of 100 words, from outputs that have a probability of 1e-4 or more under the first word."""
    WordVectors.load(vectors()).whole_words().first(1000).save(tmp_path / "embedded.npz")
    mechanism = make(tmp_path / "embedded.npz", as_published=True)
    (log_p,) = mechanism.laws(["the"]).log_probabilities(np.arange(0, 1000, 10), [epsilon])
    loss = np.where(log_p[:, None] >= np.log(1e-4), log_p[:, None] - log_p, -np.inf).max(axis=-1)
    share = (loss > epsilon)[~np.eye(100, dtype=bool)].mean()
    assert least <= share <= most


@pytest.mark.parametrize("as_published", [True, False])
@pytest.mark.parametrize("epsilon", [1e-9, 2.0, 1e9])
def test_laws_are_laws_at_any_epsilon(folder: Path, epsilon: float, as_published: bool) -> None:
    for data in ("plane", "space"):
        log_p = law(make(folder / f"{data}.npz", as_published=as_published), epsilon)
        np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-9)
        assert np.isfinite(log_p).all()


def test_released_code_shows_digits_and_drops_unlisted_words(folder: Path) -> None:
    """The law of digits is uniform over 1 to 1000; the number of words tells how many are listed."""
    mechanism = make(folder / "plane.npz", as_published=True, released_code=True)
    texts = ["the 42 zyzzyva cat", "the 1234567", "zyzzyva"]
    rewrites = mechanism.rewrite(texts, 3.0, Noise.named(3, 0, "released"))
    assert rewrites.units is not None
    assert rewrites.units.lengths.tolist() == [3, 2, 0]
    assert [len(text.split()) for text in rewrites.texts] == [3, 2, 0]
    assert 1 <= int(rewrites.texts[0].split()[1]) <= 1000
    laws = mechanism.laws(["7", "8", "the"])
    seven, eight, the = next(iter(laws.log_probabilities(laws.rows.values, [3.0])))
    np.testing.assert_array_equal(seven, eight)
    assert np.isfinite(seven).sum() == 1000
    np.testing.assert_allclose(seven[np.isfinite(seven)], -math.log(1000))
    assert np.isneginf(the[np.isfinite(seven)]).sum() == 999  # all but the listed word 7
    assert check_claim(mechanism, 1.0).worst == math.inf


def test_what_cannot_be_is_refused(folder: Path, tmp_path: Path) -> None:
    for settings in ({}, {"as_published": True, "layout": "kept"}):
        with refused("EPS-C015"):
            make(folder / "plane.npz", released_code=True, **settings)
    WordVectors(["a", "b"], np.ones((2, 3))).save(tmp_path / "equal.npz")
    with refused("EPS-M086"):
        law(make(tmp_path / "equal.npz"), 1.0)
