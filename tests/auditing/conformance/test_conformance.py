"""Conformance tests: shipped components pass them, those that are broken on purpose do not.

Each statistical rule fails a sound component with probability of at most 1e-6, on a fixed seed.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from epsilometer.attacks.identification.length import LengthAttack
from epsilometer.attacks.identification.lexical import LexicalAttack
from epsilometer.attacks.identification.likelihood import LikelihoodAttack
from epsilometer.auditing.conformance.attack import check_attack
from epsilometer.auditing.conformance.mechanism import check_mechanism
from epsilometer.auditing.conformance.metric import check_metric
from epsilometer.auditing.conformance.rules import TEXTS, Check
from epsilometer.auditing.text_audit import as_mechanism
from epsilometer.core.attack import ByScore, Context
from epsilometer.core.component import find, shipped
from epsilometer.core.mechanism import FunctionMechanism, Rewrites, has_budget
from epsilometer.core.outcomes import NOTHING, Outcomes
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.controls.identity import Identity
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse
from epsilometer.mechanisms.words.shared.embedded import vectors
from epsilometer.mechanisms.words.tem import TEM
from epsilometer.metrics.bleu import Bleu
from tests.support.broken.halved import Halved
from tests.support.broken.noise_reused import NoiseReused
from tests.support.broken.rare_words_pass import RareWordsPass


def failed(checks: Sequence[Check]) -> list[str]:
    return [check.rule for check in checks if check.problem is not None]


def test_sound_components_pass() -> None:
    assert failed(check_mechanism(Identity(), None)) == []
    assert failed(check_mechanism(RandomizedResponse(resource=TEXTS), 2.0)) == []
    for attack in (LengthAttack(), LexicalAttack(), LikelihoodAttack()):
        assert failed(check_attack(attack)) == []
    assert failed(check_metric(Bleu())) == []


def goes_without_settings(name: str) -> bool:
    """Whether a mechanism needs nothing that only its user has: auxiliaries, a translation model, an endpoint."""
    definition = find("mechanisms", name, "rewrite")
    defaults = {"resource"} if hasattr(definition, "default_resource") or hasattr(definition, "among_texts") else set()
    needed = {n for n, p in inspect.signature(definition).parameters.items() if p.default is p.empty}
    return needed <= defaults


SMALL = {"privrewrite": {"k": 3, "max_new_tokens": 8}}  # every rule, on shorter candidates


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(filter(goes_without_settings, shipped("mechanisms"))))
def test_shipped_mechanisms_pass(name: str) -> None:
    mechanism = as_mechanism(name, SMALL.get(name, {}), TEXTS)
    assert failed(check_mechanism(mechanism, 1.0 if has_budget(mechanism) else None)) == []


@pytest.mark.parametrize("broken", [Halved, RareWordsPass])
def test_a_law_that_is_not_drawn_from_is_caught(broken: type[RandomizedResponse]) -> None:
    assert "rewrite draws from laws" in failed(check_mechanism(broken(resource=TEXTS), 1.0))


class ShowsLayout(TEM):
    """Says that the text is a function of the drawn words alone, and keeps the source's layout."""

    @property
    def text_is_units(self) -> bool:
        return True


@pytest.mark.slow
def test_a_text_that_shows_more_than_it_says_is_caught() -> None:
    rule = "write gives the text that is released for given units"
    texts = ["A good day!", "a bad day", "a bad, bad night"]
    assert rule in failed(check_mechanism(ShowsLayout(resource=vectors(), layout="kept"), 5.0, texts))
    assert rule not in failed(check_mechanism(ShowsLayout(resource=vectors()), 5.0, texts))


def test_one_noise_for_all_words_is_caught() -> None:
    rules = failed(check_mechanism(NoiseReused(), 1.0, ["yes no", "yes", "no no yes"]))
    assert "the parts of a text have noise of their own" in rules
    assert "a claim for parts of a text says how far texts are apart" in rules


def test_a_global_generator_is_caught() -> None:
    rng = np.random.default_rng(0)
    rules = failed(check_mechanism(FunctionMechanism(lambda text, epsilon, own: f"{rng.random()}"), 1.0))
    assert "the same noise gives the same rewrites" in rules


class Leading(RandomizedResponse):
    """Draws for the whole batch by the first text's stream."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return super().rewrite(texts, epsilon, noise[np.zeros(len(texts), np.int64)])


def test_what_depends_on_the_batch_is_caught() -> None:
    rules = failed(check_mechanism(Leading(resource=TEXTS), 1.0))
    assert "a rewrite depends on its own text and noise alone, whatever else is in the batch" in rules


class First:
    """Names the first candidate."""

    def guess(self, rewrites: Rewrites, candidates: np.ndarray, context: Context) -> np.ndarray:
        return np.zeros(len(candidates), np.int16)


def test_counts_of_the_batch_are_caught() -> None:
    class Counts:
        """Counts a question that several texts ask for the first of them alone."""

        has_budget = False

        def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
            zeros = np.zeros(len(texts), np.int64)
            questions = np.array([text not in texts[:i] for i, text in enumerate(texts)]).astype(np.int64)
            return Rewrites(list(texts), outcomes=Outcomes([NOTHING] * len(texts), zeros, zeros, questions, zeros))

        def guarantee(self, epsilon: float) -> None:
            return None

    assert failed(check_mechanism(Counts(), None)) == [
        "a rewrite depends on its own text and noise alone, whatever else is in the batch"
    ]


def test_an_attack_by_position_is_caught() -> None:
    assert failed(check_attack(First())) == ["it looks at neither the targets nor the order of the candidates"]


def test_a_metric_of_the_batch_is_caught() -> None:
    class Ranks:
        def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> np.ndarray:
            return np.arange(len(originals), dtype=np.float64)

    assert "a number depends on its own pair alone" in failed(check_metric(Ranks()))


class Verbatim(RandomizedResponse):
    """Draws from its law, and releases the text all the same."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return replace(super().rewrite(texts, epsilon, noise), texts=list(texts))


class Marked(RandomizedResponse):
    """Marks what it made of one of its texts."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        rewrites = super().rewrite(texts, epsilon, noise)
        marked = [release + "." * (text == TEXTS[0]) for release, text in zip(rewrites.texts, texts, strict=True)]
        return replace(rewrites, texts=marked)


@pytest.mark.parametrize("broken", [Verbatim, Marked])
def test_a_released_text_that_is_not_its_units_is_caught(broken: type[RandomizedResponse]) -> None:
    rule = "the released text and its units determine each other"
    assert failed(check_mechanism(broken(resource=TEXTS), 1.0)) == [rule]


class Scaled(RandomizedResponse):
    """Claims the same between any two texts, and calls some of them far apart."""

    far = 3.0

    def distance(self, texts: Sequence[str], pairs: np.ndarray[Any, Any], epsilon: float) -> np.ndarray[Any, Any]:
        apart = np.array([float(texts[i] != texts[j]) for i, j in pairs.tolist()])
        return np.where((pairs == 0).any(axis=1) & (apart > 0), self.far, apart)


class Silent(Scaled):
    far = math.inf


class Agreeing(Scaled):
    far = 1.0


@pytest.mark.parametrize(("kind", "caught"), [(Scaled, True), (Silent, True), (Agreeing, False)])
def test_a_distance_that_scales_a_claim_between_any_two_texts_is_caught(kind: type[Scaled], caught: bool) -> None:
    rules = failed(check_mechanism(kind(resource=TEXTS), 1.0))
    assert rules == ["distance does not scale a claim between any two texts"] * caught


def test_an_attack_that_names_the_farthest_is_caught() -> None:
    class Distance(ByScore):
        def score_grid(self, rewrites, candidates, contexts):  # type: ignore[no-untyped-def]
            return [
                np.array(
                    [[context.texts[i] != text for i in row] for text, row in zip(of.texts, candidates, strict=True)],
                    float,
                )
                for of, context in zip(rewrites, contexts, strict=True)
            ]

    assert failed(check_attack(Distance())) == ["it does no worse than chance on texts that are released unchanged"]
