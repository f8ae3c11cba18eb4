"""The statement about a training: every epsilon with its assumptions, and published epsilons that are not valid."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilometer.accounting.releases import Gaussian, VonMisesFisher
from epsilometer.accounting.schedule import Poisson, Shuffled
from epsilometer.accounting.statement import Statement, account, caveat, effective_noise
from epsilometer.core.guarantees import Granularity, Neighbours
from epsilometer.core.von_mises_fisher import log_density
from tests.support.refusals import refused

COLA = {"texts": 5_056, "batch": 128}


def by(said: list[Statement], accountant: str, neighbours: Neighbours | None = None) -> Statement:
    (statement,) = [s for s in said if s.accountant == accountant and neighbours in (None, s.neighbours)]
    return statement


def refuted(claim: Statement, others: list[Statement]) -> bool:
    """Whether a claim is below what is known to be lost: by the same neighbours, at its delta or a larger one."""
    return any(
        other.lower is not None and other.lower > claim.upper * (1 + 1e-12)
        for other in others
        if other.neighbours is claim.neighbours and other.delta >= claim.delta
    )


def test_a_gaussian_training_for_both_relations() -> None:
    said = account(Gaussian(0.6), Poisson(**COLA, epochs=10))
    assert {statement.neighbours for statement in said} == {Neighbours.ADDED_OR_REMOVED, Neighbours.REPLACED}
    assert {(statement.sampling, statement.delta) for statement in said} == {("poisson", 1 / 5_056)}
    added = by(said, "loss distribution", Neighbours.ADDED_OR_REMOVED)
    replaced = by(said, "loss distribution", Neighbours.REPLACED)
    assert added.lower is not None
    assert added.upper < replaced.upper < 2 * added.upper
    assert added.lower <= added.upper <= by(said, "Renyi", Neighbours.ADDED_OR_REMOVED).upper
    assert by(said, "published").upper == pytest.approx(10.598, abs=1e-3)
    claim = added.guarantee
    assert claim is not None
    assert (claim.epsilon, claim.granularity, claim.delta) == (added.upper, Granularity.EXAMPLE, 1 / 5_056)
    of, public = claim.describe().split("; public: ")
    assert of.endswith("per example, delta 0.000197785; training sets with one example added or removed")
    assert "the number of examples" in public, "the rate and the number of steps are computed from it"


def test_disjoint_batches_are_not_accounted_as_coins() -> None:
    """Without coins no chance hides an example: the same noise is worth far less."""
    coins = by(account(Gaussian(1.0), Poisson(**COLA, epochs=4), neighbours=Neighbours.REPLACED), "loss distribution")
    fixed = account(Gaussian(1.0), Shuffled(**COLA, epochs=4), neighbours=Neighbours.REPLACED)
    exact = by(fixed, "loss distribution")
    assert exact.lower is not None
    assert exact.lower > 4 * coins.upper
    assert refuted(coins, [exact])
    assert not any(statement.accountant == "published" for statement in fixed)


def test_neighbours_in_fixed_batches_leave_a_place_empty() -> None:
    said = {
        schedule.sampling: {statement.between for statement in account(Gaussian(1.0), schedule)}
        for schedule in (Poisson(**COLA, epochs=1), Shuffled(**COLA, epochs=1))
    }
    assert said["poisson"] == {"added or removed", "replaced"}
    assert said["shuffled"] == {"added or removed (place left empty)", "replaced"}


def test_every_pass_counts() -> None:
    for release in (Gaussian(2.0), VonMisesFisher(1e3, (592_130,))):
        once, ten = (
            by(account(release, Shuffled(**COLA, epochs=n), neighbours=Neighbours.REPLACED), "loss distribution")
            for n in (1, 10)
        )
        assert ten.lower is not None
        assert ten.lower > 2 * once.upper


def test_published_figures_of_directional_noise_hold_for_one_pass_and_one_part_only() -> None:
    """2 kappa, and 2 kappa sqrt(m): true of one pass, false of ten passes and of four parts."""
    for passes, dimensions, holds in ((1, (1_000,), True), (10, (1_000,), False), (1, (1_000, 50, 20, 2), False)):
        said = account(VonMisesFisher(30.0, dimensions), Shuffled(**COLA, epochs=passes))
        claim = by(said, "published")
        assert (claim.delta, claim.upper) == (0, 60 * math.sqrt(len(dimensions)))
        assert by(said, "pure").upper == 60 * passes * len(dimensions)
        assert refuted(claim, said) is not holds
        angle = by(said, "published, by angle")
        assert angle.upper == pytest.approx(math.pi / 2 * claim.upper)
        assert refuted(angle, said) is not holds


def log_ratio(kappa: float, means: tuple[np.ndarray, np.ndarray], draw: np.ndarray) -> float:
    """ln of the densities of one draw about two means, by the density itself."""
    d = len(draw)
    first, second = (log_density(np.array([float(mean @ draw)]), kappa, d)[0] for mean in means)
    # The cosine's density is the draw's density times a factor that depends only on the cosine. Divide by this factor.
    taken = [(d - 3) / 2 * math.log1p(-(float(mean @ draw) ** 2)) for mean in means]
    return first - second - (taken[0] - taken[1])


def test_the_pair_that_refutes_the_root_of_the_parts() -> None:
    """Opposite gradients in every part, every part drawn near its own mean: m times 2 kappa, by the densities."""
    kappa, m = 5.0, 4
    rng = np.random.default_rng(0)
    total = 0.0
    for d in (3, 5, 10, 40):
        mean = rng.normal(size=d)
        mean /= np.linalg.norm(mean)
        aside = rng.normal(size=d)
        aside -= aside @ mean * mean
        draw = mean * math.sqrt(1 - 1e-8) + aside / np.linalg.norm(aside) * 1e-4
        total += log_ratio(kappa, (mean, -mean), draw)
    assert total == pytest.approx(2 * kappa * m, rel=1e-6)
    assert total > 1.9 * (2 * kappa * math.sqrt(m))


def test_the_exact_loss_is_the_distance_and_the_angle_overstates_it() -> None:
    """sup over draws of the log-ratio is kappa |mu - nu|, reached at (mu - nu) / |mu - nu|; never more."""
    kappa, d = 7.0, 3
    rng = np.random.default_rng(1)
    for theta in (0.3, 1.5, 3.0):
        mean, other = np.array([1.0, 0, 0]), np.array([math.cos(theta), math.sin(theta), 0])
        best = (mean - other) / np.linalg.norm(mean - other)
        exact = kappa * 2 * math.sin(theta / 2)
        assert log_ratio(kappa, (mean, other), best) == pytest.approx(exact, rel=1e-9)
        draws = rng.normal(size=(20_000, d))
        draws /= np.linalg.norm(draws, axis=1, keepdims=True)
        assert (kappa * draws @ (mean - other)).max() <= exact
        assert 1 <= kappa * theta / exact <= math.pi / 2


def test_coins_of_directional_noise_are_given_away() -> None:
    """An upper end, below that of one draw in every step; averages lose less; zeroed examples cost less."""
    release, schedule = VonMisesFisher(1e3, (592_130,)), Poisson(**COLA, epochs=10)
    said = account(release, schedule)
    exact = by(said, "loss distribution")
    assert exact.lower is not None
    assert 0.2 < exact.lower < exact.upper / 100
    assert by(said, "pure").upper == 2e3 * 400
    every = by(account(release, Shuffled(5_056, 5_056, 400)), "loss distribution")
    assert every.lower is not None
    assert exact.upper < every.lower
    zeroed = by(account(release, schedule, neighbours=Neighbours.ZEROED), "loss distribution")
    assert zeroed.upper < exact.upper


def test_effective_noise_of_a_head() -> None:
    """sqrt(L / (A kappa)): 8.7, .87 and .088 at 592,130 numbers and batches of 128."""
    for kappa, sigma in ((1e3, 8.7), (1e4, 0.87), (1e5, 0.088)):
        noise = effective_noise(VonMisesFisher(kappa, (592_130,)), Shuffled(1_280, 128, 1))
        assert noise == pytest.approx(sigma, rel=0.01)


def test_pure_losses_need_no_delta_and_gaussian_ones_do() -> None:
    (pure, *published) = account(VonMisesFisher(5.0, (10,)), Shuffled(100, 10, 2), delta=0)
    assert (pure.accountant, pure.upper) == ("pure", 20)
    assert {statement.accountant for statement in published} == {"published", "published, by angle"}
    with refused("EPS-L009", "0"):
        account(Gaussian(1.0), Poisson(100, 10, 2), delta=0)


def test_impossible_questions_are_refused() -> None:
    with refused("EPS-L011"):
        account(VonMisesFisher(5.0, (10,)), Shuffled(100, 10, 2), neighbours=Neighbours.ADDED_OR_REMOVED)
    with refused("EPS-L010"):
        account(Gaussian(1.0), Poisson(100, 10, 2), neighbours=Neighbours.ANY)
    for delta in (-0.1, 1.0, math.nan):
        with refused("EPS-L008"):
            account(Gaussian(1.0), Poisson(100, 10, 2), delta=delta)


def test_a_delta_that_lets_an_example_be_published_is_named() -> None:
    schedule = Poisson(100, 10, 1)
    assert caveat(schedule, 0.009) is None
    assert "publishes one random text" in str(caveat(schedule, 0.01))


def test_a_training_that_loses_next_to_nothing_claims_its_delta() -> None:
    """Where the whole loss fits into delta, epsilon is 0."""
    statement = account(Gaussian(300), Poisson(1000, 100, 1), 1e-2)[0]
    assert statement.upper == 0
    claim = statement.guarantee
    assert (claim.epsilon, claim.delta) == (0.0, 1e-2)
