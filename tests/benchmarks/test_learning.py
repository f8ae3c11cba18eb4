"""Classifiers learn from rewrites of increasing numbers of texts: which texts they learn from and are tested on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.learning import FOLDS, KINDS, LINEAR, Labelled, learnt, requests, reviews, sentences

PLACES, WEATHER = [f"book a table for {n}" for n in range(10)], [f"will it rain on day {n}" for n in range(10)]


def _source(folder: Path) -> Path:
    rows = {
        "text": [*PLACES, *WEATHER, "never read"],
        "intent": ["book"] * 10 + ["weather"] * 10 + ["book"],
        "split": ["train"] * 20 + ["test"],
    }
    pl.DataFrame(rows).write_parquet(folder / "asked.parquet")
    return folder / "asked.parquet"


def test_the_smallest_size_has_texts_of_every_class(tmp_path: Path) -> None:
    of = requests(_source(tmp_path), 20)
    assert of.sizes == [4, 8, 16]
    assert of.labels["intent"][:4] == ["book", "weather"] * 2
    assert {*of.texts} == {*PLACES, *WEATHER}, "of the split train alone"


def test_every_text_is_tested_once_and_never_learnt_from_then(tmp_path: Path) -> None:
    of = requests(_source(tmp_path), 20)
    tested = [fold for _, fold in of.folds]
    assert sorted(np.concatenate(tested).tolist()) == list(range(20))
    assert all(sorted([*others, *fold]) == list(range(20)) for others, fold in of.folds)
    first = [set(others[: of.sizes[0]].tolist()) for others, _ in of.folds]
    assert not set.intersection(first[0], first[1]), "few texts are others in every fold"


def test_losses_are_those_of_distinct_texts_of_the_commonest_length(tmp_path: Path) -> None:
    of = requests(_source(tmp_path), 20)._replace(texts=["a b c", "a b", "c d", "a b", "d e f", "e f"])
    assert of.priced == ["a b", "c d", "e f"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_rewrites_lost_is_not_learnt_and_what_they_kept_is(kind: str, tmp_path: Path) -> None:
    of = requests(_source(tmp_path), 20)
    assert (learnt(of, of.texts, kind, "intent")[-1] == 1).all()
    lost = ["the same"] * len(of.texts)
    assert (learnt(of, lost, kind, "intent")[-1] <= 0.5).all()


def test_rewrites_are_tested_on_rewrites_and_on_clean_texts(tmp_path: Path) -> None:
    of = requests(_source(tmp_path), 20)
    coded = ["aa" if text in PLACES else "bb" for text in of.texts]
    clean, rewritten = learnt(of, coded, LINEAR, "intent")[-1]
    assert rewritten.shape == (FOLDS,)
    assert (rewritten == 1).all()
    assert (clean < 1).all()


def test_reviews_are_rated_short_and_balanced(tmp_path: Path) -> None:
    long = "good " * 41
    rows = [("so so", 3), ("nothing said", None), (long, 5), ("good one", 4), ("bad one", 1), ("fine one", 5)]
    table = pl.DataFrame(
        {
            "text": [text for text, _ in rows],
            "rating": [rating for _, rating in rows],
            "gender": ["F", "M", "F", "M", "F", "M"],
            "split": ["train"] * len(rows),
        }
    )
    table.write_parquet(tmp_path / "reviews.parquet")
    of = reviews(tmp_path / "reviews.parquet", "gender", 8)
    assert isinstance(of, Labelled)
    sentiments = dict(zip(of.texts, of.labels["sentiment"], strict=True))
    assert sentiments == {"good one": "good", "bad one": "bad"}, "as many of each"
    assert of.labels["gender"] == ["M", "F"]


def test_sentences_are_short_and_balanced(tmp_path: Path) -> None:
    rows = [("good " * 41, 1), ("good one", 1), ("fine one", 1), ("bad one", 0)]
    table = pl.DataFrame(rows, ("text", "sentiment"), orient="row").with_columns(split=pl.lit("train"))
    table.write_parquet(tmp_path / "sst2.parquet")
    of = sentences(tmp_path / "sst2.parquet", 8)
    assert (of.name, of.texts, of.labels) == ("sst2", ["good one", "bad one"], {"sentiment": ["1", "0"]})
