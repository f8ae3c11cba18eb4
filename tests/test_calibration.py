"""The search for the epsilon of a target loss: its evidence, its coverage under optional stopping, its price."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit

import epsilometer
from epsilometer.calibration import ABOVE, BELOW, FOUND, OUTSIDE, UNDECIDED, Point, Tally, calibrate, log_wealth, side
from epsilometer.comparison import compare
from epsilometer.errors import UserError
from epsilometer.estimation import clopper_pearson, success_bound

TRUE = 6.0  # where the simulated adversary's loss is 1 nat


def success(epsilon: float) -> float:
    """Rises from 1/2 like randomised response on a list: its loss is ln(epsilon / TRUE) + 1 around the target."""
    return 0.5 + 0.5 * float(expit(2.5 * math.log(epsilon / TRUE) + math.log(0.4621 / 0.5379)))


class Simulated:
    """An adversary with the success probability `success`; counts the trials."""

    def __init__(self, seed: int, *shares: float) -> None:
        self.rng, self.shares, self.trials = np.random.default_rng(seed), shares or (1.0,), 0
        self.asked: Counter[int] = Counter()

    def __call__(self, epsilon: float, first: int, count: int, attacks: Sequence[int]) -> Sequence[int]:
        self.trials += count
        self.asked.update(attacks)
        shares = [self.shares[i] for i in attacks]
        return [int(self.rng.binomial(count, 0.5 + share * (success(epsilon) - 0.5))) for share in shares]


def test_the_simulated_target_is_where_it_is_said_to_be() -> None:
    assert success(TRUE) == pytest.approx(success_bound(1.0, 2), abs=1e-4)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 5), (40, 50), (9, 60), (700, 1000)])
def test_the_wealth_is_the_averaged_likelihood_ratio(successes: int, trials: int) -> None:
    wanted, failures = 0.7, trials - successes

    def ratio(p: float) -> float:
        return math.exp(successes * math.log(p / wanted) + failures * math.log((1 - p) / (1 - wanted)))

    prior = stats.beta(100 * wanted + 1, 100 * (1 - wanted) + 1)  # its mode is at p*
    above, below = (
        integrate.quad(lambda p: ratio(p) * prior.pdf(p), *ends, epsabs=0, epsrel=1e-10, limit=200)[0]
        / (prior.cdf(ends[1]) - prior.cdf(ends[0]))
        for ends in ((wanted, 1), (0, wanted))
    )
    assert log_wealth(successes, trials, wanted, above=True) == pytest.approx(math.log(above), abs=1e-6)
    assert log_wealth(successes, trials, wanted, above=False) == pytest.approx(math.log(below), abs=1e-6)


def test_looking_after_every_batch_keeps_the_error() -> None:
    """400 runs at p = p*, each looked at 60 times: a rate of 0.1 a direction is passed by chance once in 10^9."""
    rng, wanted, alpha, runs = np.random.default_rng(0), 0.7, 0.1, 400
    wrong = {ABOVE: 0, BELOW: 0}
    for _ in range(runs):
        successes = np.cumsum(rng.binomial(50, wanted, 60))
        said = {side(int(s), 50 * (i + 1), wanted, alpha) for i, s in enumerate(successes)}
        wrong = {name: count + (name in said) for name, count in wrong.items()}
    assert max(wrong.values()) <= stats.binom.isf(1e-9, runs, alpha)
    fixed = sum(
        any(
            not low <= wanted <= high
            for low, high in (clopper_pearson(int(s), 50 * (i + 1), alpha) for i, s in enumerate(run))
        )
        for run in (np.cumsum(rng.binomial(50, wanted, 60)) for _ in range(100))
    )
    assert fixed > stats.binom.isf(1e-9, 100, alpha)  # an interval for one look is no such thing


def test_sides() -> None:
    assert side(900, 1000, 0.7, 0.01) == ABOVE
    assert side(500, 1000, 0.7, 0.01) == BELOW
    assert side(700, 1000, 0.7, 0.01) is None
    assert side(760, 1000, 0.7, 0.001) == ABOVE
    assert side(760, 1000, 0.7, 0.001, attacks=100) is None  # many attacks, many chances to be called above
    assert side(500, 1000, 0.7, 0.01, attacks=100) == BELOW

    def point(*sides: str | None) -> str | None:
        return Point(1.0, [Tally(0, 1, one) for one in sides], 0.01).side

    assert point(BELOW, ABOVE) == point(None, ABOVE) == ABOVE  # the strongest attack counts
    assert point(BELOW, None) is None
    assert point(BELOW, BELOW) == BELOW


def test_the_interval_covers_the_truth() -> None:
    """150 searches, each stopped when it is narrow: misses beyond alpha = 0.1 happen by chance once in 10^9."""
    missed, spent = 0, []
    for seed in range(150):
        found = calibrate(Simulated(seed), 1.0, 1.0, 40.0, alpha=0.1)
        missed += not found.low < TRUE < found.high
        assert found.status == FOUND
        assert found.high / found.low <= 1.25 * (1 + 1e-9)
        assert found.low <= found.best <= found.high
        spent.append(found.trials)
    assert missed <= stats.binom.isf(1e-9, 150, 0.1)
    assert np.median(spent) < 0.5 * np.quantile(spent, 0.999)  # trials go where they decide


def test_it_needs_at_most_a_third_of_a_fixed_grids_rewrites() -> None:
    """The fixed grid: as many epsilons, each with the trials that tell one step off the target from the target."""
    alpha, width, low, high = 0.01, 1.25, 1.0, 40.0
    places = math.ceil(2 * math.log(high / low) / math.log(width)) + 1
    wanted, step = success_bound(1.0, 2), math.sqrt(width)

    def decides(n: int) -> bool:
        under, over = (round(n * success(TRUE * factor)) for factor in (1 / step, step))
        return clopper_pearson(under, n, alpha)[1] < wanted < clopper_pearson(over, n, alpha)[0]

    each = next(n for n in range(100, 20_000, 100) if decides(n))
    spent = [calibrate(Simulated(seed), 1.0, low, high, alpha=alpha, width=width).trials for seed in range(40)]
    assert np.median(spent) <= each * places / 3


def test_the_strongest_of_several_attacks() -> None:
    alone = calibrate(Simulated(5), 1.0, 1.0, 40.0)
    two = Simulated(5, 0.3, 1.0)
    both = calibrate(two, 1.0, 1.0, 40.0, attacks=2)
    assert alone.low < TRUE < alone.high
    assert both.low < TRUE < both.high
    assert two.asked[0] < two.asked[1] / 2  # the weak one is known to be so early


def test_two_equal_attacks_keep_the_error() -> None:
    """150 searches: misses beyond alpha = 0.1 happen by chance once in 10^9."""
    found = [calibrate(Simulated(seed, 1.0, 1.0), 1.0, 1.0, 40.0, attacks=2, alpha=0.1) for seed in range(150)]
    assert sum(not one.low < TRUE < one.high for one in found) <= stats.binom.isf(1e-9, 150, 0.1)


def test_targets_out_of_reach_and_out_of_budget() -> None:
    above = calibrate(Simulated(0), 1.0, 0.5, 2.0)
    assert (above.status, above.low, above.high) == (OUTSIDE, 2.0, math.inf)
    below = calibrate(Simulated(0), 1.0, 20.0, 90.0)
    assert (below.status, below.low, below.high) == (OUTSIDE, 0.0, 20.0)
    few = Simulated(0)
    short = calibrate(few, 1.0, 1.0, 40.0, budget=600)
    assert (short.status, short.trials, few.trials) == (UNDECIDED, 600, 600)
    assert short.low < TRUE < short.high


def test_an_interval_is_not_left_open_for_want_of_trials() -> None:
    """Next to the target 2,000 trials decide nothing, far from it 200 do. Fixed seeds; alpha is 0.01 a search."""
    for seed in range(20):
        found = calibrate(Simulated(seed), 1.0, 1.0, 40.0, width=1.02, budget=2000)
        assert found.status == UNDECIDED
        assert 1 <= found.low < TRUE < found.high <= 40


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"target": 0.0}, "target loss .* > 0, got 0.0"),
        ({"target": math.nan}, "target loss"),
        ({"low": 5.0, "high": 2.0}, "0 < low < high, got 5 to 2"),
        ({"width": 1.0}, "> 1, got 1.0"),
        ({"alpha": 1.0}, "alpha must be in"),
    ],
)
def test_mistakes_are_refused_before_anything_is_measured(changes: dict[str, float], complaint: str) -> None:
    never = Simulated(0)
    with pytest.raises(UserError, match=complaint):
        calibrate(never, **{"target": 1.0, "low": 1.0, "high": 9.0, **changes})
    assert never.trials == 0


def test_randomised_response_is_found() -> None:
    """Keeping the text with probability e^eps / (1 + e^eps) on two texts has loss epsilon: 1.5 is at 1.5."""
    texts = ["the meeting is on", "the meeting is off"]

    def respond(text: str, epsilon: float, rng: np.random.Generator) -> str:
        return text if rng.random() < expit(epsilon) else texts[1 - texts.index(text)]

    found = epsilometer.api.calibrate(texts, respond, 1.5, 0.2, 6.0, ["lexical"], temperature=0, width=1.5, seed=1)
    assert found.status == FOUND
    assert found.low < 1.5 < found.high
    again = epsilometer.api.calibrate(texts, respond, 1.5, 0.2, 6.0, ["lexical"], temperature=0, width=1.5, seed=1)
    assert (again.low, again.high, again.trials) == (found.low, found.high, found.trials)
    with pytest.raises(UserError, match="no attack of likelihood applies"):
        epsilometer.api.calibrate(texts, respond, 1.5, 0.2, 6.0, ["likelihood"], temperature=0)


def test_paired_comparison_is_a_fair_coin_over_the_discordant_trials() -> None:
    first = np.array([True] * 30 + [False] * 10 + [True] * 9 + [False] * 2)
    second = np.array([True] * 30 + [False] * 10 + [False] * 9 + [True] * 2)
    found = compare(first, second)
    assert (found.trials, found.first_only, found.second_only) == (51, 9, 2)
    assert found.p_value == pytest.approx(2 * sum(math.comb(11, i) for i in range(3)) / 2**11)
    assert found.sentence("tem", "mvc", 0.1) == "mvc leaks less than tem, p = 0.065"
    assert found.sentence("tem", "mvc", 0.01).startswith("no evidence that tem and mvc leak differently")
    assert compare(first, first).p_value == 1
