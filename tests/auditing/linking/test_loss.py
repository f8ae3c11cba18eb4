"""The loss by linking: known values, the coverage of its interval, and its largest value."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.linking.loss import LinkingDesign, linked, linking_loss, recorded_linking_loss
from epsilometer.auditing.linking.people import People, draw
from tests.support.refusals import refused

FALSE_ALARM = 1e-9
TEXTS = [f"person{i} went to town{i % 7} on day{i}" for i in range(40)]
CLAIMS = [f"is called person{i}\nwas away on day{i}" for i in range(40)]
DESIGN = LinkingDesign(among=5, sets=60)


def test_identity_is_linked_and_a_constant_is_not() -> None:
    """A constant is linked in 1/5: an interval that misses it comes with probability .01."""
    people = People.by_claims(TEXTS, CLAIMS)
    row = linking_loss(people, lambda text, rng: text, attacks=["bm25"], design=DESIGN).row(0, named=True)
    assert (row["success_rate"], row["point"], row["people"], row["linked"]) == (1, math.inf, 40, 300)
    assert row["loss"] == pytest.approx(row["ceiling"])
    row = linking_loss(people, lambda text, rng: "nothing", attacks=["bm25"], design=DESIGN).row(0, named=True)
    assert row["low"] < 0.2 < row["high"]
    assert row["loss"] == 0


def test_other_texts_of_an_author_link_the_next() -> None:
    texts = [f"{word} {word} again, says number {i}" for i in range(4) for word in ("tea", "milk", "rum", "ale", "gin")]
    authors = ["tea", "milk", "rum", "ale", "gin"] * 4
    people = People.by_author([*texts, "a text of nobody", "a single text"], [*authors, None, "single"])
    assert (people.count, len(people.texts)) == (5, 20)
    assert all(text not in facts for text, facts in zip(people.texts, people.facts, strict=True))
    sets = draw(people, 50, 5, seed=0)
    assert all(len({*people.person[row]}) == 5 for row in sets), "one text a person"
    table = linking_loss(people, lambda text, rng: text, attacks=["bm25"], design=DESIGN)
    assert table["success_rate"].to_list() == [1]


class _Halves:
    """Links a whole set rightly with probability 1/2, else not at all: links of a set hang together."""

    def link(self, facts, rewrites):
        of_whom = [rewrite.split()[1] for rewrite in rewrites]
        fits = np.array([[f"is called {name}" in each for name in of_whom] for each in facts], float)
        return fits if rewrites[0].startswith("told") else np.roll(fits, 1, axis=0)


def test_the_interval_covers_links_that_hang_together() -> None:
    """200 samples of 40 sets, at .1: the mean is 1/2; Clopper and Pearson's over the links misses in most of them."""
    people, missed = People.by_claims(TEXTS, CLAIMS), 0
    sets = draw(people, 40, 5, seed=0)
    for seed in range(200):
        shown = np.repeat(np.random.default_rng(seed).random(40) < 0.5, 5)
        rewrites = [f"{'told' if so else 'not'} person{i}" for so, i in zip(shown, sets.ravel(), strict=True)]
        right = linked(people, sets, rewrites, {"halves": _Halves()}, seed=seed)["halves"]
        low, high = interval(right.mean(axis=1), 0.1, fixed=True)
        missed += not low <= 0.5 <= high
    assert missed <= binom.isf(FALSE_ALARM, 200, 0.1)


class _ByPlace:
    """Links whom it is told of first to the rewrite that stands first, and so on."""

    def link(self, facts, rewrites):
        return np.eye(len(facts))


def test_whose_rewrite_it_is_does_not_show_in_its_place() -> None:
    """One in five links by place is right: an interval at .01 misses that with probability .01."""
    people = People.by_claims(TEXTS, CLAIMS)
    sets = draw(people, 60, 5, seed=0)
    rewrites = [people.texts[i] for i in sets.ravel()]
    right = linked(people, sets, rewrites, {"place": _ByPlace()}, seed=0)["place"]
    low, high = interval(right.mean(axis=1), 0.01, fixed=True)
    assert low < 0.2 < high < 0.5


def test_what_two_texts_lose_bounds_what_linking_shows() -> None:
    """Two people, randomised response on "a" and "b" at c nats: linked with probability e^c / (1 + e^c), so that the
    loss is c, within 2 c. 1,000 sets, of one outcome each, miss this by .4
    nats with probability below 1e-6.
    """
    people = People.by_claims(["a", "b"], ["a", "b"])

    def response(text: str, epsilon: float, rng: np.random.Generator) -> str:
        return text if rng.random() < 1 / (1 + math.exp(-epsilon)) else {"a": "b", "b": "a"}[text]

    design = LinkingDesign(among=2, sets=1000)
    row = linking_loss(people, response, [1.0], ["bm25"], design=design).row(0, named=True)
    assert row["point"] == pytest.approx(1, abs=0.4)
    assert row["loss"] < 2


def test_rewrites_are_the_same_again_and_the_strongest_is_named() -> None:
    people = People.by_claims(TEXTS, CLAIMS)

    def coin(text: str, rng: np.random.Generator) -> str:
        return text if rng.random() < 0.5 else ""

    class Blind:
        def link(self, facts, rewrites):
            return np.zeros((len(facts), len(rewrites)))

    from epsilometer.attacks.linking.bm25 import BM25

    first = linking_loss(people, coin, attacks=[Blind(), BM25()], design=DESIGN)
    assert first["attack"].to_list() == ["Blind", "BM25", "strongest"]
    assert first["best_attack"].to_list() == [None, None, "BM25"]
    assert first["loss"][2] < first["loss"][1], "chosen after the fact, at a corrected level"
    assert first.equals(linking_loss(people, coin, attacks=[Blind(), BM25()], design=DESIGN))


def test_bad_input() -> None:
    people = People.by_claims(TEXTS, CLAIMS)
    for among in (1, 41):
        with refused("EPS-A129", "40", str(among), whole=False):
            draw(people, 10, among, seed=0)
    with refused("EPS-A129", "2"):
        draw(People.by_claims(TEXTS, [None] * 40), 10, 2, seed=0)
    for name in ("among", "sets", "seed"):
        with refused("EPS-C067", name, "2.5"):
            LinkingDesign(**{name: 2.5})  # type: ignore[arg-type]
    with refused("EPS-A178", "1"):
        LinkingDesign(sets=0)


def test_recorded_rewrites_are_linked_each_once() -> None:
    people = People.by_claims(TEXTS, CLAIMS)
    same = pl.DataFrame({"original": TEXTS, "rewrite": TEXTS, "epsilon": 1.0})
    nothing = same.with_columns(rewrite=pl.lit("nothing"), epsilon=pl.lit(2.0))
    table = recorded_linking_loss(people, pl.concat([same, nothing]), ["bm25"], DESIGN)
    rows = {row["epsilon"]: row for row in table.to_dicts()}
    assert (rows[1.0]["sets"], rows[1.0]["linked"], rows[1.0]["point"]) == (8, 40, math.inf)
    assert rows[2.0]["low"] < 0.2 < rows[2.0]["high"]
    few = recorded_linking_loss(people, same[:12].drop("epsilon"), ["bm25"], DESIGN).row(0, named=True)
    assert (few["epsilon"], few["sets"], few["linked"]) == (None, 2, 10), "a person is in one set alone"
    with refused("EPS-A128", "4", "1", "5"):
        recorded_linking_loss(people, same[:4], ["bm25"], DESIGN)


def test_of_an_author_one_rewrite_is_linked() -> None:
    texts = [f"{word} {word} again, says number {i}" for i in range(4) for word in ("tea", "milk", "rum", "ale", "gin")]
    people = People.by_author(texts, ["tea", "milk", "rum", "ale", "gin"] * 4)
    table = recorded_linking_loss(people, pl.DataFrame({"original": texts, "rewrite": texts}), ["bm25"], DESIGN)
    assert table.select("sets", "linked", "success_rate").row(0) == (1, 5, 1.0)
