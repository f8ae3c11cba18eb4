"""Joint attributes: their classes, and the column that a name refers to."""

from __future__ import annotations

import polars as pl

from epsilometer.corpora.joint import with_joint
from epsilometer.corpora.reading import prepare, read

TABLE = pl.DataFrame(
    {
        "text": ["one", "two", "three", "four"],
        "a": ["x,y", "x", "x", None],
        "b": ["z", "y,z", "y\\,z", "z"],
        "n": [1, 1, 2, 2],
    }
)


def test_no_two_pairs_are_one_class() -> None:
    joint = with_joint(TABLE, ["a,b"])["a,b"]
    assert joint[3] is None
    assert joint.drop_nulls().n_unique() == 3
    assert with_joint(TABLE, ["b, n"])["b, n"].to_list()[0] == "z,1"


def test_a_column_of_the_very_name_wins_and_an_unknown_part_adds_nothing() -> None:
    own = TABLE.with_columns(pl.lit("own").alias("a,b"))
    assert with_joint(own, ["a,b"])["a,b"].unique().to_list() == ["own"]
    assert with_joint(TABLE, ["a", "a,c"]).columns == TABLE.columns


def test_labels_of_a_corpus_may_be_joint(tmp_path) -> None:
    TABLE.write_parquet(tmp_path / "texts.parquet")
    labels = ["a", "a,n"]
    table = prepare(read(tmp_path / "texts.parquet", labels=labels), labels).table
    assert table["a,n"].to_list() == ["x\\,y,1", "x,1", "x,2", None]
