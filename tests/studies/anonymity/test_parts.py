"""The four parts of a data set, as params.yaml requests them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

from epsilometer.corpora.parts import GROUP
from epsilometer.studies.anonymity.parts import auxiliary_texts, check_parts, with_parts
from tests.support.refusals import refused


def params(*shares: float, attributes: tuple[str, ...] = ("speaker",)) -> Any:
    """As much of the parameters as parts are drawn by: entries of auxiliaries of one data set."""
    labels = SimpleNamespace(attributes=attributes, tasks=())
    return SimpleNamespace(
        audit=SimpleNamespace(seed=0),
        auxiliaries={
            f"share {share}": SimpleNamespace(dataset="songs", share=share, attributes=attributes, tasks=())
            for share in shares
        },
        anonymity={},
        classification=SimpleNamespace(labels={"songs": labels}),
    )


def prepared(count: int = 600) -> pl.DataFrame:
    """Texts by authors of three each; every sixth author is tested on."""
    author = np.arange(count) // 3
    return pl.DataFrame(
        {
            "id": [f"{i:04}" for i in range(count)],
            "text": [f"text {i}" for i in range(count)],
            "split": np.where(author % 6 == 0, "test", "train"),
            "speaker": np.where(np.arange(count) % 2, "F", "M"),
            GROUP: author,
        }
    )


def test_entries_of_other_shares_are_nested_and_victims_see_none_of_their_texts() -> None:
    chosen = params(0.2, 0.5)
    table = with_parts(chosen, "songs", prepared())
    sizes = dict(table["split"].value_counts().iter_rows())
    assert sizes["test"] == 102
    assert abs(sizes["auxiliaries"] - 0.5 * 498) <= 3
    seen = {name: pl.concat(auxiliary_texts(chosen, name, prepared())) for name in chosen.auxiliaries}
    assert {*seen["share 0.2"]["id"]} < {*seen["share 0.5"]["id"]}
    assert {*seen["share 0.5"]["id"]} == {*table.filter(split="auxiliaries")["id"]}
    assert table.group_by(GROUP).agg(pl.n_unique("split"))["split"].max() == 1


def test_what_is_held_out_is_a_tenth_of_the_authors() -> None:
    texts, held = auxiliary_texts(params(0.5), "share 0.5", prepared())
    assert abs(len(held) - 0.1 * (len(texts) + len(held))) <= 4  # also of each speaker; authors have three texts
    assert not {*texts[GROUP]} & {*held[GROUP]}


def test_a_class_of_one_author_is_not_held_out() -> None:
    """Whoever of the auxiliaries' authors is the only one of a class; of the others' parts one author has it, too."""
    chosen = params(0.5, attributes=("speaker", "voice"))
    author_of = dict(with_parts(chosen, "songs", prepared()).group_by("split").agg(pl.col(GROUP).unique()).iter_rows())
    for author in author_of["auxiliaries"]:
        basses = [author, author_of["train"][0], author_of["test"][0]]
        voice = pl.when(pl.col(GROUP).is_in(basses)).then(pl.lit("bass")).otherwise(pl.lit("other")).alias("voice")
        texts, held = auxiliary_texts(chosen, "share 0.5", prepared().with_columns(voice))
        assert {*texts["voice"]} == {"bass", "other"}
        assert {*held["speaker"]} == {"F", "M"}


def test_without_auxiliaries_victims_have_the_whole_train_split() -> None:
    assert with_parts(params(), "songs", prepared()).equals(prepared())
    assert with_parts(params(0.5), "others", prepared()).equals(prepared())


def test_an_author_in_two_splits_and_a_class_that_a_part_lacks_are_refused() -> None:
    mixed = prepared().with_columns(pl.Series(GROUP, np.arange(600) // 4))
    with refused("EPS-D036", "51"):
        with_parts(params(0.5), "songs", mixed)
    speakers = pl.when(pl.col("split") == "test").then(pl.lit("M")).otherwise("speaker").alias("speaker")
    with refused("EPS-S035", "test", "F", "speaker"):
        auxiliary_texts(params(0.5), "share 0.5", prepared().with_columns(speakers))
    table = with_parts(params(0.5), "songs", prepared())
    check_parts(params(0.5), "songs", table)
    lacking = table.with_columns(split=pl.when(pl.col(GROUP) % 6 == 1).then(pl.lit("validation")).otherwise("split"))
    only = pl.when(pl.col("split") == "validation").then(pl.lit("M")).otherwise("speaker").alias("speaker")
    measured = params(0.5)
    check_parts(measured, "songs", lacking.with_columns(only))
    measured.anonymity = {"songs-idt": SimpleNamespace(dataset="songs", part="validation")}
    check_parts(measured, "songs", lacking)
    with refused("EPS-S035", "validation", "F", "speaker"):
        check_parts(measured, "songs", lacking.with_columns(only))
    rare = pl.when(pl.col("split") == "auxiliaries").then(pl.lit("F")).otherwise("speaker").alias("speaker")
    with refused("EPS-S035", "auxiliaries", "M"):
        check_parts(params(0.5), "songs", table.with_columns(rare))
