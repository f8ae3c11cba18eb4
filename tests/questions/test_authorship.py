"""Authorship: bounds contain a known loss, several texts reveal more, and known and test texts are disjoint."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import polars as pl
import pytest

from epsilometer.auditing.gate_statistics import Errors
from epsilometer.auditing.question import question
from epsilometer.auditing.subject import subject
from epsilometer.auditing.trials.design import Design
from epsilometer.doors.ask import ask
from epsilometer.questions.authorship import Authorship
from tests.support.refusals import refused

SIGNATURES = ("gown", "beard", "purse", "razor")
TOGETHER = (1, 5)
KEEP = 0.3  # probability that a signature stays; otherwise one of the four is drawn


def texts(signed: bool = True, of_each: int = 40) -> pl.DataFrame:
    draw = np.random.default_rng(0)
    rows = [
        {"text": f"{word if signed else 'town'} {draw.integers(10**9)}", "author": f"author {word}"}
        for word in SIGNATURES
        for _ in range(of_each)
    ]
    return pl.DataFrame(rows)


def response(text: str, rng: np.random.Generator) -> str:
    """Randomised response on the signature, and nothing of the rest."""
    return text.split()[0] if rng.random() < KEEP else str(rng.choice(SIGNATURES))


def figures(rewrite, table: pl.DataFrame, trials: int = 400, **settings) -> dict[str, dict[str, float]]:
    built = question("authorship", {"authors": 4, "together": TOGETHER, **settings})
    of = subject(table, rewrite, None, ["length"], design=Design(temperature=0, alpha=1e-4))
    return {row["figure"]: row for row in ask(built, of, trials=trials).iter_rows(named=True)}


def best_rate(n: int) -> float:
    """The success rate of the optimal adversary who sees n signatures: the commonest, ties at random."""
    rate, own = 0.0, KEEP + (1 - KEEP) / 4
    for seen in product(range(4), repeat=n):
        counts = np.bincount(seen, minlength=4)
        if counts[0] == counts.max():
            rate += math.prod(own if s == 0 else (1 - KEEP) / 4 for s in seen) / (counts == counts.max()).sum()
    return rate


def loss(rate: float) -> float:
    return math.log(3 * rate / (1 - rate))


@pytest.mark.parametrize("n", TOGETHER)
def test_bounds_contain_the_loss_of_randomised_response(n: int) -> None:
    """At 1e-4 an interval is wrong; adversaries name the commonest signature, as the optimal one does."""
    row = figures(response, texts())[f"{n} text{'s' * (n > 1)}: adaptive"]
    assert row["low"] <= loss(best_rate(n)) <= row["high"]
    assert row["low"] <= n * math.log((KEEP + (1 - KEEP) / 4) / ((1 - KEEP) / 4)), "n times the pure loss of one text"


def test_texts_together_tell_more() -> None:
    """Rates of .475 and .635 (`best_rate`): intervals of 3,000 trials at 1e-4 overlap with probability below 1e-9."""
    of = figures(response, texts(), trials=3000)
    assert of["5 texts: static"]["low"] > of["1 text: static"]["high"]


def test_nothing_is_read_off_a_constant_and_all_off_texts_as_they_are() -> None:
    silent, open_ = figures(lambda text, rng: "nothing", texts()), figures(lambda text, rng: text, texts())
    assert {row["low"] for row in silent.values()} == {0.0}
    assert all(math.isinf(row["point"]) for row in open_.values())


def test_adversaries_are_tested_on_texts_that_they_do_not_know() -> None:
    """Every text has a number of its own and no other mark: whoever knew it would name its author each time."""
    assert {row["low"] for row in figures(lambda text, rng: text, texts(signed=False)).values()} == {0.0}


def test_who_learns_from_rewrites_finds_what_the_static_one_misses() -> None:
    turned = dict(zip(SIGNATURES, (*SIGNATURES[1:], SIGNATURES[0]), strict=True))
    of = figures(lambda text, rng: turned[text.split()[0]], texts())
    assert of["1 text: static"]["point"] == 0
    assert math.isinf(of["1 text: adaptive"]["point"])


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"together": (21,)}, ("EPS-Q056", "42", "0")),
        ({"authors": 5}, ("EPS-Q056", "5", "10", "4")),
        ({"authors": 1}, ("EPS-C015", "questions.authorship", "2", "1")),
        ({"together": (5, 5)}, ("EPS-C015", "together", "(5, 5)")),
        ({"together": ()}, ("EPS-C015", "together", "()")),
        ({"author": "writer"}, ("EPS-A152", "writer")),
    ],
)
def test_bad_settings_are_refused(settings, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        figures(lambda text, rng: text, texts(), trials=10, **settings)


def test_texts_without_an_author_belong_to_nobody() -> None:
    table = texts().with_columns(
        pl.when(pl.col("author") == "author gown").then(None).otherwise("author").alias("author")
    )
    assert figures(lambda text, rng: text, table, trials=60, authors=3)["1 text: static"]["low"] > 0
    with refused("EPS-Q056", "3"):
        figures(lambda text, rng: text, table, trials=10)


def test_a_limit_that_the_budget_cannot_show_is_refused() -> None:
    built = Authorship(authors=4, together=TOGETHER)
    of = subject(texts(), lambda text, rng: text, None, ["length"], design=Design(temperature=0))
    with refused("EPS-Q055", "5"):
        built.amount(of, built.limit(of, 0.5), 400, len(built.tests(of)), errors=Errors())
    with refused("EPS-Q053", "authorship", "0.0"):
        built.limit(of, 0.0)
