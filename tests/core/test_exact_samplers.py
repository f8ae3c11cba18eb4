"""Exact samplers: enumeration of bits in tiny cases, chi-square tests of laws, and unchanged results of audits."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammainccinv, logsumexp, softmax

from epsilometer.core.component import build, find
from epsilometer.core.exact_samplers import (
    SLACK,
    ExactDraws,
    WeightCache,
    Weights,
    Words,
    _bits,
    system_words,
    weight_error,
)
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.latents.shared.noise import Gaussian, Laplace, add, gaussian_log_delta, gaussian_scale
from epsilometer.mechanisms.words.diffractor import Geometric, Truncated
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.mechanisms.words.shared.moved import mixture, moved_exactly
from epsilometer.text.vectors import WordVectors
from tests.support.refusals import refused

# A test of a distribution fails by chance once in 10^9 seeds; seeds are fixed.
ALPHA = 1e-9


def seeded(seed: int) -> ExactDraws:
    """The samplers on a reproducible source of bits."""
    rng = np.random.default_rng(seed)
    return ExactDraws(lambda count: rng.integers(0, 2**64, count, np.uint64))


def publication(count: int, seed: int) -> Noise:
    """A publication's stream on a reproducible source of bits."""
    return Noise(np.arange(count), None, seeded(seed))


def fits(values: np.ndarray, probability: Callable[[np.ndarray], np.ndarray]) -> bool:
    """A chi-square test at ALPHA on the integers -12 ... 12, all others in one cell."""
    inside = np.arange(-12, 13)
    p = probability(inside)
    observed = [*((values == k).sum() for k in inside), (np.abs(values) > 12).sum()]
    expected = len(values) * np.array([*p, 1 - p.sum()])
    rare = expected < 5
    observed, expected = np.array(observed, float), np.array(expected)
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return stats.chisquare(observed, expected, sum_check=False).pvalue > ALPHA


class Tree:
    """Every way that a sampler's first random words can fall, each as one of a few words of equal weight."""

    def __init__(self, words: list[int], depth: int) -> None:
        self.words, self.depth = words, depth

    def outcomes(self, sampler: Callable[[ExactDraws], Any]) -> tuple[Counter[Any], Fraction]:
        """The probability of each outcome, and of the ways that need more than `depth` words."""
        totals: Counter[Any] = Counter()
        open_: list[tuple[int, ...]] = [()]
        unfinished = Fraction(0)
        while open_:
            prefix = open_.pop()
            left = list(prefix)

            def source(count: int, left: list[int] = left) -> Words:
                if count > len(left):
                    raise IndexError
                return np.array([left.pop(0) for _ in range(count)], np.uint64)

            weight = Fraction(1, len(self.words) ** len(prefix))
            try:
                result = sampler(ExactDraws(source))
            except IndexError:
                if len(prefix) == self.depth:
                    unfinished += weight
                else:
                    open_ += [(*prefix, word) for word in self.words]
                continue
            totals[result] += weight
        return totals, unfinished


def test_uniform_integers_are_uniform_by_enumeration() -> None:
    """Over words that stand for all 2^64 evenly, remainders of a power of two are equally frequent."""
    outcomes, unfinished = Tree(list(range(8)), 1).outcomes(lambda e: int(e.below(np.array([8], np.uint64))[0]))
    assert unfinished == 0
    assert outcomes == {k: Fraction(1, 8) for k in range(8)}


def test_words_that_would_favour_small_remainders_are_drawn_again() -> None:
    """2^64 is 1 modulo 3: one word too many is 0 modulo 3, and the word 0 is it."""
    words = iter([0, 2**64 - 2])
    once = ExactDraws(lambda count: np.array([next(words)], np.uint64))
    assert int(once.below(np.array([3], np.uint64))[0]) == (2**64 - 2) % 3
    assert int(ExactDraws(lambda count: np.zeros(count, np.uint64)).below(np.array([4], np.uint64))[0]) == 0


@pytest.mark.parametrize("numerator", [1, 2])
def test_exponential_coins_by_enumeration(numerator: int) -> None:
    """Three tosses decide all but gamma^3 / 6, and decide as the alternating series of e^-gamma says, in fractions."""
    words = [2**63 + 6 * 2**40 + k for k in range(6)]  # evenly spread modulo 1, 2 and 3
    outcomes, unfinished = Tree(words, 5).outcomes(
        lambda e: bool(e.exponential(np.array([numerator], np.uint64), np.array([2], np.uint64))[0])
    )
    gamma = Fraction(numerator, 2)
    assert outcomes[True] == (1 - gamma) + gamma**2 / 2 * (1 - gamma / 3)
    assert outcomes[False] == gamma * (1 - gamma / 2)
    assert unfinished == gamma**3 / 6


def test_choices_by_enumeration() -> None:
    """Weights 1, 4, 1 and 2: their sum is a power of two, so the uppermost three bits of one word decide."""
    outcomes, unfinished = Tree([k << 61 for k in range(8)], 1).outcomes(
        lambda e: int(e.choose(np.log([1.0, 4.0, 1.0, 2.0]))[0])
    )
    assert unfinished == 0
    assert outcomes == {0: Fraction(1, 8), 1: Fraction(4, 8), 2: Fraction(1, 8), 3: Fraction(2, 8)}


def test_choices_of_every_size_come_out_in_proportion() -> None:
    """Chi-square at 10^-9 over 30 outputs of weights from 1 to e^-6."""
    log_p = -np.linspace(0, 6, 30)
    choices = seeded(1).choose(log_p, 40_000)
    expected = np.exp(log_p) / np.exp(log_p).sum() * len(choices)
    assert stats.chisquare(np.bincount(choices, minlength=30), expected).pvalue > ALPHA


def spelled(number: int, below: int) -> ExactDraws:
    """Draws whose bits spell a number: 64 bits first, then the others in words, unless the first are too large.

    The number may have as many bits as the largest one below `below`. All later bits are 0.
    """
    rest = (below - 1).bit_length() - 64
    if rest <= 0:
        bits = [number << -rest]
    else:
        size = -(-rest // 64)
        others = (number & (1 << rest) - 1) << (64 * size - rest)
        bits = [number >> rest, *(others >> 64 * i & 2**64 - 1 for i in range(size))]
        if bits[0] > (below - 1) >> rest:
            del bits[1:]
    words = chain(bits, repeat(0))
    return ExactDraws(lambda count: np.array([next(words) for _ in range(count)], np.uint64))


def test_an_output_of_probability_far_below_2_to_the_minus_53_is_in_reach() -> None:
    """One of probability e^-2500 is drawn by the last of the integers, one of probability 0 by none."""
    weights = Weights.of(np.array([0.0, -100.0, -2500.0, -np.inf]))
    total = weights.reached[-1]
    for number, output in ((0, 0), (total - 1, 2), (total - total // 10**45, 1)):
        assert spelled(number, total).choose(weights)[0] == output


@pytest.mark.parametrize("spread", [0.0, 3.0, 11.0, 40.0, 2000.0])
def test_every_integer_draws_the_output_of_its_place_and_one_beyond_the_sum_none(spread: float) -> None:
    """Weights of one size, of a few and of thousands of bits; integers at both ends of each weight, and random ones."""
    rng = np.random.default_rng(0)
    weights = Weights.of(-np.sort(rng.random(12)) * spread)
    sizes, start = list[int](), 0  # in units of the smallest power of two, in the order of the outputs
    for first, shift, end in zip(
        weights.starts, weights.shifts, [*weights.starts[1:], int(weights.ends[-1])], strict=True
    ):
        places = [int(place) for place in weights.ends if first < place <= end]
        sizes += [(place - before) << shift for before, place in zip([first, *places], places, strict=False)]
    total = weights.reached[-1]
    assert sum(sizes) == total
    for output, size in zip(weights.outputs, sizes, strict=True):
        for number in (start, start + size // 3, start + size - 1):
            assert spelled(number, total).choose(weights)[0] == output
        start += size
    largest = (1 << (total - 1).bit_length()) - 1
    for number in (total, total + 1, largest):
        if total <= number <= largest:
            assert spelled(number, total).choose(weights)[0] == weights.outputs[0], "it is refused, and 0 follows"


@pytest.mark.parametrize("outputs", [2, 60_000])
def test_weights_are_within_their_error(outputs: int) -> None:
    """The sum of all weights against the exact one in 60 digits, logarithms from 0 to -50."""
    log_weights = -np.random.default_rng(0).random(outputs) * 50
    log_weights[0] = 0.0
    unit = Fraction(2) ** (math.floor(log_weights.min() / math.log(2)) - _bits(outputs))
    with mpmath.workdps(60):
        exact = mpmath.fsum(mpmath.exp(mpmath.mpf(float(x))) for x in log_weights)
        total = Weights.of(log_weights).reached[-1] * mpmath.mpf(unit.numerator) / unit.denominator
        assert abs(total / exact - 1) < weight_error(outputs, 50.0)


LAWS = [(1, 1), (1, 3), (7, 2), (2**40 // 10, 2**40)]


@pytest.mark.parametrize(("numerator", "denominator"), LAWS)
def test_two_sided_geometric_noise_follows_its_law(numerator: int, denominator: int) -> None:
    """Chi-square at 10^-9, 40,000 draws."""
    n = 40_000
    noise = seeded(2).laplace(np.full(n, numerator, np.uint64), np.full(n, denominator, np.uint64))
    a = math.exp(-numerator / denominator)
    assert fits(noise, lambda k: (1 - a) / (1 + a) * a ** np.abs(k))


@pytest.mark.parametrize("deviation", [1, 2, 5])
def test_discrete_gaussian_noise_follows_its_law(deviation: int) -> None:
    """Chi-square at 10^-9, 40,000 draws."""
    noise = seeded(3).gaussian(np.full(40_000, deviation, np.uint64))
    total = np.exp(-(np.arange(-200, 201) ** 2) / (2 * deviation**2)).sum()
    assert fits(noise, lambda k: np.exp(-(k**2) / (2 * deviation**2)) / total)


@pytest.mark.parametrize("law", [Gaussian(0.7), Laplace(0.7)])
def test_noise_on_latents_follows_the_claimed_law_on_a_public_grid(law: Any) -> None:
    """Kolmogorov-Smirnov at 10^-9 against the continuous law, which the grid of scale / 2^24 cannot be told from."""
    before = np.linspace(-1, 1, 20_000, dtype=np.float32).reshape(40, 500)
    after = add(before, law, publication(40, 4))
    continuous = stats.norm(scale=0.7) if isinstance(law, Gaussian) else stats.laplace(scale=0.7)
    assert stats.kstest((after - before).ravel().astype(float), continuous.cdf).pvalue > ALPHA
    noise = law.integers(seeded(4), 20_000).reshape(40, 500)
    rounded = np.trunc(before.astype(np.float64) / (0.7 / 2**24))
    assert np.array_equal(after, ((rounded + noise) * (0.7 / 2**24)).astype(np.float32))
    assert (np.abs(rounded) * (0.7 / 2**24) <= np.abs(before)).all()  # rounding is towards 0, so no sensitivity grows


def test_a_publication_leaves_room_for_its_errors() -> None:
    """At epsilon (1 - SLACK) the noise keeps (epsilon - 2e-9, delta (1 - 1e-8)): more than all that rounding costs."""
    for epsilon in (0.01, 1.0, 10.0, 1000.0):
        scale = gaussian_scale(epsilon * (1 - SLACK), 1e-5)
        room = min(2e-9, epsilon * 2.0**-21)
        assert gaussian_log_delta(epsilon - room, scale) < math.log(1e-5) - 1e-10
    assert 4 * weight_error(1_000_000, 2000.0) < SLACK * 1e-4  # error of weights, for epsilon 1e-4 and more


@pytest.mark.parametrize("moves", [Geometric(9), Truncated(9), Truncated(9, 3.0)])
@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_published_moves_follow_their_law(moves: Any, epsilon: float) -> None:
    """Chi-square at 10^-9 of 9 places from each of 9 places, mixed in one call, 10,000 draws each."""
    places = np.tile(np.arange(9), 10_000)
    places_after = moves.move_exactly(places, epsilon, seeded(5))
    for place in range(9):
        expected = np.exp(moves.log_law(np.int64(place), np.arange(9), epsilon)) * 10_000
        observed = np.bincount(places_after[places == place], minlength=9)
        frequent = expected >= 5
        observed = np.append(observed[frequent], observed[~frequent].sum())
        expected = np.append(expected[frequent], expected[~frequent].sum() or 1e-9)
        assert stats.chisquare(observed, expected, sum_check=False).pvalue > ALPHA, place


def test_an_epsilon_below_the_unit_of_a_publication_is_refused() -> None:
    with refused("EPS-M083", "2", "-40"):
        Geometric(9).move_exactly(np.zeros(1, np.int64), 1e-13, ExactDraws())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """vectors.npz of 40 words in 5 dimensions, and two lists of them."""
    path = tmp_path_factory.mktemp("words")
    vectors = WordVectors([f"w{i}" for i in range(40)], np.random.default_rng(0).normal(size=(40, 5)))
    vectors.save(path / "vectors.npz")
    WordLists.build([vectors], 2).save(path / "lists.npz")
    return path


PUBLISHED = {
    "tem": ("tem", "vectors.npz", {}, 3.0),
    "santext": ("santext", "vectors.npz", {}, 3.0),
    "santext_plus": ("santext_plus", "vectors.npz", {}, 3.0),
    "custext": ("custext", "vectors.npz", {"size": 8}, 3.0),
    "exponential": ("exponential", "vectors.npz", {}, 8.0),
    "rantext": ("rantext", "vectors.npz", {}, 8.0),
    "rantext_published": ("rantext", "vectors.npz", {"as_published": True}, 8.0),
    "clusant": ("clusant", "vectors.npz", {"clusters": 6}, 8.0),
    "diffractor": ("diffractor", "lists.npz", {}, 0.2),
    "diffractor_tem": ("diffractor", "lists.npz", {"noise": "tem", "gamma": 5}, 1.5),
    "diffractor_tem_auto": ("diffractor", "lists.npz", {"noise": "tem"}, 1.5),
}
MOVED = {
    "mvc": ("mvc", "vectors.npz", {}, 3.0),
    "mahalanobis": ("mahalanobis", "vectors.npz", {}, 3.0),
    "vickrey": ("vickrey", "vectors.npz", {}, 3.0),
}
SEEDED = {"truncated_gumbel": ("truncated_gumbel", "vectors.npz", {}, 30.0)}


def mechanism_of(folder: Path, key: str) -> tuple[Any, float]:
    name, resource, settings, epsilon = (PUBLISHED | MOVED | SEEDED)[key]
    return build(find("mechanisms", name, "rewrite"), {"resource": folder / resource, **settings}, name), epsilon


@pytest.mark.parametrize("key", PUBLISHED)
def test_published_words_follow_the_law_that_is_claimed(folder: Path, key: str) -> None:
    """Chi-square at 10^-9 of 40 words, 20,000 draws from one word."""
    mechanism, epsilon = mechanism_of(folder, key)
    units = mechanism.rewrite(["w7"] * 20_000, epsilon, publication(20_000, 6)).units
    (law,) = mechanism.laws(["w7"]).log_probabilities(np.array([7]), [epsilon])
    expected = np.exp(law[0]) * 20_000
    observed = np.bincount(units.values, minlength=40)
    frequent = expected >= 5
    assert not observed[expected == 0].any()
    observed = np.append(observed[frequent], observed[~frequent].sum())
    expected = np.append(expected[frequent], max(expected[~frequent].sum(), 1e-9))
    assert stats.chisquare(observed, expected, sum_check=False).pvalue > ALPHA


def test_a_publication_draws_from_the_operating_system(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but os.urandom decides: with its bytes fixed, so is the publication."""
    import os

    mechanism, epsilon = mechanism_of(folder, "santext")
    texts = [" ".join(f"w{i % 40}" for i in range(100))]
    fresh = [mechanism.rewrite(texts, epsilon, Noise.operating_system(1)).texts for _ in range(2)]
    assert fresh[0] != fresh[1]  # equal by chance with a probability below e^-100
    requests: list[int] = []

    def counting(count: int) -> bytes:
        requests.append(count)
        return hashlib.shake_128(len(requests).to_bytes(8, "big")).digest(count)

    monkeypatch.setattr(os, "urandom", counting)
    first = mechanism.rewrite(texts, epsilon, Noise.operating_system(1)).texts
    assert requests
    requests.clear()
    assert mechanism.rewrite(texts, epsilon, Noise.operating_system(1)).texts == first
    assert system_words(3).dtype == np.uint64


@pytest.mark.parametrize("key", ["tem", "santext", "santext_plus", "custext", "exponential", "rantext", "clusant"])
def test_weights_that_were_kept_give_the_draws_of_weights_computed_anew(folder: Path, key: str) -> None:
    """From the same bits: at two epsilons in turn, so that neither is drawn from the other's weights."""
    texts = [" ".join(f"w{(i * j) % 40}" for j in range(1, 30)) for i in range(10)]
    mechanism, epsilon = mechanism_of(folder, key)
    for again in range(2):
        for budget in (epsilon, epsilon / 2):
            anew, _ = mechanism_of(folder, key)
            output = mechanism.rewrite(texts, budget, publication(10, 7)).texts
            assert output == anew.rewrite(texts, budget, publication(10, 7)).texts, again


def test_what_was_met_is_not_computed_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The integer weights of 40 words at one epsilon: once, however often a publication meets them."""
    mechanism, epsilon = mechanism_of(folder, "santext")
    computed: list[int] = []
    of = Weights.of
    monkeypatch.setattr(Weights, "of", lambda log_weights: (computed.append(1), of(log_weights))[1])
    for number in range(3):
        mechanism.rewrite([f"w{i}" for i in range(40)], epsilon, publication(40, number))
    assert len(computed) == 40


def test_a_table_of_weights_keeps_within_its_bound_what_was_used_last() -> None:
    weights = Weights.of(np.zeros(8))
    table = WeightCache(3 * weights.bytes)
    for key in "abc":
        table.put(key, weights)
    assert table.get("a") is weights  # this makes it the most recently used
    table.put("d", weights)
    assert [key for key in "abcd" if table.get(key)] == ["a", "c", "d"]
    table.put("larger", Weights.of(np.zeros(100)))
    assert table.bytes == 0
    assert not any(table.get(key) for key in "abcd")


@pytest.mark.parametrize("bound", [1, 3, 2**64, 2**64 + 1, 3 << 100])
def test_many_integers_below_any_bound_are_uniform(bound: int) -> None:
    """Chi-square at 10^-9 of the third that each falls into, 9,000 integers; with 2^64 + 1 half of all are refused."""
    integers = seeded(8).integers(bound, 9_000)
    assert len(integers) == 9_000
    assert 0 <= min(integers) <= max(integers) < bound
    if bound > 1:
        thirds = np.bincount([3 * number // bound for number in integers], minlength=3)
        assert stats.chisquare(thirds).pvalue > ALPHA


AUDITED = {
    "tem": "ec19e550d3c31be5",
    "santext": "4fb99a9f68ed0fae",
    "santext_plus": "ec52087a143270a6",
    "custext": "3a0d80a861ff7ece",
    "exponential": "66037de7778cffce",
    "diffractor": "4528aa330a811a49",
    "diffractor_tem": "899d726d02fea5de",
    "mvc": "b6834f9a4bbbf5cc",
    "mahalanobis": "aad8375009eba8cb",
    "vickrey": "f5e49ac9cba2724d",
    "truncated_gumbel": "86f9c4289e504b2f",
}


@pytest.mark.parametrize("key", AUDITED)
def test_seeded_rewrites_are_what_they_were_before_there_were_publications(folder: Path, key: str) -> None:
    """Audits are reproducible: hashes of rewrites from before exact samplers."""
    mechanism, epsilon = mechanism_of(folder, key)
    texts = [" ".join(f"w{(i * j) % 40}" for j in range(1, 30)) for i in range(50)]
    rewrites = mechanism.rewrite(texts, epsilon, Noise.named(50, "audit", key)).texts
    assert hashlib.sha256("\n".join(rewrites).encode()).hexdigest()[:16] == AUDITED[key]


def test_seeded_latents_are_what_they_were_before_there_were_publications() -> None:
    before = np.linspace(-1, 1, 300, dtype=np.float32).reshape(3, 100)
    after = [add(before, law, Noise.named(3, "audit", "latents")) for law in (Gaussian(0.7), Laplace(0.7))]
    digest = hashlib.sha256(b"".join(np.round(a * 4096).astype(np.int64).tobytes() for a in after)).hexdigest()[:16]
    assert digest == "79b2cc14db7338ac"


@pytest.mark.parametrize("dimensions", [1, 5, 50, 384, 1024])
def test_the_density_of_published_vector_noise_is_as_steep_as_claimed(dimensions: int) -> None:
    """-d/da log f(a) of the mixture at distance a from its middle, epsilon 1: at most 1 but for rounding, anywhere."""
    log_weights, deviations, unit = mixture(dimensions)
    variances = (deviations * unit) ** 2
    density = log_weights - dimensions / 2 * np.log(variances)  # a normalised Gaussian has the factor s^(-d / 2)
    farthest = float(gammainccinv(dimensions, 2.0**-100))
    a = np.concatenate([np.geomspace(1e-9, farthest, 400), np.linspace(0.1, farthest, 3000)])[:, None]
    log_terms = density - a**2 / (2 * variances)
    slope = a[:, 0] * (softmax(log_terms, axis=1) / variances).sum(axis=1)
    assert slope.max() <= 1 + 2e-9
    usual = gammainccinv(dimensions, [0.999, 0.001])
    there = (a[:, 0] > usual[0]) & (a[:, 0] < usual[1])
    # Where draws usually land, this is the mechanism's law: e^-a up to a constant (except near 0 in one dimension).
    log_ratio = (logsumexp(log_terms, axis=1) + a[:, 0])[there]
    assert np.ptp(log_ratio) < (1e-5 if dimensions >= 50 else 0.3 if dimensions == 1 else 0.01)


def test_published_vector_noise_has_its_length_and_direction() -> None:
    """Kolmogorov-Smirnov at 10^-9: the length is Gamma(d, 1 / epsilon), the direction uniform, 1,000 vectors."""
    noise = moved_exactly(np.full((1000, 20), 0.25), 3.0, seeded(7)) - 0.25
    length = np.linalg.norm(noise, axis=1)
    assert stats.kstest(length * 3.0, stats.gamma(20).cdf).pvalue > ALPHA
    cosine = noise[:, 0] / length
    assert stats.kstest((cosine + 1) / 2, stats.beta(9.5, 9.5).cdf).pvalue > ALPHA


@pytest.mark.parametrize("key", MOVED)
def test_published_moved_words_are_those_of_the_audited_mechanism(folder: Path, key: str) -> None:
    """Two samples of 4,000 words, chi-square at 10^-9: the reference code's law is the audited one."""
    mechanism, epsilon = mechanism_of(folder, key)
    texts = ["w7"] * 4000
    both = [
        mechanism.rewrite(texts, epsilon, noise).units.values for noise in (publication(4000, 8), Noise.named(4000, 1))
    ]
    counts = np.array([np.bincount(units, minlength=40) for units in both])
    common = counts.sum(axis=0) >= 20
    table = np.column_stack([counts[:, common], counts[:, ~common].sum(axis=1) + 1])
    assert stats.chi2_contingency(table).pvalue > ALPHA


def test_the_cache_counts_all_that_it_keeps() -> None:
    """Weights over thousands of nats take big integers, most of the memory."""
    weights = Weights.of(-np.linspace(0, 6000, 5000))
    arrays = weights.outputs.nbytes + weights.ends.nbytes
    assert weights.bytes > 10 * arrays
