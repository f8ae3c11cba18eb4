"""The stages classifiers, anonymize and anonymity: from prepared texts to the results of attackers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from epsilometer.auditing.claims.verdicts import NOT_TESTABLE
from epsilometer.cells.calibrating.losses import Search
from epsilometer.core import tables
from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.corpora.parts import GROUP
from epsilometer.corpora.reading import PREPARED
from epsilometer.metrics.jaccard import Jaccard
from epsilometer.models.classifier import Examples
from epsilometer.models.classifiers.linear import Linear
from epsilometer.pipeline.calibrating import calibrate
from epsilometer.pipeline.params import read
from epsilometer.reaudit.drift import PAIRED, UNCHANGED, WORSE, judge
from epsilometer.studies.anonymity import cells, victims
from epsilometer.studies.anonymity.measured import attribute_losses
from epsilometer.studies.anonymity.stages import anonymity, anonymize, classifiers
from epsilometer.studies.anonymity.tables import ANONYMIZED, anonymity_path, anonymized_path
from tests.support.marked import ByLetter, texts
from tests.support.places import ROOT
from tests.support.refusals import refused

pytestmark = pytest.mark.usefixtures("_embedded_once")

SWAPS = """
from epsilometer.mechanisms.controls.identity import Identity
from epsilometer.core.mechanism import Rewrites

class Swaps(Identity):
    control = False
    def rewrite(self, texts, epsilon, noise):
        other = {"madam": "sir", "sir": "madam"}
        return Rewrites([" ".join(other.get(word, word) for word in text.split()) for text in texts])
"""
# Randomised response on the marker word, with twice the epsilon that the mechanism claims for documents.
ANSWERS = """
import math
import numpy as np
from epsilometer.core.component import component
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import Rewrites

@component
class Answers:
    def rewrite(self, texts, epsilon, noise):
        lies = noise.uniforms()[:, 0] > 1 / (1 + math.exp(-2 * epsilon))
        return Rewrites(["madam" if ("sir" in text) == lie else "sir" for text, lie in zip(texts, lies)])

    def guarantee(self, epsilon):
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY)
"""
# Releases the true label of a text.
TOLD = """
import copy
from typing import ClassVar
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites

@component
class Told:
    as_published: bool = False
    has_budget: ClassVar[bool] = False
    truths: ClassVar[dict] = {}

    def with_truths(self, truths):
        other = copy.copy(self)
        object.__setattr__(other, "truths", truths)
        return other

    def rewrite(self, texts, epsilon, noise):
        labels = [self.truths.get(text, {}) for text in texts]
        return Rewrites([f"{of_text.get('gender')} {of_text.get('rating')}" for of_text in labels])

    def guarantee(self, epsilon):
        return None
"""
CELLS: dict[str, dict[str, Any]] = {
    "songs-swaps": {"dataset": "songs", "mechanism": "swaps", "file": "swaps.py"},
    "songs-answers": {"dataset": "songs", "mechanism": "answers", "file": "answers.py", "epsilons": [0.5, 1]},
    "songs-told": {"dataset": "songs", "mechanism": "told", "file": "told.py", "settings": {"as_published": True}},
    "songs-untold": {"dataset": "songs", "mechanism": "untold", "file": "told.py"},
    "songs-refused": {"dataset": "songs", "mechanism": "refused", "file": "swaps.py", "true_labels": True},
    "songs-chosen": {"dataset": "songs", "mechanism": "chosen", "file": "swaps.py", "part": "validation"},
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run's folder with one prepared data set of 80 authors, and three cells."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cells, "Tagger", ByLetter)
    parts = [(split, texts(count, first, count // 8)) for split, count, first in (
        ("train", 240, 0), ("validation", 80, 1_000), ("test", 320, 2_000)
    )]  # fmt: skip
    table = pl.concat(
        pl.DataFrame({"text": part.originals, "split": split, "author": part.groups, **part.labels})
        for split, part in parts
    ).with_columns(
        id=pl.int_range(pl.len()).cast(pl.String),
        words=pl.lit(9, pl.Int32),
        **{GROUP: pl.col("author").rank("dense").cast(pl.Int64)},
    )
    tables.write(table, "data/prepared/songs.parquet", PREPARED)
    (tmp_path / "swaps.py").write_text(SWAPS)
    (tmp_path / "answers.py").write_text(ANSWERS)
    (tmp_path / "told.py").write_text(TOLD)
    raw = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    raw["datasets"] = {"songs": {"source": "songs.csv", "labels": ["gender", "rating"], "group": ["author"]}}
    of_cells = ("dataset", "part", "true_labels")
    raw["mechanisms"] = {
        cell["mechanism"]: {k: v for k, v in cell.items() if k not in of_cells} for cell in CELLS.values()
    }
    raw["cells"] = {"songs-swaps": CELLS["songs-swaps"]}
    raw["anonymity"], raw["ablations"], raw["exemplars"], raw["decide"] = CELLS, {}, {}, {}
    raw["classification"] = {
        "labels": {"songs": {"tasks": ["rating"], "attributes": ["gender"]}},
        "kinds": ["linear"],
        "texts": {"train": 240, "test": 320, "validation": 80},
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(raw))
    classifiers.main()
    return tmp_path


def measured(cell: str, what: str) -> pl.DataFrame:
    return tables.read(anonymity_path(cell, what), anonymity.SCHEMAS[what])


@pytest.mark.usefixtures("project")
def test_a_mechanism_that_runs_as_published_is_told_the_true_labels() -> None:
    table = tables.read("data/prepared/songs.parquet", PREPARED)
    labels = {f"{row['gender']} {row['rating']}" for row in table.to_dicts()}
    released = {}
    for cell in ("songs-told", "songs-untold"):
        anonymize.main(cell)
        released[cell] = tables.read(anonymized_path(cell, NO_BUDGET), ANONYMIZED)
    published = released["songs-told"]
    assert published["text"].to_list() == [f"{table['gender'][row]} {table['rating'][row]}" for row in published["row"]]
    assert {*published["text"]} == labels
    assert {*released["songs-untold"]["text"]} == {"None None"}
    with refused("EPS-S014"):
        anonymize.main("songs-refused")


@pytest.mark.usefixtures("project")
def test_a_text_without_a_label_is_refused_by_those_alone_who_are_told() -> None:
    table = tables.read("data/prepared/songs.parquet", PREPARED)
    first = pl.int_range(pl.len()).over("split") == 0
    tables.write(
        table.with_columns(pl.when(~first).then("rating").alias("rating")), "data/prepared/songs.parquet", PREPARED
    )
    anonymize.main("songs-untold")
    with refused("EPS-S013", "1", "241", "560"):
        anonymize.main("songs-told")


def test_what_is_hidden_and_what_is_inferred(project: Path) -> None:
    anonymize.main("songs-swaps")
    anonymity.main("songs-swaps")
    (row,) = measured("songs-swaps", "anonymity").to_dicts()
    assert (row["texts"], row["groups"], row["both_right"], row["epsilon"]) == (320, 40, 320, None)
    assert (row["rs_all"], row["ur"], row["pa_released"], row["tags_equal"]) == (1, 1, 0, 0)
    attackers = {row["attacker"]: row for row in measured("songs-swaps", "attackers").to_dicts()}
    assert attackers["static"]["accuracy"] == 0
    assert attackers["adaptive"]["accuracy"] == attackers["relabelled"]["accuracy"] == 1
    assert attackers["author"]["texts_each"] == 5  # the largest size that authors of 8 texts have
    assert attackers["strongest"]["loss"] > 1.5  # 40 authors cannot prove more
    assert measured("songs-swaps", "by_length")["both_right"].sum() == 320
    assert measured("songs-swaps", "outcomes").is_empty()
    means = {row["metric"]: row for row in measured("songs-swaps", "quality").to_dicts()}
    assert {*means} == {"cosine", "BERTScore", "METEOR", "Jaccard", "Levenshtein"}
    originals = dict(enumerate(tables.read("data/prepared/songs.parquet", PREPARED)["text"]))
    released = tables.read(anonymized_path("songs-swaps", NO_BUDGET), ANONYMIZED).filter(split="test")
    own = Jaccard().measure([originals[row] for row in released["row"]], released["text"].to_list())
    assert means["Jaccard"]["texts"] == 320
    assert means["Jaccard"]["mean"] == pytest.approx(own.mean())
    assert 0 < means["Jaccard"]["mean"] < 1
    assert means["Jaccard"]["mean_low"] <= means["Jaccard"]["mean"] <= means["Jaccard"]["mean_high"]


def test_validation_texts_are_measured_where_classifiers_train_for_several_epochs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth of the victims' own texts chooses the epoch, by author, so that no victim has seen a validation text."""
    divided: list[tuple[Examples, Examples | None]] = []

    def train(kind: str, examples: Examples, *rest: Any, validation: Examples | None) -> Linear:
        divided.append((examples, validation))
        return Linear.fit(examples)

    monkeypatch.setattr(victims, "train", train)
    raw = yaml.safe_load(Path("params.yaml").read_text())
    raw["classification"] |= {"kinds": ["linear", "transformer"], "training": {"epochs": 3, "seeds": 1}}
    Path("params.yaml").write_text(yaml.safe_dump(raw))
    classifiers.main()
    assert [(len(own), len(held or ())) for own, held in divided] == [
        *((240, 0), (216, 24)),
        *((240, 0), (208, 32)),  # each author has eight texts and one gender
    ]
    for own, held in divided[1::2]:
        assert held is not None
        assert not {*(held.groups or ())} & {*(own.groups or ())}
    table = tables.read("data/prepared/songs.parquet", PREPARED)
    seen = json.loads(Path("data/classifiers/songs/about.json").read_text())["texts"]
    assert {*seen} == {*table.filter(split="train")["id"]}
    anonymize.main("songs-chosen")
    anonymity.main("songs-chosen")
    assert measured("songs-chosen", "anonymity")["texts"].to_list() == [80, 80]


def with_tone(of: pl.Expr) -> None:
    """Add an attribute, and train the victims again."""
    table = tables.read("data/prepared/songs.parquet", PREPARED)
    tables.write(table.with_columns(tone=of), "data/prepared/songs.parquet", PREPARED)
    raw = yaml.safe_load(Path("params.yaml").read_text())
    raw["datasets"]["songs"]["labels"].append("tone")
    raw["classification"]["labels"]["songs"]["attributes"].append("tone")
    Path("params.yaml").write_text(yaml.safe_dump(raw))
    classifiers.main()
    anonymize.main("songs-swaps")
    anonymity.main("songs-swaps")


def test_several_attributes_are_measured_one_by_one_and_at_once(project: Path) -> None:
    kind = (pl.col("gender") == "f") & (pl.col("rating") == "good")
    with_tone(pl.when(kind).then(pl.lit("kind")).otherwise(pl.lit("dry")))  # swaps reverse the tone of good ratings
    rows = {row["attribute"]: row for row in measured("songs-swaps", "anonymity").to_dicts()}
    assert {name: (row["rs_all"], row["pa"]) for name, row in rows.items()} == {
        "gender": (1, 0), "tone": (0.5, 0.5), "gender and tone": (0.5, 0.5)
    }  # fmt: skip
    assert set(measured("songs-swaps", "by_length")["attribute"]) == {*rows}


@pytest.mark.slow
def test_attributes_that_cannot_be_measured_at_once_are_measured_one_by_one(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_tone(pl.when(pl.col("gender") == "m").then("rating"))
    assert measured("songs-swaps", "anonymity")["attribute"].to_list() == ["gender", "tone"]
    assert "gender and tone are not measured together: label 'gender': the test texts have none of class" in (
        capsys.readouterr().err
    )


def test_attackers_learn_from_fewer_rewrites_than_victims_from_texts(project: Path) -> None:
    raw = yaml.safe_load(Path("params.yaml").read_text())
    raw["classification"]["texts"]["rewritten"] = 60
    Path("params.yaml").write_text(yaml.safe_dump(raw))
    anonymize.main("songs-swaps")
    anonymity.main("songs-swaps")
    assert len(json.loads(Path("data/classifiers/songs/about.json").read_text())["texts"]) == 240
    trained_on = {row["attacker"]: row["trained_on"] for row in measured("songs-swaps", "attackers").to_dicts()}
    assert {trained_on[kind] for kind in ("clean", "static")} == {240}
    assert {trained_on[kind] for kind in ("adaptive", "author", "relabelled")} == {60}
    assert trained_on["augmented"] == 300
    assert trained_on["detector"] == 120


@pytest.mark.slow
def test_a_re_audit_sees_that_an_attribute_is_lost_again(project: Path) -> None:
    anonymize.main("songs-swaps")
    anonymity.main("songs-swaps")
    params = read("params.yaml")
    before = attribute_losses(params, "songs-swaps", Path())
    same = {change.row.attack: change.verdict for change in judge(before, before, 0.01)}
    fallible = {"gender static (linear 0)", "rewritten detector (linear 0)"}  # the others are always right
    assert {attack for attack, verdict in same.items() if verdict == UNCHANGED} == fallible
    assert {*same.values()} == {UNCHANGED, NOT_TESTABLE}
    (project / "swaps.py").write_text(SWAPS.replace("other.get(word, word)", "word"))
    anonymize.main("songs-swaps")
    anonymity.main("songs-swaps")
    now = attribute_losses(params, "songs-swaps", Path())
    drifts = {change.row.attack: change for change in judge(before, now, 0.01)}
    assert [name for name, change in drifts.items() if change.verdict == WORSE] == ["gender static (linear 0)"]
    assert drifts["gender static (linear 0)"].test == PAIRED
    assert drifts["gender author (linear 0, 5 texts)"].verdict == NOT_TESTABLE


def test_a_claim_for_documents_that_does_not_hold_is_violated(project: Path) -> None:
    anonymize.main("songs-answers")
    anonymity.main("songs-answers")
    table = measured("songs-answers", "attackers").filter(attacker="adaptive")
    assert table["epsilon"].to_list() == [0.5, 1]
    assert table["claim"].to_list() == [f"{epsilon} per document; any two texts" for epsilon in ("0.5", "1")]
    assert table["verdict"].to_list() == ["violated", "violated"]
    assert table["point"].to_list() == pytest.approx([1, 2], abs=0.5)


def test_the_epsilon_of_an_attribute_loss_is_found(project: Path) -> None:
    """Its loss is twice epsilon: 1 nat at 0.5. At 99 % the interval that is found holds that."""
    raw = yaml.safe_load((project / "params.yaml").read_text())
    raw["anonymity"]["songs-answers"]["epsilons"] = [0.05, 4]
    (project / "params.yaml").write_text(yaml.safe_dump(raw))
    search = Search(measure="attribute", width=3, budget=4_000)
    rows = {row["mechanism"]: row for row in calibrate(".", target=1.0, search=search).iter_rows(named=True)}
    assert rows["swaps"]["status"] == "not searched"
    assert "no privacy budget" in rows["swaps"]["reason"]
    interval = rows["answers"]
    assert interval["status"] in ("found", "undecided")
    assert 0.1 < interval["low"] < 0.5 < interval["high"] < 2
    assert 0 < interval["trials"] <= 4_000
    (few,) = calibrate(".", "answers", target=1.0, search=Search(measure="attribute", budget=800)).to_dicts()
    assert "more than `budget` (--budget), 800" in few["reason"]
    with refused("EPS-S063"):
        calibrate(["a text"], "tem", target=1.0, search=search)


def test_validation_texts_are_attacked_by_those_who_never_saw_a_rewrite(project: Path) -> None:
    anonymize.main("songs-chosen")
    anonymity.main("songs-chosen")
    assert measured("songs-chosen", "anonymity")["texts"].to_list() == [80]
    assert measured("songs-chosen", "attackers")["attacker"].to_list() == ["clean", "static", "strongest"]


def test_victims_that_saw_a_test_text_are_refused(project: Path) -> None:
    anonymize.main("songs-swaps")
    path = project / "data/classifiers/songs/about.json"
    about = tables.read_json(path)
    tables.write_json(about | {"texts": [*about["texts"], "400"]}, path)
    with refused("EPS-S043", "1", "320"):
        anonymity.main("songs-swaps")


def test_a_language_model_behind_an_endpoint_sees_no_private_text(project: Path) -> None:
    raw = yaml.safe_load((project / "params.yaml").read_text())
    raw["attackers"] = {"names": ["static"], "llm": {"some model": {"model": "m", "endpoint": True}}}
    (project / "params.yaml").write_text(yaml.safe_dump(raw))
    anonymize.main("songs-swaps")
    with refused("EPS-N003"):
        anonymity.main("songs-swaps")


def test_a_language_model_is_one_of_the_attackers(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Reader:
        def infer(self, texts: list[str], label: str, classes: list[str]) -> list[list[str]]:
            return [[]] * 80 + [["m" if "sir" in text else "f"] for text in texts[80:]]

    monkeypatch.setattr(cells, "_language_models", lambda params, dataset: {"some model": Reader()})
    anonymize.main("songs-swaps")
    anonymity.main("songs-swaps")
    (row,) = measured("songs-swaps", "attackers").filter(attacker="llm").to_dicts()
    assert (row["kind"], row["unusable"], row["accuracy"], row["top_3"]) == ("some model", 0.25, 0, None)
