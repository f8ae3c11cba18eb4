"""The truths of the bench, checked by other methods: published figures, closed forms and draws."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from epsilometer.auditing.estimation.abstention import worst_output
from epsilometer.auditing.estimation.successes import estimate, loss_at, loss_by_rates
from epsilometer.studies.bench import additive, broken, local, means, mechanisms, noisy_max, texts
from epsilometer.studies.bench.known import KnownMechanism
from epsilometer.studies.bench.law import Law, cells, together
from epsilometer.studies.bench.samples import samples
from epsilometer.studies.bench.sparse_vector import QUERIES, Threshold, numbered, places

EVERY = {mechanism.name: mechanism for mechanism in mechanisms.every()}

# ln(TPR / FPR) at a false-positive rate of 1 %, and the pure loss of the pair; of the others DP-Sniper's own lower
# bounds (the larger of two, at confidence .9) must not be above the truth.
SNIPER = {
    "Laplace": (0.1000, 0.1),
    "TruncatedGeometric": (0.11778, 0.11778),
    "NoisyHist1": (0.1000, 0.1),
    "NoisyHist2": (4.605, 10),
    "ReportNoisyMax1": (0.09461, 0.09461),
    "ReportNoisyMax2": (0.10000, 0.1),
    "ReportNoisyMax3": (0.25000, 0.25),
    "ReportNoisyMax4": (0.35572, math.inf),
    "SVT5": (1.76272, math.inf),
    "OneTimeRappor": (0.60050, 0.60050),
    "Rappor": (0.30006, 0.30006),
}
AT_LEAST = {"SVT1": 0.0858, "SVT2": 0.0859, "SVT3": 0.1822, "SVT4": 0.1687, "SVT6": 0.272, "PrefixSum": 0.577}
AT_LEAST |= {"NumericalSVT": 0.0345, "SVT34Parallel": 0.261, "LaplaceParallel": 0.035}


def attack_rates(name: str, k: int, epsilon: float) -> tuple[float, float]:
    """Returns how often ldp-audit's attack names the first value if that was the input, and if the other was.

    The attack names a random member of the set, and any of the k values if the set is empty.
    """
    table = local.chances(name, k, epsilon)
    own, other, more = np.indices(table.more.shape)
    size = own + other + more
    weight = table.pair[..., None] * table.more
    named = [np.where(size > 0, held / np.maximum(size, 1), 1 / k) for held in (own, other)]
    return float((weight * named[0]).sum()), float((weight * named[1]).sum())


def test_there_are_forty_and_more() -> None:
    families = {name.partition(" k=")[0] for name in EVERY}
    assert len(families) >= 40
    assert len(EVERY) == len(mechanisms.every())


@pytest.mark.parametrize(("name", "figures"), SNIPER.items())
def test_the_figures_of_dp_sniper_are_met(name: str, figures: tuple[float, float]) -> None:
    law = EVERY[name].law()
    assert law.at_rate(0.01) == pytest.approx(figures[0], abs=0.0015)
    assert law.pure == pytest.approx(figures[1], abs=1e-5)


@pytest.mark.parametrize(("name", "bound"), AT_LEAST.items())
def test_lower_bounds_of_dp_sniper_are_below_the_truth(name: str, bound: float) -> None:
    law = EVERY[name].law()
    assert bound < law.at_rate(0.01) < law.pure + 1e-9


@pytest.mark.parametrize("mechanism", EVERY.values(), ids=EVERY.keys())
def test_draws_have_the_losses_of_the_law(mechanism: KnownMechanism) -> None:
    """The sampler follows the algorithm and the law its formula; both inputs' losses must have its distribution.

    Dvoretzky, Kiefer, Wolfowitz and Massart: 1e-6 each, so a false alarm of at most 2e-4 over all mechanisms. The null
    one with scores has no loss of its own to compare.
    """
    if mechanism.name == "null, with scores":
        return
    count, near = 10_000, 1e-6
    law, rng = mechanism.law(), np.random.default_rng(1)
    order = np.argsort(law.losses)
    reach = math.sqrt(math.log(2 / 1e-6) / (2 * count))
    for which, chance in enumerate((law.first, law.other)):
        assert chance.sum() == pytest.approx(1, abs=2e-6)
        losses = np.sort(mechanism.loss(mechanism.draw(which, count, rng)))
        below = np.cumsum(chance[order])
        low = np.searchsorted(losses, law.losses[order] - near, side="left") / count
        high = np.searchsorted(losses, law.losses[order] + near, side="right") / count
        assert (low - below).max() < reach
        assert (np.append(0, below[:-1]) - high).max() < reach


def test_gaussian_noise_by_its_closed_forms() -> None:
    """Error Phi(-mu / 2); delta(epsilon) by Balle and Wang 2018, theorem 8; TPR = Phi(mu - z) at FPR."""
    for mu in (1.0, 2.0):
        law = additive.gaussian("", mu, 0.01).law()
        assert law.error == pytest.approx(norm.cdf(-mu / 2), abs=1e-7)
        assert law.at_rate(0.01) == pytest.approx(math.log(norm.sf(norm.isf(0.01) - mu) / 0.01), abs=1e-4)
        for epsilon in (0.0, 0.5, 2.0, 6.0):
            closed = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
            assert law.delta(epsilon) == pytest.approx(closed, rel=1e-4)
            assert law.epsilon(closed) == pytest.approx(epsilon, abs=1e-3)


def test_laplace_noise_by_its_closed_forms() -> None:
    """Error e^(-epsilon / 2) / 2, least delta 1 - e^((e - epsilon) / 2) of a loss e."""
    for epsilon in (0.1, 1.0, 4.0):
        law = additive.laplace("", "", ([0], [1]), 1 / epsilon, epsilon).law()
        assert law.error == pytest.approx(math.exp(-epsilon / 2) / 2, rel=1e-6)
        assert law.delta(epsilon / 3) == pytest.approx(1 - math.exp(-epsilon / 3), rel=1e-6)
    mechanism = additive.laplace_with_delta("", 1.0, 0.01)
    assert mechanism.law().epsilon(0.01) == pytest.approx(mechanism.claim, abs=1e-6)


def test_noisy_maxima_by_counting_in_closed_form() -> None:
    """Exponential noise on equal answers: each place is as likely; largest values: (1 - e^(-t))^5."""
    assert noisy_max.place("", 6, ([1.0] * 5, [1.0] * 5), "exponential").law().first == pytest.approx([0.2] * 5)
    law = EVERY["ReportNoisyMax4"].law()
    assert law.first[law.other == 0].sum() == pytest.approx((1 - math.exp(-0.05)) ** 5, rel=1e-3)


def test_answers_of_the_sparse_vector_technique_by_counting() -> None:
    """Places of the yeses are coded and found again, and the chances of all answers are those of a finer integral."""
    for stop in (1, 2):
        every = list(places(stop))
        above = np.array([[i in yes for i in range(QUERIES)] for yes in every])
        above[np.array([len(yes) == stop for yes in every]), -1] = True  # nothing is released after the last yes
        assert numbered(above, stop)[[len(yes) < stop or QUERIES - 1 in yes for yes in every]].tolist() == [
            number for number, yes in enumerate(every) if len(yes) < stop or QUERIES - 1 in yes
        ]
    threshold = Threshold(1, scale=20, noise=40, stop=2)
    queries = [2.0] * 5 + [0.0] * 5
    noise = np.linspace(-900, 900, 200_001)
    weight = np.exp(-np.abs(noise) / 20)
    below = [
        np.where(z < 0, np.exp(-np.abs(z) / 40) / 2, 1 - np.exp(-np.abs(z) / 40) / 2) for z in (noise - 1, noise + 1)
    ]
    none = (weight * (below[0] * below[1]) ** 5).sum() / weight.sum()
    assert threshold.chances(queries)[0] == pytest.approx(none, rel=1e-4)
    assert threshold.chances(queries).sum() == pytest.approx(1, abs=1e-12)


def test_losses_of_the_sparse_vector_technique_without_noise() -> None:
    """(0, 2, ..., 2) beside (1, ..., 1): what differs is a threshold between 0 and 2, seen of the first alone."""
    law = EVERY["SVT5"].law()
    free = 1 - math.exp(-1 / 20) / 2 - math.exp(-1 / 20) / 2
    assert law.first[law.other == 0].sum() == pytest.approx(free, rel=1e-9)


def test_the_protocols_by_listing_all_sets() -> None:
    """Unary encoding and randomised response of three values, every output by itself."""
    for epsilon in (0.5, 1.0, 4.0):
        for name, (set_bit, zero) in {
            "SUE": (1 / (1 + math.exp(-epsilon / 2)), 1 / (1 + math.exp(epsilon / 2))),
            "OUE": (0.5, 1 / (math.exp(epsilon) + 1)),
        }.items():
            chances, named = np.zeros((2, 2, 2)), np.zeros(2)
            for bits in product((0, 1), repeat=3):
                chance = math.prod(
                    (set_bit if b else 1 - set_bit) if i == 0 else (zero if b else 1 - zero) for i, b in enumerate(bits)
                )
                chances[bits] = chance
                for value in (0, 1):
                    named[value] += chance * (bits[value] / sum(bits) if any(bits) else 1 / 3)
            law = local.protocol(name, 3, epsilon).law()
            error = (
                sum(min(chances[bits], chances[bits[1], bits[0], bits[2]]) for bits in product((0, 1), repeat=3)) / 2
            )
            assert law.error == pytest.approx(error)
            assert law.pure == pytest.approx(epsilon)
            assert attack_rates(name, 3, epsilon) == pytest.approx(tuple(named))
        law = local.protocol("GRR", 3, epsilon).law()
        assert law.error == pytest.approx((2 + 1) / (math.exp(epsilon) + 2) / 2)


# ldp-audit's attack: ln(TPR / FPR) at any number of trials, and its bound at a million, alpha = .01.
LDP_AUDIT = [
    *(
        ("GRR", 2, 1.0, 1.0, 0.994),
        ("SUE", 2, 1.0, 0.5, 0.494),
        ("OUE", 2, 1.0, 0.471, 0.465),
        ("BLH", 2, 1.0, 0.471, 0.465),
    ),
    *(
        ("GRR", 2, 4.0, 4.0, 3.979),
        ("SUE", 2, 4.0, 2.0, 1.991),
        ("OUE", 2, 4.0, 1.051, 1.045),
        ("BLH", 2, 4.0, 1.051, 1.045),
    ),
    *(("GRR", 100, 1.0, 1.0, 0.955), ("SS", 100, 1.0, 0.628, 0.579), ("SUE", 100, 1.0, 0.507, 0.457)),
    *(("OUE", 100, 1.0, 0.629, 0.580), ("BLH", 100, 1.0, 0.385, 0.333)),
]


@pytest.mark.parametrize(("name", "k", "epsilon", "large", "bound"), LDP_AUDIT)
def test_the_figures_of_ldp_audit_are_met(name: str, k: int, epsilon: float, large: float, bound: float) -> None:
    true, false = attack_rates(name, k, epsilon)
    assert math.log(true / false) == pytest.approx(large, abs=0.001)
    trials = 1_000_000
    counts = round(true * trials), trials, round(false * trials), trials
    assert loss_by_rates(*counts, alpha=0.01) == pytest.approx(bound, abs=0.0015)


def test_a_mean_with_a_noisy_scale_by_numeric_integration() -> None:
    """The density of NonDPLaplace2 as a sum over noisy counts; its integral is its distribution function."""
    epsilon = 0.1
    counts, scale = np.linspace(1e-6, 1500, 1_500_001), 2 / epsilon
    for n, mean in ((1, 0.0), (2, 0.5)):
        weight = np.exp(-np.abs(counts - n) / scale) / (2 * scale) * (counts[1] - counts[0])
        for y in (0.0, 0.3, 4.0):
            rate = counts * epsilon / 2
            expected = (weight * rate / 2 * np.exp(-np.abs(y - mean) * rate)).sum()
            assert means._density(np.array([abs(y - mean)]), n, epsilon)[0] == pytest.approx(expected, rel=1e-4)
        z = np.array([0.7, 0.7 + 1e-5])
        slope = np.diff(means._tail(z, n, epsilon))[0] / 1e-5
        assert slope == pytest.approx(means._density(z[:1], n, epsilon)[0], rel=1e-4)


def test_texts_by_a_loop_over_all_rewrites() -> None:
    """SanText as its paper has it: P(y | x) ~ exp(-epsilon / 2 distance), words on their own."""
    places_ = dict(zip(texts.WORDS, np.array(texts.PLACES, np.float32).astype(np.float64), strict=True))

    def chance(x: str, y: str) -> float:
        weights = {w: math.exp(-np.linalg.norm(places_[x] - places_[w])) for w in texts.WORDS}
        return weights[y] / sum(weights.values())

    laws = [
        np.array([chance(a, y) * chance(b, z) for y, z in product(texts.WORDS, repeat=2)])
        for a, b in (text.split() for text in texts.TEXTS)
    ]
    law = EVERY["santext epsilon=2"].law()
    assert law.first == pytest.approx(laws[0], rel=1e-6)
    assert law.other == pytest.approx(laws[1], rel=1e-6)
    response = EVERY["randomized_response epsilon=2"].law()
    assert response.error == pytest.approx((1 + 4 - 1 + 1) / (math.exp(2) + 4) / 2)


def test_laws_released_together_by_all_pairs_of_groups() -> None:
    first, two = Law(np.array([0.75, 0.25]), np.array([0.25, 0.75])), Law(np.array([0.9, 0.1]), np.array([0.1, 0.9]))
    both = together(first, two, step=math.log(3))  # the losses are multiples of this step
    whole = Law(np.outer(first.first, two.first).ravel(), np.outer(first.other, two.other).ravel())
    assert both.error == pytest.approx(whole.error)
    assert both.pure == pytest.approx(3 * math.log(3))
    assert both.delta(0.5) == pytest.approx(whole.delta(0.5))


def test_groups_of_outputs_never_show_more_than_outputs_do() -> None:
    fine, coarse = (cells(np.linspace(-9, 10, size), norm.cdf, lambda y: norm.cdf(y - 1)) for size in (5001, 10))
    assert coarse.error > fine.error
    assert coarse.delta(1.0) < fine.delta(1.0)
    assert coarse.at_rate(0.01) < fine.at_rate(0.01)


def test_without_any_difference_nothing_is_shown() -> None:
    laws = [mechanism.law() for mechanism in mechanisms.nothing()]
    assert len(laws) == 3
    for law in laws:
        assert (law.pure, loss_at(1 - law.error, 2), law.at_rate(0.01), law.delta(0.0)) == pytest.approx((0, 0, 0, 0))


def test_symmetric_unary_encoding_shows_half_by_success_and_all_by_abstention() -> None:
    """At most 1 in 1,000 runs would prove more than epsilon, or less than nine tenths of it from 100,000 trials."""
    sample = samples(EVERY["SUE k=2 epsilon=4"], 100_000, 0)
    right = sample.right
    assert estimate(int(right.sum()), len(right)).loss == pytest.approx(2, abs=0.1)
    assert 3.6 < worst_output(right, np.abs(sample.loss), 2, 0.002) <= 4


def test_the_low_bits_of_laplace_noise_prove_a_loss_that_is_not_on_paper() -> None:
    """Mironov 2012, found by the bench: ranked by unrounded likelihood ratios, guesses prove 20 times epsilon."""
    mechanism = EVERY["Laplace"]
    sample = samples(mechanism, 10_000, 0)
    raw = np.abs(mechanism.loss(sample.outputs))
    assert worst_output(sample.right, raw, 2, 0.001) > 2 > 0.1
    assert worst_output(sample.right, np.abs(sample.loss), 2, 0.001) <= 0.1


def test_noise_used_twice_and_halved_budgets_are_known_for_what_they_are() -> None:
    assert broken.reused(1.0).law().pure == math.inf
    assert loss_at(1 - broken.halved(1.0).law().error, 2) == pytest.approx(2)
    share = broken.rare(1.0, 0.01).law()
    assert share.delta(1.0) == pytest.approx(0.01)
