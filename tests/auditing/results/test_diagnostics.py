"""What is flagged, and what is not."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from epsilometer.auditing.claims.stated import Stated, stated
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.auditing.results.diagnostics import (
    CHOSEN,
    anomalies,
    composed,
    describe,
    disagreements,
    signal_to_noise,
)
from epsilometer.auditing.schemas import ESTIMATES, OUTPUTS
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import Latents


def curve(successes: list[int], epsilons: tuple[float, ...] = (1, 10, 100, 1000), attack: str = "a") -> pl.DataFrame:
    rows = []
    for name in (attack, *CHOSEN):
        for epsilon, hits in zip(epsilons, successes, strict=True):
            e = estimate(hits, 1000)
            rows.append(
                {"dataset": "d", "mechanism": "m", "epsilon": float(epsilon), "attack": name, "trials": 1000}
                | {"candidates": 2, "successes": hits, "success_rate": e.success_rate, "loss": e.loss}
                | {"point": e.point, "upper": e.upper, "ceiling": e.ceiling, "claim": "", "verdict": ""}
            )
    return pl.DataFrame(rows, schema=dict(ESTIMATES))


def outputs(**changes: object) -> pl.DataFrame:
    row = {"dataset": "d", "mechanism": "m", "epsilon": 1.0, "claim": "", "words": 9.0, "empty": 0.0}
    return pl.DataFrame([row | {"unchanged": 0.0, "commonest": 0.01} | changes], schema=dict(OUTPUTS))


def test_an_ordinary_curve_is_not_flagged() -> None:
    assert anomalies(curve([500, 600, 800, 990]), outputs()) == []


@pytest.mark.parametrize(
    ("successes", "words"),
    [
        ([500, 900, 990, 700], "not monotone: under the attack a the loss falls from at least"),
        ([800, 805, 795, 802], "flat: from ε = 1 to 1000"),
        ([500, 510, 490, 505], "no attack does better than chance at the largest budget, ε = 1000"),
    ],
)
def test_odd_curves_are(successes: list[int], words: str) -> None:
    (anomaly,) = anomalies(curve(successes), outputs())
    assert anomaly.startswith("m on d: ")
    assert words in anomaly


def test_each_attack_is_tested_for_flatness() -> None:
    """TeDA's anomaly: the attack on the text sees no difference between budgets where one on the latents does."""
    text = curve([650, 655, 645, 652], attack="embedding").filter(~pl.col("attack").is_in(CHOSEN))
    (anomaly,) = anomalies(pl.concat([curve([520, 700, 900, 999], attack="internal"), text]), outputs())
    assert "flat: from ε = 1 to 1000" in anomaly
    assert "under embedding (0.4" in anomaly
    assert "internal" not in anomaly


def test_a_fall_within_the_intervals_is_none() -> None:
    assert anomalies(curve([500, 700, 900, 895]), outputs()) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"empty": 0.02}, "2.0% of the rewrites are empty"),
        ({"unchanged": 0.9}, "90.0% of the rewrites equal their source"),
        ({"commonest": 0.6}, "60.0% of the rewrites are the same text"),
    ],
)
def test_odd_outputs_are(change: dict[str, float], words: str) -> None:
    (anomaly,) = anomalies(curve([500, 600, 800, 990]), outputs(**change))
    assert words in anomaly


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unknown_words": 1.0}, "m on d: 100.0% of the words out of vocabulary, so a low loss says little"),
        ({"cut_texts": 0.2}, "m on d: 20.0% of the texts truncated, so a low loss says little"),
        ({"unknown_words": 0.19, "cut_texts": 0.0}, None),
    ],
)
def test_texts_that_are_hardly_read_are_named_once(change: dict[str, float], words: str | None) -> None:
    rows = pl.concat([outputs(epsilon=epsilon, **change) for epsilon in (1.0, 10.0)])
    assert anomalies(curve([500, 600, 800, 990]), rows) == ([words] if words else [])


def test_of_a_control_only_a_fall_is_named() -> None:
    """One that returns its text is flat, and equal to it, by design; no control leaks less at a larger budget."""
    same = outputs(unchanged=1.0, commonest=0.6, empty=0.1, unknown_words=1.0)
    control = pl.lit(True).alias("control")
    assert anomalies(curve([1000] * 4).with_columns(control), same) == []
    assert anomalies(curve([500] * 4).with_columns(control), same) == []
    (anomaly,) = anomalies(curve([500, 900, 990, 700]).with_columns(control), same)
    assert "not monotone" in anomaly


def test_outputs_are_counted() -> None:
    description = describe(["a b", "c", "d"], ["a b", " ", "x"], np.array([2, 1, 5]), None)
    assert description.words == pytest.approx(4 / 3)
    assert (description.units, description.units_max) == (pytest.approx(8 / 3), 5)
    assert (description.empty, description.unchanged, description.commonest) == (1 / 3, 1 / 3, 1 / 3)
    assert description.signal is None


def test_the_signal_is_the_length_of_the_latent_over_that_of_its_noise() -> None:
    before = np.full((4, 9), 2.0, np.float32)  # vectors of length 6
    after = before + np.array([[3.0] + [0.0] * 8], np.float32)
    assert signal_to_noise(Latents(before, after)) == pytest.approx(2.0)


def test_composition_multiplies_what_is_claimed_for_each_unit() -> None:
    claims = np.array([1.0, 5.0, np.inf])
    per_token = Guarantee(2.0, Granularity.TOKEN, Neighbours.ANY)

    def said(guarantee: Guarantee | None) -> Stated:
        return stated(SimpleNamespace(guarantee=lambda epsilon: guarantee), 2.0)  # type: ignore[arg-type]

    assert composed(said(per_token), 7.5, claims) == 15.0
    assert composed(said(Guarantee(2.0, Granularity.WORD, Neighbours.ANY, metric="L2 distance")), 7.5, claims) == 5.0
    assert composed(said(Guarantee(2.0, Granularity.DOCUMENT, Neighbours.ANY)), None, np.full(3, 2.0)) == 2.0
    assert composed(said(per_token), None, np.full(3, np.inf)) is None
    assert composed(said(None), 7.5, claims) is None


def test_attacks_disagree_one_way_or_the_other() -> None:
    right = {"a": np.array([True, True, False, False]), "b": np.array([True, False, False, False])}
    assert disagreements(right) == [("a", "b", 1, 1)]
