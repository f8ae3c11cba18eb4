"""Averaged posteriors: their intervals, the test of their law, and the attacks that get them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

import epsilometer
import epsilometer.core.likelihood
from epsilometer.attacks.identification.likelihood import LikelihoodAttack
from epsilometer.auditing.estimation.posteriors import DEPARTS, LawTest, averaged, departure
from epsilometer.auditing.estimation.successes import estimate, loss_at
from epsilometer.auditing.results.diagnostics import anomalies
from epsilometer.auditing.schemas import OUTPUTS
from epsilometer.auditing.trials.design import Design
from epsilometer.core.attack import Context, guess_and_score
from epsilometer.core.laws import Laws, sample
from epsilometer.core.likelihood import computed
from epsilometer.core.mechanism import LATENTS, TEXT, UNITS, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from tests.support.broken.halved import Halved
from tests.support.broken.noise_reused import NoiseReused

WORDS = ["yes", "no"]
TEXTS = [" ".join(words) for words in itertools.product(WORDS, repeat=3)]
PLAIN = Design(temperature=0)


def draws(rng: np.random.Generator, loss: float, count: int) -> tuple[int, NDArray[np.float64]]:
    """Hits and posteriors of the optimal guess between two Gaussians; the loss is that of its success rate."""
    apart = 2 * stats.norm.ppf(expit(loss))
    posteriors = expit(np.abs(rng.normal(apart**2 / 2, apart, count)))
    return int((rng.random(count) < posteriors).sum()), posteriors


@pytest.mark.parametrize(("loss", "saved"), [(0.24, 50), (0.481, 15), (0.807, 7), (1.668, 3)])
def test_posteriors_save_trials(loss: float, saved: float) -> None:
    """How many times the trials Clopper-Pearson would need for so narrow an interval, at T = 10,000 and 99 %.

    Between Gaussians the medians of 20 runs are 82, 22, 9.5 and 4.1. Outside the interval by chance: .01; fixed seed.
    """
    hits, posteriors = draws(np.random.default_rng(0), loss, 10_000)
    counted, by_posteriors = estimate(hits, 10_000), averaged(hits, posteriors, 2)
    assert by_posteriors.loss < loss < by_posteriors.upper
    assert by_posteriors.point == pytest.approx(loss_at(posteriors.mean(), 2))
    assert ((counted.upper - counted.loss) / (by_posteriors.upper - by_posteriors.loss)) ** 2 > saved


def test_near_the_ceiling_hits_prove_as_much() -> None:
    """15.1 nats: no guess is wrong, and the better of both is that of the hits at half of alpha."""
    by_posteriors = averaged(1000, np.full(1000, expit(15.1)), 2)
    assert by_posteriors.loss == estimate(1000, 1000, alpha=0.005).loss
    assert by_posteriors.upper == math.inf


def test_the_interval_covers_the_loss() -> None:
    """400 audits of 300 trials at alpha = 0.2: more misses than that by chance once in 10^9."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(400):
        interval = averaged(*draws(rng, 0.5, 300), 2, 0.2)
        missed += not interval.loss <= 0.5 <= interval.upper
    assert missed <= stats.binom.isf(1e-9, 400, 0.2)


def test_the_test_of_the_law_is_exact() -> None:
    rng = np.random.default_rng(2)
    for count in (1, 2, 7, 300):
        p = rng.random(count)
        law = stats.poisson_binom(p)
        for hits in {0, count // 2, count}:
            expected = min(1.0, 2 * min(law.cdf(hits), law.sf(hits - 1)))
            assert departure(hits, p) == pytest.approx(expected, abs=1e-12)
    assert departure(1, np.array([1.0, 1.0])) < 1e-12
    assert departure(1, np.array([0.5, math.nan])) == 0  # impossible under every candidate


def test_the_law_is_wrongly_refuted_no_more_often_than_stated() -> None:
    """600 audits in which the law is true, at level 0.1: more alarms than that by chance once in 10^9."""
    rng = np.random.default_rng(3)
    alarms = sum(departure(*draws(rng, 1.0, 100)) <= 0.1 for _ in range(600))
    assert 0 < alarms <= stats.binom.isf(1e-9, 600, 0.1)


def test_the_bet_against_the_law_is_fair() -> None:
    """Exactly, over all outcomes of two batches: the wealth has the expectation 1 under the law."""
    batches = [np.array([0.2, 0.9, 0.5]), np.array([0.99, 0.01])]
    total = 0.0
    for hits in itertools.product(*(itertools.product((0, 1), repeat=len(p)) for p in batches)):
        test, chance = LawTest(), 1.0
        for won, p in zip(hits, batches, strict=True):
            test.add(sum(won), p)
            chance *= float(np.prod(np.where(won, p, 1 - p)))
        total += chance * math.exp(test.log_wealth)
    assert total == pytest.approx(1)


def test_the_law_may_be_tested_after_every_batch() -> None:
    """200 true laws looked at 20 times each, at level 0.1: more alarms than that by chance once in 10^9. And power: log
    odds that are 0.5 off are found in 1,000 trials; fixed seeds."""
    rng, alarms = np.random.default_rng(4), 0
    for _ in range(200):
        test, refuted = LawTest(), False
        for _ in range(20):
            test.add(*draws(rng, 1.0, 20))
            refuted |= test.refutes(0.1)
        alarms += refuted
    assert alarms <= stats.binom.isf(1e-9, 200, 0.1)
    test, (_, p) = LawTest(), draws(rng, 1.0, 1000)
    test.add(int((rng.random(1000) < expit(np.log(p / (1 - p)) + 0.5)).sum()), p)
    assert test.refutes(0.001)


class Coins:
    """Randomised response for every word of "yes" and "no"; `times`: by how much the sampler's epsilon is too large."""

    releases = frozenset({TEXT, UNITS})

    def __init__(self, times: float = 1.0) -> None:
        self.times = times

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        laws = self.laws(texts)
        (units,) = sample(laws, np.arange(len(texts)), [self.times * epsilon], [noise])
        return Rewrites([" ".join(WORDS[u] for u in units.row(i)) for i in range(len(texts))], units)

    def guarantee(self, epsilon: float) -> None:
        return None

    def laws(self, texts: Sequence[str]) -> Laws:
        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                keep = np.eye(2)[rows]
                yield np.log(np.where(keep, expit(epsilon), expit(-epsilon)))

        return Laws(Ragged.of([[WORDS.index(w) for w in text.split()] for text in texts]), 2, log_probabilities)


class Reused(NoiseReused, Coins):
    """Flips all words of a text by one coin, and declares a coin for each."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        rewrites = NoiseReused.rewrite(self, texts, epsilon, noise).texts
        return Rewrites(rewrites, Ragged.of([[WORDS.index(word) for word in text.split()] for text in rewrites]))


def test_a_sampler_that_follows_its_law() -> None:
    """Its losses by posteriors are sharper, and no alarm is raised: by chance with probability 0.01; fixed seed."""
    attacks = ["likelihood", "lexical", First(TEXT)]
    table = epsilometer.audit(TEXTS, Coins(), [0.3, 1.0], attacks, 3000, design=PLAIN)
    assert not table["departs"].any()
    assert table["departure_p"].null_count() == 0
    best = table.filter(attack="likelihood")
    assert (best["posterior_upper"] - best["posterior_loss"] < 0.7 * (best["upper"] - best["loss"])).all()
    blind = table.filter(attack="First")
    assert blind["posterior_loss"].to_list() == [0, 0]
    assert (blind["posterior_upper"] < blind["upper"]).all()
    strongest = table.filter(attack="strongest")
    assert (strongest["posterior_loss"] <= best["posterior_loss"]).all()  # corrected for the choice of three


@pytest.mark.parametrize("broken", [Coins(times=0.5), Coins(times=2.0), Reused()])
def test_a_sampler_that_departs_from_its_law_is_caught(broken: Coins, capsys: pytest.CaptureFixture[str]) -> None:
    """Epsilon halved or doubled, and noise reused: 2,000 trials; missed with probability below 1e-6. The loss stays."""
    row = epsilometer.audit(TEXTS, broken, [1.0], ["likelihood"], 2000, design=PLAIN).row(0, named=True)
    assert row["departs"]
    assert (row["posterior_loss"], row["posterior_point"], row["posterior_upper"]) == (None, None, None)
    assert row["loss"] == estimate(row["successes"], 2000).loss
    assert f"{DEPARTS} at epsilon 1" in capsys.readouterr().err


def test_a_list_at_twice_its_epsilon_is_caught() -> None:
    texts = ("the meeting is on", "the meeting is off")
    row = epsilometer.audit(texts, Halved(resource=texts), [0.5], ["lexical"], 2000, design=PLAIN)
    assert row["departs"].item()
    named = row.with_columns(dataset=pl.lit("texts"), mechanism=pl.lit("halved"))
    (said,) = anomalies(named, pl.DataFrame(schema=dict(OUTPUTS)))
    assert said.startswith(f"halved on texts: {DEPARTS}: under the law")


def test_likelihoods_are_computed_once_for_all_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    computing = Mock(wraps=epsilometer.core.likelihood.log_likelihood)
    monkeypatch.setattr(epsilometer.core.likelihood, "log_likelihood", computing)
    table = epsilometer.audit(TEXTS, Coins(), [1.0], ["likelihood", "lexical", "length"], 50, design=PLAIN)
    assert table["posterior_loss"].null_count() == 0
    assert computing.call_count == 2, "of the trials, and of the batch of distinct texts"


class Shows(Coins):
    """Its text shows more than its units: the first letter of the source."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        units = Coins.rewrite(self, texts, epsilon, noise).units
        assert units is not None
        return Rewrites(self.write(texts, units), units)

    def write(self, texts: Sequence[str], units: Ragged) -> list[str]:
        return [f"{text[0]}: " + " ".join(WORDS[u] for u in units.row(i)) for i, text in enumerate(texts)]


def guessed(mechanism: Any, attack: Any, texts: Sequence[str] = TEXTS) -> NDArray[np.float64] | None:
    """The posteriors of an attack's guesses between the first and the last text, which begin with y and n."""
    candidates, epsilon = np.tile([0, len(texts) - 1], (40, 1)), 0.5
    rewrites = mechanism.rewrite([texts[0]] * 40, epsilon, Noise.named(40, "rewrite"))
    (table,) = computed(mechanism, texts, candidates, [rewrites], epsilons=[epsilon])
    context = Context(texts, mechanism, epsilon, Noise.named(40, "attack"), log_likelihoods=table)
    (guesses,) = guess_and_score(attack, [rewrites], candidates, [context])
    return guesses.posteriors


class First:
    """Names the first candidate; sees what it is told to, and is shown no likelihoods beyond it."""

    def __init__(self, seen: str) -> None:
        self.seen = seen

    def sees(self, mechanism: object) -> str:
        return self.seen

    def guess(self, rewrites: Rewrites, candidates: NDArray[np.integer], context: Context) -> NDArray[np.int16]:
        assert (context.log_likelihoods is None) == (self.seen != UNITS)
        return np.zeros(len(candidates), np.int16)


def test_the_posterior_is_of_all_that_an_attack_sees() -> None:
    hidden = guessed(Coins(), First(TEXT))
    assert hidden is not None
    assert ((hidden > 0) & (hidden < 1)).all()
    assert guessed(Shows(), First(TEXT)).tolist() == [1.0] * 40  # type: ignore[union-attr]
    assert guessed(Shows(), First(UNITS)).tolist() == [1.0] * 40  # type: ignore[union-attr]
    assert guessed(Coins(), First(LATENTS)) is None  # the law does not cover the view of this attack
    without = NoiseReused()
    assert guessed(without, First(TEXT)) is None


def test_the_likelihood_attack_finds_the_same_with_and_without_the_shared_likelihoods() -> None:
    mechanism, candidates = Coins(), np.array([[0, 5], [3, 1]] * 20)
    rewrites = mechanism.rewrite([TEXTS[0]] * 40, 0.5, Noise.named(40, "rewrite"))
    (table,) = computed(mechanism, TEXTS, candidates, [rewrites], epsilons=[0.5])
    plain = Context(TEXTS, mechanism, 0.5, Noise.named(40, "attack"))
    shared = Context(TEXTS, mechanism, 0.5, Noise.named(40, "attack"), log_likelihoods=table)
    first, other = (
        guess_and_score(LikelihoodAttack(), [rewrites], candidates, [context])[0] for context in (plain, shared)
    )
    assert (first.slots == other.slots).all()
    assert first.posteriors is None
    assert other.posteriors is not None
    np.testing.assert_allclose(first.scores, np.log(other.posteriors / (1 - other.posteriors)), atol=2e-6)


@pytest.mark.parametrize("count", [1023, 1024, 5000])
def test_equal_posteriors_are_counted_together(count: int) -> None:
    """The p-value is that of all coins one by one, where posteriors come often, seldom, or are all the same."""
    rng = np.random.default_rng(7)
    laws = {
        "one": np.full(count, 0.731058579),
        "sure": np.ones(count),
        "two": np.where(rng.random(count) < 0.3, 0.88, 0.12),
        "mixed": np.where(rng.random(count) < 0.5, 0.5, rng.random(count)),
    }
    for p in laws.values():
        coins = stats.poisson_binom(p)
        hits = int((rng.random(count) < p).sum())
        for many in {hits, max(0, hits - int(2 * math.sqrt(count))), 0, count}:
            expected = min(1.0, 2 * min(coins.cdf(many), coins.sf(many - 1)))
            assert departure(many, p) == pytest.approx(expected, abs=1e-12)
