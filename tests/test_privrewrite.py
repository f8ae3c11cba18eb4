"""PrivRewrite: the lemma by search, the whole claim by enumeration, the provider's view over HTTP, what is refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from numpy.typing import NDArray
from scipy.stats import chisquare
from test_chat import FAULTS, KEY, Server, server  # noqa: F401 - a fixture

from epsilometer import api
from epsilometer.attack import Context
from epsilometer.attacks.likelihood import LikelihoodAttack
from epsilometer.claims import NOT_REFUTED, VIOLATED, expected_successes, p_value, trial_claims, verdict
from epsilometer.cli import main
from epsilometer.component import build, find
from epsilometer.errors import UserError
from epsilometer.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.language import chat
from epsilometer.language.candidates import DOCUMENT, INSTRUCTION, Local, Provider, local
from epsilometer.language.cosine_mechanism import CosineMechanism
from epsilometer.language.vectors import WordVectors
from epsilometer.mechanism import HasLikelihood, Rewrites
from epsilometer.mechanisms.exponential import Exponential
from epsilometer.mechanisms.mvc import MVC
from epsilometer.mechanisms.privrewrite import SANITISED, PrivRewrite
from epsilometer.ragged import Ragged
from epsilometer.randomness import Noise

WORDS = ["good", "bad", "fine", "poor", "evil", "vile"]
VECTORS = np.array([[1, 0], [-1, 0], [0.6, 0.8], [0, -1]], np.float32)


class Enumerable(Provider):
    """Candidates: the first word twice, the last word twice, and two incoherent ones."""

    def __init__(self) -> None:
        super().__init__(None, 1.0, 1)
        self.seen: list[str] = []

    def _write(self, wanted: Sequence[tuple[str, int]]) -> list[str]:
        self.seen += [text for text, _ in wanted]
        ways = (lambda w: [w[0]] * 2, lambda w: [w[-1]] * 2, lambda w: ["???"], lambda w: ["zz", "yy", w[0]])
        return [" ".join(ways[i % 4](text.split())) for text, i in wanted]


def small(kind: type[PrivRewrite] = PrivRewrite, vectors: NDArray[Any] = VECTORS, **settings: Any) -> PrivRewrite:
    """PrivRewrite over four words in the plane, with the enumerable provider."""
    made = kind(resource="none", **{"k": 2, "tau": 1.0, **settings})
    sanitiser = CosineMechanism(resource=Path("none"))
    sanitiser.__dict__["vectors"] = WordVectors(WORDS[: len(vectors)], vectors).normalised()
    made.__dict__.update(sanitiser=sanitiser, provider=Enumerable())
    return made


def outcomes(mechanism: PrivRewrite, length: int) -> tuple[list[str], Rewrites]:
    """All texts of this length; every (sanitised text, number) that can come out, as rewrites."""
    texts = [" ".join(t) for t in itertools.product(mechanism.sanitiser.vocabulary.words, repeat=length)]
    units, released = [], []
    for sanitised, pool in mechanism._pools(texts).items():
        drawn = mechanism.sanitiser.vocabulary.encode([sanitised]).row(0)
        for number, text in enumerate(pool.texts) if pool.texts else [(SANITISED, sanitised)]:
            units.append([*drawn, number])
            released.append(text)
    return texts, Rewrites(released, Ragged.of(units))


def law(mechanism: PrivRewrite, length: int, epsilon: float) -> tuple[list[str], Rewrites, NDArray[np.float64]]:
    """The texts, the outcomes, and ln P(outcome | text): [texts, outcomes]."""
    texts, possible = outcomes(mechanism, length)
    every = np.tile(np.arange(len(texts)), (len(possible.texts), 1))
    (found,) = mechanism.log_likelihoods(texts, every, [possible], [epsilon])
    return texts, possible, found.T


def neighbours(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Ordered pairs of texts that differ in one word."""
    place = {tuple(text.split()): i for i, text in enumerate(texts)}
    vocabulary = {word for words in place for word in words}
    return [
        (i, place[*words[:at], other, *words[at + 1 :]])
        for words, i in place.items()
        for at in range(len(words))
        for other in vocabulary - {words[at]}
    ]


def marginal(possible: Rewrites, joint: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln P(released text | text): [texts, distinct released texts]."""
    names = list(dict.fromkeys(possible.texts))
    sums = np.zeros((len(joint), len(names)))
    for column, text in enumerate(possible.texts):
        sums[:, names.index(text)] += np.exp(joint[:, column])
    return np.log(sums)


# ------------------------------------------------------------------------------------------------------- the claim


@pytest.mark.parametrize("epsilon", [0.5, 3, 20])
@pytest.mark.parametrize(
    ("length", "settings"),
    [
        (2, {}),
        (3, {}),
        (3, {"beta": 0.0}),
        (3, {"beta": 0.0, "split": 0.05}),
        (2, {"split": 0.2, "k": 4, "tau": 0.9}),
        (3, {"variant": "naive", "split": 0.3}),
        (2, {"variant": "em"}),
        (1, {"beta": 0.0}),
    ],
)
def test_the_claim_holds_for_every_pair_of_texts_and_every_outcome(
    length: int, settings: dict[str, Any], epsilon: float
) -> None:
    """The exact law, of what provider and reader see together, and of what the reader sees; no sampling."""
    mechanism = small(**settings)
    texts, possible, joint = law(mechanism, length, epsilon)
    np.testing.assert_allclose(np.exp(joint).sum(axis=1), 1, atol=1e-12)
    pairs = np.array(list(itertools.permutations(range(len(texts)), 2)))
    claim = mechanism.guarantee(epsilon)
    assert claim == Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)
    allowed = epsilon * mechanism.distance(texts, pairs)
    for seen in (joint, marginal(possible, joint)):
        worst = (seen[pairs[:, 0]] - seen[pairs[:, 1]]).max(axis=1)
        assert (worst <= allowed + 1e-9).all()
    near = np.array(neighbours(texts))
    np.testing.assert_allclose(epsilon * mechanism.distance(texts, near), epsilon)  # epsilon_1 + epsilon_2


def test_the_exact_check_has_power() -> None:
    """How much of its claim the small instance loses: what the check above would miss."""
    texts, _, joint = law(small(beta=0.0), 3, 3.0)
    worst = max(float((joint[i] - joint[j]).max()) for i, j in neighbours(texts))
    assert 0.6 * 3 < worst <= 3


class HalfBudget(PrivRewrite):
    """Spends twice the budget in phase 1."""

    def budgets(self, epsilon: float) -> tuple[float, float]:
        first, second = super().budgets(epsilon)
        return 2 * first, second


class ForgotTwo(PrivRewrite):
    """Delta without its factor 2, as if words could be exchanged for nothing but near ones."""

    def sensitivity(self, lengths: NDArray[np.integer]) -> NDArray[np.float64]:
        return super().sensitivity(lengths) / 2


@pytest.mark.parametrize("kind", [HalfBudget, ForgotTwo])
def test_broken_forms_exceed_the_claim(kind: type[PrivRewrite]) -> None:
    settings = {"split": 0.9} if kind is HalfBudget else {"split": 0.05, "beta": 0.0}
    texts, _, joint = law(small(kind, **settings), 3, 3.0)
    worst = max(float((joint[i] - joint[j]).max()) for i, j in neighbours(texts))
    assert worst > 1.3 * 3


def test_the_published_form_is_refuted() -> None:
    """Averages scaled to length 1: "good bad" has the average 0, and one word turns its direction to any other."""
    turned = np.array([[1, 0], [-0.98, 0.199]])
    texts, possible, joint = law(small(vectors=turned, published=True, split=0.05), 4, 8.0)
    worst = max(float((joint[i] - joint[j]).max()) for i, j in neighbours(texts))
    assert worst > 1.3 * 8
    texts, possible, joint = law(small(vectors=turned, split=0.05), 4, 8.0)
    assert max(float((joint[i] - joint[j]).max()) for i, j in neighbours(texts)) <= 8


def attacked(mechanism: PrivRewrite, texts: Sequence[str], epsilon: float, trials: int) -> str:
    """The verdict of the audit's own path: rewrite, the optimal adversary, successes against the claim."""
    candidates = np.tile([0, 1], (trials, 1))
    target = (Noise.named(trials, "target").uniforms()[:, 0] * 2).astype(int)
    made = mechanism.rewrite([texts[i] for i in target], epsilon, Noise.named(trials, "privrewrite"))
    guess = LikelihoodAttack().guess(made, candidates, Context(texts, mechanism, epsilon, Noise.named(trials, "guess")))
    claims = trial_claims(mechanism, epsilon, texts, candidates)
    return verdict(p_value(int((guess == target).sum()), trials, expected_successes(claims, 2, 0)), 0.001, 1)


def test_the_audit_refutes_the_published_form_and_not_the_shipped_one() -> None:
    """2,000 trials of one pair. The shipped form would be refuted with probability at most 0.001; the seed is fixed."""
    turned = np.array([[1, 0], [-0.98, 0.199]])
    pair = ["good bad good bad", "good bad bad bad"]
    settings: dict[str, Any] = {"vectors": turned, "split": 0.02, "beta": 0.0}
    assert attacked(small(published=True, **settings), pair, 1.5, 2000) == VIOLATED
    assert attacked(small(**settings), pair, 1.5, 2000) == NOT_REFUTED


@pytest.mark.parametrize("settings", [{}, {"variant": "naive"}, {"k": 4, "tau": 0.9}, {"variant": "em"}])
def test_what_is_drawn_has_the_law_that_is_checked(settings: dict[str, Any]) -> None:
    """Chi-square over all outcomes of one text, 20,000 draws: a true law fails with probability 0.001 a case."""
    mechanism, epsilon, count = small(**settings), 4.0, 20_000
    texts, possible, joint = law(mechanism, 2, epsilon)
    private = texts.index("good poor")
    drawn = mechanism.rewrite([texts[private]] * count, epsilon, Noise.named(count, "drawn"))
    assert drawn.units is not None and possible.units is not None
    place = {tuple(possible.units.row(i)): i for i in range(len(possible.texts))}
    at = [place[tuple(drawn.units.row(i))] for i in range(count)]
    assert all(drawn.texts[i] == possible.texts[at[i]] for i in range(count))
    assert chisquare(np.bincount(at, minlength=len(place)), count * np.exp(joint[private])).pvalue > 0.001


def test_a_release_draws_exactly_and_by_the_same_law() -> None:
    """Chi-square as above, 4,000 draws from the operating system: fails once in 10,000 runs."""
    mechanism, count = small(), 4000
    texts, possible, joint = law(mechanism, 2, 4.0)
    drawn = mechanism.rewrite([texts[3]] * count, 4.0, Noise.operating_system(count))
    assert drawn.units is not None and possible.units is not None
    place = {tuple(possible.units.row(i)): i for i in range(len(possible.texts))}
    at = [place[tuple(drawn.units.row(i))] for i in range(count)]
    assert chisquare(np.bincount(at, minlength=len(place)), count * np.exp(joint[3])).pvalue > 1e-4


# ------------------------------------------------------------------------------------------------------- the lemma


def largest_change(mechanism: PrivRewrite, length: int) -> float:
    """Over all texts of this length, their neighbours and all candidates of at most two words: the largest |u - u'|."""
    words = mechanism.sanitiser.vocabulary.words
    texts = [" ".join(t) for t in itertools.product(words, repeat=length)]
    candidates = [" ".join(t) for n in (1, 2) for t in itertools.product(words, repeat=n)]
    averages, outputs = mechanism._averages(texts)[0], mechanism._averages(candidates)[0]
    u = mechanism.utility(averages, outputs)
    return max(float(np.abs(u[i] - u[j]).max()) for i, j in neighbours(texts))


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_the_bound_of_the_lemma_holds_and_is_tight(beta: float, length: int) -> None:
    """Opposite words reach it wherever nothing is clipped, so a bound 10 % smaller is false."""
    mechanism = small(beta=beta)
    bound, found = float(mechanism.sensitivity(np.array([length]))[0]), largest_change(mechanism, length)
    assert found <= bound + 1e-6
    if beta >= 1:  # never clipped
        assert found > 0.9 * bound
        assert found == pytest.approx(bound, abs=1e-6)


def test_the_bound_is_tight_with_clipping_too() -> None:
    """beta = 0: at T = 1 opposite words span the whole unit interval; at T = 4 the clip takes nothing from a step."""
    for length in (1, 2, 4):
        mechanism = small(beta=0.0)
        assert largest_change(mechanism, length) > 0.9 * mechanism.sensitivity(np.array([length]))[0]


def test_scaled_averages_break_the_lemma() -> None:
    mechanism = small(vectors=np.array([[1, 0], [-0.98, 0.199]]), published=True)
    assert largest_change(mechanism, 4) > 1.5 * mechanism.sensitivity(np.array([4]))[0]


def test_the_slack_of_the_bound_on_the_embedded_vectors() -> None:
    """Words are at most 1.651 apart there, not 2: the bound is 17 % larger than it need be. docs/pitfalls.md says so."""
    _, furthest = PrivRewrite(resource="none").sanitiser.vectors.extremes()
    assert furthest == pytest.approx(1.651, abs=1e-3)


def test_beta_cancels_where_nothing_is_clipped() -> None:
    """eps u / (2 Delta) = eps T <Phi, Phi'> / 4 + constant: the law and every draw are the same at any beta."""
    noise = Noise.named(500, "beta")
    texts = ["good fine poor fine", "fine fine good good"] * 250
    first = small(beta=1.0).rewrite(texts, 6.0, noise)
    for beta in (2.0, 7.0, 40.0):
        made = small(beta=beta).rewrite(texts, 6.0, noise)
        assert made.texts == first.texts
        laws = [law(small(beta=b), 3, 6.0)[2] for b in (1.0, beta)]
        np.testing.assert_allclose(laws[0], laws[1], atol=1e-9)
    clipped = law(small(beta=0.0), 3, 6.0)[2]  # opposite averages are clipped below beta = 1
    assert np.abs(clipped - law(small(beta=1.0), 3, 6.0)[2]).max() > 0.1
    capped = [law(small(beta=b), 1, 6.0)[2] for b in (0.0, 1.0)]  # one word: Delta = 1 at any beta below 1
    assert np.abs(capped[0] - capped[1]).max() > 0.1
    naive = [law(small(beta=b, variant="naive"), 3, 6.0)[2] for b in (1.0, 7.0)]  # Delta = 1: beta flattens
    assert np.abs(naive[0] - naive[1]).max() > 0.1
