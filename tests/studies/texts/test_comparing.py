"""Which of two mechanisms leaks less, and what an average does not show of either."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

import epsilometer
from epsilometer.auditing.trials.design import Design

TEXTS = [f"{who} wants {what} at {when}" for who in "abcd" for what in ("tea", "milk", "rum") for when in "12345"]


def coin(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """The text with probability tanh(l / 2), else nothing: its average loss is epsilon."""
    return text if rng.random() < math.tanh(epsilon / 2) else "nothing"


def blunt(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """Its first letter by randomised response among four, which proves epsilon: of equal texts it tells none apart."""
    share = math.exp(epsilon) / (math.exp(epsilon) + 3)
    return text[0] if rng.random() < share else rng.choice([c for c in "abcd" if c != text[0]])


def test_the_tails_stand_beside_hits() -> None:
    """At l = 2 the coin shows .76 of the texts; an output of the other proves two nats at most (false alarm .005)."""
    table = epsilometer.compare(TEXTS, (coin, 2.0), (blunt, 2.0), trials=4000, design=Design(temperature=0))
    strongest = table.filter(attack="strongest").row(0, named=True)
    assert 0.4 < strongest["first delta at 4"] <= math.tanh(1)
    assert strongest["second delta at 4"] == 0
    few = epsilometer.compare(TEXTS, (coin, 2.0), (blunt, 2.0), trials=300, design=Design(temperature=0))
    assert few.select(pl.col("first delta at 4", "second delta at 4").is_null().all()).row(0) == (True, True)
