"""STAMP: its draws, its groups, its claim, its exact losses, and refused settings."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import epsilometer
from epsilometer.auditing.claims.noise_fit import fit_directions, noise_p_value
from epsilometer.auditing.claims.verdicts import NOT_REFUTED, VIOLATED
from epsilometer.auditing.claims.worst_case import check_claim
from epsilometer.auditing.exact_loss.directions import largest_losses
from epsilometer.auditing.publication import Publisher
from epsilometer.core.component import build, find
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.randomness import Noise
from epsilometer.core.von_mises_fisher import quadrature
from epsilometer.mechanisms.words.shared.turned import ATTEMPTS, cosines
from epsilometer.mechanisms.words.stamp import Stamp
from epsilometer.text.vectors import WordVectors
from tests.support.refusals import refused

ALPHA = 1e-9  # a test of a distribution fails by chance once in 10^9 seeds, and wrong laws must be below it
WORDS = ["ann", "bob", "paris", "rome", "sing", "play", "the", "r2", "unknown"]


def make(resource: Path, **settings: Any) -> Stamp:
    mechanism: Stamp = build(find("mechanisms", "stamp", "rewrite"), {"resource": resource, **settings}, "stamp")
    return mechanism


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stamp") / "vectors.npz"
    WordVectors(WORDS, np.random.default_rng(3).normal(size=(len(WORDS), 6)) * 3).save(path)
    return path


@pytest.fixture(scope="module")
def listed(vectors: Path) -> Path:
    path = vectors.with_name("sensitive.txt")
    path.write_text("Ann\nBob\nnowhere\n")
    return path


@pytest.mark.parametrize(("dimension", "kappa"), [(2, 3.0), (3, 1e4), (8, 5.0), (50, 30.0), (384, 1e3), (5, 1e-3)])
def test_cosines_follow_their_density(dimension: int, kappa: float) -> None:
    """Kolmogorov-Smirnov at 10^-9 of 20,000 draws; another kappa is told apart where it matters."""
    count = 20_000
    uniforms = Noise.named(count, "cosines", dimension).uniforms(2 * ATTEMPTS)
    cosine, sine, attempts = cosines(np.full(count, kappa), dimension, uniforms)
    np.testing.assert_allclose(cosine**2 + sine**2, 1, atol=1e-12)
    assert attempts.mean() < 1 / (1 - 0.45)

    def cdf_of(kappa: float) -> Any:
        places, weights = quadrature(kappa, dimension)
        return lambda w: np.interp(w, places[::-1], np.cumsum(weights[::-1]))

    assert stats.kstest(cosine, cdf_of(kappa)).pvalue > ALPHA
    if kappa > 1:
        assert stats.kstest(cosine, cdf_of(1.3 * kappa)).pvalue < ALPHA


def test_words_are_those_of_the_largest_cosine_with_vmf_draws(vectors: Path) -> None:
    """Chi-square at 10^-9 of 20,000 words against scipy's own sampler; at another kappa it is told apart."""
    mechanism, count = make(vectors), 20_000
    units = mechanism.rewrite(["ann"] * count, 8.0, Noise.named(count, 0, "stamp")).units
    assert units is not None
    seen = np.bincount(units.values, minlength=len(WORDS))
    directions = mechanism._units
    for kappa, fits in ((8.0, True), (12.0, False)):
        draws = stats.vonmises_fisher(directions[0], kappa, seed=7).rvs(count)
        other = np.bincount((draws @ directions.T).argmax(axis=1), minlength=len(WORDS))
        assert (stats.chi2_contingency(np.array([seen, other]) + 1).pvalue > ALPHA) == fits


def test_the_noise_is_compared_with_its_density(vectors: Path) -> None:
    mechanism = make(vectors)
    assert (noise_p_value(mechanism, 5.0, mechanism.inputs) or 0) > 1e-6
    source = mechanism.directions([WORDS[i % 9] for i in range(2000)], 5.0)
    about = source.units[source.rows.values]
    draws = mechanism.turned([WORDS[i % 9] for i in range(2000)], 5.0, Noise.named(2000, "x"))
    assert fit_directions(about, draws, np.full(2000, 5.0)) > 1e-6
    assert fit_directions(about, draws, np.full(2000, 7.0)) < ALPHA
    tilted = draws + 0.3 * about[0]
    assert fit_directions(about, tilted / np.linalg.norm(tilted, axis=1)[:, None], np.full(2000, 5.0)) < ALPHA


def test_a_claim_below_the_largest_loss_fails_the_comparison(vectors: Path) -> None:
    class Half(Stamp):
        def guarantee(self, epsilon: float) -> Guarantee | None:
            return super().guarantee(epsilon / 2)

    assert noise_p_value(Half(resource=vectors), 5.0, WORDS) == 0


def test_claims_hold_and_draws_refute_a_smaller_one(vectors: Path) -> None:
    class Tenth(Stamp):
        def guarantee(self, epsilon: float) -> Guarantee | None:
            return super().guarantee(epsilon / 10)

    assert check_claim(make(vectors), 1.5).verdict == NOT_REFUTED
    assert check_claim(Tenth(resource=vectors), 6.0).verdict == VIOLATED


def test_groups_are_those_of_the_list_and_the_query(vectors: Path, listed: Path) -> None:
    mechanism = make(vectors, sensitive=listed, query="sing zyzzyva", threshold=0.99)
    named = {word: int(group) for word, group in zip(WORDS, mechanism.groups, strict=True)}
    assert named["ann"] == named["bob"] == named["r2"] == 1  # sensitive: listed, or with a digit
    assert named["sing"] == 2  # important
    assert named["paris"] == 3
    np.testing.assert_allclose(mechanism.directions(["ann sing"], 10).concentrations[[0, 4, 2]], [10, 40, 30])
    assert not make(vectors).groups.any()


def test_the_claim_covers_texts_of_equal_groups(vectors: Path, listed: Path) -> None:
    mechanism = make(vectors, sensitive=listed)
    texts = ["ann sing", "bob play", "paris play", "ann", "zyzzyva sing"]
    pairs = np.array([[0, 1], [0, 2], [0, 3], [2, 4]])
    apart = mechanism.distance(texts, pairs, 2.0)
    units, index = mechanism._units, mechanism.vocabulary.index
    chord = {(a, b): np.linalg.norm(units[index[a]] - units[index[b]]) for a, b in (("ann", "bob"), ("sing", "play"))}
    assert apart[0] == pytest.approx(chord["ann", "bob"] + 3 * chord["sing", "play"])
    assert np.isinf(apart[1:3]).all()
    assert np.isfinite(apart[3])  # a word outside the vocabulary is the fixed word, of its group


def test_exact_losses_reach_the_claim_and_show_what_unequal_groups_cost(vectors: Path, listed: Path) -> None:
    """The pure loss is the claim within a group; between groups nothing is claimed and more is lost."""
    mechanism = make(vectors, sensitive=listed)
    pair = mechanism.directions(["ann", "bob", "paris"], 9.0)
    ann, bob, paris = (int(row) for row in pair.rows.values)
    claimed = 9.0 * mechanism.distance(["ann", "bob"], np.array([[0, 1]]), 9.0)[0]
    assert largest_losses(pair, ann, bob) == pytest.approx((claimed, claimed))
    one_group = 9.0 * 3 * np.linalg.norm(mechanism._units[ann] - mechanism._units[paris])
    assert max(largest_losses(pair, ann, paris)) > 9.0 / 27 * one_group
    table = epsilometer.exact_loss(["ann sing", "bob sing", "paris sing"], make(vectors), [2.0])
    row = table.filter(table["pairs"] == table["pairs"].max()).row(0, named=True)
    assert 0 < row["average_low"] <= row["average_high"] <= 2 * 2
    assert row["verdict"] == NOT_REFUTED


def test_the_code_turns_by_a_factor_of_pi_more(vectors: Path) -> None:
    paper, code = make(vectors), make(vectors, as_published=True)
    kappas = [mechanism.directions(["ann"], 6.0).concentrations[0] for mechanism in (paper, code)]
    assert kappas == pytest.approx([6, 6 / math.pi])
    assert code.guarantee(6.0) == paper.guarantee(6.0)
    assert check_claim(code, 3.0).verdict == NOT_REFUTED


def test_draws_do_not_depend_on_other_texts(vectors: Path) -> None:
    mechanism = make(vectors)
    texts = ["ann sing", "", "the paris rome", "bob"]
    every = mechanism.rewrite(texts, 3.0, Noise.named(4, "x")).texts
    assert every[1] == ""
    for row in (0, 2, 3):
        assert mechanism.rewrite([texts[row]], 3.0, Noise.named(4, "x")[row : row + 1]).texts == [every[row]]


def test_nothing_is_published_without_a_bound_on_rounding(vectors: Path) -> None:
    with refused("EPS-A240"):
        Publisher(make(vectors), 3.0).rewrite(["ann"], 0)
    assert Publisher(make(vectors), 3.0, seed=1).rewrite(["ann sing"], 0)[0]


def test_wrong_settings_are_refused(vectors: Path, tmp_path: Path) -> None:
    for settings in ({"shares": (0, 1, 1, 1)}, {"normalise": False}, {"threshold": 2}):
        with refused("EPS-C015"):
            make(vectors, **settings)
    with refused("EPS-M106"):
        make(vectors, sensitive=tmp_path / "none.txt").rewrite(["ann"], 1.0, Noise.named(1, "x"))
    with refused("EPS-M107"):
        make(vectors, query="zyzzyva").rewrite(["ann"], 1.0, Noise.named(1, "x"))
    for epsilon in (1e-4, 2e9):
        with refused("EPS-M108"):
            make(vectors).rewrite(["ann"], epsilon, Noise.named(1, "x"))
    WordVectors(["a", "b"], np.array([[1.0], [2.0]])).save(tmp_path / "line.npz")
    with refused("EPS-C070"):
        make(tmp_path / "line.npz").rewrite(["a"], 1.0, Noise.named(1, "x"))
    WordVectors(["to", "b"], np.array([[0.0, 0.0], [1.0, 2.0]])).save(tmp_path / "zero.npz")
    with refused("EPS-D076"):
        make(tmp_path / "zero.npz").rewrite(["to"], 1.0, Noise.named(1, "x"))
