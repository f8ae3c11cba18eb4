"""Parts share no text, do not depend on the order of rows, and include a public part before any audit."""

from __future__ import annotations

import polars as pl

from epsilometer.corpora.parts import PUBLIC
from epsilometer.studies.leaderboard.parts import SET_SIZE, divided, sets_of
from epsilometer.studies.leaderboard.tables import ANY, EQUAL, SPLITS, TEST, TRAIN
from epsilometer.text.words import words
from tests.support.refusals import refused

COUNTS = {TRAIN: 150, TEST: 50}
TABLE = pl.DataFrame(
    {
        "text": [f"play song {i}" + " again" * (i % 2) for i in range(480)],
        "split": ["public", *["train"] * 4, "test"] * 80,
        "label": ["a", "b", "a", None] * 120,
        "who": ["x", None] * 240,
    }
)


def test_parts_share_no_text_and_have_their_labels() -> None:
    parts = divided(TABLE, "label", "who", COUNTS, name="songs")
    assert parts["text"].n_unique() == len(parts)
    assert dict(parts.group_by("part").len().iter_rows()) == {PUBLIC: 80, TRAIN: 150, TEST: 50}
    each = parts.filter(part=TRAIN).group_by("block").len().sort("block")
    assert each["len"].to_list() == [30] * SPLITS
    own = {row["text"]: row for row in TABLE.to_dicts()}
    for row in parts.to_dicts():
        source = own[row["text"]]
        assert (source["label"], source["who"]) == (row["task"], row["attribute"])
        assert (row["part"] == PUBLIC) == (source["split"] == "public")


def test_the_order_of_rows_moves_no_text() -> None:
    first, turned = (divided(table, "label", None, COUNTS, name="songs") for table in (TABLE, TABLE.reverse()))
    assert first["text"].to_list() == turned["text"].to_list()


def test_too_few_texts_are_refused_with_their_number() -> None:
    with refused("EPS-S052", "200", "label", "140"):
        divided(TABLE.head(240), "label", None, COUNTS, name="songs")


def test_sets_have_ten_texts_of_one_split_and_a_pair_of_them() -> None:
    texts = divided(TABLE, "label", None, COUNTS, name="songs").filter(part=TRAIN)["text"].to_list()
    sets = sets_of(texts, 4, seed=0)
    assert sets.group_by("lengths", "block").len()["len"].unique().to_list() == [4]
    for row in sets.to_dicts():
        assert len({*row["texts"]}) == SET_SIZE
        assert {number // 30 for number in row["texts"]} == {row["block"]}
        assert {*row["pair"]} < {*row["texts"]}
        if row["lengths"] == EQUAL:
            assert len({len(words(texts[i])) for i in row["texts"]}) == 1


def test_there_are_no_sets_of_equal_length_where_texts_differ_in_length() -> None:
    texts = [" ".join(["word"] * (i + 1)) for i in range(100)]
    assert sets_of(texts, 2, seed=0)["lengths"].unique().to_list() == [ANY]
