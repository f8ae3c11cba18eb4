"""Classifiers on rewritten texts: that they learn what is there and nothing else, and what is refused before work."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from epsilometer.auditing.schemas import DOWNSTREAM
from epsilometer.auditing.trials.rewriting import Job
from epsilometer.auditing.worth.scoring import ClassScores, NumberScores, majority, number_scores, scores
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import FunctionMechanism, Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.corpora.parts import GROUP
from epsilometer.corpora.reading import PREPARED
from epsilometer.models.classifier import Examples, FineTuning
from epsilometer.models.classifiers.transformer import Transformer, fine_tune
from epsilometer.pipeline.checking import check
from epsilometer.pipeline.params import Params, read
from epsilometer.project.code import digest
from epsilometer.runtime import resuming
from epsilometer.studies.anonymity.classification import Tried, rows
from epsilometer.studies.anonymity.labelled import TEST, TRAIN, examples, labelled, to_rewrite
from epsilometer.studies.anonymity.privatizing import collect, privatize
from epsilometer.studies.anonymity.tables import PRIVATIZED
from epsilometer.studies.anonymity.victims import TASK
from tests.support.places import ROOT

WORDS = ["good", "bad", "film", "plot", "the", "a", "was", "very", "song", "slow"]
PIECES = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *(f"▁{word}" for word in WORDS), "▁", *"abcdefghijklmnopqrstuvwxyz"]


def save_model(folder: Path) -> Path:
    """A DeBERTa-v2 of the shape of microsoft/deberta-v3-base, much smaller and untrained, without a tokeniser."""
    import torch
    from transformers import DebertaV2Config, DebertaV2ForMaskedLM

    shape: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    relative: dict[str, Any] = {"relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"]}
    rest: dict[str, Any] = {
        "vocab_size": len(PIECES) + 1,  # the tokeniser adds [MASK]
        "intermediate_size": 32,
        "max_position_embeddings": 64,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "type_vocab_size": 0,
        "pooler_hidden_size": 32,
    }
    config = DebertaV2Config(**shape, **relative, **rest)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        DebertaV2ForMaskedLM(config).save_pretrained(folder)
    return folder


def scored(classifier: Transformer, part: Examples) -> ClassScores:
    """How well the labels of these texts are told."""
    truth = np.array([classifier.classes.index(name) for name in part.labels])
    return scores(truth, classifier.predict(part.texts), classifier.classes)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model folder with a tokenizer.json."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder = save_model(tmp_path_factory.mktemp("deberta"))
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0 - i / 10) for i, piece in enumerate(PIECES)], unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(PIECES[:4])
    ends = [("[CLS]", 1), ("[SEP]", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    settings = {"tokenizer_class": "TokenizersBackend", **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return str(folder)


def corpus(count: int, seed: int = 0) -> Examples:
    """Texts of 4 to 12 words; the label says whether `good` or `bad` is among them."""
    generator = np.random.default_rng(seed)
    texts, labels = [], []
    for number in range(count):
        words = list(generator.choice(WORDS[2:], generator.integers(3, 12)))
        label = number % 2
        words.insert(int(generator.integers(len(words))), WORDS[label])
        texts.append(" ".join(words))
        labels.append("negative" if label else "positive")
    return Examples(texts, labels)


def settings(model: str, **changes: Any) -> FineTuning:
    return replace(FineTuning(model, rate=1e-2, batch=8, longest=32), **changes)


STREAM = Noise.named(1, "test")


# -------------------------------------------------------------------------------------------------- the classifier


def test_a_classifier_learns_what_the_words_say_and_nothing_from_texts_without_them(model: str) -> None:
    """Right in all but 10 % of 200 texts where the label is written; with that word gone both classes have one law.

    Then 200 guesses are right between 61 and 139 times but for a probability below 1e-7; seed fixed.
    """
    train, test = corpus(480), corpus(200, seed=1)
    result = scored(fine_tune(train, ["positive", "negative"], settings(model), STREAM), test)
    assert result.macro_f1 > 0.9

    def silent(part: Examples) -> Examples:
        return Examples([text.replace("good", "film").replace("bad", "film") for text in part.texts], part.labels)

    blind = scored(fine_tune(silent(train), ["positive", "negative"], settings(model), STREAM), silent(test))
    assert 0.305 < blind.accuracy < 0.695


def test_a_seed_gives_the_same_classifier_and_another_seed_another(model: str) -> None:
    import torch

    train, test = corpus(64), corpus(40, seed=1)
    before = torch.random.get_rng_state()

    def logits(stream: Noise) -> Any:
        classifier = fine_tune(train, ["negative", "positive"], settings(model), stream)
        return classifier._logits(classifier.pieces(test.texts)).detach()

    first, two, other = logits(STREAM), logits(STREAM), logits(Noise.named(1, "other"))
    assert torch.equal(first, two)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.random.get_rng_state())


def test_predictions_do_not_depend_on_the_batch_and_survive_saving(model: str, tmp_path: Path) -> None:
    train, test = corpus(480), corpus(60, seed=1)
    classifier = fine_tune(train, ["negative", "positive"], settings(model), STREAM)
    classifier.save(tmp_path)
    whole = classifier.predict(test.texts)
    assert len({*whole}) == 2
    np.testing.assert_array_equal(whole, [classifier.predict([text])[0] for text in test.texts])
    again = Transformer(tmp_path, ["positive", "negative"], settings(model))
    np.testing.assert_array_equal(again.predict(test.texts), whole)  # saving rounds the weights of both


def test_long_and_empty_texts_are_read(model: str) -> None:
    classifier = fine_tune(corpus(16), ["negative", "positive"], settings(model, longest=1000), STREAM)
    assert len(classifier.predict(["", " ", "good " * 500])) == 3
    assert max(map(len, classifier.pieces(["good " * 500]))) == 64  # the model's own limit


def test_half_precision_learns_as_well(model: str) -> None:
    classifier = fine_tune(corpus(480), ["negative", "positive"], settings(model, precision="bfloat16"), STREAM)
    assert scored(classifier, corpus(100, seed=1)).macro_f1 > 0.9
    assert {str(weight.dtype) for weight in classifier.network.parameters()} == {"torch.float32"}


def test_the_files_of_deberta_v3_are_read(tmp_path: Path) -> None:
    """As on the hub: spm.model and no tokenizer.json, a configuration without a tokeniser's class."""
    pytest.importorskip("sentencepiece", reason="reading spm.model needs sentencepiece")
    from transformers.convert_slow_tokenizer import import_protobuf

    proto = import_protobuf().ModelProto()
    proto.trainer_spec.model_type, proto.trainer_spec.unk_id = 1, 3
    for number, piece in enumerate(PIECES):
        kind = 2 if number == 3 else 3 if number < 3 else 1
        entry = proto.pieces.add()
        entry.piece, entry.score, entry.type = piece, -number / 10, kind
    (save_model(tmp_path) / "spm.model").write_bytes(proto.SerializeToString())
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "vocab_type": "spm"}')
    classifier = fine_tune(corpus(480), ["negative", "positive"], settings(str(tmp_path)), STREAM)
    assert classifier.pieces(["a good film"]) == [
        [1, PIECES.index("▁a"), PIECES.index("▁good"), PIECES.index("▁film"), 2]
    ]
    assert scored(classifier, corpus(100, seed=1)).macro_f1 > 0.9


def test_a_folder_without_a_tokeniser_is_refused(tmp_path: Path) -> None:
    (save_model(tmp_path) / "spm.model").write_bytes(b"no model of pieces")
    with pytest.raises(UserError, match="cannot be loaded as a classifier"):
        fine_tune(corpus(16), ["negative", "positive"], settings(str(tmp_path)), STREAM)


def test_scores_by_hand() -> None:
    result = scores(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), ["F", "M"])
    assert result.macro_f1 == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert result.binary_f1 == pytest.approx(2 / 3)  # of M, the last by name
    assert result.accuracy == 0.75
    assert result.matthews == pytest.approx(2 / 12**0.5)  # (2 · 1 - 1 · 0) / root of 3 · 1 · 2 · 2
    assert result.guessed == 2
    three = scores(np.array([0, 1, 2]), np.array([0, 1, 1]), ["a", "b", "c"])
    assert three.binary_f1 is None
    assert three.macro_f1 == pytest.approx((1 + 2 / 3 + 0) / 3)  # never guessed: 0


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
    more = labelled(texts, "mood", {TRAIN: 30, TEST: 6}, 0)  # the first 20 stay
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
    ("train", "test", "label", "complaint"),
    [
        (["a", "b"] * 8, ["a", "b"], "moods", "did you mean|mood"),
        (["a"] * 16, ["a"], "mood", "at least 2 classes among the training texts, got class 'a'"),
        (["a", "b"] * 8, ["a", "a"], "mood", "chosen test texts have none of class 'b'"),
        (["a", "b"] * 8, ["a", "b", "c"], "mood", "chosen train texts have none of class 'c'"),
        (["a", "b"] * 3, ["a", "b"], "mood", "6 training texts, fewer than a batch of 8"),
        (["a", "b"] * 8, [None, None], "mood", "no text in the split 'test'"),
    ],
)
def test_labels_that_no_classifier_can_be_trained_on_are_refused(
    train: list[str], test: list[str | None], label: str, complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint):
        labelled(table(train, test), label, {TRAIN: 100, TEST: 100}, 0, least=8)


def test_fewer_texts_than_a_batch_are_refused_before_the_model_is_looked_for() -> None:
    with pytest.raises(UserError, match="7 texts to train on, fewer than a batch of 8"):
        fine_tune(corpus(7), ["negative", "positive"], settings("no/such-model"), STREAM)


# ------------------------------------------------------------------------------------------------------ parameters


def parameters(**changes: Any) -> dict[str, Any]:
    raw: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text())
    raw["classification"] = {"labels": {"reviews": {"tasks": ["rating"], "attributes": ["gender"]}}}
    raw["downstream"] = {"reviews-tem": {**raw["mechanisms"]["tem"], "dataset": "reviews"}}
    raw["ablations"] = {}
    return raw | changes


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"classification": {}}, "under classification.labels.reviews"),
        ({"classification": {"labels": {"reviews": {"tasks": ["ratings"]}}}}, "did you mean|rating"),
        ({"classification": {"labels": {"reviews": {}}}}, "at least one label"),
        (
            {"classification": {"labels": {"reviews": {"tasks": ["rating"], "attributes": ["rating"]}}}},
            "'rating' is named twice",
        ),
        (
            {
                "classification": {"labels": {"reviews": {"tasks": ["../rating"]}}},
                "datasets": {**parameters()["datasets"], "reviews": {"source": "a.csv", "labels": ["../rating"]}},
            },
            "cannot name a folder",
        ),
        ({"classification": {"labels": {"nowhere": {"tasks": ["rating"]}}}}, "classification.labels"),
        ({"downstream": {"tem": {**parameters()["downstream"]["reviews-tem"]}}}, "must be named reviews-tem"),
        (
            {"classification": {**parameters()["classification"], "training": {"model": "../theirs"}}},
            "classification.training.model must lie in the project",
        ),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(yaml.safe_dump(parameters()))
    assert read(file).downstream["reviews-tem"].dataset == "reviews"
    file.write_text(yaml.safe_dump(parameters(**changes)))
    with pytest.raises(UserError, match=complaint):
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
    with pytest.raises(UserError, match="chosen test texts have none of class 'b'"):
        check(Params.model_validate(raw))
    texts.filter(pl.col("mood") != "b").select("text", "split", "mood").write_csv("songs.csv")
    with pytest.raises(UserError, match="at least 2 classes"):
        check(Params.model_validate(raw))
    (tmp_path / "songs.csv").unlink()
    with pytest.raises(UserError, match=r"songs\.csv"):
        check(Params.model_validate(raw))


def test_the_profile_of_real_data_says_what_is_missing(tmp_path: Path) -> None:
    raw = yaml.safe_load((ROOT / "profiles/utility_real.yaml").read_text())
    for dataset in raw["datasets"].values():
        dataset["source"] = dataset["source"].replace("../shared/data", str(tmp_path))
    with pytest.raises(UserError, match=r"snips\.parquet"):
        check(Params.model_validate(raw | {"root": str(ROOT)}))


# ----------------------------------------------------------------------------------------------------- privatizing


class Counting(FunctionMechanism):
    """Draws a number a text; stops with an error after so many texts."""

    def __init__(self, enough: int = 10**9) -> None:
        super().__init__(lambda text, epsilon, rng: f"{text} {epsilon:g} {rng.integers(1000)}")
        self.rewritten, self.enough = 0, enough

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        if self.rewritten >= self.enough:
            raise RuntimeError("killed")
        self.rewritten += len(texts)
        return super().rewrite(texts, epsilon, noise)


def test_a_stopped_run_goes_on_where_it_stopped_and_ends_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epsilometer.studies.anonymity.privatizing.SLICE", 10)
    texts = [f"text {i}" for i in range(35)]
    streams = [Noise.named(np.arange(100, 135), "test", epsilon) for epsilon in (1.0, 2.0)]
    job = Job(texts, np.arange(35), [1.0, 2.0], streams)
    privatize(Counting, job, tmp_path / "whole")
    stopped = Counting(enough=40)
    with pytest.raises(RuntimeError, match="killed"):
        privatize(lambda: stopped, job, tmp_path / "stopped")
    assert stopped.rewritten == 40  # two slices at two epsilons
    rest = Counting()
    privatize(lambda: rest, job, tmp_path / "stopped")
    assert rest.rewritten == 2 * 35 - 40
    for epsilon, stream in zip(job.epsilons, streams, strict=True):
        rewrites = collect(tmp_path / "stopped", epsilon)["text"].to_list()
        assert rewrites == collect(tmp_path / "whole", epsilon)["text"].to_list()
        assert rewrites == list(Counting().rewrite(texts, epsilon, stream).texts)  # in order, each with its own stream
    done = Counting()
    privatize(lambda: done, job, tmp_path / "stopped")
    assert done.rewritten == 0


def test_slices_of_other_texts_settings_code_or_data_have_another_name(tmp_path: Path) -> None:
    code, data = tmp_path / "mine.py", tmp_path / "vectors.npz"
    code.write_text("x = 1")
    data.write_bytes(b"12")
    base = digest({"epsilon": 1}, ["a b"], [code], [data], tmp_path)
    assert digest({"epsilon": 1}, ["a b"], [code], [tmp_path / "vectors.npz"], tmp_path) == base
    assert digest({"epsilon": 1}, ["a b"], [code], [tmp_path], tmp_path) != base
    assert digest({"epsilon": 2}, ["a b"], [code], [data], tmp_path) != base
    assert digest({"epsilon": 1}, ["a", "b"], [code], [data], tmp_path) != base
    code.write_text("x = 2")
    changed = digest({"epsilon": 1}, ["a b"], [code], [data], tmp_path)
    assert changed != base
    data.write_bytes(b"123")
    assert digest({"epsilon": 1}, ["a b"], [code], [data], tmp_path) != changed


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
    # At 9 nothing is changed: what is trained on it is the clean classifier itself, and so is the static attacker.
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
    # At 1 the words that matter are gone: all of it falls to about chance.
    assert max(mean[1, setting] for setting in ("private", "rewritten", "adaptive", "static")) < 0.75
    empty = results.filter(epsilon=1, seed=0).select("setting", "empty").rows()
    rewrites = tables.read("data/privatized/songs-mine/1.parquet", PRIVATIZED)
    blank = {row for row, seed, _, text in rewrites.iter_rows() if not text and seed == 0}
    rows = labelled(pl.read_parquet("data/prepared/songs.parquet"), "mood", {TRAIN: 480, TEST: 40}, 0)
    counts = [len(blank & {*rows.filter(split=split)["row"]}) for split in (TRAIN, TEST)]
    assert 50 < counts[0] < 150
    assert rewrites.filter(seed=0)["text"].to_list() != rewrites.filter(seed=1)["text"].to_list()  # noise of its own
    assert rewrites.filter(seed=0)["row"].to_list() == rewrites.filter(seed=1)["row"].to_list()
    ends = results.group_by("epsilon", "setting", "label").agg(
        pl.n_unique("low", "high"), mean=pl.mean("macro_f1"), below=pl.first("low"), above=pl.first("high")
    )
    assert ends["low"].max() == ends["high"].max() == 1  # one interval of the mean of both seeds
    assert ends.select((pl.col("below") <= pl.col("mean")) & (pl.col("mean") <= pl.col("above"))).to_series().all()
    both = sum(counts)
    assert dict(empty) == {"private": counts[0], "rewritten": both, "adaptive": both, "static": counts[1]}


def test_the_privatize_stage_goes_on_with_its_own_slices_only(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from epsilometer.studies.anonymity.stages import privatize as stage

    stale = project / "data/begun/privatize/songs-mine/other"
    stale.mkdir(parents=True)
    (stale / "0.parquet").write_text("of other texts")
    with resuming.running("privatize", "songs-mine", lambda: "same"):
        with monkeypatch.context() as patch:
            patch.setattr(stage, "collect", lambda folder, epsilon: (_ for _ in ()).throw(RuntimeError("killed")))
            with pytest.raises(RuntimeError):
                stage.main("songs-mine")
        monkeypatch.setattr(Job, "run", lambda job, *rest: pytest.fail("a slice that is there was rewritten"))
        stage.main("songs-mine")
    assert len(tables.read("data/privatized/songs-mine/9.parquet", PRIVATIZED)) == 2 * 520


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
    params = Params.model_validate(raw)
    training = fine_tuning(params, params.classification.training)
    assert Path(training.model) == root / "data/embedded/models/deberta"
    raw["classification"]["training"]["model"] = "microsoft/deberta-v3-base"
    params = Params.model_validate(raw)
    assert fine_tuning(params, params.classification.training).model == "microsoft/deberta-v3-base"
