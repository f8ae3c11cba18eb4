"""The training of victims and attackers: which examples they hold out to choose the best of several epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from epsilometer.auditing.attributes.attackers import ADAPTIVE, AUGMENTED, FOLDED, Learned, Learners, detect, infer
from epsilometer.auditing.attributes.released import Released
from epsilometer.core.randomness import Noise
from epsilometer.models.classifier import TRANSFORMER, Classifier, Examples
from epsilometer.models.classifiers.linear import Linear
from epsilometer.studies.anonymity import victims
from epsilometer.studies.anonymity.params import Training
from tests.support.marked import rewritten, swapped, texts
from tests.support.refusals import refused

TRAINING, TEST = rewritten(texts(200, 5_000), swapped), rewritten(texts(40, 0), swapped)


def params(epochs: int = 3, kinds: Sequence[str] = ("linear", "transformer")) -> Any:
    """As much of the parameters as classifiers are trained by."""
    training = Training(epochs=epochs, batch=8)
    return SimpleNamespace(
        classification=SimpleNamespace(training=training, kinds=kinds),
        audit=SimpleNamespace(seed=0),
        path=lambda name: name,
    )


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Examples, Examples | None]]:
    """The kind, the examples and the validation texts of what was trained, in their order."""
    every: list[tuple[str, Examples, Examples | None]] = []

    def train(kind: str, examples: Examples, *rest: Any, validation: Examples | None) -> Classifier:
        every.append((kind, examples, validation))
        return Linear.fit(examples)

    monkeypatch.setattr(victims, "train", train)
    return every


Trainings = list[tuple[str, Examples, Examples | None]]


def learn(kind: str, examples: Examples, epochs: int = 3) -> Classifier:
    return victims.trained(params(epochs), "songs", "gender", kind, seed=0, examples=examples)


def test_only_what_has_epochs_to_choose_among_holds_texts_out(learned: Trainings) -> None:
    examples = TRAINING.clean("gender")
    learn("linear", examples)
    learn("encoder", examples)
    learn("transformer", examples, epochs=1)
    assert [(own, held) for _, own, held in learned] == 3 * [(examples, None)]
    learn("transformer", examples)
    _, own, held = learned[-1]
    assert held is not None
    assert (len(own), len(held)) == (180, 20)
    assert {*own.texts} | {*held.texts} == {*examples.texts}


def test_no_class_is_held_out_whole(learned: Trainings) -> None:
    """Every tenth example, of which the first is one, had the only one of its class."""
    examples = TRAINING.clean("gender")
    rare = replace(examples, labels=["rare", *examples.labels[1:10], "second", *examples.labels[11:]])
    assert learn("transformer", rare).classes == ["f", "m", "rare", "second"]


@pytest.mark.parametrize("authors", [None, 50])
def test_what_a_held_out_text_belongs_to_is_held_out_with_it(learned: Trainings, authors: int | None) -> None:
    """Its rewrite, and the texts of its author: the room number is the same in a text and its rewrite."""
    training = rewritten(texts(200, 5_000, groups=authors), swapped)
    clean = training.clean("gender")
    static = Learned(Linear.fit(clean), clean)
    request, noise = Learners((ADAPTIVE, AUGMENTED, FOLDED), ()), Noise.named(1, "attack")
    of_kind = partial(learn, TRANSFORMER)
    list(infer(training, TEST, "gender", static, learn=of_kind, request=request, noise=noise))
    detect(training, TEST, of_kind, seed=0, noise=noise)
    alone = 180 if authors is None else 176  # three authors of four texts come nearest to a tenth of a class
    assert [len(own) for _, own, _ in learned] == [2 * alone, 2 * alone, alone, 360]
    author_of = dict(zip(map(room, training.originals), training.groups or map(room, training.originals), strict=True))
    for _, own, held in learned:
        assert held is not None
        assert not {author_of[room(str(text))] for text in own.texts} & {
            author_of[room(str(text))] for text in held.texts
        }
        assert {*held.labels} == {*own.labels}


def room(text: str) -> str:
    return text.split()[3]


def test_equal_rewrites_of_different_texts_are_no_group(learned: Trainings) -> None:
    """Else nothing could be held out of a constant text."""
    training = Released(TRAINING.originals, ["a text"] * len(TRAINING), TRAINING.labels)
    clean = training.clean("gender")
    static, noise = Learned(Linear.fit(clean), clean), Noise.named(1, "attack")
    request = Learners((ADAPTIVE,), ())
    list(infer(training, TEST, "gender", static, learn=partial(learn, TRANSFORMER), request=request, noise=noise))
    assert [len(own) for _, own, _ in learned] == [180]


def test_examples_of_which_none_can_be_held_out_are_refused(learned: Trainings) -> None:
    alone = replace(TRAINING.clean("gender"), groups=["an author"] * len(TRAINING))
    for examples, leaves in ((alone, "200 to train on"), (TRAINING.clean("gender").take([*range(8)]), "8 to train on")):
        with refused("EPS-S048", "3", "gender", str(leaves)):
            learn("transformer", examples)
        victims.check_divided(params(kinds=["linear"]), "gender", examples)
    assert not learned
