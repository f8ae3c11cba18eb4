"""Membership attacks, on models of known law and compared with slow loops."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from epsilometer.core.component import build, find, names
from epsilometer.core.randomness import Noise
from epsilometer.models.embedded import masked_lm
from epsilometer.models.fill_mask import FillMask
from epsilometer.models.locate import ENCODER
from epsilometer.studies.training.attacks.membership import rmia
from epsilometer.studies.training.attacks.membership.lira import LiRA, moments
from epsilometer.studies.training.attacks.membership.neighbours import (
    OF_SPANS,
    OF_WORDS,
    NeighbouringTexts,
    one_word,
    respanned,
    spans,
)
from epsilometer.studies.training.attacks.membership.population import Population
from epsilometer.studies.training.attacks.membership.reference import Reference
from epsilometer.studies.training.attacks.membership.rmia import RMIA
from epsilometer.studies.training.attacks.membership.shadow import Shadow
from epsilometer.studies.training.membership import MembershipAttack, log_odds, losses
from epsilometer.studies.training.params import MEMBERSHIP
from epsilometer.studies.training.results.rates import MembershipScores, area
from tests.support.membership import Toy, evidence, log_probabilities, toy
from tests.support.refusals import refused
from tests.support.sparing import first

COMPARING = ["lira", "reference", "rmia", "shadow"]


def attack(name: str, **settings: object) -> MembershipAttack:
    built: MembershipAttack = build(find(MEMBERSHIP, name, "score"), settings, name)
    return built


def area_of(attack: MembershipAttack, of: Toy) -> float:
    return area(MembershipScores.of(attack.score(of.evidence)[0], of.inside), 0.01).value


def test_all_are_there() -> None:
    assert names(MEMBERSHIP) == ["lira", "neighbours", "population", "reference", "rmia", "shadow"]


@pytest.mark.parametrize("name", first(2, ["lira", "population", "rmia", "shadow"]))
def test_the_area_is_that_of_the_law(name: str) -> None:
    """Examples alike, 4,000 of them: the threshold is the best attack. 5 standard errors are .045: chance 1e-6."""
    of = toy(4000, 64, shift=1.0, spread=0.0)
    loss = 0.01 if name in ("lira", "shadow") else 0.0  # these attacks learn the law only approximately
    assert area_of(attack(name), of) == pytest.approx(norm.cdf(1 / math.sqrt(2)) - loss, abs=0.045)


@pytest.mark.parametrize(("references", "settings"), [(16, {}), (128, {}), (16, {"online": False})])
def test_lira_is_near_the_ideal_where_examples_differ(references: int, settings: dict[str, bool]) -> None:
    """Means of 8 models have a variance of 1/8 beside that of the target, 1: Phi(1 / sqrt(2.25)) = .748, not .760.

    A threshold without references has Phi(1 / sqrt(2 (1 + 9))) = .588. 4,000 examples, 5 standard errors: .045.
    """
    of = toy(4000, references, shift=1.0, spread=3.0)
    noisy = norm.cdf(1 / math.sqrt(2 * (1 + 2 / references)))
    assert area_of(LiRA(**settings), of) == pytest.approx(noisy, abs=0.045)
    assert area_of(Population(), of) == pytest.approx(norm.cdf(1 / math.sqrt(20)), abs=0.045)


def test_lira_has_variances_of_its_own_from_64_shadows_on() -> None:
    rng = np.random.default_rng(1)
    phi, which = rng.normal(0, [0.1, 5.0], (64, 2)), np.ones((64, 2), bool)
    which[0, 0] = False
    mean, own = moments(phi, which, single=False)
    assert own == pytest.approx([phi[1:, 0].var(ddof=1), phi[:, 1].var(ddof=1)])
    assert mean == pytest.approx([phi[1:, 0].mean(), phi[:, 1].mean()])
    _, of_single = moments(phi, which, single=True)
    assert of_single == pytest.approx([(62 * own[0] + 63 * own[1]) / 125] * 2)
    # Of two equal deviations, that of the example with smaller variance has at least the same weight in the scores.
    target, inside = np.array([[1.0, 1.0]]), np.arange(64)[:, None] % 2 == [[0, 0]]
    single = LiRA(online=False).score(evidence(target, phi[:63], inside[:63]))[0]
    own_scores = LiRA(online=False).score(evidence(target, phi, inside))[0]
    assert own_scores[0] > 5 * own_scores[1]
    assert single[0] < 2 * single[1] + 1


def slow_rmia(target: NDArray[np.float64], outside: list[list[float]], a: float, gamma: float) -> list[float]:
    """By the double loop over examples and population, with exact fractions of integers."""
    n = len(target)
    ratio = [target[x] / ((1 + a) / 2 * sum(outside[x]) / len(outside[x]) + (1 - a) / 2) for x in range(n)]
    return [sum(ratio[x] / ratio[z] >= gamma for z in range(n) if z != x) / (n - 1) for x in range(n)]


@pytest.mark.parametrize(("a", "gamma"), [(0.3, 1.0), (1.0, 1.0), (0.0, 2.0), (0.7, 0.5)])
def test_rmia_equals_its_double_loop(a: float, gamma: float) -> None:
    of = toy(60, 6, shift=1.0, spread=2.0, seed=3).evidence
    assert of.references is not None
    assert of.members is not None
    p = np.exp(-losses(of.references, of.labels))
    outside = [p[~of.members[:, x], x].tolist() for x in range(60)]
    some = [x for x in range(60) if outside[x]]
    evidence = replace(of, asked=np.array(some))
    slow = slow_rmia(np.exp(-losses(of.targets, of.labels))[0, some], [outside[x] for x in some], a, gamma)
    assert RMIA(a=a, gamma=gamma).score(evidence)[0] == pytest.approx(slow, abs=1e-12)


def test_a_probability_that_underflows_is_an_answer_like_others() -> None:
    """Two references outside, one sure of the wrong class: their mean is half of the other's probability.

    To take products that are not 0 for those of models outside, as ml_privacy_meter does, leaves out the first.
    """
    odds = np.array([[-2000.0, 0.0], [1.0, 0.0], [9.0, 0.0]])
    members = np.array([[False, False], [False, False], [True, True]])
    of = evidence(np.array([[0.0, -0.5]]), odds, members)
    assert of.references is not None
    log_p = -losses(of.references, of.labels)
    assert np.exp(log_p[0, 0]) == 0
    p = 1 / (1 + math.exp(-1))
    assert rmia.log_mean(log_p, ~members)[0] == pytest.approx(math.log(p / 2))
    # ratio of x: .5 / (p / 2) = 1.37; of z: .378 / .5 = .76. Without the first reference .5 / p = .68, below z's.
    assert RMIA(a=1.0).score(of)[0].tolist() == [1, 0]
    assert np.isfinite(LiRA(online=False).score(of)).all()
    assert np.isfinite(Reference(models=2).score(of)).all()


def test_log_odds_are_exact_at_both_ends() -> None:
    odds = np.array([-800.0, -40.0, 0.0, 40.0, 800.0])
    labels = np.array([0, 1, 0, 1, 0])
    assert log_odds(log_probabilities(odds, labels), labels) == pytest.approx(odds, rel=1e-12)
    assert losses(log_probabilities(odds, labels), labels)[0] == pytest.approx(800)


@pytest.mark.parametrize(("spread", "least", "most"), [(0.0, 0.0, 0.3), (3.0, 0.7, 1.0)])
def test_a_is_chosen_on_references_alone_and_well(spread: float, least: float, most: float) -> None:
    """Where examples are alike, the references' average is noise, and a small a has less of it; else it is worth much.

    600 examples and 24 references; areas of two choices on the same target differ by chance in less than .02.
    """
    of = toy(600, 24, shift=2.0, spread=spread, seed=5)
    assert of.evidence.references is not None
    assert of.evidence.members is not None
    a = rmia.tuned(-losses(of.evidence.references, of.evidence.labels), of.evidence.members)
    by_choice = {a: area_of(RMIA(a=a), of) for a in rmia.CHOICES}
    assert least <= a <= most
    assert by_choice[a] >= max(by_choice.values()) - 0.02
    assert max(by_choice.values()) - min(by_choice.values()) > 0.02  # otherwise there would be nothing to choose
    assert area_of(RMIA(), of) == by_choice[a]


def test_reference_ranks_a_loss_among_those_of_ten_models() -> None:
    """By hand: three losses, 1, 2 and 3, between the ends .5 - 1e-4 and 4 + 1e-4, at 0, 1/4, 1/2, 3/4, 1."""
    loss = np.array([[1.0, 0.5, 2.0], [2.0, 4.0, 2.0], [3.0, 2.0, 2.0], [0.6, 0.6, 0.6]])
    odds = -np.log(np.expm1(loss))
    members = np.array([[False] * 3] * 3 + [[True] * 3])
    targets = -np.log(np.expm1(np.array([[1.5, 0.5, 4.0], [3.0, 3.0, 3.0]])))
    scores = Reference(models=3).score(evidence(targets, odds, members))
    assert scores[0, 0] == pytest.approx(-0.375)
    assert scores[0, 1] == pytest.approx(-0.25)
    assert scores[1, 0] == pytest.approx(-0.75)
    assert scores[0, 2] == pytest.approx(-1, abs=1e-4)
    with refused("EPS-A018", "10"):
        Reference().score(evidence(targets, odds, members))


def test_shadow_learns_what_each_class_looks_like() -> None:
    """Members of class 0 are surer, members of class 1 less sure: no threshold on the loss tells both."""
    rng, n, m = np.random.default_rng(7), 2000, 20
    labels = np.arange(n) % 2
    members = rng.permuted(np.tile(np.arange(n) // 2 % 2 == 0, (m + 1, 1)), axis=1)
    odds = rng.normal(0, 1, (m + 1, n)) + np.where(labels == 0, 1.5, -1.5) * members
    of = Toy(evidence(odds[:1], odds[1:], members[1:], labels), members[0])
    assert area_of(Population(), of) == pytest.approx(0.5, abs=0.07)  # 5 standard errors
    by_class = norm.cdf(1.5 / math.sqrt(2))  # .856 within a class; across classes scores are comparable too
    assert area_of(Shadow(), of) == pytest.approx(by_class, abs=0.05)
    first, second = (attack("shadow").score(of.evidence) for _ in range(2))
    assert (first == second).all()


@pytest.mark.parametrize("name", COMPARING)
def test_without_references_there_is_nothing_to_compare_with(name: str) -> None:
    of = replace(toy(20, 4, 1.0, 0.0).evidence, references=None, members=None)
    with refused("EPS-A017", name):
        attack(name).score(of)


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("lira", ("EPS-A012", "2", "online: false")),
        ("shadow", ("EPS-A016", "0")),
    ],
)
def test_references_that_saw_none_of_the_examples_teach_nothing(name: str, refusal: tuple[str, ...]) -> None:
    of = toy(20, 4, 1.0, 0.0).evidence
    with refused(*refusal):
        attack(name).score(replace(of, members=np.zeros((4, 20), bool)))
    LiRA(online=False).score(replace(of, members=np.zeros((4, 20), bool)))


@pytest.mark.parametrize("name", ["lira", "population", "reference", "rmia", "shadow"])
def test_a_target_does_not_depend_on_others(name: str) -> None:
    """So that another level, or seed, changes no score of this one."""
    of = toy(80, 24, 1.0, 1.0).evidence
    both = replace(of, targets=np.concatenate([of.targets * 3, of.targets]), training_losses=np.zeros(2))
    assert (attack(name).score(both)[1] == attack(name).score(of)[0]).all()


class Spelled:
    """A masked language model that expects the words a to h everywhere, each half as likely as the one before."""

    outputs = tuple("abcdefgh,")
    log_p = np.log(0.5) * np.arange(1, 10)

    def likeliest(self, texts: list[str], places: list, count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return np.tile(np.arange(count), (len(places), 1)), np.tile(self.log_p[:count], (len(places), 1))

    def log_probabilities(self, texts: list[str], places: list) -> NDArray[np.float64]:
        words = [texts[place.text][place.start : place.end].lower() for place in places]
        return np.array([self.log_p[self.outputs.index(word)] if word in self.outputs else -9.0 for word in words])

    def draw(
        self, texts: list[str], places: list, uniforms: NDArray[np.float64], allowed: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        assert allowed.tolist() == [True] * 8 + [False]  # a comma is not a word
        return (uniforms * 8).astype(np.int64)


def test_neighbours_differ_in_one_word_and_are_weighed() -> None:
    """By p(new) / (1 - p(old))."""
    (some,) = one_word(Spelled(), ["A z, b!"])  # type: ignore[arg-type]
    assert len(some) == 18  # 6 proposals for each of 3 words
    assert some[0] == "A z, a!"  # .5 / (1 - .25), before .25 / (1 - .5) and .5 / 1, whose order is due to rounding
    assert {*some[1:3]} == {"b z, b!", "A a, b!"}
    assert not {"A z, b!", "a z, b!"} & {*some}
    (many,) = one_word(Spelled(), [" ".join("abcdefgh" * 3)])  # type: ignore[arg-type]
    assert len(many) == OF_WORDS == 50
    assert one_word(Spelled(), ["?!"]) == [[]]  # type: ignore[arg-type]


def test_spans_are_two_words_apart_and_about_a_seventh() -> None:
    rng = np.random.default_rng(0)
    for words in (1, 2, 5, 20, 200):
        places = spans(words, rng)
        assert places
        assert max(places) < words
        assert len(places) == 2 * max(1, int(0.075 * words)) or words < 2
        starts = [place for place in places if place - 1 not in places]
        assert all(later - start >= 3 for start, later in pairwise(starts))


def test_respanned_neighbours_keep_the_other_words() -> None:
    texts = ["one two three four, five six seven.", "?", "word"]
    neighbours = respanned(Spelled(), texts, Noise.named(3, 1, "spans"))  # type: ignore[arg-type]
    assert [len(some) for some in neighbours] == [OF_SPANS, 0, OF_SPANS]
    for neighbour in neighbours[0]:
        same = [a == b for a, b in zip(neighbour.split(), texts[0].split(), strict=True)]
        assert same.count(False) == 2
    again = respanned(Spelled(), texts[2:], Noise.named(np.array([2]), 1, "spans"))  # type: ignore[arg-type]
    assert again == neighbours[2:]  # a text's neighbours do not depend on other texts


@pytest.mark.parametrize("kind", ["words", "spans"])
def test_neighbours_compare_the_loss_of_the_label(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first target knows text 0 by heart; of text 1, not looked at, and 2, without a word, there is no score."""
    texts, labels = ["one two three", "never looked at", "?!"], np.array([1, 0, 0])

    def answers(questions: list[str]) -> NDArray[np.float64]:
        odds = np.array([[0.0 + 0.1 * ("a" in text) for text in questions], [2.0] * len(questions)])
        return log_probabilities(odds, np.ones(len(questions), np.int64))

    own = np.array([[3.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    of = evidence(own, own, own > 9, labels, texts=texts, answers=answers)
    of = replace(of, asked=np.array([0, 2, 1]))
    monkeypatch.setattr(NeighbouringTexts, "_model", Spelled())
    scores = NeighbouringTexts(kind=kind, texts=2).score(of)
    assert np.isnan(scores[:, 1:]).all()
    assert scores[0, 0] > 0.5
    assert scores[1, 0] == pytest.approx(0, abs=1e-3)


def test_a_model_without_a_masked_head_is_refused(tmp_path) -> None:
    of = evidence(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2), bool), texts=["a b", "c d"])
    with refused("EPS-N052"):
        NeighbouringTexts(masked_lm=str(tmp_path / "nowhere")).score(of)
    with refused("EPS-N005"):
        NeighbouringTexts(masked_lm=ENCODER).score(of)


def test_neighbours_by_the_embedded_model() -> None:
    model = FillMask(masked_lm())
    (some,) = one_word(model, ["the film was very good"])
    assert len(some) == 30
    assert len({*some}) == 30
    assert "the movie was very good" in some
    (redrawn,) = respanned(model, ["the film was very good"], Noise.named(1, 2, "spans"))
    assert len({*redrawn}) > 10
