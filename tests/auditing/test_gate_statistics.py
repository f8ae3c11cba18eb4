"""The gate: how often it is wrong, what it detects, and how many trials it takes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from epsilometer.auditing.estimation.successes import estimate, success_bound
from epsilometer.auditing.estimation.tail import Scored
from epsilometer.auditing.evidence.evidence import By, Confident, Covers, Evidence, Hits, Means, Sure
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.evidence.wealth import log_wealth, log_wealth_of_tail
from epsilometer.auditing.gate_statistics import (
    Errors,
    Judged,
    decide,
    enough_texts,
    fewest_rewrites,
    fewest_texts,
    judge,
    least_found,
    least_rate_found,
    least_tail_found,
    limit_of_increase,
    most_missed,
)
from tests.support.refusals import refused
from tests.support.sparing import first

FALSE_ALARM = 1e-9
BEYOND, OPEN, KEPT, WITHIN = Status.BEYOND, Status.OPEN, Status.NOT_EXCEEDED, Status.WITHIN


def coins(losses: list[float], seed: int, k: int = 2):
    generator = np.random.default_rng(seed)
    return lambda first, count: [Hits(int(generator.binomial(count, success_bound(loss, k))), count) for loss in losses]


def limits(*losses: float) -> dict[str, Limit | None]:
    return {f"attack {i}": Limit(loss, Scale.loss(2), "asked for") for i, loss in enumerate(losses)}


SHARE, CLASSES, PEOPLE = Scale("identifiers"), Scale("attribute", 2), Scale("linking", 10)


def judged(data: Hits | Means, limit: Limit, tests: int, errors: Errors) -> Judged:
    covers = Covers.EVERYONE if limit.scale == SHARE else Covers.THESE
    return judge([Evidence("a", By.ATTACK, limit.scale, data, covers=covers)], limit, tests=tests, errors=errors)


@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize(("successes", "trials", "bound"), [(40, 50, 0.7), (3, 10, 0.5), (90, 100, 0.95)])
def test_wealth_is_the_mean_over_rates_on_one_side(successes: int, trials: int, bound: float, above: bool) -> None:
    def factor(q: float) -> float:
        return (q / bound) ** successes * ((1 - q) / (1 - bound)) ** (trials - successes)

    low, high = (bound, 1.0) if above else (0.0, bound)
    mean = integrate.quad(factor, low, high)[0] / (high - low)
    assert log_wealth(successes, trials, bound, above) == pytest.approx(math.log(mean), abs=1e-6)


def sure_guesses(hits: float, misses: float, seed: int):
    """Trials in which a sure guess names the source with one probability, and another candidate with the other.

    All of them have one score.
    """
    generator = np.random.default_rng(seed)

    def measure(first: int, count: int) -> list[Confident]:
        seen = generator.multinomial(count, [hits, misses, max(0.0, 1 - hits - misses)])
        sure = Sure(int(seen[0]), int(seen[1]))
        return [Confident(sure, [sure], count)]

    return measure


def tail_limit(delta: float) -> dict[str, Limit | None]:
    return {"attack, tail": Limit(delta, Scale.tail(2), "asked for")}


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("above", [True, False])
def test_wealth_on_the_tail_is_a_mean_of_products_and_no_trial_ruins_it(above: bool, k: int) -> None:
    delta, miss = 0.1, math.exp(4) / (k - 1)
    grid = np.geomspace(0.001, 0.95, 14) / (delta + miss if above else delta - 1)
    values = np.array([1.0] * 40 + [-miss] * 2 + [0.0] * 58)
    mean = np.mean([np.prod(1 + stake * (values - delta)) for stake in grid])
    assert log_wealth_of_tail(Sure(40, 2), 100, delta, k, above) == pytest.approx(math.log(mean))
    for sure in (Sure(100, 0), Sure(0, 100), Sure(0, 0)):
        assert math.isfinite(log_wealth_of_tail(sure, 100, delta, k, above))


@pytest.mark.slow
@pytest.mark.parametrize("misses", [0.0, 0.004])
def test_a_tail_at_its_limit_is_seldom_accused_and_just_above_it_seldom_passes(misses: float) -> None:
    """400 runs each, looked at after every batch: at most alpha, and at most beta, but once in 10^9."""
    limit, runs, errors = 0.1, 400, Errors(alpha=0.05, beta=0.1)
    rate = limit + math.exp(4) * misses
    counted = {BEYOND: 0, KEPT: 0}
    for seed in range(runs):
        at = decide(sure_guesses(rate, misses, seed), tail_limit(limit), 3000, 2, errors=errors).status
        beyond = decide(sure_guesses(rate + 0.001, misses, seed), tail_limit(limit), 3000, 2, errors=errors).status
        counted[BEYOND] += at == BEYOND
        counted[KEPT] += beyond == KEPT
    assert counted[BEYOND] <= stats.binom.isf(FALSE_ALARM, runs, errors.alpha)
    assert counted[KEPT] <= stats.binom.isf(FALSE_ALARM, runs, errors.beta)


def test_a_clear_tail_is_decided_either_way() -> None:
    """The coin at one nat, and randomised response at 3 nats, whose sure guesses are wrong too often to prove any."""
    coin = decide(sure_guesses(math.tanh(0.5), 0.0, 0), tail_limit(0.01), 20_000, 2)
    assert (coin.status, coin.trials < 5000) == (BEYOND, True)
    assert coin.attacks[0].point == pytest.approx(0.46, abs=0.05)
    wrong = 1 / (1 + math.exp(3))
    pure = decide(sure_guesses(1 - wrong, wrong, 0), tail_limit(0.01), 20_000, 2)
    assert (pure.status, pure.trials < 1000) == (KEPT, True)


@pytest.mark.parametrize("best", [0.5, 2.0])
def test_a_tail_beyond_another_threshold_than_the_one_learnt_does_not_pass(best: float) -> None:
    """Two of 100 guesses are right and have scores above 2; the others are at chance, with scores up to 1.

    From .5 on wrong guesses hide this. It passes with probability beta at most, at any seed; here at none of ten.
    """
    grid = np.array([0.0, 0.5, 1.0, 2.0])

    def attack(seed: int):
        generator = np.random.default_rng(seed)

        def measure(first: int, count: int) -> list[Confident]:
            shown, scores = generator.random(count) < 0.02, generator.random(count)
            scored = Scored(shown | (generator.random(count) < 0.5), np.where(shown, scores + 2, scores))
            between = [Sure(*each) for each in scored.between(grid).T.tolist()]
            return [Confident(Sure(*scored.beyond(best)), between, count)]

        return measure

    statuses = [decide(attack(seed), tail_limit(0.01), 4000, 2).status for seed in range(10)]
    assert KEPT not in statuses


@pytest.mark.parametrize("misses", [0, 8, 60])
def test_the_tail_that_would_have_been_found_is_found_that_often(misses: int) -> None:
    """At the least tail that 9,500 trials find with so many misses, in 60 runs, looked at after every batch.

    With misses at their upper end, and with half as many. Of a power of .95 fewer than 46 of 60 come once in 10^6.
    """
    errors, trials, runs = Errors(), 9500, 60
    missed = most_missed(misses, trials, errors=errors)
    least = least_tail_found(trials, 0.01, 2, missed=missed, errors=errors)
    for share in (missed, missed / 2):
        hits = least + math.exp(4) * share
        statuses = [decide(sure_guesses(hits, share, seed), tail_limit(0.01), trials, 2).status for seed in range(runs)]
        assert statuses.count(BEYOND) >= 46


def test_the_more_sure_guesses_are_wrong_the_less_of_a_tail_is_found() -> None:
    """Down to none, as a share of e^-4 of wrong guesses leaves none between two texts."""
    errors = Errors()
    shares = [most_missed(misses, 9500, errors=errors) for misses in (0, 8, 60, 200)]
    assert shares == pytest.approx([0.00032, 0.0016, 0.0079, 0.024])
    least = [least_tail_found(9500, 0.01, 2, missed=share, errors=errors) for share in shares]
    assert least == sorted(least)
    assert least[-1] == math.inf
    assert least_tail_found(9500, 0.01, 2, missed=0.0, errors=errors) < least[0]
    assert least_tail_found(50, 0.01, 2, missed=0.0, errors=errors) == math.inf
    assert most_missed(50, 50, errors=errors) == 1.0


@pytest.mark.parametrize("loss", first(1, [0.3, 1.0, 3.0]))
def test_a_loss_at_its_limit_is_seldom_accused(loss: float) -> None:
    """1,000 runs with three attacks at their limits, looked at after every batch: at most alpha, but once in 10^9."""
    errors, runs = Errors(alpha=0.05), 1000
    accused = sum(
        decide(coins([loss] * 3, s), limits(*[loss] * 3), 3000, 2, errors=errors).status == BEYOND for s in range(runs)
    )
    assert accused <= stats.binom.isf(FALSE_ALARM, runs, errors.alpha)


def test_a_loss_just_above_its_limit_seldom_passes() -> None:
    """1,000 runs, the other attacks far below theirs: at most beta, but once in 10^9."""
    errors, runs = Errors(beta=0.1), 1000
    passed = sum(
        decide(coins([0.1, 1.001], s), limits(1.0, 1.0), 3000, 2, errors=errors).status == KEPT for s in range(runs)
    )
    assert passed <= stats.binom.isf(FALSE_ALARM, runs, errors.beta)


def test_an_increase_of_three_tenths_at_one_nat_is_found() -> None:
    """Baselines of 10,000 trials, each with a run of its own: power .95 or more; unchanged, none of 300 is accused.

    At a power of .99 fewer than 285 of 300 are found once in 10^6.
    """
    runs, generator = 300, np.random.default_rng(0)
    detected = accused = 0
    for seed in range(runs):
        baseline = estimate(int(generator.binomial(10_000, success_bound(1.0, 2))), 10_000, 2, 0.01)
        limit = {"attack": limit_of_increase(baseline, 0.3, 2)}
        detected += decide(coins([1.3], seed), limit, 20_000, 2).status == BEYOND
        accused += decide(coins([1.0], seed + 10_000), limit, 20_000, 2).status == BEYOND
    assert detected >= 285
    assert accused == 0


def test_clear_cases_take_few_trials() -> None:
    assert decide(coins([3.0], 0), limits(1.0), 10_000, 2).trials <= 400
    clear = decide(coins([0.1], 0), limits(1.0), 10_000, 2)
    assert (clear.status, clear.trials) == (KEPT, 200)
    at_limit = decide(coins([1.0], 0), limits(1.0), 1000, 2)
    assert (at_limit.status, at_limit.trials) == (OPEN, 1000)


def test_what_would_have_been_found_is_found_that_often() -> None:
    """At the least loss that 2,000 trials find, 1,900 of 2,000 samples do: fewer than 1,840 come once in 10^8."""
    errors = Errors()
    loss = least_found(2000, 1.0, 2, errors=errors)
    assert 1.1 < loss < 1.6
    successes = np.random.default_rng(0).binomial(2000, success_bound(loss, 2), 2000)
    bound = success_bound(1.0, 2)
    detections = sum(log_wealth(int(s), 2000, bound, above=True) >= math.log(1 / errors.alpha) for s in successes)
    assert detections >= 1840
    assert least_found(5, 3.0, 2, errors=errors) == math.inf


def test_the_attack_that_decides_comes_first() -> None:
    verdict = decide(coins([0.1, 3.0], 0), limits(1.0, 1.0), 5000, 2)
    assert verdict.status == BEYOND
    assert [of.attack for of in verdict.attacks] == ["attack 1", "attack 0"]
    successes = coins([0.1, 3.0], 0)(0, verdict.trials)[1].right
    assert verdict.attacks[0].point == pytest.approx(math.log(successes / (verdict.trials - successes)))


@pytest.mark.parametrize(("loss", "status"), [(0.1, OPEN), (3.0, BEYOND)])
def test_an_attack_without_a_limit_is_open_and_no_other_is_beyond_for_it(loss: float, status: Status) -> None:
    """Whatever it does; the others are still judged. Errors: .05 and .001 of the gate."""
    verdict = decide(coins([30.0, loss], 0), {"unlimited": None} | limits(1.0), 5000, 2)
    assert verdict.status == status
    assert {of.attack: of.status for of in verdict.attacks}["unlimited"] == OPEN
    assert verdict.trials < 1000, "no budget is spent on what cannot be decided"


@pytest.mark.parametrize("loss", [math.inf, 800.0])
def test_a_limit_that_nothing_exceeds_is_refused(loss: float) -> None:
    with refused("EPS-A116"):
        decide(coins([1.0], 0), limits(loss), 100, 2)


def test_bad_errors_and_budgets() -> None:
    with refused("EPS-A114"):
        Errors(alpha=0)
    with refused("EPS-A115"):
        decide(coins([1.0], 0), limits(1.0), 0, 2)


KINDS = 6


def rate_statuses(share: float, rate: float, runs: int, texts: int) -> list[set[Status]]:
    """Of each run, what became of six kinds of which this share survives, in so many texts each."""
    survivors = np.random.default_rng(17).binomial(texts, share, (runs, KINDS))
    limit = Limit(rate, SHARE, "asked for")
    by_count = {int(s): judged(Hits(int(s), texts), limit, KINDS, Errors()).status for s in np.unique(survivors)}
    return [{by_count[int(s)] for s in run} for run in survivors]


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.3])
def test_kinds_at_their_limit_are_seldom_accused_and_seldom_pass(rate: float) -> None:
    """Simulated, 4,000 gates: accused at most .001 of them, one kind passes at most .05; FALSE_ALARM of this test."""
    texts = enough_texts(rate, KINDS, errors=Errors())
    runs = rate_statuses(rate, rate, 4000, texts)
    assert sum(BEYOND in run for run in runs) <= stats.binom.isf(FALSE_ALARM, 4000, 0.001)
    passed = sum(run == {WITHIN} for run in runs)
    assert passed <= stats.binom.isf(FALSE_ALARM, 4000, 0.05)


@pytest.mark.parametrize("texts", [59, 100, 234])
def test_a_shape_that_fails_at_twice_the_limit_is_named_with_probability_95(texts: int) -> None:
    """Exact: it passes with probability .05 at most, whatever the number of texts and of shapes beside it.

    59 are the fewest that show a share of .05, and 234 are what a gate takes if the budget allows.
    """
    limit, errors = Limit(0.05, SHARE, "asked for"), Errors()
    assert fewest_texts(0.05, 58, errors=errors) == 59
    assert enough_texts(0.05, 58, errors=errors) == 234
    named = sum(
        stats.binom.pmf(survived, texts, 0.1)
        for survived in range(texts + 1)
        if judged(Hits(survived, texts), limit, 58, errors).status != WITHIN
    )
    assert named >= 0.95


@pytest.mark.parametrize("rate", [0.005, 0.01, 0.05, 0.3, 0.9, 0.99])
def test_a_limit_on_identifiers_can_come_out_either_way(rate: float) -> None:
    """Exact: with the fewest texts both verdicts are possible, with fewer one is not, with enough both are likely."""
    errors, limit = Errors(), Limit(rate, SHARE, "asked for")

    def both(texts: int) -> set[Status]:
        return {judged(Hits(s, texts), limit, KINDS, errors).status for s in (0, texts)}

    fewest = fewest_texts(rate, KINDS, errors=errors)
    assert both(fewest) == {WITHIN, BEYOND}
    assert both(fewest - 1) != {WITHIN, BEYOND}
    texts = enough_texts(rate, KINDS, errors=errors)
    status = [judged(Hits(s, texts), limit, KINDS, errors).status for s in range(texts + 1)]
    of = {kind: np.flatnonzero(np.array(status) == kind) for kind in (WITHIN, OPEN, BEYOND)}
    assert stats.binom.pmf(of[WITHIN], texts, rate / 4).sum() >= 0.95
    assert stats.binom.pmf(of[WITHIN], texts, rate).sum() <= 0.05
    assert stats.binom.pmf(of[BEYOND], texts, rate).sum() <= 0.001 / KINDS
    least = least_rate_found(texts, rate, KINDS, errors=errors)
    assert stats.binom.pmf(of[BEYOND], texts, least).sum() == pytest.approx(0.95)


def test_limits_on_losses_and_identifiers_share_alpha() -> None:
    """What one limit alone accuses of, six more beside it leave open: each has a seventh of alpha."""

    def measure(first: int, count: int) -> list[Hits]:
        return [Hits(round(0.78 * count), count)]

    alone = decide(measure, limits(1.0), 3000, 2)
    assert alone.status == BEYOND
    beside = decide(measure, limits(1.0), alone.trials, 2, beside=10**6)
    assert beside.status == OPEN


def test_inferences_and_links_at_their_limit_are_seldom_accused_and_just_above_it_seldom_pass() -> None:
    """400 runs each way: at most alpha, and at most beta, but once in 10^9. Of linking whole sets hang together."""
    errors, runs = Errors(alpha=0.05, beta=0.1), 400
    inference, linking = Limit(0.5, CLASSES, "asked for"), Limit(1.0, PEOPLE, "asked for")
    counted = dict.fromkeys(("inference accused", "inference passed", "linking accused", "linking passed"), 0)
    for seed in range(runs):
        generator = np.random.default_rng(seed)
        for beyond, status, name in ((0.0, BEYOND, "accused"), (0.001, KEPT, "passed")):
            hits = int(generator.binomial(300, inference.rate + beyond))
            counted[f"inference {name}"] += judged(Hits(hits, 300), inference, 1, errors).status == status
            shares = (generator.random(60) < linking.rate + beyond).astype(float)
            counted[f"linking {name}"] += judged(Means(shares.tolist(), 10), linking, 1, errors).status == status
    for name, count in counted.items():
        assert count <= stats.binom.isf(FALSE_ALARM, runs, errors.alpha if name.endswith("accused") else errors.beta)


def test_inferences_and_links_far_from_their_limit_are_decided() -> None:
    inference, linking = Limit(0.5, CLASSES, "asked for"), Limit(1.0, PEOPLE, "asked for")
    for hits, status in ((150, KEPT), (186, OPEN), (290, BEYOND)):
        row = judged(Hits(hits, 300), inference, 8, Errors())
        assert row.status == status
        assert row.point == estimate(hits, 300, 2).point
    for share, status in ((0.1, KEPT), (0.23, OPEN), (0.9, BEYOND)):
        row = judged(Means([share] * 100, 10), linking, 2, Errors())
        assert (row.status, row.trials) == (status, 1000)


@pytest.mark.parametrize("limit", [0.1, 0.5, 1.0])
def test_so_many_rewrites_show_that_who_guesses_keeps_a_limit(limit: float) -> None:
    """And hardly fewer do; a limit that nobody could show kept has no number."""
    needed, bound = fewest_rewrites(limit, 2, Errors()), success_bound(limit, 2)
    assert needed is not None
    enough = math.log(1 / Errors().beta)
    assert log_wealth(needed // 2, needed, bound, above=False) >= enough
    assert log_wealth(int(needed * 0.42), int(needed * 0.84), bound, above=False) < enough
    assert fewest_rewrites(1e-7, 2, Errors()) is None


def test_an_attack_that_is_right_less_often_than_by_chance_passes_nothing() -> None:
    verdict = decide(lambda first, count: [Hits(0, count), Hits(count // 2, count)], limits(1.0, 1.0), 1000, 2)
    assert (verdict.status, verdict.trials) == (OPEN, 1000)
    assert [(of.attack, of.status, of.turned) for of in verdict.attacks] == [
        ("attack 0", OPEN, True),
        ("attack 1", KEPT, False),
    ]
