"""Data sets as params.yaml asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from epsilometer.pipeline.params import read
from epsilometer.project.corpora import corpus
from tests.support.places import ROOT
from tests.support.refusals import refused


def labels(folder: Path, merge: dict[str, Any], *, complete: bool = False) -> list[str | None]:
    """The ratings 1 to 5, merged."""
    texts = folder / "reviews.csv"
    pl.DataFrame({"text": [f"the shop number {i}" for i in range(5)], "rating": range(1, 6)}).write_csv(texts)
    content = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    content["datasets"]["reviews"] |= {"source": str(texts), "part": None, "count": None, "labels": ["rating"]}
    content["datasets"]["reviews"] |= {"merge": merge, "complete": complete}
    (folder / "params.yaml").write_text(yaml.safe_dump(content))
    return corpus(read(folder / "params.yaml"), "reviews").table["rating"].to_list()


def test_classes_are_merged_and_the_others_have_no_label(tmp_path: Path) -> None:
    merge = {"rating": {"good": [4, 5], "bad": [1, "2"]}}
    assert labels(tmp_path, merge) == ["bad", "bad", None, "good", "good"]
    assert labels(tmp_path, merge, complete=True) == ["bad", "bad", "good", "good"]


@pytest.mark.parametrize(
    ("merge", "refusal"),
    [
        ({"rating": {"good": [4, 5, 6], "bad": [1]}}, ("EPS-C022", "datasets.reviews.merge.rating", "'6'")),
        ({"stars": {"good": [4, 5]}}, ("EPS-C022", "datasets.reviews.merge", "stars")),
        ({"rating": {"good": [4, 5], "bad": [1, 4]}}, ("EPS-P060", "datasets.reviews.merge", "'4'")),
    ],
)
def test_what_cannot_be_merged_is_refused(merge: dict[str, Any], refusal: tuple[str, ...], tmp_path: Path) -> None:
    with refused(*refusal):
        labels(tmp_path, merge)


def pairs(folder: Path, answers: list[str | None], **changes: Any) -> pl.DataFrame:
    """Questions with these answers, as a data set of pairs."""
    questions = [f"question {i}" for i in range(len(answers))]
    pl.DataFrame({"asked": questions, "answered": answers}).write_parquet(folder / "pairs.parquet")
    content = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    own = {"source": str(folder / "pairs.parquet"), "text": ["asked", "answered"], "pair": True}
    content["datasets"]["reviews"] = own | changes
    (folder / "params.yaml").write_text(yaml.safe_dump(content))
    return corpus(read(folder / "params.yaml"), "reviews").table


def test_a_pair_keeps_its_sides_beside_the_joined_text(tmp_path: Path) -> None:
    table = pairs(tmp_path, ["yes, it is", "no"])
    assert table.select("asked", "answered").rows() == [("question 0", "yes, it is"), ("question 1", "no")]
    assert table["text"].to_list() == ["question 0\nyes, it is", "question 1\nno"]


@pytest.mark.parametrize(
    ("answers", "refusal"),
    [
        (["yes", None, "no"], ("EPS-D047", "row 2 of 3", "answered")),
        (["", " \t", "yes", "?!", None], ("EPS-D047", "1", "2", "4", "5", "answered")),
    ],
)
def test_a_pair_without_one_of_its_sides_is_refused(
    answers: list[str | None], refusal: tuple[str, ...], tmp_path: Path
) -> None:
    with refused(*refusal):
        pairs(tmp_path, answers)


@pytest.mark.parametrize("text", ["asked", ["asked"], ["asked", "asked"]])
def test_a_pair_has_two_columns(text: Any, tmp_path: Path) -> None:
    with refused("EPS-P060"):
        pairs(tmp_path, ["yes"], text=text)


def chunks(folder: Path, **changes: Any) -> pl.DataFrame:
    """Sentences of two essays on one topic, of which the second has an empty one, and one on another, by twos."""
    rows = {
        "text": ["a one", "a two", "b one", "a three", " ", "b two", "c one", "a four"],
        "essay": ["a", "a", "b", "a", "b", "b", "c", "a"],
        "topic": ["sea"] * 6 + ["sky", "sea"],
        "split": ["train"] * 7 + ["test"],
    }
    pl.DataFrame(rows).write_parquet(folder / "sentences.parquet")
    content = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    own = {"source": str(folder / "sentences.parquet"), "labels": ["topic"], "group": ["essay"]}
    content["datasets"]["reviews"] = own | {"chunks": {"texts": 2, "of": ["essay"]}} | changes
    (folder / "params.yaml").write_text(yaml.safe_dump(content))
    return corpus(read(folder / "params.yaml"), "reviews").table


def test_chunks_are_of_one_essay_topic_and_split(tmp_path: Path) -> None:
    table = chunks(tmp_path)
    assert table["text"].to_list() == ["a one a two", "b one b two", "a three", "c one", "a four"]
    assert table["essay"].to_list() == ["a", "b", "a", "c", "a"]
    assert table["topic"].to_list() == ["sea", "sea", "sea", "sky", "sea"]
    assert table["split"].to_list() == ["train"] * 4 + ["test"]
    assert table["words"].to_list() == [4, 4, 2, 2, 2]


def test_chunks_of_no_column_agree_in_labels_and_split_alone(tmp_path: Path) -> None:
    joined = chunks(tmp_path, chunks={"texts": 3})["text"].to_list()
    assert joined == ["a one a two b one", "a three b two", "c one", "a four"]


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"chunks": {"texts": 1}}, ("EPS-P060", "chunks.texts", "1")),
        ({"chunks": {"texts": 2, "of": ["page"]}}, ("EPS-C025", "page")),
        ({"text": ["text", "essay"], "pair": True}, ("EPS-P060", "datasets.reviews", "chunks", "pair")),
    ],
)
def test_what_cannot_be_joined_is_refused(changes: dict[str, Any], refusal: tuple[str, ...], tmp_path: Path) -> None:
    with refused(*refusal):
        chunks(tmp_path, **changes)
