"""Attackers on rewrites whose possible inferences are known, and attackers that are broken on purpose.

Seeds are fixed. Calling a true claim violated, or finding a loss above epsilon, has probability at most ALPHA each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.auditing.attributes.attackers import (
    ADAPTIVE,
    AUGMENTED,
    AUTHOR,
    CLEAN,
    DETECTOR,
    FOLDED,
    RELABELLED,
    STATIC,
    Learned,
    Learners,
    ask,
    infer,
)
from epsilometer.auditing.attributes.attribute_loss import NOTHING_CLAIMED, Claimed, even_trials, rows
from epsilometer.auditing.attributes.released import Released, check_apart, check_unseen
from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_REFUTED, NOT_TESTABLE, VIOLATED
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.core.randomness import Noise
from epsilometer.models.classifier import Classifier, Examples
from tests.support.broken.never_retrained import NeverRetrained
from tests.support.marked import attack, constant, fit, rewritten, swapped, texts
from tests.support.refusals import refused

ALPHA = 0.01
TRAINING, TEST = texts(400, 5_000), texts(400, 0)
CEILING = estimate(400, 400, 2, ALPHA).loss
OF_ONE_TEXT = (STATIC, RELABELLED, AUGMENTED, FOLDED, ADAPTIVE)


def measured(
    rewrite: Callable[[str], str],
    claimed: Claimed = NOTHING_CLAIMED,
    parts: tuple[Released, Released] = (TRAINING, TEST),
) -> dict[str, Mapping[str, Any]]:
    """The rows by attacker; of the author that of most texts."""
    return _by_attacker(*(rewritten(part, rewrite) for part in parts), claimed=claimed)


def _by_attacker(
    training: Released, test: Released, claimed: Claimed = NOTHING_CLAIMED
) -> dict[str, Mapping[str, Any]]:
    table = rows(attack(training, test), test.groups, claimed, alpha=ALPHA, noise=Noise.named(1, "trials"))
    return {row["attacker"]: row for row in table}


def test_identity_gives_away_what_clean_texts_do() -> None:
    by_attacker = measured(lambda text: text)
    assert by_attacker[CLEAN]["loss"] == CEILING
    for name in (STATIC, ADAPTIVE, RELABELLED):
        assert by_attacker[name]["loss"] == CEILING
    assert by_attacker[ADAPTIVE]["training"] == by_attacker[STATIC]["training"] != by_attacker[AUGMENTED]["training"]
    assert by_attacker[DETECTOR]["loss"] == 0


def test_nobody_learns_anything_from_a_constant_text() -> None:
    by_attacker = measured(constant)
    assert {by_attacker[name]["loss"] for name in (*OF_ONE_TEXT, AUTHOR, "strongest")} == {0.0}
    assert {by_attacker[name]["balanced_accuracy"] for name in OF_ONE_TEXT} == {0.5}
    assert by_attacker[DETECTOR]["loss"] > 4  # a detector easily sees that people do not write such texts


def test_a_swapped_marker_word_hides_from_the_static_attacker_alone() -> None:
    by_attacker = measured(swapped)
    assert (by_attacker[STATIC]["loss"], by_attacker[STATIC]["accuracy"]) == (0, 0)
    assert by_attacker[ADAPTIVE]["loss"] == by_attacker[RELABELLED]["loss"] == CEILING
    assert by_attacker["strongest"]["best_attacker"] in (ADAPTIVE, RELABELLED)
    assert by_attacker["strongest"]["loss"] == estimate(400, 400, 2, ALPHA / len(OF_ONE_TEXT)).loss
    assert by_attacker[DETECTOR]["loss"] == 0  # swapped texts look like texts of other authors
    assert {row["verdict"] for row in by_attacker.values()} == {NO_CLAIM}


class FirstWord:
    """Says of a text that it is of class f with the probability that its first word is."""

    kind, classes = "linear", ("f", "m")

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        chances = np.array([float(text.split()[0]) for text in texts])
        return np.stack([chances, 1 - chances], axis=1)

    def save(self, folder: Path) -> None:
        raise NotImplementedError


def test_flips_are_undone_where_the_static_attacker_learned_other_shares_of_classes() -> None:
    """It learned from nine texts of f to one of m: .8 is then an answer m, .95 an answer f, and both are wrong."""
    static = Learned(FirstWord(), Examples(["x"] * 10, ["f"] * 9 + ["m"]))

    def part(name: str) -> Released:
        genders = ["f", "m"] * 20
        rewrites = [f"{'.80' if gender == 'f' else '.95'} {name} {i}" for i, gender in enumerate(genders)]
        return Released([f".5 {name} {i}" for i in range(40)], rewrites, {"gender": genders})

    inferred = infer(
        part("training"),
        part("test"),
        "gender",
        static,
        learn=fit,
        request=Learners((STATIC, RELABELLED), ()),
        noise=Noise.named(1, "attack"),
    )
    right = {each.attacker: (each.even_guesses == each.truth).mean() for each in inferred}
    assert (right[STATIC], right[RELABELLED]) == (0, 1)


def test_balanced_accuracy_is_of_guesses_where_classes_are_as_common() -> None:
    """Of nine texts of f to one of m all look likelier of f, and those of m less so than its share: both are told."""
    static = Learned(FirstWord(), Examples(["x"] * 10, ["f"] * 9 + ["m"]))
    genders = ["f"] * 90 + ["m"] * 10
    originals = [f"{'.95' if gender == 'f' else '.80'} {i}" for i, gender in enumerate(genders)]
    test = Released(originals, originals, {"gender": genders})
    training = Released(["1 a", "0 b"], ["1 a", "0 b"], {"gender": ["f", "m"]})
    request, noise = Learners((STATIC, RELABELLED), ()), Noise.named(1, "attack")
    inferred = [*infer(training, test, "gender", static, learn=fit, request=request, noise=noise)]
    for row in rows(inferred, None, NOTHING_CLAIMED, alpha=ALPHA, noise=Noise.named(1, "trials")):
        assert row["balanced_accuracy"] == 1
        if row["attacker"] in (CLEAN, STATIC):
            assert row["accuracy"] == row["majority"] == 0.9  # it guesses the more frequent class for every text


def test_bugs_that_training_rewrites_lack_hide_from_all_but_who_folds_them_back() -> None:
    def bugged(text: str) -> str:  # numbers reveal genders, too
        without_numbers = "".join(letter for letter in text if not letter.isdigit())
        return without_numbers.replace("madam", "mad am").replace("sir", "s\u0456r")

    by_attacker = _by_attacker(TRAINING, rewritten(TEST, bugged))
    assert by_attacker[FOLDED]["loss"] == CEILING
    assert {by_attacker[name]["loss"] for name in (STATIC, AUGMENTED, ADAPTIVE, RELABELLED)} == {0.0}
    assert by_attacker["strongest"]["best_attacker"] == FOLDED


def answer(epsilon: float, classes: tuple[str, ...] = ("madam", "sir")) -> Callable[[str], str]:
    """Randomised response on the marker word alone: epsilon-differentially private for documents."""
    rng = np.random.default_rng(0)

    def rewrite(text: str) -> str:
        truth = rng.random() < math.exp(epsilon) / (math.exp(epsilon) + 1)
        return classes["sir" in text.split()] if truth else classes["sir" not in text.split()]

    return rewrite


def claim(epsilon: float) -> Claimed:
    return Claimed(f"{epsilon} per document", lambda pairs: np.full(len(pairs), epsilon))


def test_what_is_private_for_documents_loses_at_most_epsilon() -> None:
    by_attacker = measured(answer(1.0), claim(1.0))
    for name in (*OF_ONE_TEXT, "strongest"):
        assert 0.5 < by_attacker[name]["point"] < 1.5
        assert by_attacker[name]["loss"] <= 1.0
        assert by_attacker[name]["verdict"] == NOT_REFUTED
        assert by_attacker[name]["expected"] == pytest.approx(400 * math.e / (math.e + 1))
    assert by_attacker[CLEAN]["verdict"] == by_attacker[DETECTOR]["verdict"] == NO_CLAIM


def test_a_claim_that_does_not_hold_is_violated() -> None:
    by_attacker = measured(answer(2.0), claim(1.0))
    assert {by_attacker[name]["verdict"] for name in (*OF_ONE_TEXT, "strongest")} == {VIOLATED}


def test_no_claim_lowers_the_loss() -> None:
    """Deltas of an author's texts add up to more than 1: the claim allows everything, and the loss is what it is."""
    parts = texts(400, 5_000, groups=80), texts(800, 0, groups=160)
    claimed = Claimed("1 with delta 0.4", lambda pairs: np.full(len(pairs), 1.0), 0.4)
    without, with_delta = measured(lambda text: text, parts=parts), measured(lambda text: text, claimed, parts)
    for name in (STATIC, AUTHOR):
        assert with_delta[name]["loss"] == without[name]["loss"] > 3
    assert with_delta[AUTHOR]["verdict"] == NOT_TESTABLE
    assert with_delta[STATIC]["verdict"] == VIOLATED  # all are right, and (e + 0.4) / (e + 1) = 84 % are allowed


def test_texts_of_one_author_add_up_and_so_do_their_claims() -> None:
    parts = texts(400, 5_000, groups=80), texts(800, 0, groups=160)
    by_attacker = measured(answer(1.0), claim(1.0), parts)
    assert by_attacker[AUTHOR]["texts_each"] == 5  # no author has 20
    assert by_attacker[AUTHOR]["point"] > by_attacker[ADAPTIVE]["point"] + 0.5
    five = math.exp(5)
    assert by_attacker[AUTHOR]["expected"] == pytest.approx(by_attacker[AUTHOR]["trials"] * five / (five + 1))
    assert by_attacker[AUTHOR]["verdict"] == NOT_TESTABLE  # 160 right guesses would not refute 5 nats
    assert measured(answer(4.0), claim(0.5), parts)[AUTHOR]["verdict"] == VIOLATED


def test_trials_have_equal_numbers_of_every_class() -> None:
    truth = np.repeat([0, 1, 2], [50, 7, 20])
    trials = even_trials(truth, 3, Noise.named(1, "even"))
    assert trials.shape == (7, 3)
    assert (truth[trials] == [0, 1, 2]).all()
    assert len(np.unique(trials)) == 21


def test_groups_widen_the_interval_of_a_loss() -> None:
    alone, of_authors = measured(answer(1.0)), measured(answer(1.0), parts=(TRAINING, texts(400, 0, groups=4)))
    assert of_authors[STATIC]["loss"] <= alone[STATIC]["loss"]
    assert of_authors[STATIC]["successes"] == alone[STATIC]["successes"]


def test_an_attacker_that_is_not_trained_again_is_caught() -> None:
    broken = NeverRetrained(fit, TRAINING.clean("gender"))
    with refused("EPS-S008"):
        attack(rewritten(TRAINING, swapped), rewritten(TEST, swapped), learn=broken)


@pytest.mark.parametrize("name", [ADAPTIVE, AUGMENTED, FOLDED])
def test_an_attacker_that_learned_other_classes_is_caught(name: str) -> None:
    """Its numbers would stand for other classes."""
    first, other = TRAINING.take(np.arange(300)), TRAINING.take(np.arange(300, 400))
    more = replace(first.clean("gender"), labels=["a", *first.clean("gender").labels[1:]])
    static, lacking = Learned(fit(more), more), rewritten(other, swapped)
    labels = {"gender": ["a", *(TEST.labels["gender"][1:])]}
    test = rewritten(Released(TEST.originals, TEST.rewrites, labels), swapped)
    request, noise = Learners((name,), ()), Noise.named(1, "attack")

    def without_a(examples: Examples) -> Classifier:
        rows = [i for i, label in enumerate(examples.labels) if label != "a"]
        return fit(Examples([examples.texts[i] for i in rows], [examples.labels[i] for i in rows]))

    with refused("EPS-S007", "f", "m", "a"):
        list(infer(lacking, test, "gender", static, learn=without_a, request=request, noise=noise))


def test_attackers_that_saw_a_test_text_are_caught() -> None:
    spaced = Released([f" {TEST.originals[3]}\n"], ["other"], {"gender": ["m"], "rating": ["bad"]})
    with refused("EPS-S042", "1"):
        check_apart(spaced, TEST)
    with refused("EPS-S042", "2"):
        attack(TEST.take(np.arange(1, 3)), TEST)


def test_auxiliaries_that_saw_a_test_text_are_caught() -> None:
    check_unseen(["a", "b"], ["c"], "auxiliaries")
    with refused("EPS-S043", "1", "2"):
        check_unseen(["a", "b"], ["b", "c"], "auxiliaries")


def test_an_author_in_two_parts_is_caught() -> None:
    first, other = texts(8, 0, groups=4), texts(8, 100, groups=4)
    check_apart(first, other)
    shared = Released(other.originals, other.rewrites, other.labels, groups=[*(first.groups or ())])
    with refused("EPS-S042", "4"):
        check_apart(first, shared)


class Model:
    """Names the class second, or nothing that can be used."""

    def infer(self, texts: list[str], label: str, classes: list[str]) -> list[list[str]]:
        return [["x", "m", "f"] if i % 4 else ["none of these"] for i, _ in enumerate(texts)]


def test_unusable_answers_of_a_language_model_are_wrong_and_counted() -> None:
    inferred = ask(Model(), "a model", TEST, "gender", classes=["f", "m"])
    row = rows([inferred], None, NOTHING_CLAIMED, alpha=ALPHA, noise=Noise.named(1, "trials"))[0]
    assert (row["unusable"], row["accuracy"], row["top_3"]) == (0.25, 0.5, 0.75)
    assert (row["training"], row["trained_on"], row["kind"]) == (None, 0, "a model")
