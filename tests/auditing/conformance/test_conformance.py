"""Conformance tests: shipped components pass them, and components that are broken on purpose do not.

Seeds are fixed. Each statistical rule fails a correct component with probability at most 1e-6.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator, Sequence
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
from epsilometer.core.laws import Laws
from epsilometer.core.mechanism import FunctionMechanism, Rewrites, has_budget
from epsilometer.core.outcomes import NOTHING, Outcomes
from epsilometer.core.ragged import Ragged
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


SMALL = {
    "privrewrite": {"k": 3, "max_new_tokens": 8},
    "privfill": {"max_new_tokens": 2},
}  # every rule, on shorter rewrites


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(filter(goes_without_settings, shipped("mechanisms"))))
def test_shipped_mechanisms_pass(name: str) -> None:
    mechanism = as_mechanism(name, SMALL.get(name, {}), TEXTS)
    assert failed(check_mechanism(mechanism, 1.0 if has_budget(mechanism) else None)) == []


@pytest.mark.parametrize("broken", [Halved, RareWordsPass])
def test_a_law_that_is_not_drawn_from_is_caught(broken: type[RandomizedResponse]) -> None:
    assert "rewrite draws from laws" in failed(check_mechanism(broken(resource=TEXTS), 1.0))


class PermuteAndFlip(RandomizedResponse):
    """States the law of the exponential mechanism, by the distance of numbers, and draws by permute-and-flip."""

    def _scores(self, texts: Sequence[str]) -> np.ndarray:
        numbers = np.array([TEXTS.index(text) for text in texts])
        return -np.abs(np.subtract.outer(numbers, np.arange(len(TEXTS)))) / len(TEXTS)

    def laws(self, texts: Sequence[str]) -> Laws:
        scores = self._scores(TEXTS)

        def log_probabilities(rows: np.ndarray, epsilons: Sequence[float]) -> Iterator[np.ndarray]:
            for epsilon in epsilons:
                weights = epsilon / 2 * scores[rows]
                yield weights - np.logaddexp.reduce(weights, axis=1, keepdims=True)

        return Laws(Ragged.single(np.array([TEXTS.index(text) for text in texts])), len(TEXTS), log_probabilities)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        keep = np.exp(epsilon / 2 * (self._scores(texts) - self._scores(texts).max(axis=1, keepdims=True)))
        uniforms = noise.uniforms(2 * len(TEXTS))
        order = uniforms[:, : len(TEXTS)].argsort(axis=1)
        heads = np.take_along_axis(uniforms[:, len(TEXTS) :] < keep, order, axis=1)
        numbers = order[np.arange(len(texts)), heads.argmax(axis=1)]
        return Rewrites([TEXTS[i] for i in numbers], Ragged.single(numbers))


class Tilted(RandomizedResponse):
    """States a law and draws from another one: in a share of the draws it releases the list's first text."""

    share: float = 0.0

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        leaks = noise.uniforms(1, first=50)[:, 0] < self.share
        units = super().rewrite(texts, epsilon, noise).units
        assert units is not None
        numbers = np.where(leaks, 0, units.values)
        return Rewrites([TEXTS[i] for i in numbers], Ragged.single(numbers))


LAWS = "rewrite draws from laws"


@pytest.mark.parametrize(("share", "caught"), [(0.001, False), (0.3, True)])
def test_what_a_comparison_with_a_law_may_miss_is_said(share: float, caught: bool) -> None:
    mechanism = Tilted(resource=TEXTS)
    object.__setattr__(mechanism, "share", share)
    (check,) = (check for check in check_mechanism(mechanism, 1.0) if check.rule == LAWS)
    assert (check.problem is not None) == caught
    if not caught:
        assert check.remark is not None
        assert float(re.findall(r"a departure of ([.\d]+)", check.remark)[0]) > share


def test_a_sampler_close_to_its_law_at_one_budget_is_caught_at_a_larger_one() -> None:
    """Permute-and-flip up to epsilon 1 departs from the exponential mechanism by less than 4,000 draws show."""
    mechanism = PermuteAndFlip(resource=TEXTS)
    assert LAWS not in failed(check_mechanism(mechanism, 0.25))  # checked also at .5 and 1
    assert LAWS in failed(check_mechanism(mechanism, 1.0))  # fails at 2 or 4


class OnlyRepeats:
    """Keeps the text unless the batch repeats one: an audit sees a constant."""

    has_budget = False

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return Rewrites(["nothing"] * len(texts) if len({*texts}) < len(texts) else list(texts))

    def guarantee(self, epsilon: float) -> None:
        return None


class OnlySeeds(OnlyRepeats):
    """Keeps the text unless the noise has a seed."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return Rewrites(["nothing"] * len(texts) if noise.key is not None else list(texts))


@pytest.mark.parametrize("broken", [OnlyRepeats, OnlySeeds])
def test_what_knows_an_audit_is_caught(broken: type[OnlyRepeats]) -> None:
    rule = "a publication's batches of distinct texts have the distribution of repeated texts under a seed"
    assert rule in failed(check_mechanism(broken(), None))


@pytest.mark.parametrize(("mechanism", "kind"), [("identity", "identity"), ("constant", "constant")])
def test_a_mechanism_without_a_claim_that_draws_nothing_is_named(mechanism: str, kind: str) -> None:
    checks = check_mechanism(as_mechanism(mechanism, None, TEXTS), None)
    assert any(kind in (check.remark or "") for check in checks)


class ShowsLayout(TEM):
    """Says that the text is a function of the drawn words alone, and keeps the source's layout."""

    @property
    def text_is_units(self) -> bool:
        return True


@pytest.mark.slow
def test_a_text_that_shows_more_than_it_says_is_caught() -> None:
    rule = "write returns the released text of given units"
    texts = ["A good day!", "a bad day", "a bad, bad night"]
    assert rule in failed(check_mechanism(ShowsLayout(resource=vectors(), layout="kept"), 5.0, texts))
    assert rule not in failed(check_mechanism(ShowsLayout(resource=vectors()), 5.0, texts))


def test_one_noise_for_all_words_is_caught() -> None:
    rules = failed(check_mechanism(NoiseReused(), 1.0, ["yes no", "yes", "no no yes"]))
    assert "each part of a text has separate noise" in rules
    assert "a claim for parts of a text has a distance between texts" in rules


def test_a_global_generator_is_caught() -> None:
    rng = np.random.default_rng(0)
    rules = failed(check_mechanism(FunctionMechanism(lambda text, epsilon, own: f"{rng.random()}"), 1.0))
    assert "equal noise gives equal rewrites" in rules


class Leading(RandomizedResponse):
    """Draws for the whole batch by the first text's stream."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return super().rewrite(texts, epsilon, noise[np.zeros(len(texts), np.int64)])


def test_what_depends_on_the_batch_is_caught() -> None:
    rules = failed(check_mechanism(Leading(resource=TEXTS), 1.0))
    assert "each rewrite depends on its own text and noise alone, not on the rest of the batch" in rules


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
        "each rewrite depends on its own text and noise alone, not on the rest of the batch"
    ]


def test_an_attack_by_position_is_caught() -> None:
    assert failed(check_attack(First())) == ["guesses use neither the targets nor the order of the candidates"]


def test_a_metric_of_the_batch_is_caught() -> None:
    class Ranks:
        def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> np.ndarray:
            return np.arange(len(originals), dtype=np.float64)

    assert "each number depends on its own pair alone" in failed(check_metric(Ranks()))


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

    assert failed(check_attack(Distance())) == ["guesses are no worse than chance on texts that are released unchanged"]
