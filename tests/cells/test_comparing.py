"""Which of two mechanisms leaks less, and what an average does not reveal about them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import epsilometer
from epsilometer.auditing.trials.design import Design
from tests.support.commands import call
from tests.support.refusals import refused

OF_WORDS = """
import numpy as np
from epsilometer.core.component import component
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged

WORDS = ("unknown", "a", "book", "flight", "from", "london", "me", "monday", "on", "paris", "to")

@component
class {name}:
    releases = frozenset({released})

    def {laws}(self, texts):
        numbers = Ragged.of([[WORDS.index(word) for word in text.split()] for text in texts])

        def log_probabilities(words, epsilons):
            for epsilon in epsilons:
                law = np.zeros((len(words), len(WORDS)))
                law[np.arange(len(words)), (words + 5) % len(WORDS)] = epsilon
                yield law - np.logaddexp(epsilon, np.log(len(WORDS) - 1))

        return Laws(numbers, len(WORDS), log_probabilities)

    def rewrite(self, texts, epsilon, noise):
        (units,) = sample(self.{laws}(texts), np.arange(len(texts)), [epsilon], [noise])
        return Rewrites([" ".join(WORDS[unit] for unit in units.row(i)) for i in range(len(texts))], units)

    def guarantee(self, epsilon):
        return None
"""

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


def test_a_mechanism_that_states_its_law_is_not_worse_than_itself_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their texts are the same byte for byte; likelihood, which the others do not see, attacks the one alone."""
    monkeypatch.chdir(tmp_path)
    Path("black.py").write_text(OF_WORDS.format(name="Black", laws="_laws", released=["text"]))
    Path("lawful.py").write_text(OF_WORDS.format(name="Lawful", laws="laws", released=["text", "units"]))
    words = ["a", "book", "flight", "from", "london", "me", "monday", "on", "paris", "to"]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.permutation(words)[:6]) for _ in range(60)]
    Path("texts.txt").write_text("\n".join(texts))
    code, out, _ = call(capsys, "compare", "black.py=2", "lawful.py=2", "texts.txt", "--trials", "400", "--json")
    assert code == 0
    *compared, alone = json.loads(out)
    assert {row["p value"] for row in compared} == {1.0}
    assert compared[0]["attack"] == "strongest"
    assert compared[0]["attacks"] == ", ".join(row["attack"] for row in compared[1:])
    assert not [row for row in compared if "leaks less" in row["finding"]]
    assert (alone["attack"], alone["attacks"], alone["first delta at 4"]) == ("likelihood", None, None)
    assert alone["finding"].startswith("likelihood attacked only lawful.py=2 and shows a loss of at least ")
    assert alone["finding"].endswith("; its result for black.py=2 is not known")
    table = epsilometer.compare(texts, ("black.py", 2.0), ("lawful.py", 2.0), trials=400)
    assert table["finding"].to_list() == [row["finding"] for row in [*compared, alone]]
    assert table.columns == [*compared[0]]


@pytest.mark.parametrize(
    ("design", "code"), [(Design(candidates="all"), "EPS-A176"), (Design(prior=(0.7, 0.3)), "EPS-A175")]
)
def test_a_design_that_cannot_be_compared_is_refused_before_anything_is_rewritten(design: Design, code: str) -> None:
    def rewrite(text: str, epsilon: float, rng: np.random.Generator) -> str:
        raise AssertionError("rewritten before the design was read")

    with refused(code):
        epsilometer.compare(["a b", "c d", "e f"], (rewrite, 1.0), (rewrite, 2.0), trials=20, design=design)


def test_two_of_one_name_are_told_apart() -> None:
    constant, same = (lambda text, epsilon, rng: "x"), (lambda text, epsilon, rng: text)
    table = epsilometer.compare(TEXTS, (constant, 5), (same, 5), trials=200, design=Design(temperature=0))
    assert table["finding"][0].startswith("first (<lambda>=5) leaks less than second (<lambda>=5) under ")


def test_a_printed_comparison_shows_what_was_found() -> None:
    table = epsilometer.compare(TEXTS, (coin, 2.0), (blunt, 2.0), trials=100, design=Design(temperature=0))
    for shown in (str(table), repr(table), table._repr_html_()):
        assert all(name in shown for name in ("attack", "p Holm", "strongest", "11 columns"))
        assert "…" not in shown
        assert "second only" not in shown
    assert "no evidence that coin=2 and blunt=2" in str(table)
    assert "second only" in str(table.select("second only"))
