"""Classifiers of all kinds learn the labels, do not depend on the batch, and are saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from epsilometer.core.randomness import Noise
from epsilometer.models.classifier import Classifier, Examples, FineTuning
from epsilometer.models.classifiers import encoder, regression
from epsilometer.models.classifiers.by_kind import load, train
from epsilometer.models.classifiers.linear import Linear
from epsilometer.models.classifiers.pairs import features, single
from epsilometer.models.classifiers.transformer import Transformer, fine_tune
from epsilometer.models.logits import GRID
from epsilometer.models.memory import Memory
from epsilometer.text.words import words
from tests.support.refusals import refused
from tests.support.tiny_models import save_word_bert

STREAM = Noise.named(1, "test")
TINY = FineTuning("nowhere", rate=1e-2, batch=8, longest=32)


def corpus(count: int, seed: int, classes: int = 2) -> Examples:
    """Texts of some words; the label is the first one's, of `good`, `bad` and `plot`, wherever it stands."""
    generator = np.random.default_rng(seed)
    texts, labels = [], []
    for number in range(count):
        label = ["bad", "good", "plot"][number % classes]
        rest = list(generator.choice(["film", "the", "a", "was", "very", "song", "slow"], generator.integers(3, 9)))
        rest.insert(int(generator.integers(len(rest))), label)
        texts.append(" ".join(rest))
        labels.append(label)
    return Examples(texts, labels)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> FineTuning:
    """The settings of a small BERT with a piece a word."""
    words = ["film", "the", "a", "was", "very", "song", "slow", "good", "bad", "plot"]
    return replace(TINY, model=str(save_word_bert(tmp_path_factory.mktemp("bert"), words)))


@pytest.fixture(scope="module", params=["transformer", "linear", "encoder"])
def classifier(request: pytest.FixtureRequest, tiny: FineTuning) -> Classifier:
    return train(request.param, corpus(320, 0, classes=3), tiny, STREAM)


def test_a_classifier_of_every_kind_learns_what_the_words_say(classifier: Classifier) -> None:
    """By chance a third of 150 texts would be right, and 90 of them with probability below 1e-10; seed fixed."""
    test = corpus(150, 1, classes=3)
    probabilities = classifier.probabilities(test.texts)
    assert classifier.classes == ["bad", "good", "plot"]
    assert np.mean([classifier.classes[i] for i in probabilities.argmax(1)] == np.array(test.labels)) > 0.6
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)


def test_a_text_is_judged_the_same_whatever_it_is_asked_with(classifier: Classifier) -> None:
    texts = [*corpus(60, 2).texts, "", "!?", "\U0001f600", "good " * 300, "unknown words alone", "good", "Good"]
    whole = classifier.probabilities(texts)
    order = np.random.default_rng(0).permutation(len(texts))
    assert (classifier.probabilities([texts[i] for i in order]) == whole[order]).all()
    assert (
        np.concatenate([classifier.probabilities(texts[i : i + 7]) for i in range(0, len(texts), 7)]) == whole
    ).all()
    assert (classifier.probabilities([texts[0], texts[3], texts[0]]) == whole[[0, 3, 0]]).all()
    assert classifier.probabilities([]).shape == (0, 3)
    steps = np.log(whole[:, 1:] / whole[:, :1]) * GRID  # differences of logits on the grid
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-6)


def test_a_classifier_is_kept(classifier: Classifier, tmp_path: Path) -> None:
    texts = corpus(40, 3).texts
    classifier.save(tmp_path / "folder")
    again = load(tmp_path / "folder")
    assert (again.kind, list(again.classes)) == (classifier.kind, list(classifier.classes))
    assert (again.probabilities(texts) == classifier.probabilities(texts)).all()  # saving rounded both classifiers


def test_the_last_layers_alone_are_trained(tiny: FineTuning, tmp_path: Path) -> None:
    words = ["film", "the", "a", "was", "very", "song", "slow", "good", "bad", "plot"]
    settings = replace(tiny, model=str(save_word_bert(tmp_path, words, num_hidden_layers=2)), layers=1)
    trained = fine_tune(corpus(40, 0), ["bad", "good"], settings, STREAM).network.state_dict()
    before = Transformer(tmp_path, ["bad", "good"], settings).network.base_model.state_dict()
    changed = {name for name, weight in before.items() if (trained[f"bert.{name}"] != weight).any()}
    assert any(name.startswith("encoder.layer.1.") for name in changed)
    assert all(name.startswith(("encoder.layer.1.", "pooler.")) for name in changed)


def test_more_layers_than_there_are_cannot_be_trained(tiny: FineTuning) -> None:
    with refused("EPS-N021", "1"):
        fine_tune(corpus(40, 0), ["bad", "good"], replace(tiny, layers=2), STREAM)


def test_rows_are_halved_where_memory_runs_out(tiny: FineTuning, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on CUDA, computed on the processor: of other rows only last bits may differ, which the grid absorbs mostly."""
    classifier = fine_tune(corpus(40, 0), ["bad", "good"], tiny, STREAM)
    texts = corpus(50, 4).texts
    whole, sizes = classifier.probabilities(texts), []
    monkeypatch.setattr(classifier, "memory", Memory("cuda", "the model", 1 << 30))
    logits = classifier._logits

    def limited(pieces: Sequence[Sequence[int]]) -> torch.Tensor:
        if len(pieces) > 4:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        sizes.append(len(pieces))
        return logits(pieces)

    monkeypatch.setattr(classifier, "_logits", limited)
    np.testing.assert_allclose(classifier.probabilities(texts), whole, atol=2 / GRID)
    assert set(sizes) == {4}
    monkeypatch.setattr(classifier, "memory", Memory("cuda", "the model", 1))
    classifier.probabilities(texts)
    assert sizes[-1] == 1


def test_the_linear_kind_is_tf_idf_times_weights_by_hand() -> None:
    """log((1 + n) / (1 + df)) + 1 for each word, rows of length 1, and scikit-learn's two-class logit cut in halves."""
    examples = Examples(["good film", "bad film", "good good song"], ["up", "down", "up"])
    model = train("linear", examples, TINY, STREAM)
    assert isinstance(model, Linear)
    frequencies = {
        word: np.log(4 / (1 + sum(word in words(t) for t in examples.texts))) + 1 for word in model.vocabulary
    }
    np.testing.assert_allclose(model.frequencies, [*frequencies.values()])
    row = np.array([{"good": 2, "film": 1}.get(word, 0) * frequencies[word] for word in model.vocabulary])
    row /= np.linalg.norm(row)
    np.testing.assert_allclose(model.features(["Film, good good?"]).toarray()[0], row)
    logit = model.coefficients @ row + model.intercepts
    np.testing.assert_allclose(logit[0], -logit[1])
    chance = 1 / (1 + np.exp(-2 * logit[1]))
    np.testing.assert_allclose(model.probabilities(["film good good"])[0, 1], chance, atol=1 / GRID)


def test_the_best_of_several_epochs_by_validation_loss_is_restored(tiny: FineTuning) -> None:
    """Labels that are the same words' opposite in training make the loss on validation texts rise after an epoch."""
    examples, validation = corpus(64, 0), corpus(40, 1)
    wrong = Examples(validation.texts, ["bad" if label == "good" else "good" for label in validation.labels])
    settings = replace(tiny, epochs=4, decay=0.0)
    right = fine_tune(examples, ["bad", "good"], settings, STREAM, validation=validation)
    misled = fine_tune(examples, ["bad", "good"], settings, STREAM, validation=wrong)
    assert len(right.losses) == len(misled.losses) == 4
    assert min(right.losses) < right.losses[0]  # it learns
    assert min(misled.losses) == misled.losses[0] < misled.losses[-1]
    for model, texts in ((right, validation), (misled, wrong)):
        assert model._loss(texts) == min(model.losses)
    last = fine_tune(examples, ["bad", "good"], settings, STREAM)
    assert last.losses == []
    assert last._loss(wrong) == misled.losses[-1]


@pytest.mark.parametrize("kind", ["transformer", "linear"])
def test_a_class_that_only_validation_texts_have_is_refused(kind: str, tiny: FineTuning) -> None:
    examples, validation = corpus(40, 0), corpus(6, 1, classes=3)
    with refused("EPS-N019", "plot"):
        train(kind, examples, replace(tiny, epochs=2), STREAM, validation=validation)


@pytest.mark.parametrize(
    ("kind", "labels", "refusal"),
    [("forest", ["a", "b"], ("EPS-C022", "forest")), ("linear", ["a", "a"], ("EPS-N018", "2", "'a'"))],
)
def test_what_cannot_be_trained_is_refused(kind: str, labels: list[str], refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        train(kind, Examples(["one text", "another"], labels), TINY, STREAM)


@pytest.mark.parametrize("content", [None, "{}", '{"kind": "linear", "classes": ["b", "a"]}', "no json"])
def test_a_folder_without_a_classifier_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "classifier.json").write_text(content)
    with refused("EPS-N017"):
        load(tmp_path)


def test_texts_without_a_word_teach_a_linear_classifier_the_classes_shares(tmp_path: Path) -> None:
    examples = Examples(["***", "", "!", "***"], ["a", "b", "a", "a"])
    Linear.fit(examples).save(tmp_path)
    assert load(tmp_path).probabilities(["***", "a word"]) == pytest.approx(np.array([[0.75, 0.25]] * 2), abs=0.001)


# ------------------------------------------------------------------------------------------------------------ pairs


def equal_or_not(count: int, seed: int) -> Examples:
    """Pairs of texts of one word each; the label says whether it is the same word. No side alone tells anything."""
    generator = np.random.default_rng(seed)
    names = ["film", "song", "plot", "river", "stone", "cloud", "bread", "chair"]
    texts, labels = [], []
    for number in range(count):
        first, second = generator.choice(names, 2, replace=False)
        texts.append((str(first), str(second if number % 2 else first)))
        labels.append("other" if number % 2 else "same")
    return Examples(texts, labels)


@pytest.mark.parametrize("kind", ["linear", "encoder"])
def test_a_pair_is_told_by_what_its_sides_have_in_common(kind: str, tmp_path: Path) -> None:
    """By chance 170 of 200 would be right with probability below 1e-20; seed fixed."""
    train(kind, equal_or_not(400, 0), TINY, STREAM).save(tmp_path)
    classifier, test = load(tmp_path), equal_or_not(200, 1)
    probabilities = classifier.probabilities(test.texts)  # type: ignore[arg-type]
    assert np.mean([classifier.classes[i] for i in probabilities.argmax(1)] == np.array(test.labels)) > 0.85
    some = classifier.probabilities(test.texts[3:5])  # type: ignore[arg-type]
    assert (some == probabilities[3:5]).all()


def test_features_of_a_pair_by_hand() -> None:
    vectors = {"a": [1.0, 0.0], "b": [0.6, 0.8]}
    wanted = [[1, 0, 0.6, 0.8, 0.4, 0.8, 0.6, 0, 0.6]]
    np.testing.assert_allclose(features([("a", "b")], lambda texts: np.array([vectors[t] for t in texts])), wanted)
    sparse = features([("a", "b")], lambda texts: csr_array(np.array([vectors[t] for t in texts])))
    np.testing.assert_allclose(sparse.toarray(), wanted)
    assert single([("a", "b"), ("c", "d")]) == ["a", "c", "b", "d"]
    assert single(["a", "b"]) == ["a", "b"]


def test_releases_that_repeat_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted:
        def encode(self, texts: Sequence[str]) -> np.ndarray:
            assert len({*texts}) == len(texts)
            return np.array([[len(text), 1] for text in texts], np.float32)

    monkeypatch.setattr(encoder, "_encoder", Counted)
    assert encoder.features(["again", "once", "again"]).tolist() == [[5, 1], [4, 1], [5, 1]]


def test_a_transformer_reads_both_sides_of_a_pair(tiny: FineTuning) -> None:
    examples = Examples([("film", "slow song"), ("plot", "")] * 8, ["bad", "good"] * 8)
    classifier = fine_tune(examples, ["bad", "good"], tiny, STREAM)
    tokens = [classifier.tokenizer.convert_ids_to_tokens(ids) for ids in classifier.pieces(examples.texts[:2])]
    assert tokens == [["film", "slow", "song"], ["plot"]]
    assert classifier.predict(examples.texts).shape == (16,)


# ------------------------------------------------------------------------------------------------------- regression


@pytest.mark.parametrize("kind", ["linear", "encoder"])
def test_a_regression_tells_a_number_that_the_words_say(kind: str) -> None:
    """Its correlation would be above .6 by chance with probability below 1e-10 on 100 texts; seed fixed."""
    value = {"bad": 0.0, "good": 2.0, "plot": 5.0}
    learnt_from, test = corpus(300, 0, classes=3), corpus(100, 1, classes=3)
    numbers, truth = (np.array([value[label] for label in part.labels]) for part in (learnt_from, test))
    tell = regression.fit(kind, learnt_from.texts, numbers)
    guessed = tell(test.texts)
    assert np.corrcoef(guessed, truth)[0, 1] > 0.6
    assert (regression.fit(kind, learnt_from.texts, numbers)(test.texts) == guessed).all()


def test_a_regression_of_texts_without_a_word_is_their_mean() -> None:
    tell = regression.fit("linear", ["", "?!"], np.array([1.0, 4.0]))
    assert tell(["a film", ""]).tolist() == [2.5, 2.5]
