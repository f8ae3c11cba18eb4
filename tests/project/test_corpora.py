"""Data sets as params.yaml asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from epsilometer.core.errors import UserError
from epsilometer.pipeline.params import read
from epsilometer.project.corpora import corpus
from tests.support.places import ROOT


def labels(folder: Path, merge: dict[str, Any]) -> list[str | None]:
    """The ratings 1 to 5, merged."""
    texts = folder / "reviews.csv"
    pl.DataFrame({"text": [f"the shop number {i}" for i in range(5)], "rating": range(1, 6)}).write_csv(texts)
    content = yaml.safe_load((ROOT / "params.yaml").read_text())
    content["datasets"]["reviews"] |= {"source": str(texts), "part": None, "count": None, "labels": ["rating"]}
    content["datasets"]["reviews"]["merge"] = merge
    (folder / "params.yaml").write_text(yaml.safe_dump(content))
    return corpus(read(folder / "params.yaml"), "reviews").table["rating"].to_list()


def test_classes_are_merged_and_the_others_have_no_label(tmp_path: Path) -> None:
    merge = {"rating": {"good": [4, 5], "bad": [1, "2"]}}
    assert labels(tmp_path, merge) == ["bad", "bad", None, "good", "good"]


@pytest.mark.parametrize(
    ("merge", "message"),
    [
        ({"rating": {"good": [4, 5, 6], "bad": [1]}}, "unknown class in datasets.reviews.merge.rating '6'"),
        ({"stars": {"good": [4, 5]}}, "unknown label in datasets.reviews.merge 'stars'"),
        ({"rating": {"good": [4, 5], "bad": [1, 4]}}, "class '4' is in two classes; name it once"),
    ],
)
def test_what_cannot_be_merged_is_refused(merge: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        labels(tmp_path, merge)
