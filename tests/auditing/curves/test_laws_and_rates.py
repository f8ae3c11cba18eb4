"""Claims in zCDP, Renyi and GDP against laws and guesses: false claims are violated, and true ones are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

import epsilometer
from epsilometer.auditing.claims.verdicts import NOT_CHECKED, NOT_REFUTED, VIOLATED, trial_claims
from epsilometer.auditing.claims.worst_case import check_claim
from epsilometer.auditing.curves import rates
from epsilometer.auditing.curves.laws import needed
from epsilometer.auditing.estimation.successes import loss_at
from epsilometer.auditing.estimation.tail import Scored
from epsilometer.auditing.exact_loss.from_texts import exact_loss
from epsilometer.auditing.text_audit import mechanism
from epsilometer.core.curves import LEVELS, Curve, Gdp, Renyi, Zcdp
from tests.support.commands import run

Array = NDArray[np.float64]

MECHANISM = """
import numpy as np

from epsilometer.core.component import component
from epsilometer.core.guarantees import Granularity, Guarantee
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged

TEXTS = ("zero", "one", "two")


@component
class Response:
    kind: str = "gdp"
    size: float = 1.0

    inputs = output_texts = TEXTS
    releases = frozenset({"text", "units"})

    def laws(self, texts):
        def log_probabilities(rows, epsilons):
            for epsilon in epsilons:
                law = np.zeros((len(rows), 3))
                law[np.arange(len(rows)), rows] = epsilon
                yield law - np.logaddexp(epsilon, np.log(2))

        return Laws(Ragged.of([[TEXTS.index(text) if text in TEXTS else 0] for text in texts]), 3, log_probabilities)

    def rewrite(self, texts, epsilon, noise):
        (units,) = sample(self.laws(texts), np.arange(len(texts)), [epsilon], [noise])
        return Rewrites([TEXTS[units.row(i)[0]] for i in range(len(texts))], units)

    def guarantee(self, epsilon):
        if not epsilon > 0:
            raise ValueError("epsilon must be > 0")
        if self.kind == "renyi":
            return Guarantee.renyi(2.0, self.size)
        return {"gdp": Guarantee.gdp, "zcdp": Guarantee.zcdp}[self.kind](self.size)
"""


def normal(mu: float, points: int = 801) -> tuple[Array, Array]:
    """Log-laws of N(mu, 1) and N(0, 1) on a grid."""
    x = np.linspace(-9, 9 + mu, points)
    laws = [norm.logpdf(x, mean) for mean in (mu, 0.0)]
    p, q = (law - np.logaddexp.reduce(law) for law in laws)
    return p, q


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_normal_laws_need_what_theory_says(mu: float) -> None:
    p, q = normal(mu)
    assert needed(Gdp(mu), p, q) == pytest.approx(mu, rel=1e-3)
    assert needed(Renyi(3.0, 1.0), p, q) == pytest.approx(1.5 * mu**2, rel=1e-3)
    assert 0.9 * mu**2 / 2 < needed(Zcdp(0.9 * mu**2 / 2), p, q) < 1.001 * mu**2 / 2
    assert needed(Zcdp(1.01 * mu**2 / 2), p, q) <= 1.01 * mu**2 / 2


def test_what_one_law_alone_can_give_breaks_every_curve() -> None:
    p, q = np.log([0.5, 0.4, 0.1]), np.log([0.5, 0.5, 1e-320])
    q[2] = -np.inf
    for curve in (Gdp(5.0), Zcdp(50.0), Renyi(2.0, 50.0)):
        assert needed(curve, p, q) == np.inf
    assert needed(Zcdp(50.0), q, p) < 50, "the other way round it is bounded"
    assert needed(Gdp(5.0), p, p) == 0


def test_a_violation_between_two_orders_is_found_and_what_holds_is_certified() -> None:
    """60 random laws beside 20,000 orders, each claimed 1 % less than it needs and 1 % more."""
    generator, orders = np.random.default_rng(0), 1 + np.geomspace(1e-4, 1e3, 20_000)
    for _ in range(60):
        p, q = (np.log(generator.dirichlet(np.full(4, 0.4)) + 1e-9) for _ in range(2))
        p, q = p - np.logaddexp.reduce(p), q - np.logaddexp.reduce(q)
        cumulants = np.logaddexp.reduce(orders[:, None] * p + (1 - orders[:, None]) * q, axis=1)
        rho = float((cumulants / (orders * (orders - 1))).max())
        assert needed(Zcdp(0.99 * rho), p, q) > 0.99 * rho
        assert needed(Zcdp(1.01 * rho), p, q) <= 1.01 * rho


def beside_the_curve(rho: float) -> tuple[Array, Array]:
    """Randomised responses at many epsilons, mixed so that delta is nearly that which follows from rho-zCDP."""

    def response(epsilon: Any, level: Any) -> Array:
        beyond: Array = np.maximum(0.0, np.exp(epsilon) - np.exp(level)) / (1 + np.exp(epsilon))
        return beyond

    epsilons = np.arange(0.1, 6, 0.1)
    shares, allowed = np.zeros(len(epsilons)), 0.98 * Zcdp(rho).delta(np.append(0.0, epsilons))
    for i in reversed(range(len(epsilons))):
        level = epsilons[i - 1] if i else 0.0
        shares[i] = max(0.0, allowed[i] - float(shares @ response(epsilons, level))) / response(epsilons[i], level)
    shares /= max(1.0, shares.sum())
    dense = np.linspace(0, 8, 4_000)
    deltas = (shares[:, None] * response(epsilons[:, None], dense[None])).sum(axis=0)
    assert (deltas <= Zcdp(rho).delta(dense)).all(), "the curve that follows from the claim is met at every level"
    logs = np.log(shares + 1e-300)
    sides = [logs - np.log1p(np.exp(sign * epsilons)) for sign in (-1, 1)]
    p = np.concatenate(sides)
    return p - np.logaddexp.reduce(p), np.concatenate(sides[::-1]) - np.logaddexp.reduce(p)


@pytest.mark.parametrize("rho", [0.3, 0.5])
def test_a_law_that_meets_the_curve_and_breaks_zcdp_is_violated(rho: float) -> None:
    p, q = beside_the_curve(rho)
    assert needed(Zcdp(rho), p, q) > 1.02 * rho


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    path = tmp_path / "response.py"
    path.write_text(MECHANISM)
    return path


@pytest.mark.parametrize(("kind", "epsilon"), [("gdp", 1.0), ("zcdp", 1.0), ("renyi", 2.0)])
def test_the_worst_case_of_each_kind(file: Path, kind: str, epsilon: float) -> None:
    """At a hundredth less than the law needs, and at a hundredth more."""
    built = mechanism(str(file), {"kind": kind, "size": 1.0})
    law = next(built.laws(["zero", "one"]).log_probabilities(np.array([0, 1]), [epsilon]))
    curves: dict[str, Any] = {"gdp": Gdp, "zcdp": Zcdp, "renyi": lambda size: Renyi(2.0, size)}
    low, high = 1e-3, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if needed(curves[kind](middle), *law) > middle else (low, middle)
    for factor, verdict in ((0.99, VIOLATED), (1.01, NOT_REFUTED)):
        finding = check_claim(mechanism(str(file), {"kind": kind, "size": factor * high}), epsilon)
        assert (finding.verdict, finding.inputs, finding.method) == (verdict, 3, "exact")
        assert finding.claimed == pytest.approx(factor * high)


def test_units_that_compose_are_not_checked_and_one_that_breaks_the_claim_is_violated(file: Path) -> None:
    """A law for each word: the divergences of a longer text add up, whatever one word loses."""
    file.write_text(MECHANISM.replace("[[TEXTS.index(text) if text in TEXTS else 0] for text in texts]", _BY_WORD))
    for size, verdict in ((0.5, VIOLATED), (5.0, NOT_CHECKED)):
        assert check_claim(mechanism(str(file), {"size": size}), 1.0).verdict == verdict


_BY_WORD = "[[TEXTS.index(word) for word in text.split()] for text in texts]"


def test_the_command_shows_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["claims", str(file), "--epsilon", "1", "--set", "kind=zcdp", "--set", "size=0.1"]
    assert run(*arguments) == 1
    out = capsys.readouterr().out
    assert "zCDP rho 0.1 per document; any two texts" in out
    assert "violated" in out


def test_attacks_use_the_curve_that_follows(file: Path) -> None:
    """Three nats between three texts: right in .91 of guesses, which .5-GDP does not allow, and 4-GDP does."""
    for size, verdict in ((0.5, VIOLATED), (4.0, NOT_REFUTED)):
        table = epsilometer.audit(
            ["zero", "one", "two"],
            str(file),
            [3.0],
            attacks=["likelihood"],
            trials=1_000,
            settings={"size": size},
        )
        assert set(table["verdict"]) == {verdict}
        assert set(table["claim"]) == {f"GDP mu {size:g} per document; any two texts"}
        built = mechanism(str(file), {"size": size})
        allowed = loss_at(norm.cdf(size / 2), 2)
        assert trial_claims(built, 3.0, ["zero", "one"], np.array([[0, 1]]))[0] == pytest.approx(allowed, rel=1e-6)


def test_exact_losses_refute_by_the_curve_and_never_confirm(file: Path) -> None:
    for size, verdict in ((0.5, VIOLATED), (9.0, NOT_CHECKED)):
        rows = exact_loss(["zero", "one", "two"], str(file), [3.0], settings={"size": size})
        assert set(rows["verdict"]) == {verdict}


@pytest.mark.parametrize("curve", [Gdp(1.0), Zcdp(0.5)])
def test_rates_that_a_claim_allows_seldom_refute_it(curve: Curve) -> None:
    """N(0, 1) against N(1, 1) at the claim's edge: p is at most .05 in at most .05 of 100 runs but once in 10^9."""
    refuted = []
    for seed in range(100):
        generator = np.random.default_rng(seed)
        target = generator.random(600) < 0.5
        seen = generator.normal(size=600) + target
        refuted.append(rates.p_value(Scored((seen > 0.5) == target, np.abs(seen - 0.5)), curve, 2) <= 0.05)
    assert sum(refuted) <= binom.isf(1e-9, 100, 0.05)


def test_rates_show_a_tail_that_the_success_rate_hides() -> None:
    """Two of 100 texts are published: .51 of guesses are right, which .1-GDP allows, and all confident ones."""
    generator = np.random.default_rng(0)
    shown = generator.random(20_000) < 0.02
    right = shown | (generator.random(20_000) < 0.5)
    assert right.mean() < norm.cdf(0.1 / 2)
    assert rates.p_value(Scored(right, shown.astype(float)), Gdp(0.1), 2) < 1e-6
    assert rates.p_value(Scored(right, shown.astype(float)), Gdp(4.0), 2) == 1
    assert LEVELS[0] == 0
