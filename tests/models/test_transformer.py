"""Classifiers fine-tuned from DeBERTa-v3, also read from its own files; test_classifier covers all kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epsilometer.auditing.worth.scoring import ClassScores, scores
from epsilometer.core.randomness import Noise
from epsilometer.models.classifier import Examples, FineTuning
from epsilometer.models.classifiers.transformer import Transformer, fine_tune
from tests.support.refusals import refused
from tests.support.tiny_deberta import PIECES, corpus, save_deberta, save_network

STREAM = Noise.named(1, "test")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_deberta(tmp_path_factory.mktemp("deberta")))


def settings(model: str, **changes: Any) -> FineTuning:
    return replace(FineTuning(model, rate=1e-2, batch=8, longest=32), **changes)


def scored(classifier: Transformer, part: Examples) -> ClassScores:
    """How well the labels of these texts are told."""
    truth = np.array([classifier.classes.index(name) for name in part.labels])
    return scores(truth, classifier.predict(part.texts), classifier.classes)


def test_nothing_is_learnt_from_texts_without_the_words_that_say_it(model: str) -> None:
    """With that word gone both classes have one law.

    Then 200 guesses are right between 61 and 139 times but for a probability below 1e-7; seed fixed.
    """

    def silent(part: Examples) -> Examples:
        return Examples([text.replace("good", "film").replace("bad", "film") for text in part.texts], part.labels)

    blind = fine_tune(silent(corpus(480)), ["positive", "negative"], settings(model), STREAM)
    assert 0.305 < scored(blind, silent(corpus(200, seed=1))).accuracy < 0.695


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
    (save_network(tmp_path) / "spm.model").write_bytes(proto.SerializeToString())
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "vocab_type": "spm"}')
    classifier = fine_tune(corpus(480), ["negative", "positive"], settings(str(tmp_path)), STREAM)
    assert classifier.pieces(["a good film"]) == [
        [1, PIECES.index("▁a"), PIECES.index("▁good"), PIECES.index("▁film"), 2]
    ]
    assert scored(classifier, corpus(100, seed=1)).macro_f1 > 0.9


def test_a_folder_without_a_tokeniser_is_refused(tmp_path: Path) -> None:
    (save_network(tmp_path) / "spm.model").write_bytes(b"no model of pieces")
    with refused("EPS-N020"):
        fine_tune(corpus(16), ["negative", "positive"], settings(str(tmp_path)), STREAM)


def test_fewer_texts_than_a_batch_are_refused_before_the_model_is_looked_for() -> None:
    with refused("EPS-N022", "7", "8"):
        fine_tune(corpus(7), ["negative", "positive"], settings("no/such-model"), STREAM)
