"""Planted texts: fair coins, wrong labels, and an otherwise unchanged training set."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from epsilometer.studies.training.planting import CanaryRequest, plant, random_texts
from epsilometer.text.words import words
from tests.support.refusals import refused

TABLE = pl.DataFrame(
    {
        "text": [f"text number {i} of many" for i in range(600)],
        "label": ["a", "b", "c"] * 200,
        "author": list(range(600)),
    }
)


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_mislabelled_texts_replace_their_own() -> None:
    planted = plant(TABLE, CanaryRequest("text", "label", 400), rng())
    included = planted.key.filter(included=1)
    assert len(planted.training) == 200 + len(included)
    right = dict(zip(TABLE["text"], TABLE["label"], strict=True))
    assert all(right[text] != label for text, label in planted.key.select("text", "label").iter_rows())
    label_of = dict(zip(planted.training["text"], planted.training["label"], strict=True))
    for text, label, there in planted.key.select("text", "label", "included").iter_rows():
        assert (label_of.get(text) == label) == bool(there)
    unplanted = {text: label for text, label in label_of.items() if text not in set(planted.key["text"])}
    assert len(unplanted) == 200
    assert all(right[text] == label for text, label in unplanted.items())
    assert planted.training.schema == TABLE.schema
    assert planted.key["other_label"].null_count() == 400


def test_coins_are_fair_and_places_random() -> None:
    """False alarm 1e-6 for the count, and once in 400! for the order."""
    planted = plant(TABLE, CanaryRequest("text", "label", 400), rng())
    included = int(planted.key["included"].sum())
    assert binom.ppf(5e-7, 400, 0.5) <= included <= binom.isf(5e-7, 400, 0.5)
    assert planted.training["author"].to_list() != sorted(planted.training["author"])


def test_with_replaced_neighbours_the_number_of_texts_is_public() -> None:
    planted = plant(TABLE, CanaryRequest("text", "label", 300, replaced=True), rng())
    assert len(planted.training) == 600
    assert (planted.key["label"] != planted.key["other_label"]).all()
    label_of = dict(zip(planted.training["text"], planted.training["label"], strict=True))
    for text, first, second, coin in planted.key.select("text", "label", "other_label", "included").iter_rows():
        assert label_of[text] == (first if coin else second)


def test_random_texts_are_words_of_the_texts() -> None:
    planted = plant(TABLE, CanaryRequest("text", "label", 50, "random"), rng())
    vocabulary = {word for text in TABLE["text"] for word in words(text)}
    assert all(set(words(text)) <= vocabulary and len(words(text)) == 5 for text in planted.key["text"])
    assert len(planted.training) == 600 + int(planted.key["included"].sum())
    assert planted.training.filter(pl.col("author").is_null())["text"].to_list() != []
    with refused("EPS-S102"):
        random_texts(["...", "!"], 2, rng())


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"count": 1}, ("EPS-S104", "count", "2", "1")),
        ({"count": 601}, ("EPS-S108", "601", "600")),
        ({"kind": "gradient"}, ("EPS-S103", "kind", "gradient")),
        ({"label": "one"}, ("EPS-S107", "2", "1")),
        ({"label": "gaps"}, ("EPS-S106", "gaps", "301", "302", "303", "297", "600")),
        ({"label": "blanks"}, ("EPS-S106", "blanks", "301", "302", "303", "297", "600")),
    ],
)
def test_bad_input(settings: dict[str, object], refusal: tuple[str, ...]) -> None:
    gaps = pl.when(pl.col("author") < 300).then("label")
    table = TABLE.with_columns(one=pl.lit("a"), gaps=gaps, blanks=gaps.otherwise(pl.lit(" ")))
    with refused(*refusal):
        plant(table, CanaryRequest(**{"text": "text", "label": "label", "count": 10, **settings}), rng())
