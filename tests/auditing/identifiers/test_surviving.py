"""Survival of identifiers at marked places, and the precision of a mechanism's masking."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.auditing.identifiers import surviving
from epsilometer.auditing.identifiers.planting import ANY, KINDS, LONG, shapes
from epsilometer.auditing.identifiers.surviving import (
    PLANTED,
    Identified,
    Occurrence,
    masked,
    outcomes,
    surviving_identifiers,
)
from epsilometer.corpora.reading import read
from epsilometer.corpora.synthetic import generate
from epsilometer.text import identifiers as detectors
from tests.support.refusals import refused

REVIEWS = generate("reviews", 40, seed=1)["text"].to_list()


def annotated(folder: Path, documents: list[dict[str, object]]) -> Path:
    path = folder / "spans.json"
    path.write_text(json.dumps(documents))
    return path


def document(text: str, *spans: tuple[str, str]) -> dict[str, object]:
    """In the form of presidio-research."""
    placed = [
        {
            "entity_type": kind,
            "entity_value": value,
            "start_position": text.index(value),
            "end_position": text.index(value) + len(value),
        }
        for kind, value in spans
    ]
    return {"full_text": text, "masked": None, "spans": placed, "template_id": 1, "metadata": {}}


def test_identity_lets_all_survive_and_a_constant_none() -> None:
    every = surviving_identifiers(REVIEWS, lambda text, rng: text, trials=6)
    groups = [(kind, shape) for kind in KINDS for shape in shapes(kind)] + [(ANY, shape) for shape in LONG]
    assert every.select("kind", "shape").rows() == groups
    assert (every["survived"] == 6).all()
    assert (every["partly"] == 0).all()
    assert every.select("low", "high").unique().row(0) == clopper_pearson(6, 6, 0.01)
    assert (every.filter(~pl.col("shape").is_in([*LONG]))["masked"] == 0).all()
    assert every["precision"].null_count() == len(groups)
    none = surviving_identifiers(REVIEWS, lambda text, rng: "nothing", trials=3)
    assert not none.select("survived", "partly").to_numpy().any()


def test_a_rewriter_that_hides_the_first_characters_alone_fails_by_place() -> None:
    """Identifiers of every kind stand behind the end of what it reads; those before it are hidden."""
    table = surviving_identifiers(REVIEWS, lambda text, rng: "hidden " + text[10_000:])
    long = table.filter(pl.col("shape").is_in([*LONG]))
    assert long["kind"].unique().to_list() == [ANY]
    assert (long["texts"] == PLANTED).all()
    by_shape = dict(long.select("shape", "survived").iter_rows())
    assert by_shape == {"at character 100": 0, "at character 9,990": 0, "at character 10,010": PLANTED}


@pytest.mark.slow
def test_a_masker_that_finds_names_masks_them_and_its_precision_stands_beside() -> None:
    """The embedded tagger masks every proper noun: few names survive, and masked runs are other words, too."""
    table = surviving_identifiers(REVIEWS, "presidio", kinds=["name"], trials=60)
    row = table.row(by_predicate=pl.col("shape") == "middle of a sentence", named=True)
    assert row["survived"] == 0
    assert 0.3 < row["precision_low"] < row["precision"] < row["precision_high"] <= 1
    assert row["masked"] >= 60


def test_no_detector_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a mechanism masks by would find nothing that the mechanism missed."""

    def refuse(*_: object) -> object:
        raise AssertionError("asked a detector")

    monkeypatch.setattr(detectors, "recognisers", refuse)
    monkeypatch.setattr("epsilometer.auditing.worth.leakage.matches", refuse)
    assert (surviving_identifiers(REVIEWS, lambda text, rng: text, kinds=["name"], trials=5)["survived"] == 5).all()


@pytest.mark.parametrize(
    ("value", "rewrite", "survived"),
    [
        ("Ann Lee", "it was ANN-LEE's", True),
        ("Ann Lee", "it was Ann", False),
        ("FF-205566", "ref. 205566 here", True),
        ("FF-205566", "ref. 1205566 here", False),
        ("(01632) 960262", "01632-960262", True),
        ("AB-123", "123", False),
        ("1985-03-12", "19850312", True),
        ("March 12, 1985", "<PERSON> 12, 1985", False),
        ("March 12, 1985", "march 12 1985", True),
    ],
)
def test_a_value_survives_as_it_is_or_by_its_digits(value: str, rewrite: str, survived: bool) -> None:
    outcome = outcomes([(Occurrence("any", f"x {value} y", [value], []), rewrite)])
    assert outcome.whole == [survived]
    assert not (outcome.whole[0] and outcome.part[0])


def test_words_that_are_not_in_their_place_are_masked() -> None:
    text = "Ask Ann Lee, not me."
    assert [text[slice(*span)] for span in masked(text, "Ask <PERSON>, not me.")] == ["Ann Lee"]
    assert masked(text, text.upper()) == []
    assert [text[slice(*span)] for span in masked(text, "")] == ["Ask Ann Lee, not me"]


def test_of_annotated_texts_the_recorded_values_count_once_a_text(tmp_path: Path) -> None:
    source = annotated(
        tmp_path,
        [
            document("Ann and Bob met Ann.", ("PERSON", "Ann"), ("PERSON", "Bob")),
            document("Call 555-1234 or Cleo.", ("PHONE_NUMBER", "555-1234"), ("PERSON", "Cleo")),
            document("Nobody is here."),
        ],
    )

    def rewrite(text: str, rng: object) -> str:
        return text.replace("Ann", "X").replace("Bob", "X")

    table = surviving_identifiers(read(source), rewrite)
    assert table.select("kind", "shape", "texts", "survived").rows() == [
        ("person", None, 2, 1),
        ("phone number", None, 1, 1),
    ]
    assert table.row(0, named=True)["precision"] == 1  # "Ann", "Bob" and "Ann" again


def test_an_entity_survives_by_any_mention() -> None:
    table = pl.DataFrame(
        {
            "text": ["Ann Lee came; Lee left."],
            "identifiers": [["Ann Lee", "Lee"]],
            "identifier_kinds": [["direct", "direct"]],
            "identifier_entities": [["e1", "e1"]],
        }
    )
    survived = surviving_identifiers(table, lambda text, rng: "someone came; Lee left.")["survived"]
    assert survived.to_list() == [1]


def test_spans_and_records_outside_the_text_are_refused_without_a_quote(tmp_path: Path) -> None:
    beyond = document("Secret Ann.", ("PERSON", "Ann"))
    beyond["spans"][0]["end_position"] = 400  # type: ignore[index]
    with refused("EPS-D004", "1", "7", "400") as error:
        read(annotated(tmp_path, [beyond]))
    assert "Secret" not in str(error.value)
    with refused("EPS-D004", "spans"):
        read(annotated(tmp_path, [{"full_text": "Secret"}]))
    table = pl.DataFrame({"text": ["Ann came.", "Secret"], "identifiers": [["Ann"], ["Agent"]]})
    with refused("EPS-A118", "2") as error:
        surviving_identifiers(table, lambda text, rng: text)
    assert "Secret" not in str(error.value)
    assert "Agent" not in str(error.value)


def test_a_span_that_disagrees_with_its_value_is_refused_by_number(tmp_path: Path) -> None:
    """Positions in UTF-16 units count an emoji twice; white space at an end is no part of the value."""
    good = document("Secret Ann.", ("PERSON", "Ann"))
    units = document("😀 Secret Ann.", ("PERSON", "Ann"))
    units["spans"][0]["start_position"] += 1  # type: ignore[index]
    units["spans"][0]["end_position"] += 1  # type: ignore[index]
    spaced = document("Secret Ann came.", ("PERSON", "Ann"))
    spaced["spans"][0]["end_position"] += 1  # type: ignore[index]
    bare = document("Secret Ann came.", ("PERSON", "Ann "))
    del bare["spans"][0]["entity_value"]  # type: ignore[index]
    for bad in (units, spaced, bare):
        with refused("EPS-D003", "document 2") as error:
            read(annotated(tmp_path, [good, bad]))
        assert "Secret" not in str(error.value)
        assert "Ann" not in str(error.value)
    assert read(annotated(tmp_path, [good]))["identifiers"].to_list() == [["Ann"]]


def test_bad_input() -> None:
    with refused("EPS-C022"):
        surviving_identifiers(REVIEWS, "presidio", kinds=["nmae"])
    with refused("EPS-A119"):
        Identified.of(REVIEWS).chosen(["name", "name"])
    with refused("EPS-A178", "1"):
        surviving_identifiers(REVIEWS, "presidio", trials=0)


def test_rewrites_are_drawn_anew_at_each_epsilon_and_the_same_again() -> None:
    def coin(text: str, epsilon: float, rng: object) -> str:
        return text if rng.random() < epsilon / 10 else ""  # type: ignore[attr-defined]

    first = surviving_identifiers(REVIEWS, coin, [1, 9], ["date"], trials=20)
    few, many = first.group_by("epsilon", maintain_order=True).agg(pl.col("survived").sum())["survived"]
    assert few < 66 < 154 < many  # expected: .1 and .9 of 220; a count beyond these bounds has probability below 1e-12
    assert first.equals(surviving.surviving_identifiers(REVIEWS, coin, [1, 9], ["date"], trials=20))
