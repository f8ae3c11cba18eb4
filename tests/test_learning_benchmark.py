"""What classifiers learn from rewrites, a size after the other: which texts, and on which they are tested."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from benchmarks.learning import LINEAR, Labelled, learnt, requests, reviews

PLACES, WEATHER = [f"book a table for {n}" for n in range(8)], [f"will it rain on day {n}" for n in range(8)]


def _source(folder: Path) -> Path:
    rows = {
        "text": [*PLACES, *WEATHER],
        "intent": ["book"] * 8 + ["weather"] * 8,
        "split": ["train"] * 6 + ["test"] * 2,
    }
    pl.DataFrame(rows | {"split": 2 * rows["split"]}).write_parquet(folder / "asked.parquet")
    return folder / "asked.parquet"


def test_the_smallest_size_has_texts_of_every_class(tmp_path: Path) -> None:
    of = requests(_source(tmp_path), (8, 4))
    assert of.sizes == [2, 4, 8]
    assert of.tested == 4
    assert of.labels["intent"][:2] == ["book", "weather"]
    assert {*of.texts[-4:]} == {*PLACES[6:], *WEATHER[6:]}, "of the split test alone"


def test_what_rewrites_lost_is_not_learnt_and_what_they_kept_is(tmp_path: Path) -> None:
    of = requests(_source(tmp_path), (8, 4))
    assert list(learnt(of, of.texts, LINEAR, "intent"))[-1] == (1.0, 1.0)
    lost = ["the same"] * len(of.texts)
    clean, rewritten = list(learnt(of, lost, LINEAR, "intent"))[-1]
    assert rewritten <= 0.5
    assert clean <= 0.5


def test_rewrites_are_tested_on_rewrites_and_on_clean_texts(tmp_path: Path) -> None:
    of = requests(_source(tmp_path), (8, 4))
    coded = ["aa" if text in PLACES else "bb" for text in of.texts]
    clean, rewritten = list(learnt(of, coded, LINEAR, "intent"))[-1]
    assert rewritten == 1.0
    assert clean < 1.0


def test_reviews_without_a_rating_with_a_middling_one_or_too_long_are_left_out(tmp_path: Path) -> None:
    long = "good " * 41
    rows = [("good one", 5), ("bad one", 1), ("so so", 3), ("nothing said", None), (long, 5), ("fine one", 4)]
    table = pl.DataFrame(
        {
            "text": [text for text, _ in rows],
            "rating": [rating for _, rating in rows],
            "gender": ["F", "M", "F", "M", "F", "M"],
            "split": ["train", "train", "train", "train", "train", "test"],
        }
    )
    table.write_parquet(tmp_path / "reviews.parquet")
    of = reviews(tmp_path / "reviews.parquet", (8, 4))
    assert isinstance(of, Labelled)
    assert dict(zip(of.texts, of.labels["sentiment"], strict=True)) == {
        "good one": "good",
        "bad one": "bad",
        "fine one": "good",
    }
