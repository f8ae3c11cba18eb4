from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsilometer.auditing.claims.verdicts import (
    NO_CLAIM,
    NOT_CHECKED,
    NOT_REFUTED,
    NOT_TESTABLE,
    VIOLATED,
    divisor,
    expected_successes,
    overall,
    p_value,
    refutable,
    smallest_p_value,
    trial_claims,
    trials_needed,
    verdict,
)
from epsilometer.auditing.estimation.successes import success_bound
from epsilometer.auditing.schemas import CLAIMS, ESTIMATES, EXACT
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.mechanisms.controls.identity import Identity
from tests.support.refusals import refused

NO_EXACT = pl.DataFrame(schema=dict(EXACT))


class PerWord:
    """Claims epsilon a word, between texts of equal length."""

    def rewrite(self, texts, epsilon, noise):  # type: ignore[no-untyped-def]
        raise NotImplementedError

    def guarantee(self, epsilon: float) -> Guarantee:
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)

    def distance(self, texts: list[str], pairs: np.ndarray, epsilon: float) -> np.ndarray:
        lengths = np.array([len(t.split()) for t in texts])[pairs]
        return np.where(lengths[:, 0] == lengths[:, 1], lengths[:, 0], np.inf)


class Whole(PerWord):
    distance = None  # type: ignore[assignment]

    def guarantee(self, epsilon: float) -> Guarantee:
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY, delta=1e-5)


def poisson_binomial_tail(probabilities: np.ndarray, successes: int) -> float:
    law = np.ones(1)
    for p in probabilities:
        law = np.convolve(law, [1 - p, p])
    return float(law[successes:].sum())


@given(st.lists(st.floats(0.5, 1), min_size=5, max_size=60), st.data())
def test_the_p_value_never_understates(bounds: list[float], data: st.DataObject) -> None:
    """Hoeffding's theorem against the exact tail of unlike trials, by convolution."""
    successes = data.draw(st.integers(0, len(bounds)))
    exact = poisson_binomial_tail(np.array(bounds), successes)
    assert p_value(successes, len(bounds), sum(bounds)) >= exact - 1e-12


def test_claims_of_trials() -> None:
    texts = ["a b c", "d e f", "g h", "i j"]
    candidates = np.array([[0, 1], [2, 3], [0, 2], [1, 0]])
    assert trial_claims(PerWord(), 0.5, texts, candidates).tolist() == [1.5, 1.0, math.inf, 1.5]
    assert trial_claims(Identity(), 1.0, texts, candidates).tolist() == [math.inf] * 4


def test_a_claim_for_whole_texts_counts_once() -> None:
    class Document:
        def rewrite(self, texts, epsilon, noise):  # type: ignore[no-untyped-def]
            raise NotImplementedError

        def guarantee(self, epsilon: float) -> Guarantee:
            return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY)

    assert trial_claims(Document(), 2.0, ["a", "b c"], np.array([[0, 1]])).tolist() == [2.0]


def test_the_largest_distance_of_a_set_counts() -> None:
    class Line(PerWord):
        def distance(self, texts: list[str], pairs: np.ndarray, epsilon: float) -> np.ndarray:
            return np.abs(pairs[:, 0] - pairs[:, 1]).astype(float)

    assert trial_claims(Line(), 2.0, ["a"] * 9, np.array([[0, 8, 3], [4, 5, 6]])).tolist() == [16.0, 4.0]


def test_expected_successes_mix_claims() -> None:
    claims = np.array([0.0, 0.0, math.inf, math.log(3)])
    assert expected_successes(claims, 2, 0.0) == pytest.approx(0.5 + 0.5 + 1 + 0.75)


def test_verdicts() -> None:
    assert verdict(p_value(900, 1000, 600.0), 1e-4) == VIOLATED
    assert verdict(p_value(620, 1000, 600.0), 1e-4) == NOT_REFUTED
    assert p_value(1000, 1000, 1000.0) == 1.0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_epsilon_out_of_range(epsilon: float) -> None:
    with refused("EPS-C026", "0"):
        Guarantee(epsilon, Granularity.WORD, Neighbours.ANY)


def test_guarantee_in_words() -> None:
    claim = Guarantee(0.5, Granularity.WORD, Neighbours.SAME_LENGTH, metric="L2 distance")
    assert claim.describe() == "0.5 per word, times L2 distance; texts of equal length"
    every = [Guarantee(1, Granularity.WORD, relation).describe() for relation in Neighbours]
    assert len(set(every)) == len(every), "each relation has words of its own"


@pytest.mark.parametrize(
    ("audited", "checked", "together", "by"),
    [
        ([NOT_REFUTED, VIOLATED], [NOT_REFUTED], VIOLATED, "audit"),
        ([NOT_REFUTED], [VIOLATED], VIOLATED, "exact check by its stated law"),
        ([VIOLATED], [VIOLATED], VIOLATED, "audit and exact check by its stated law"),
        ([NOT_TESTABLE], [NOT_REFUTED], NOT_REFUTED, "exact check by its stated law"),
        ([NOT_TESTABLE, NOT_REFUTED], [NOT_REFUTED], NOT_REFUTED, "audit and exact check by its stated law"),
        ([NOT_REFUTED], [NOT_CHECKED], NOT_REFUTED, "audit"),
        ([NOT_TESTABLE], [NOT_CHECKED], NOT_TESTABLE, None),
        ([NOT_TESTABLE], [NOT_TESTABLE], NOT_TESTABLE, None),
        ([], [NOT_CHECKED], NOT_CHECKED, None),
        ([NOT_REFUTED], [], NOT_REFUTED, "audit"),
        ([NO_CLAIM], [NO_CLAIM], NO_CLAIM, None),
    ],
)
def test_a_claim_has_one_verdict(audited: list[str], checked: list[str], together: str, by: str | None) -> None:
    cell = {"mechanism": "m", "epsilon": 2.0, "claim": "2 per word"}
    estimates = pl.DataFrame([cell | {"verdict": v, "refutable": 4.625} for v in audited], schema=dict(ESTIMATES))
    claims = pl.DataFrame([cell | {"verdict": v, "reason": _why(v)} for v in checked], schema=dict(CLAIMS))
    (row,) = overall(estimates, claims, NO_EXACT).to_dicts()
    assert (row["claim"], row["verdict"], row["by"]) == ("2 per word", together, by)
    reasons = [_why(together)] if together in checked else []
    if together == NOT_TESTABLE and together in audited:
        reasons.insert(0, "the audit could refute claims up to 4.62 nats")
    assert row["reason"] == ("; ".join(filter(None, reasons)) or None)


def test_the_exact_loss_of_texts_decides_where_nothing_else_does() -> None:
    cell = {"mechanism": "m", "epsilon": 2.0, "claim": "2 per word"}
    estimates = pl.DataFrame([cell | {"verdict": NOT_TESTABLE, "refutable": 1.0}], schema=dict(ESTIMATES))
    claims = pl.DataFrame([cell | {"verdict": NOT_REFUTED}], schema=dict(CLAIMS))
    for computed, together, by in (
        (VIOLATED, VIOLATED, "exact loss by its stated law"),
        (NOT_REFUTED, NOT_REFUTED, "exact check by its stated law and exact loss by its stated law"),
        (NOT_CHECKED, NOT_REFUTED, "exact check by its stated law"),
    ):
        exact = pl.DataFrame([cell | {"verdict": computed}] * 2, schema=dict(EXACT))  # two groups of pairs
        (row,) = overall(estimates, claims, exact).to_dicts()
        assert (row["verdict"], row["by"]) == (together, by)


def test_a_check_by_draws_is_not_called_exact() -> None:
    cell = {"mechanism": "m", "epsilon": 2.0, "claim": "2 per word"}
    claims = pl.DataFrame([cell | {"verdict": NOT_REFUTED, "draws": 2000}], schema=dict(CLAIMS))
    (row,) = overall(pl.DataFrame(schema=dict(ESTIMATES)), claims, NO_EXACT).to_dicts()
    assert (row["verdict"], row["by"]) == (NOT_REFUTED, "draws")


def test_nor_is_a_check_of_some_inputs_and_latents_are_no_texts() -> None:
    cell = {"mechanism": "m", "epsilon": 2.0, "claim": "2 per word"}
    claims = pl.DataFrame([cell | {"verdict": NOT_REFUTED, "method": "largest found"}], schema=dict(CLAIMS))
    none = pl.DataFrame(schema=dict(ESTIMATES))
    assert overall(none, claims, NO_EXACT)["by"].to_list() == ["check of some inputs by its stated law"]
    exact = pl.DataFrame([cell | {"verdict": VIOLATED, "released": False}], schema=dict(EXACT))
    assert overall(none, claims, exact)["by"].to_list() == ["exact loss of its latents by its stated law"]


def _why(verdict: str) -> str | None:
    return f"why {verdict}" if verdict in (NOT_TESTABLE, NOT_CHECKED) else None


def test_a_claim_that_no_trial_meets_says_so() -> None:
    row = {"mechanism": "m", "epsilon": 2.0, "claim": "2 per word", "verdict": NOT_TESTABLE, "refutable": 0.0}
    table = overall(pl.DataFrame([row], schema=dict(ESTIMATES)), pl.DataFrame(schema=dict(CLAIMS)), NO_EXACT)
    assert table["reason"].to_list() == ["the audit met no pair of texts that the claim covers"]


def test_only_testable_claims_share_the_level() -> None:
    """The default audit: 168 verdicts at T = 1,000, of which 16 can come out as violated (Tarone 1990)."""
    testable, other = smallest_p_value(1000, 900.0), smallest_p_value(1000, 999.0)
    assert testable < 0.01 / 168
    assert other > 0.01
    assert divisor([other] * 152 + [testable] * 16, 0.01) == 16
    assert divisor([other] * 168, 0.01) == 1
    assert divisor([], 0.01) == 1
    assert refutable(1000, 1000, 2, 0.0, 0.01 / 168) == pytest.approx(4.628, abs=1e-3)


@given(st.lists(st.floats(0, 1), max_size=30), st.floats(0.001, 0.2))
def test_the_divisor_is_the_least_that_is_enough(smallest: list[float], alpha: float) -> None:
    def enough(k: int) -> bool:
        return sum(p <= alpha / k for p in smallest) <= k

    assert divisor(smallest, alpha) == next(k for k in range(1, len(smallest) + 2) if enough(k))


@given(st.integers(2, 5000), st.integers(2, 9), st.sampled_from([0.0, 0.1]), st.data())
def test_what_is_refutable_is_just_testable(trials: int, k: int, delta: float, data: st.DataObject) -> None:
    """At the loss that is named T of T refutes, a little above it nothing does; other trials are not covered."""
    covered, level = data.draw(st.integers(1, trials)), 1e-3
    loss = refutable(trials, covered, k, delta, level)

    def smallest(claim: float) -> float:
        return smallest_p_value(trials, trials - covered * (1 - success_bound(claim, k, delta)))

    assert smallest(loss + 1e-6) > level * (1 - 1e-6)
    assert loss == 0 or smallest(loss * (1 - 1e-9)) <= level * (1 + 1e-6)


def test_true_claims_are_seldom_violated() -> None:
    """4,000 simulated audits of 30 true and tight claims, 10 of which are not testable, at alpha = 0.1.

    More than 462 with a false alarm would have probability below 1e-3 if the level were 0.1; fixed seed. Under
    Bonferroni over all 30 there would be fewer, so the level is not given away either.
    """
    trials, alpha, rng = 60, 0.1, np.random.default_rng(3)
    allowed = np.concatenate([np.linspace(0.5, 0.8, 20), np.full(10, 0.99)])
    smallest = [smallest_p_value(trials, trials * q) for q in allowed]
    level = alpha / divisor(smallest, alpha)
    assert divisor(smallest, alpha) == 20
    successes = rng.binomial(trials, allowed, (4000, 30))
    p_values = {(s, q): p_value(int(s), trials, trials * q) for q in allowed for s in range(trials + 1)}
    alarms = [
        any(verdict(p_values[s, q], level, p) == VIOLATED for s, q, p in zip(audit, allowed, smallest, strict=True))
        for audit in successes.tolist()
    ]
    assert 120 < sum(alarms) <= 462


@pytest.mark.parametrize(("allowed", "level", "needed"), [(0.5, 0.01, 7), (1.0, 0.01, None), (0.99, 1e-4, 917)])
def test_trials_that_a_test_needs(allowed: float, level: float, needed: int | None) -> None:
    assert trials_needed(allowed, level) == needed
    if needed:
        assert (
            smallest_p_value(needed, needed * allowed) <= level < smallest_p_value(needed - 1, (needed - 1) * allowed)
        )
