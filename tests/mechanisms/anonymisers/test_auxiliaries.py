"""The folder of auxiliaries: reading gives what was saved, and unusable training texts are refused before any work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epsilometer.core import tables
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import RELATIONS, Auxiliaries, Plan, make
from epsilometer.models.classifier import Examples, FineTuning
from epsilometer.models.classifiers.linear import Linear
from epsilometer.text.vectors import WordVectors
from tests.support.refusals import refused

PLAN = Plan("songs", ["speaker"], ["mood"], ["linear"], FineTuning("nowhere"))
VECTORS = WordVectors(["good", "bad", "she", "he", "sang"], np.eye(5))


def songs(count: int = 40) -> pl.DataFrame:
    """Every word has a meaning: the first the speaker, the last the mood."""
    rows = [(f"{i:04}", ["she", "he"][i % 2], ["good", "bad"][i // 2 % 2]) for i in range(count)]
    table = pl.DataFrame(rows, ["id", "who", "how"], orient="row")
    return table.select(
        "id",
        (pl.col("who") + " sang " + pl.col("how")).alias("text"),
        pl.col("who").replace({"she": "F", "he": "M"}).alias("speaker"),
        pl.when(pl.int_range(pl.len()) % 5 != 0).then(pl.col("how")).alias("mood"),
    )


def test_what_is_made_is_what_is_read(tmp_path: Path) -> None:
    relations = pl.DataFrame({"a": ["good"], "b": ["bad"], "relation": ["antonym"]})
    make(tmp_path / "here", songs(), PLAN, VECTORS, relations=relations)
    read = Auxiliaries(tmp_path / "here")
    assert (read.attributes, read.tasks, read.kinds) == (("speaker",), ("mood",), ("linear",))
    assert {label: list(by_kind) for label, by_kind in read.classifiers.items()} == {
        "speaker": ["linear"],
        "mood": ["linear"],
    }
    assert read.classifiers["speaker"]["linear"].probabilities(["she sang good", "he"]).argmax(1).tolist() == [0, 1]
    assert read.classifiers["mood"]["linear"] is read.classifiers["mood"]["linear"]  # loaded once
    assert read.vectors.words == VECTORS.words
    assert read.relations is not None
    assert tables.check(read.relations, RELATIONS, "relations").equals(relations)
    np.testing.assert_allclose(read.counter_fitted.vectors, np.eye(5))  # these antonyms are already far apart
    assert read.seen == {*songs()["id"]}
    np.testing.assert_allclose(read.shares["speaker"], [0.5, 0.5])
    labelled = songs()["mood"].drop_nulls()
    np.testing.assert_allclose(read.shares["mood"], [(labelled == name).mean() for name in ("bad", "good")])


def test_they_are_the_same_bytes_again(tmp_path: Path) -> None:
    for name in "ab":
        make(tmp_path / name, songs(), PLAN, VECTORS)
    first, two = (
        {str(p.relative_to(tmp_path / name)): p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()}
        for name in "ab"
    )
    assert first == two
    assert Auxiliaries(tmp_path / "a").relations is None
    with refused("EPS-M020"):
        _ = Auxiliaries(tmp_path / "a").counter_fitted


def test_transformers_alone_hold_texts_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By which the best of several epochs is chosen; held-out texts count as seen."""
    trained: dict[str, tuple[int, int | None]] = {}

    def train(kind: str, examples: Examples, *rest: object, validation: Examples | None) -> Linear:
        trained[kind] = (len(examples), None if validation is None else len(validation))
        return Linear.fit(examples)

    monkeypatch.setattr(f"{make.__module__}.train", train)
    plan = replace(PLAN, tasks=[], kinds=["transformer", "linear"])
    make(tmp_path / "here", songs().head(30), plan, VECTORS, held_out=songs().tail(10))
    assert trained == {"transformer": (30, 10), "linear": (40, None)}
    assert Auxiliaries(tmp_path / "here").seen == {*songs()["id"]}


@pytest.mark.parametrize(
    ("mood", "refusal"),
    [
        ("rare", ("EPS-M025", "mood", "rare")),
        (None, ("EPS-M025", "mood")),
    ],
)
def test_held_out_texts_by_which_no_epoch_can_be_chosen_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mood: str | None, refusal: tuple[str, ...]
) -> None:
    monkeypatch.setattr(f"{make.__module__}.train", lambda *_, **__: pytest.fail("trained"))
    held = songs().tail(10).with_columns(mood=pl.lit(mood, pl.String))
    plan = replace(PLAN, kinds=["linear", "transformer"])
    with refused(*refusal):
        make(tmp_path / "here", songs().head(30), plan, VECTORS, held_out=held)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"tasks": ["speaker"]}, ("EPS-M017", "speaker")),
        ({"attributes": []}, ("EPS-M018",)),
        ({"tasks": ["moods"]}, ("EPS-C022", "moods", "'mood'")),
        ({"kinds": ["forest"]}, ("EPS-C022", "forest")),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused(
    tmp_path: Path, changes: dict[str, list[str]], refusal: tuple[str, ...]
) -> None:
    with refused(*refusal):
        make(tmp_path / "here", songs(), replace(PLAN, **changes), VECTORS)  # type: ignore[arg-type]
    assert not (tmp_path / "here" / "about.json").exists()


def test_one_class_and_vectors_of_other_words_are_refused(tmp_path: Path) -> None:
    with refused("EPS-M024", "mood", "1"):
        make(tmp_path / "here", songs().filter(mood="good"), PLAN, VECTORS)
    with refused("EPS-M023", "33"):
        make(tmp_path / "here", songs(), PLAN, WordVectors(["sang", "song"], np.eye(2)))
    assert not (tmp_path / "here").exists()


def test_other_labels_and_other_folders_are_refused(tmp_path: Path) -> None:
    auxiliaries = make(tmp_path / "here", songs(), PLAN, VECTORS)
    auxiliaries.check(["speaker"], ["mood"], ["linear"])
    for needs, values in (
        ((["age"], [], []), ("attribute", "'age'")),
        (([], ["speaker"], []), ("task", "speaker")),
        (([], [], ["encoder"]), ("kind", "encoder")),
    ):
        with refused("EPS-M021", *values):
            auxiliaries.check(*needs)
    with refused("EPS-M019"):
        _ = Auxiliaries(tmp_path).attributes
