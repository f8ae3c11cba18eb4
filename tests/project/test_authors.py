"""Authors are chosen first, then texts of each author. Parts share no author and no text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from epsilometer.core.errors import UserError
from epsilometer.corpora.parts import GROUP, PUBLIC
from epsilometer.pipeline.params import read
from epsilometer.project.corpora import corpus
from epsilometer.runtime import packages
from tests.support.places import ROOT
from tests.support.refusals import refused

SIZES = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11] * 4  # texts of each author
ROWS = [(f"text number {i} of {author} here", f"person {author}") for author, n in enumerate(SIZES) for i in range(n)]
OWN = {
    "group": ["author"],
    "authors": {"least": 4, "most": 6, "texts": 40},
    "resplit": {"validation": 0, "test": 0.4},
    "public_part": 0.2,
}


def written(folder: Path, rows: Sequence[tuple[str | None, str | None]], changes: dict[str, Any]) -> Path:
    """A parameter file with a data set of texts and their authors."""
    pl.DataFrame(rows, schema=["text", "author"], orient="row").write_parquet(folder / "texts.parquet")
    content = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    content["datasets"]["reviews"] = {"source": str(folder / "texts.parquet"), **changes}
    (folder / "params.yaml").write_text(yaml.safe_dump(content))
    return folder / "params.yaml"


def table(folder: Path, rows: Any = ROWS, **changes: Any) -> pl.DataFrame:
    return corpus(read(written(folder, rows, OWN | changes)), "reviews").table


def counts(texts: pl.DataFrame, split: str) -> list[int]:
    return texts.filter(split=split).group_by("author").len()["len"].to_list()


def test_authors_are_chosen_and_then_texts_of_each(tmp_path: Path) -> None:
    texts = table(tmp_path)
    assert set(texts["split"]) == {"train", "test", PUBLIC}
    assert texts.group_by("author").agg(pl.col("split").n_unique())["split"].max() == 1
    assert texts[GROUP].n_unique() == texts["author"].n_unique()
    audited = counts(texts, "train")
    assert 40 <= sum(audited) < 40 + 6
    assert 4 <= min(audited) <= max(audited) == 6
    assert max(counts(texts, "test")) == 6
    assert min(counts(texts, "test") + counts(texts, PUBLIC)) < 4  # such authors are not chosen
    assert texts.equals(table(tmp_path))


def test_texts_with_the_same_words_are_one_and_join_no_authors(tmp_path: Path) -> None:
    same: list[Any] = [(text.upper() + "!", f"person {i}") for i, (text, _) in enumerate(ROWS)]
    texts = table(tmp_path, ROWS + same)
    assert texts.equals(table(tmp_path))


def test_more_texts_are_audited_by_more_authors(tmp_path: Path) -> None:
    fewer, more = (
        set(table(tmp_path, authors=OWN["authors"] | {"texts": n}).filter(split="train")["author"])  # type: ignore[operator]
        for n in (20, 60)
    )
    assert fewer < more


@pytest.mark.parametrize(
    ("rows", "changes", "refusal"),
    [
        (
            [*ROWS, ("somebody's text", None)],
            {},
            ("EPS-D005", "datasets.reviews.authors", "'author'", "text 261 of 261"),
        ),
        (
            ROWS,
            {"authors": {"least": 7, "most": 9, "texts": 1500}},
            ("EPS-D006", "datasets.reviews.authors", "least", "7", "1,500"),
        ),
        (
            ROWS,
            {"authors": {"least": 7, "most": 6}},
            ("EPS-P060", "datasets.reviews.authors", "least", "most", "7", "6"),
        ),
        (ROWS, {"group": []}, ("EPS-P060", "authors: `group`", "group: [author]")),
        (ROWS, {"use": "validation"}, ("EPS-D006", "0", "4", "validation")),
        (ROWS, {"length": {"least": 7, "most": 9}}, ("EPS-P052", "datasets.reviews.length", "260", "7", "9")),
        (ROWS, {"length": {"least": 9, "most": 7}}, ("EPS-P060", "datasets.reviews.length", "least", "most", "9", "7")),
        (ROWS, {"without": {"author": ["person 99"]}}, ("EPS-C022", "datasets.reviews.without.author", "person 99")),
        (ROWS, {"without": {"sender": [1]}}, ("EPS-C025", "sender")),
        (ROWS, {"public_part": 0.00001}, ("EPS-P054", "public_part")),
    ],
)
def test_what_cannot_be_chosen_is_refused(
    rows: Any, changes: dict[str, Any], refusal: tuple[str, ...], tmp_path: Path
) -> None:
    with refused(*refusal):
        table(tmp_path, rows, **changes)


def test_rows_are_left_out_by_value_and_by_length(tmp_path: Path) -> None:
    rows = [("one two", "1"), ("one two three", "2"), ("one two three four", "2"), ("one 2 three", None)]
    path = written(tmp_path, rows, {"length": {"least": 3, "most": 3}, "without": {"author": [1]}})
    assert corpus(read(path), "reviews").table["text"].to_list() == ["one two three", "one 2 three"]


@pytest.mark.slow
def test_real_messages_of_the_default_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    params = read("params.yaml")
    pin = packages.read_pin(params.datasets["messages"].source)
    assert pin is not None
    try:
        packages.file(pin)
    except UserError as error:
        pytest.skip(f"needs the package: {error}")
    texts = corpus(params, "messages").table
    assert texts.group_by("split").agg(pl.len(), pl.col("author").n_unique()).sort("split").rows() == [
        ("public", 1776, 76),
        ("test", 13409, 620),
        ("train", 1523, 27),
    ]
    audited = texts.filter(split="train")
    assert 40 <= min(counts(texts, "train")) <= max(counts(texts, "train")) == 60
    assert (audited["words"].min(), audited["words"].max()) == (5, 25)
    assert "459" not in texts["author"]
    assert texts.group_by("author").agg(pl.col("split").n_unique())["split"].max() == 1
