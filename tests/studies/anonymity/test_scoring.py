"""Classifiers on rewritten texts learn the signal and nothing else; bad input is refused before any work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from epsilometer.auditing.schemas import DOWNSTREAM
from epsilometer.auditing.trials.rewriting import Job
from epsilometer.auditing.worth.scoring import NumberScores, majority, number_scores, scores
from epsilometer.core import tables
from epsilometer.core.mechanism import FunctionMechanism, Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.corpora.parts import GROUP
from epsilometer.corpora.reading import PREPARED
from epsilometer.models.classifier import Examples
from epsilometer.pipeline.checking import check
from epsilometer.pipeline.params import params_type, read
from epsilometer.studies.anonymity.classification import Tried, rows
from epsilometer.studies.anonymity.labelled import TEST, TRAIN, examples, labelled, to_rewrite
from epsilometer.studies.anonymity.privatizing import collect, privatize
from epsilometer.studies.anonymity.tables import PRIVATIZED
from epsilometer.studies.anonymity.victims import TASK
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.tiny_deberta import corpus, save_deberta


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_deberta(tmp_path_factory.mktemp("deberta")))


def test_scores_by_hand() -> None:
    result = scores(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), ["F", "M"])
    assert result.macro_f1 == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert result.binary_f1 == pytest.approx(2 / 3)  # for M, the last class by name
    assert result.accuracy == 0.75
    assert result.matthews == pytest.approx(2 / 12**0.5)  # (2 · 1 - 1 · 0) / root of 3 · 1 · 2 · 2
    assert result.guessed == 2
    three = scores(np.array([0, 1, 2]), np.array([0, 1, 1]), ["a", "b", "c"])
    assert three.binary_f1 is None
    assert three.macro_f1 == pytest.approx((1 + 2 / 3 + 0) / 3)  # a class that is never guessed scores 0


def test_the_majority_is_that_of_the_training_texts() -> None:
    train, test = Examples(["x"] * 4, ["b", "b", "b", "a"]), Examples(["x"] * 4, ["a", "a", "a", "b"])
    result = scores(np.array([["a", "b"].index(name) for name in test.labels]), majority(train, test), ["a", "b"])
    assert result.accuracy == 0.25
    assert result.macro_f1 == pytest.approx((0 + 2 / 5) / 2)


def test_coefficients_that_are_not_defined_are_0_and_it_shows() -> None:
    one_class = scores(np.array([0, 0, 1, 1]), np.zeros(4, int), ["F", "M"])
    assert (one_class.matthews, one_class.guessed) == (0, 1)
    truth = np.array([1.0, 2.0, 3.0, 5.0])
    assert number_scores(truth, np.full(4, 2.5)) == NumberScores(0, 0, 1)
    correlated = number_scores(truth, np.array([0.0, 1.0, 8.0, 4.0]))
    assert correlated.pearson == pytest.approx(np.corrcoef(truth, [0, 1, 8, 4])[0, 1])
    assert correlated.spearman == pytest.approx(0.8)  # 1 - 6 · 2 / (4 · 15)
    assert correlated.guessed == 4


# ------------------------------------------------------------------------------------------------ texts and labels


def table(train: Sequence[str | None], test: Sequence[str | None]) -> pl.DataFrame:
    splits = [TRAIN] * len(train) + [TEST] * len(test) + ["validation"]
    texts = [f"text {i}" for i in range(len(splits))]
    columns = {"id": texts, "text": texts, "split": splits, "words": [2] * len(splits), "mood": [*train, *test, "odd"]}
    return pl.DataFrame(columns).with_columns(pl.col("words").cast(pl.Int32))


def test_texts_without_the_label_are_passed_over_and_the_rest_is_drawn_by_the_seed() -> None:
    texts = table(["a", None, "b"] * 20, ["a", "b"] * 10)
    counts = {TRAIN: 20, TEST: 6}
    rows = labelled(texts, "mood", counts, 0)
    assert rows["split"].value_counts().sort("split").rows() == [(TEST, 6), (TRAIN, 20)]
    assert rows["mood"].null_count() == 0
    assert rows["row"].n_unique() == 26
    assert rows["row"].to_list() != labelled(texts, "mood", counts, 1)["row"].to_list()
    more = labelled(texts, "mood", {TRAIN: 30, TEST: 6}, 0)  # contains the first 20
    assert {*rows["row"]} < {*more["row"]}
    part = examples(rows, "mood", TEST, {row: f"rewritten {row}" for row in rows["row"]})
    assert list(part.texts) == [f"rewritten {row}" for row in rows.filter(split=TEST)["row"]]
    assert list(part.labels) == rows.filter(split=TEST)["mood"].to_list()
    assert all(text == f"text {row}" for text, row in zip(rows["text"], rows["row"], strict=True))


def test_f1_has_an_interval_over_the_groups_of_a_data_set() -> None:
    """One of 10 authors is misread in all 20 texts, which are one observation where the table names groups."""
    params: Any = SimpleNamespace(audit=SimpleNamespace(alpha=0.05))
    of_authors = table(["bad", "good"] * 100, ["bad", "good"] * 100).with_columns(
        pl.Series(GROUP, np.arange(401) // 20)
    )
    widths = []
    for own in (of_authors, of_authors.drop(GROUP)):
        train, test = (examples(own, "mood", split) for split in (TRAIN, TEST))
        truth = np.array([["bad", "good"].index(label) for label in test.labels])
        tried = [Tried(np.where(np.arange(200) < 20, 1 - truth, truth), 0)]
        (row,) = rows({"role": TASK}, train, test, tried, params)
        widths.append(row["high"] - row["low"])
    assert widths[0] > 2 * widths[1]


def test_training_and_test_texts_of_all_labels_are_rewritten_once() -> None:
    texts = table(["a", "b"] * 20, ["a", "b"] * 10).with_columns(number=pl.int_range(pl.len()).cast(pl.String))
    counts = {TRAIN: 20, TEST: 6}
    both = to_rewrite(texts, ["mood"], ["number"], counts, 0, 4)
    assert both["split"].value_counts().sort("split").rows() == [(TEST, 6), (TRAIN, 20)]
    assert both["row"].is_sorted()


@pytest.mark.parametrize(
    ("train", "test", "label", "refusal"),
    [
        (["a", "b"] * 8, ["a", "b"], "moods", ("EPS-C022", "moods")),
        (["a"] * 16, ["a"], "mood", ("EPS-S017", "2", "'a'")),
        (["a", "b"] * 8, ["a", "a"], "mood", ("EPS-S018", "'b'")),
        (["a", "b"] * 8, ["a", "b", "c"], "mood", ("EPS-S018", "'c'")),
        (["a", "b"] * 3, ["a", "b"], "mood", ("EPS-S015", "6", "8")),
        (["a", "b"] * 8, [None, None], "mood", ("EPS-S016", "test")),
    ],
)
def test_labels_that_no_classifier_can_be_trained_on_are_refused(
    train: list[str], test: list[str | None], label: str, refusal: tuple[str, ...]
) -> None:
    with refused(*refusal, whole=False):
        labelled(table(train, test), label, {TRAIN: 100, TEST: 100}, 0, least=8)


# ------------------------------------------------------------------------------------------------------ parameters


def parameters(**changes: Any) -> dict[str, Any]:
    raw: dict[str, Any] = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    raw["classification"] = {"labels": {"reviews": {"tasks": ["rating"], "attributes": ["gender"]}}}
    raw["downstream"] = {"reviews-tem": {**raw["mechanisms"]["tem"], "dataset": "reviews"}}
    raw["ablations"] = {}
    return raw | changes


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"classification": {}}, ("EPS-P060", "downstream.reviews-tem", "classification.labels.reviews")),
        (
            {"classification": {"labels": {"reviews": {"tasks": ["ratings"]}}}},
            ("EPS-P060", "classification.labels.reviews", "ratings"),
        ),
        ({"classification": {"labels": {"reviews": {}}}}, ("EPS-P060", "classification.labels.reviews", "numbers")),
        (
            {"classification": {"labels": {"reviews": {"tasks": ["rating"], "attributes": ["rating"]}}}},
            ("EPS-P060", "classification.labels.reviews: 'rating'"),
        ),
        (
            {
                "classification": {"labels": {"reviews": {"tasks": ["../rating"]}}},
                "datasets": {**parameters()["datasets"], "reviews": {"source": "a.csv", "labels": ["../rating"]}},
            },
            ("EPS-P060", "classification.labels.reviews: '../rating'"),
        ),
        (
            {"classification": {"labels": {"nowhere": {"tasks": ["rating"]}}}},
            ("EPS-P060", "downstream.reviews-tem", "classification.labels.reviews"),
        ),
        (
            {"downstream": {"tem": {**parameters()["downstream"]["reviews-tem"]}}},
            ("EPS-P060", "downstream.tem", "reviews-tem"),
        ),
        (
            {"classification": {**parameters()["classification"], "training": {"model": "../theirs"}}},
            ("EPS-P060", "classification.training.model", "../theirs"),
        ),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(
    tmp_path: Path, changes: dict[str, Any], refusal: tuple[str, ...]
) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(yaml.safe_dump(parameters()))
    assert read(file).downstream["reviews-tem"].dataset == "reviews"
    file.write_text(yaml.safe_dump(parameters(**changes)))
    with refused(*refusal):
        read(file)


def test_a_check_finds_labels_that_cannot_be_learnt_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = table(["a", "b"] * 10, ["a", "a"])
    texts.select("text", "split", "mood").write_csv("songs.csv")
    raw = parameters(root=str(ROOT))
    raw["exemplars"] = raw["decide"] = {}
    raw["datasets"] = {"songs": {"source": str(tmp_path / "songs.csv"), "labels": ["mood"]}}
    raw["cells"] = {"songs-tem": {**raw["mechanisms"]["tem"], "dataset": "songs"}}
    raw["downstream"], raw["classification"] = {}, {"labels": {"songs": {"tasks": ["mood"]}}}
    with refused("EPS-S018", "b"):
        check(params_type().model_validate(raw))
    texts.filter(pl.col("mood") != "b").select("text", "split", "mood").write_csv("songs.csv")
    with refused("EPS-S017", "2"):
        check(params_type().model_validate(raw))
    (tmp_path / "songs.csv").unlink()
    with refused("EPS-P080", "songs.csv"):
        check(params_type().model_validate(raw))


def test_the_profile_of_real_data_says_what_is_missing(tmp_path: Path) -> None:
    raw = yaml.safe_load((ROOT / "profiles/utility_real.yaml").read_text())
    for dataset in raw["datasets"].values():
        dataset["source"] = dataset["source"].replace("../shared/data", str(tmp_path))
    with refused("EPS-P080", "snips.parquet"):
        check(params_type().model_validate(raw | {"root": str(ROOT)}))


# ----------------------------------------------------------------------------------------------------- privatizing


class Counting(FunctionMechanism):
    """Draws a number a text, and counts the texts."""

    def __init__(self) -> None:
        super().__init__(lambda text, epsilon, rng: f"{text} {epsilon:g} {rng.integers(1000)}")
        self.rewritten = 0

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        self.rewritten += len(texts)
        return super().rewrite(texts, epsilon, noise)


def test_slices_are_collected_in_order_and_never_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epsilometer.studies.anonymity.privatizing.SLICE", 10)
    texts = [f"text {i}" for i in range(35)]
    streams = [Noise.named(np.arange(100, 135), "test", epsilon) for epsilon in (1.0, 2.0)]
    job = Job(texts, np.arange(35), [1.0, 2.0], streams)
    privatize(Counting, job, tmp_path)
    for epsilon, stream in zip(job.epsilons, streams, strict=True):
        rewrites = collect(tmp_path, epsilon)["text"].to_list()
        assert rewrites == list(Counting().rewrite(texts, epsilon, stream).texts)  # each text has its own stream
    done = Counting()
    privatize(lambda: done, job, tmp_path)
    assert done.rewritten == 0


# ---------------------------------------------------------------------------------------------------------- stages


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str) -> Path:
    """A run's folder with one prepared data set, a label that is written and one that is not."""
    monkeypatch.chdir(tmp_path)
    train, test = corpus(500), corpus(60, seed=1)
    texts = pl.DataFrame(
        {
            "id": [f"{i}" for i in range(560)],
            "text": [*train.texts, *test.texts],
            "split": [TRAIN] * 500 + [TEST] * 60,
            "words": pl.Series([5] * 560, dtype=pl.Int32),
            "mood": [*train.labels, *test.labels],
            "speaker": ["A" if label == "positive" else "B" for label in (*train.labels, *test.labels)],
        }
    )
    tables.write(texts, "data/prepared/songs.parquet", PREPARED)
    (tmp_path / "mine.py").write_text(
        "def rewrite(text, epsilon, rng):\n"
        "    if epsilon > 5:\n        return text\n"
        "    return '' if rng.random() < 0.2 else text.replace('good', 'film').replace('bad', 'film')\n"
    )
    raw = parameters()
    entry = {"mechanism": "mine", "file": "mine.py", "resource": "data/prepared/songs.parquet", "epsilons": [1, 9]}
    raw["exemplars"] = raw["decide"] = {}
    raw["datasets"] = {"songs": {"source": "songs.csv", "labels": ["mood", "speaker"]}}
    raw["mechanisms"] = {"mine": entry}
    raw["cells"] = raw["downstream"] = {"songs-mine": {**entry, "dataset": "songs"}}
    raw["classification"] = {
        "labels": {"songs": {"tasks": ["mood"], "attributes": ["speaker"]}},
        "texts": {"train": 480, "test": 40},
        "training": {"model": model, "seeds": 2, "rate": 0.01, "batch": 8, "longest": 32},
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(raw))
    return tmp_path


def test_the_stages_measure_tasks_and_both_attackers(project: Path) -> None:
    from epsilometer.studies.anonymity.stages import classifiers, privatize, downstream as stage  # isort: skip

    classifiers.main()
    privatize.main("songs-mine")
    assert not any((project / "data/begun").iterdir())
    stage.main("songs-mine")
    clean = tables.read("data/downstream/clean.parquet", DOWNSTREAM)
    assert clean.group_by("label", "setting").len().sort("label", "setting").rows() == [
        ("mood", "clean", 2), ("mood", "majority", 1), ("speaker", "clean", 2), ("speaker", "majority", 1),
    ]  # fmt: skip
    results = tables.read("data/downstream/songs-mine.parquet", DOWNSTREAM)
    mean = {
        (epsilon, setting): value
        for epsilon, setting, value in results.group_by("epsilon", "setting").agg(pl.mean("macro_f1")).iter_rows()
    }
    good = clean.filter(setting="clean")["macro_f1"].mean()
    assert isinstance(good, float)
    assert good > 0.9
    # At epsilon 9 nothing changes, so classifiers of rewrites and the static attacker equal the clean classifier.
    for setting, label in (
        ("private", "mood"),
        ("private", "speaker"),
        ("rewritten", "mood"),
        ("adaptive", "speaker"),
        ("static", "speaker"),
    ):
        same = results.filter(epsilon=9, setting=setting, label=label).sort("seed")["macro_f1"]
        assert same.to_list() == pytest.approx(
            clean.filter(setting="clean", label=label).sort("seed")["macro_f1"].to_list(), abs=0.03
        )
    # At epsilon 1 the informative words are gone, so all scores fall to about chance.
    assert max(mean[1, setting] for setting in ("private", "rewritten", "adaptive", "static")) < 0.75
    empty = results.filter(epsilon=1, seed=0).select("setting", "empty").rows()
    rewrites = tables.read("data/privatized/songs-mine/1.parquet", PRIVATIZED)
    blank = {row for row, seed, _, text in rewrites.iter_rows() if not text and seed == 0}
    rows = labelled(pl.read_parquet("data/prepared/songs.parquet"), "mood", {TRAIN: 480, TEST: 40}, 0)
    counts = [len(blank & {*rows.filter(split=split)["row"]}) for split in (TRAIN, TEST)]
    assert 50 < counts[0] < 150
    assert rewrites.filter(seed=0)["text"].to_list() != rewrites.filter(seed=1)["text"].to_list()  # separate noise
    assert rewrites.filter(seed=0)["row"].to_list() == rewrites.filter(seed=1)["row"].to_list()
    ends = results.group_by("epsilon", "setting", "label").agg(
        pl.n_unique("low", "high"), mean=pl.mean("macro_f1"), below=pl.first("low"), above=pl.first("high")
    )
    assert ends["low"].max() == ends["high"].max() == 1  # both seeds share the interval of their mean
    assert ends.select((pl.col("below") <= pl.col("mean")) & (pl.col("mean") <= pl.col("above"))).to_series().all()
    both = sum(counts)
    assert dict(empty) == {"private": counts[0], "rewritten": both, "adaptive": both, "static": counts[1]}


def test_without_labels_the_baselines_are_an_empty_table(project: Path) -> None:
    from epsilometer.studies.anonymity.stages import classifiers

    raw = yaml.safe_load((project / "params.yaml").read_text()) | {"classification": {"labels": {}}, "downstream": {}}
    (project / "params.yaml").write_text(yaml.safe_dump(raw))
    classifiers.main()
    assert len(tables.read("data/downstream/clean.parquet", DOWNSTREAM)) == 0
    assert (project / "data/classifiers").is_dir()


def test_the_embedded_model_is_found_from_the_runs_folder(project: Path) -> None:
    from epsilometer.studies.anonymity.victims import fine_tuning

    root = ROOT
    raw = yaml.safe_load((project / "params.yaml").read_text()) | {"root": str(root)}
    raw["classification"]["training"].pop("model")
    params = params_type().model_validate(raw)
    training = fine_tuning(params, params.classification.training)
    assert Path(training.model) == root / "data/embedded/models/deberta"
    raw["classification"]["training"]["model"] = "microsoft/deberta-v3-base"
    params = params_type().model_validate(raw)
    assert fine_tuning(params, params.classification.training).model == "microsoft/deberta-v3-base"
