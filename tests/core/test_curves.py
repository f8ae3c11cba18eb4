"""Claims in zCDP, Renyi and GDP: their deltas agree with known laws, and with what they allow an adversary."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from epsilometer.auditing.claims import stated
from epsilometer.core.curves import LEVELS, Curve, Gdp, Renyi, Zcdp, largest_success
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours

WHOLE_TEXT = (Granularity.DOCUMENT, Neighbours.ANY)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_the_curve_of_gdp_is_that_of_two_normal_laws(mu: float) -> None:
    """Phi(mu / 2) right guesses of two, and Phi(Phi^-1(x) + mu) at a false positive rate x, on a grid of levels."""
    assert Gdp(mu).delta(np.array([0.0]))[0] == pytest.approx(2 * norm.cdf(mu / 2) - 1)
    assert largest_success(Gdp(mu), 2) == pytest.approx(norm.cdf(mu / 2))
    for wrong in (1e-6, 0.01):
        exact = norm.cdf(norm.ppf(wrong) + mu)
        at_levels = (Gdp(mu).delta(LEVELS) + np.exp(LEVELS) * wrong).min()
        assert exact * (1 - 1e-9) <= at_levels <= exact * 1.02


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_the_curves_of_zcdp_and_renyi_lie_above_that_of_the_normal_laws_they_hold_of(mu: float) -> None:
    """N(0, 1) and N(mu, 1) have the divergence mu^2 a / 2 at order a."""
    true = Gdp(mu).delta(LEVELS)
    zcdp, renyi = Zcdp(mu**2 / 2).delta(LEVELS), Renyi(4.0, 2 * mu**2).delta(LEVELS)
    likely = true > 1e-200
    assert (zcdp >= true)[likely].all()
    assert (renyi >= zcdp * 0.9)[likely].all(), "zCDP claims every order, up to a grid of them"
    assert (zcdp <= 20 * true + 1e-6)[(true > 1e-6) & (mu < LEVELS)].all(), "it is not idle"


def test_no_number_of_a_curve_is_an_epsilon() -> None:
    """Whatever reads epsilon and delta reads what is true: no finite pure loss, and not the same between any texts."""
    for claim in (Guarantee.zcdp(0.1), Guarantee.renyi(2.0, 0.3), Guarantee.gdp(0.5)):
        assert math.isinf(claim.epsilon)
        assert claim.delta == 0
        assert not claim.of_any_texts
    assert Guarantee.zcdp(0.1).describe() == "zCDP rho 0.1 per document; any two texts"
    assert Guarantee.renyi(2, 0.3).describe() == "Renyi 0.3 at order 2 per document; any two texts"
    assert Guarantee.gdp(0.5, Granularity.USER).describe() == "GDP mu 0.5 per user; any two texts"
    assert Guarantee(1.0, Granularity.USER, Neighbours.ANY).of_any_texts


@pytest.mark.parametrize(
    "claim",
    [
        lambda: Guarantee.zcdp(0.0),
        lambda: Guarantee.gdp(math.inf),
        lambda: Guarantee.renyi(1.0, 1.0),
        lambda: Guarantee.renyi(2.0, -1.0),
        lambda: Guarantee.zcdp(1.0, Granularity.WORD),
        lambda: Guarantee.zcdp(1.0, neighbours=Neighbours.SAME_LENGTH),
        lambda: Guarantee(1.0, *WHOLE_TEXT, curve=Zcdp(1.0)),
        lambda: Guarantee(math.inf, *WHOLE_TEXT, metric="distance", curve=Zcdp(1.0)),
    ],
)
def test_what_is_no_such_claim_is_refused(claim: Any) -> None:
    with pytest.raises(UserError):
        claim()


@pytest.mark.parametrize("curve", [None, Zcdp(0.1), Renyi(2.0, 0.3), Gdp(0.5)])
def test_a_curve_is_stored_with_what_is_stated_and_nothing_else_changes(curve: Curve | None, tmp_path: Path) -> None:
    path = tmp_path / "stated.json"
    written = stated.Stated(claim="some", claimed=True, curve=curve)
    stated.write({1.0: written}, path)
    assert stated.read(path) == {1.0: written}
    assert ("curve" in json.loads(path.read_text())[0]) is (curve is not None)
