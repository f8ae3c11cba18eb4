"""Cape: its law by hand, its sampler, and its claims. The published claim does not cover empty buckets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.tokens.cape import Cape, bucket_law
from epsilometer.models.locate import locate
from epsilometer.models.masked_lm import assemble
from tests.support.places import ROOT

DELTA = ROOT / "data" / "embedded" / "models" / "minilm-mlm"
ALPHA = 1e-9  # a test of a distribution fails by chance once in 10^9 seeds, and wrong laws must be below it
TEXTS = ["show me flights from boston to denver", "play songs by prince", "boston", "zyzzyvas"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("minilm-mlm")
    assemble(DELTA, locate("all-MiniLM-L6-v2"), path)
    return path


def test_buckets_by_hand() -> None:
    """Scores 0, 0.1, 1 and 2 in two buckets of width 1: the first holds two words, whose mean is 0.05."""
    weights = np.exp([0.05, 0.05, 1.5, 1.5]) / 2
    expected = np.log(weights / (np.exp(0.05) + np.exp(1.5)))
    np.testing.assert_allclose(bucket_law(np.array([0, 0.1, 1, 2]), 1.0, 2), expected)
    np.testing.assert_allclose(bucket_law(np.full(5, 0.3), 7.0, 50), -np.log(5))


def test_the_number_of_buckets_in_use_is_not_covered() -> None:
    """A word alone on top of two buckets, and the same word in the fullest of 50: ln 25 above the claim."""
    size, epsilon = 1000, 0.01
    two, fifty = np.zeros(size), np.zeros(size)
    two[0] = 1.0
    fifty[1:50] = (np.arange(1, 50) + 0.5) / 50
    fifty[49] = 1.0
    laws = [bucket_law(utility, epsilon / 2, 50) for utility in (two, fifty)]
    loss = np.abs(laws[0] - laws[1]).max()
    claimed = epsilon + np.log(size - 1)
    assert loss - claimed > 3.1  # ln 25 is 3.22
    assert loss <= epsilon + np.log(50) + np.log(size)


@pytest.mark.parametrize("as_published", [False, True])
def test_laws_keep_their_bounds_and_the_sampler_follows_them(folder: Path, as_published: bool) -> None:
    """Chi-square at 10^-9 of 20,000 draws of one word."""
    mechanism = Cape(resource=folder, as_published=as_published)
    laws, epsilon, count = mechanism.laws(TEXTS), 20.0, 20_000
    (log_p,) = laws.log_probabilities(np.arange(len(laws.rows.values)), [epsilon])
    claim = mechanism.guarantee(epsilon)
    assert claim is not None
    assert (log_p[:, None] - log_p).max() <= claim.epsilon + 1e-9
    units = mechanism.rewrite([TEXTS[2]] * count, epsilon, Noise.named(count, 0, "cape")).units
    assert units is not None
    seen = np.bincount(units.values, minlength=log_p.shape[1])
    expected = np.exp(log_p[laws.rows.row(2)[0]]) * count
    often = expected >= 20
    pooled = [np.append(counts[often], counts[~often].sum()) for counts in (seen, expected)]
    assert stats.chisquare(*pooled, sum_check=False).pvalue > ALPHA


def test_the_score_is_that_of_the_equation(folder: Path) -> None:
    mechanism = Cape(resource=folder)
    (low, high), index = mechanism._clip, mechanism._index
    (utility,), largest = mechanism._utility([["boston"]], np.array([(0, 0)]))
    logits = mechanism._model.mask_logits([["boston"]], np.array([(0, 0)]))[0, mechanism._pieces]
    vectors = mechanism._vectors.exact
    apart = np.linalg.norm(vectors - vectors[index["boston"]], axis=1)
    expected = np.sqrt(np.clip(logits.astype(float), low, high) - low) * np.exp(-apart / apart.max())
    np.testing.assert_allclose(utility, expected, rtol=1e-9)
    assert 0 <= utility.min() <= utility.max() <= largest == pytest.approx(np.sqrt(high - low))


def test_two_words_of_the_embedded_model_exceed_the_published_claim(folder: Path) -> None:
    """At a small epsilon, where one word's scores use fewer buckets than the other's."""
    mechanism, epsilon = Cape(resource=folder, as_published=True), 0.01
    laws = mechanism.laws(["screen", "barack"])
    (log_p,) = laws.log_probabilities(np.arange(2), [epsilon])
    claim = mechanism.guarantee(epsilon)
    assert claim is not None
    assert np.abs(log_p[0] - log_p[1]).max() > claim.epsilon + 0.1
    (log_p,) = Cape(resource=folder).laws(["screen", "barack"]).log_probabilities(np.arange(2), [epsilon])
    assert np.abs(log_p[0] - log_p[1]).max() <= epsilon


def test_cached_scores_and_readings_change_no_bit(folder: Path) -> None:
    """Laws of rows that were requested before, in another order, and rewrites from readings of another instance."""
    mechanism, fresh = Cape(resource=folder), Cape(resource=folder)
    rows = np.arange(len(mechanism.laws(TEXTS).rows.values))
    (first,) = mechanism.laws(TEXTS).log_probabilities(rows[::2], [20.0])
    (mixed,) = mechanism.laws(TEXTS).log_probabilities(rows[::-1], [20.0])
    np.testing.assert_array_equal(mixed[::-1][::2], first)
    np.testing.assert_array_equal(mixed[::-1], next(iter(fresh.laws(TEXTS).log_probabilities(rows, [20.0]))))
    fresh.recall(TEXTS, mechanism.read(TEXTS))
    noise = Noise.named(len(TEXTS), 0, "cape")
    assert fresh.rewrite(TEXTS, 20.0, noise).texts == mechanism.rewrite(TEXTS, 20.0, noise).texts
