"""PrivRewrite: the lemma by search, the claim by enumeration, the provider's view over HTTP, and refusals."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors.numpy import save_file
from scipy.stats import chisquare

from epsilometer.attacks.identification.likelihood import LikelihoodAttack
from epsilometer.auditing import text_audit as api
from epsilometer.auditing.claims.verdicts import (
    NOT_REFUTED,
    VIOLATED,
    expected_successes,
    p_value,
    trial_claims,
    verdict,
)
from epsilometer.auditing.claims.worst_case import check_claim
from epsilometer.auditing.estimation.betting import interval
from epsilometer.cli import main
from epsilometer.core.attack import Context
from epsilometer.core.component import build, find
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import HasLikelihood, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.selection.privrewrite import SANITISED, PrivRewrite
from epsilometer.mechanisms.words.exponential import Exponential
from epsilometer.mechanisms.words.shared.cosine import CosineMechanism
from epsilometer.models import endpoint as endpoints
from epsilometer.models.locate import locate
from epsilometer.models.provider import DOCUMENT, INSTRUCTION, LocalProvider, Provider, local
from epsilometer.models.spending import Dry
from epsilometer.text.vectors import WordVectors
from tests.support import tiny_models
from tests.support.endpoint import FAULTS, KEY, Server, told_when_late
from tests.support.refusals import refused

PROFILES = Path(__file__).parents[3] / "profiles"

WORDS = ["good", "bad", "fine", "poor", "evil", "vile"]
VECTORS = np.array([[1, 0], [-1, 0], [0.6, 0.8], [0, -1]], np.float32)
CROWD = np.array([[1, 0], *[[-1, 0]] * 4], np.float32)  # one word differs; both phases nearly use their budgets
TURNED = np.array([[1, 0], [-0.9998, 0.02]], np.float32)  # nearly opposite vectors, whose averages are short


class Enumerable(Provider):
    """Candidates: the first word twice, "bad" twice, and two incoherent ones."""

    def __init__(self) -> None:
        super().__init__(None, 1.0, 1)
        self.seen: list[str] = []

    def _write(self, wanted: Sequence[tuple[str, int]]) -> list[str]:
        self.seen += [text for text, _ in wanted]
        ways = (lambda w: [w[0]] * 2, lambda w: ["bad"] * 2, lambda w: ["???"], lambda w: ["zz", "yy", w[0]])
        return [" ".join(ways[i % 4](text.split())) for text, i in wanted]


def small(kind: type[PrivRewrite] = PrivRewrite, vectors: NDArray[Any] = VECTORS, **settings: Any) -> PrivRewrite:
    """PrivRewrite over four words in the plane, with the enumerable provider."""
    mechanism = kind(resource="none", **{"k": 2, "tau": 1.0, **settings})
    sanitiser = CosineMechanism(resource=Path("none"))
    sanitiser.__dict__["vectors"] = WordVectors(WORDS[: len(vectors)], vectors).normalised()
    mechanism.__dict__.update(sanitiser=sanitiser, provider=Enumerable())
    return mechanism


def outcomes(mechanism: PrivRewrite, length: int) -> tuple[list[str], Rewrites]:
    """All texts of this length; every (sanitised text, number) that can come out, as rewrites."""
    texts = [" ".join(t) for t in itertools.product(mechanism.sanitiser.vocabulary.words, repeat=length)]
    units, released = [], []
    for sanitised, pool in mechanism._pools(texts).items():
        tokens = mechanism.sanitiser.vocabulary.encode([sanitised]).row(0)
        for number, text in enumerate(pool.texts) if pool.texts else [(SANITISED, sanitised)]:
            units.append([*tokens, number])
            released.append(text)
    return texts, Rewrites(released, Ragged.of(units))


def law(mechanism: PrivRewrite, length: int, epsilon: float) -> tuple[list[str], Rewrites, NDArray[np.float64]]:
    """The texts, the outcomes, and ln P(outcome | text): [texts, outcomes]."""
    texts, possible = outcomes(mechanism, length)
    every = np.tile(np.arange(len(texts)), (len(possible.texts), 1))
    (table,) = mechanism.log_likelihoods(texts, every, [possible], [epsilon])
    return texts, possible, table.T


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
    allowed = epsilon * mechanism.distance(texts, pairs, 1.0)
    for seen in (joint, marginal(possible, joint)):
        worst = (seen[pairs[:, 0]] - seen[pairs[:, 1]]).max(axis=1)
        assert (worst <= allowed + 1e-9).all()
    near = np.array(neighbours(texts))
    np.testing.assert_allclose(epsilon * mechanism.distance(texts, near, 1.0), epsilon)  # epsilon_1 + epsilon_2


def worst_of_neighbours(mechanism: PrivRewrite, length: int, epsilon: float) -> float:
    """The largest log-ratio between texts that differ in one word, of what provider and reader see, by epsilon."""
    texts, _, joint = law(mechanism, length, epsilon)
    return max(float((joint[i] - joint[j]).max()) for i, j in neighbours(texts)) / epsilon


class DoubleBudget(PrivRewrite):
    """Spends twice the budget in phase 1."""

    def budgets(self, epsilon: float) -> tuple[float, float]:
        first, second = super().budgets(epsilon)
        return 2 * first, second


class HalfSensitivity(PrivRewrite):
    """Delta without its factor 2."""

    def sensitivity(self, lengths: NDArray[np.integer]) -> NDArray[np.float64]:
        return super().sensitivity(lengths) / 2


@pytest.mark.parametrize(
    ("broken", "split"), [(DoubleBudget, 0.9), (DoubleBudget, 0.5), (HalfSensitivity, 0.05), (HalfSensitivity, 0.5)]
)
def test_broken_forms_exceed_the_claim_and_the_true_one_comes_near_to_it(
    broken: type[PrivRewrite], split: float
) -> None:
    """So the check above would see a claim that is false by much."""
    settings: dict[str, Any] = {"vectors": CROWD, "split": split}
    assert 0.7 < worst_of_neighbours(small(**settings), 2, 2.0) <= 1
    assert worst_of_neighbours(small(broken, **settings), 2, 2.0) > 1.05


def test_the_published_form_is_refuted() -> None:
    """Averages scaled to length 1: one word turns the short average of "good good bad" to the other side."""
    assert worst_of_neighbours(small(vectors=TURNED, as_published=True, split=0.05), 3, 8.0) > 1.3
    assert worst_of_neighbours(small(vectors=TURNED, split=0.05), 3, 8.0) <= 1


def attacked(mechanism: PrivRewrite, texts: Sequence[str], epsilon: float, trials: int) -> str:
    """The verdict of the audit's own path: rewrite, the optimal adversary, successes against the claim."""
    candidates = np.tile([0, 1], (trials, 1))
    target = (Noise.named(trials, "target").uniforms()[:, 0] * 2).astype(int)
    rewrites = mechanism.rewrite([texts[i] for i in target], epsilon, Noise.named(trials, "privrewrite"))
    guess = LikelihoodAttack().guess(
        rewrites, candidates, Context(texts, mechanism, epsilon, Noise.named(trials, "guess"))
    )
    claims = trial_claims(mechanism, epsilon, texts, candidates)
    return verdict(p_value(int((guess == target).sum()), trials, expected_successes(claims, 2, 0)), 0.001)


def test_the_audit_refutes_the_published_form_and_not_the_shipped_one() -> None:
    """1,500 trials of one pair. The shipped form would be refuted with probability at most 0.001; the seed is fixed."""
    pair = ["good bad " * 4 + "good", "good bad " * 4 + "bad"]
    settings: dict[str, Any] = {"vectors": TURNED, "split": 0.02}
    assert attacked(small(as_published=True, **settings), pair, 0.3, 1500) == VIOLATED
    assert attacked(small(**settings), pair, 0.3, 1500) == NOT_REFUTED


@pytest.mark.parametrize(("epsilon", "settings"), [(2.0, {}), (12.0, {"k": 4, "tau": 0.9}), (20.0, {"split": 0.2})])
def test_draws_between_two_texts_give_what_enumeration_gives(epsilon: float, settings: dict[str, Any]) -> None:
    """The overlap, delta at 1 nat, and that P' sums to 1: intervals at 1e-9 each, at fixed streams."""
    mechanism, count, alpha = small(**settings), 4000, 1e-9
    texts, _, joint = law(mechanism, 2, epsilon)
    pair = np.array([texts.index("good bad"), texts.index("fine poor")])
    sample = mechanism.draws_between(texts, np.tile(pair, (count, 1)), epsilon, Noise.named(count, "between"))
    assert (sample.log_rho <= sample.log_bound + 1e-12).all()
    assert np.ptp(sample.log_bound) == 0
    assert sample.log_bound[0] < 0
    first, second = joint[pair]
    for level in (0.0, 1.0):
        truth = np.exp(np.minimum(first, second + level) - level / 2 - sample.log_bound[0]).sum()
        weights = np.exp(sample.log_rho - np.abs(sample.loss - level) / 2 - sample.log_bound)
        low, high = interval(np.minimum(weights, 1), alpha)
        assert low <= truth <= high
        assert high - low < 0.5 * truth
    whole = np.exp(sample.log_rho - sample.loss / 2)
    assert whole.mean() == pytest.approx(1, abs=6 * whole.std() / count**0.5)
    (uneven,) = mechanism.draws_between(["good", "good bad"], np.array([[0, 1]]), epsilon, Noise.named(1, "b")).log_rho
    assert uneven == -np.inf


@pytest.mark.parametrize("settings", [{}, {"variant": "naive"}, {"k": 4, "tau": 0.9}])
def test_what_is_drawn_has_the_law_that_is_checked(settings: dict[str, Any]) -> None:
    """Chi-square over all outcomes of one text, 3,000 draws: a true law fails with probability 0.001 a case."""
    mechanism, epsilon, count = small(**settings), 4.0, 3000
    texts, possible, joint = law(mechanism, 2, epsilon)
    private = texts.index("good poor")
    rewrites = mechanism.rewrite([texts[private]] * count, epsilon, Noise.named(count, "drawn"))
    assert rewrites.units is not None
    assert possible.units is not None
    place = {tuple(possible.units.row(i)): i for i in range(len(possible.texts))}
    at = [place[tuple(rewrites.units.row(i))] for i in range(count)]
    assert all(rewrites.texts[i] == possible.texts[at[i]] for i in range(count))
    assert chisquare(np.bincount(at, minlength=len(place)), count * np.exp(joint[private])).pvalue > 0.001


def test_a_release_draws_exactly_and_by_the_same_law() -> None:
    """Chi-square as above, 1,000 draws from the operating system: fails once in 10,000 runs."""
    mechanism, count = small(), 1000
    texts, possible, joint = law(mechanism, 2, 4.0)
    rewrites = mechanism.rewrite([texts[3]] * count, 4.0, Noise.operating_system(count))
    assert rewrites.units is not None
    assert possible.units is not None
    place = {tuple(possible.units.row(i)): i for i in range(len(possible.texts))}
    at = [place[tuple(rewrites.units.row(i))] for i in range(count)]
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
    bound, change = float(mechanism.sensitivity(np.array([length]))[0]), largest_change(mechanism, length)
    assert change <= bound + 1e-6
    if beta >= 1:  # never clipped
        assert change > 0.9 * bound
        assert change == pytest.approx(bound, abs=1e-6)


def test_the_bound_is_tight_with_clipping_too() -> None:
    """beta = 0: at T = 1 opposite words span the whole unit interval; at T = 4 the clip takes nothing from a step."""
    for length in (1, 2, 4):
        mechanism = small(beta=0.0)
        assert largest_change(mechanism, length) > 0.9 * mechanism.sensitivity(np.array([length]))[0]


def test_scaled_averages_break_the_lemma() -> None:
    mechanism = small(vectors=TURNED, as_published=True)
    assert largest_change(mechanism, 3) > 1.5 * mechanism.sensitivity(np.array([3]))[0]


def test_the_slack_of_the_bound_on_the_embedded_vectors() -> None:
    """Words there are at most 1.651 apart, not 2 (here every tenth word); see docs/concepts/pitfalls-judges.md."""
    vectors = PrivRewrite(resource="none").sanitiser.vectors
    furthest = WordVectors(vectors.words[::10], vectors.vectors[::10]).survey(2)[3]
    assert 1.5 < furthest < 1.652


def test_beta_cancels_where_nothing_is_clipped() -> None:
    """eps u / (2 Delta) = eps T <Phi, Phi'> / 4 + constant: the law and every draw are the same at any beta."""
    noise = Noise.named(500, "beta")
    texts = ["good fine poor fine", "fine fine good good"] * 250
    first = small(beta=1.0).rewrite(texts, 6.0, noise)
    for beta in (2.0, 7.0, 40.0):
        rewrites = small(beta=beta).rewrite(texts, 6.0, noise)
        assert rewrites.texts == first.texts
        laws = [law(small(beta=b), 3, 6.0)[2] for b in (1.0, beta)]
        np.testing.assert_allclose(laws[0], laws[1], atol=1e-9)
    clipped = law(small(beta=0.0), 3, 6.0)[2]  # opposite averages are clipped below beta = 1
    assert np.abs(clipped - law(small(beta=1.0), 3, 6.0)[2]).max() > 0.1
    capped = [law(small(beta=b), 1, 6.0)[2] for b in (0.0, 1.0)]  # a text of one word has Delta = 1 at any beta below 1
    assert np.abs(capped[0] - capped[1]).max() > 0.1
    naive = [law(small(beta=b, variant="naive"), 3, 6.0)[2] for b in (1.0, 7.0)]  # Delta = 1: beta flattens
    assert np.abs(naive[0] - naive[1]).max() > 0.1


# ------------------------------------------------------------------------------------------- candidates and the pool


def test_near_duplicates_are_pruned_greedily_in_order() -> None:
    """The slow twin of section 4.1.3, on vectors whose cosines are known."""
    angles = {"a": 0, "b": 10, "c": 50, "d": 55, "e": 120}

    class Angles:
        def encode(self, texts: Sequence[str]) -> NDArray[np.float64]:
            return np.array([[np.cos(np.radians(angles[t])), np.sin(np.radians(angles[t]))] for t in texts])

    for tau, expected in ((1.0, "abcdea"), (0.995, "abce"), (0.9, "ace"), (0.79, "ade"), (0.2, "a")):
        mechanism = small(tau=tau)
        mechanism.__dict__["_sentences"] = Angles()
        (remaining,) = dict(mechanism._pruned({"z": list("abcdea")})).values()
        twin: list[str] = []
        for y in "abcdea":
            if all((1 + np.cos(np.radians(angles[y] - angles[other]))) / 2 <= tau for other in twin):
                twin.append(y)
        assert "".join(remaining) == expected
        assert remaining == twin or tau == 1.0


def test_incoherent_candidates_are_left_out_and_an_empty_pool_releases_the_sanitised_text_or_none() -> None:
    class Refuses(Enumerable):
        def _write(self, wanted: Sequence[tuple[str, int]]) -> list[str]:
            return [["", "I cannot do that.", "???"][i] for _, i in wanted]

    mechanism = small(k=3)
    rewrites = mechanism.rewrite(["good poor"] * 50, 3.0, Noise.named(50, "x"))
    assert rewrites.units is not None
    assert set(rewrites.units.values[rewrites.units.offsets[1:] - 1]) == {0, 1}  # "???" is never chosen
    mechanism.__dict__["provider"] = Refuses()
    rewrites = mechanism.rewrite(["good poor"] * 50, 3.0, Noise.named(50, "x"))
    alone = small().sanitiser.rewrite(["good poor"] * 50, 1.5, Noise.named(50, "x"))
    assert rewrites.texts == alone.texts
    assert rewrites.units is not None
    assert set(rewrites.units.values[rewrites.units.offsets[1:] - 1]) == {SANITISED}
    silent = small(k=3, fallback="abstain")
    silent.__dict__["provider"] = Refuses()
    abstained = silent.rewrite(["good poor"] * 50, 3.0, Noise.named(50, "x"))
    assert abstained.texts == [""] * 50
    assert abstained.units is not None
    np.testing.assert_array_equal(abstained.units.values, rewrites.units.values)  # the provider has seen the same


def test_a_trial_depends_on_no_other_and_a_text_without_words_asks_nobody() -> None:
    mechanism, texts = small(), ["good bad", "", "poor poor good", "good bad", "unheard of"]
    noise = Noise.named(5, "trials")
    whole = mechanism.rewrite_grid(texts, [2.0, 9.0], [noise, noise])
    for i in range(5):
        rows = np.array([i])
        for epsilon, rewrites in zip([2.0, 9.0], whole, strict=True):
            assert small().rewrite([texts[i]], epsilon, noise[rows]).texts == [rewrites.texts[i]]
    assert [rewrites.texts[1] for rewrites in whole] == ["", ""]
    assert "" not in mechanism.provider.seen  # type: ignore[attr-defined]
    assert small().rewrite([], 1.0, Noise.named(0, "none")).texts == []


def test_candidates_are_a_function_of_text_and_number(tmp_path: Path) -> None:
    """At temperature 0.75 of a real architecture; the first of more are the fewer."""
    folder = tiny_models.save_gpt2(tmp_path / "model")
    first, other = (LocalProvider(folder, None, 0.75, 12) for _ in range(2))
    texts = ["a b c", "d e f g", "a b c"]
    few, more = first.candidates(texts, 2), other.candidates(texts[::-1], 5)[::-1]
    assert [some[:2] for some in more] == few == first.candidates(texts, 2)
    assert few[0] == few[2]
    assert len({y for some in more for y in some}) > 5
    assert first.candidates(["a b " * 100], 1)  # truncated to the model's window
    cold = LocalProvider(folder, None, 0.01, 12).candidates(texts, 5)
    assert len({y for some in cold for y in some}) < len({y for some in more for y in some})


def test_the_temperature_is_that_of_the_models_own_softmax(tmp_path: Path) -> None:
    """One token, 3,000 candidates against softmax(logits / 0.75); a true law fails with probability 0.001."""
    from epsilometer.models.causal_lm import CausalLM

    folder = tiny_models.save_gpt2(tmp_path / "model")
    model = CausalLM(folder)
    logits = model.read(np.array(model.tokens(["a b >>>>>"]) * 8))[0][0].double().numpy()
    p = np.exp(logits / 0.75 - np.logaddexp.reduce(logits / 0.75))
    candidates = LocalProvider(folder, None, 0.75, 1).candidates(["a b"], 3000)[0]
    names = [model.text([i]) for i in model.outputs]
    order = np.argsort(-p)[:6]
    counts = [sum(y == names[i] for y in candidates) for i in order]
    rest = 3000 - sum(counts)
    expected = 3000 * p[order]
    assert chisquare([*counts, rest], [*expected, 3000 - expected.sum()]).pvalue > 0.001


# ---------------------------------------------------------------------------------------------------- the endpoint


@pytest.fixture
def remote(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PrivRewrite:
    """PrivRewrite over the four words, its provider behind a real server that turns the text round."""
    monkeypatch.setattr("epsilometer.models.answers.user_cache_path", lambda name: tmp_path / name)
    server.reply = lambda message: " ".join(message.rpartition("Text: ")[2].split()[::-1])
    return endpoint()


def endpoint(**settings: Any) -> PrivRewrite:
    mechanism = PrivRewrite(endpoint="m", **{"k": 3, "tau": 1.0, "workers": 4, "max_new_tokens": 50, **settings})
    mechanism.__dict__["sanitiser"] = small().sanitiser
    return mechanism


def test_the_provider_sees_sanitised_texts_alone(server: Server, remote: PrivRewrite) -> None:
    """Every byte that was sent: the instruction, sanitised words, and no word of the source outside the vocabulary."""
    private = ["Zorblax Quimby good bad", "good bad fine 555-0199"]
    rewrites = remote.rewrite(private * 10, 2.0, Noise.named(20, "http"))
    assert rewrites.units is not None
    sanitised = small().sanitiser.rewrite(private * 10, 1.0, Noise.named(20, "http")).texts  # only phase 1
    assert {message for message, _, _ in server.requests} == {INSTRUCTION.replace("{}", z) for z in sanitised}
    assert set(sanitised) != {"fine fine fine bad", *private}
    for _, _, body in server.requests:
        assert set(body) == {"messages", "max_tokens", "temperature", "seed", "model"}
        assert (body["temperature"], body["max_tokens"], body["model"]) == (0.75, 50, "m")
        words = body["messages"][0]["content"].rpartition("Text: ")[2].split()
        assert set(words) <= set(WORDS)
        assert len(body["messages"]) == 1
    assert sorted(body["seed"] for _, _, body in server.requests) == sorted([0, 1, 2] * len(set(sanitised)))
    assert all(text == " ".join(z.split()[::-1]) for text, z in zip(rewrites.texts, sanitised, strict=True))


def test_what_the_provider_sees_keeps_the_claim_of_phase_1(server: Server, remote: PrivRewrite) -> None:
    """The exact law of a sanitised word between any two words: epsilon_1 at most, half of epsilon."""
    (log_p,) = remote.sanitiser.laws(WORDS[:4]).log_probabilities(np.arange(4), [remote.budgets(3.0)[0]])
    assert float(np.ptp(log_p, axis=0).max()) <= 1.5 + 1e-9


def test_after_every_fault_nothing_is_lost_and_nothing_is_asked_twice(
    server: Server,
    remote: PrivRewrite,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """429, 500, a late answer, reset, malformed answers and the rest, each met once on the way to an answer."""
    told_when_late(monkeypatch)
    met: dict[str, str] = {}  # the first request for each sanitised text meets a different fault
    server.fault = lambda message, attempt: (
        met.setdefault(message, FAULTS[len(met) % len(FAULTS)]) if attempt == 0 else None
    )
    texts, noise = ["good bad fine poor"] * 16, Noise.named(16, "faults")
    first = remote.rewrite(texts, 1.0, noise)
    assert set(met.values()) == set(FAULTS)
    requests = sum(server.answered.values())
    assert requests == 3 * len(met)
    again = endpoint().rewrite(texts, 1.0, noise)  # as another process would, with the same store
    assert again.texts == first.texts
    more = endpoint(k=4)
    more.rewrite(texts, 1.0, noise)
    assert sum(server.answered.values()) == requests * 4 // 3  # one more for each, none repeated


def test_a_lasting_fault_ends_in_words_and_the_next_run_goes_on(
    server: Server,
    remote: PrivRewrite,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoints, "RETRIES", 1)
    texts, noise = ["good bad"] * 8, Noise.named(8, "lasting")
    server.fault = lambda message, attempt: "500" if sum(server.answered.values()) >= 5 else None
    with refused("EPS-N031", "127.0", "500") as caught:
        remote.rewrite(texts, 3.0, noise)
    assert KEY not in str(caught.value)
    assert not any(word in str(caught.value) for word in WORDS)
    before = sum(server.answered.values())
    server.fault = lambda message, attempt: None
    rewrites = endpoint().rewrite(texts, 3.0, noise)
    assert len(rewrites.texts) == 8
    assert 5 <= before < sum(server.answered.values()) == 3 * len(server.answered)


def test_what_it_costs_is_said_before_anything_is_sent_and_bounded(server: Server, remote: PrivRewrite) -> None:
    """Three candidates of one sanitised text at one a request; what is stored costs nothing."""
    texts, noise = ["good bad fine poor"], Noise.named(1, "cost")
    with refused("EPS-N090", "3 requests", "0 of 3", "3.00 to 3.00", kind=Dry) as dry:
        endpoint(dry=True, prices=(0.0, 0.0, 1.0)).rewrite(texts, 1.0, noise)
    assert not any(word in str(dry.value) for word in WORDS)
    with refused("EPS-N075", "2"):
        endpoint(max_requests=2).rewrite(texts, 1.0, noise)
    assert not server.requests
    endpoint(max_requests=3).rewrite(texts, 1.0, noise)
    with refused("EPS-N090", "1 requests", "3 of 4", kind=Dry):
        endpoint(k=4, dry=True).rewrite(texts, 1.0, noise)
    with pytest.raises(ValidationError, match="dry, max_requests, max_tokens and max_cost"):
        PrivRewrite(resource="none", dry=True)


def test_an_endpoint_is_checked_and_takes_private_data_sets(
    server: Server,
    remote: PrivRewrite,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remote.check(public=False)
    monkeypatch.delenv("OPENAI_API_KEY")
    with refused("EPS-N034"):
        remote.check(public=True)
    PrivRewrite(resource="none").check(public=False)


# ---------------------------------------------------------------------------------------- variants, and what is refused


@pytest.mark.parametrize("profile", ["privrewrite", "privrewrite_real", "privrewrite_medquad"])
def test_em_and_wp_are_cells_of_exponential_and_mvc(profile: str) -> None:
    entries = yaml.safe_load((PROFILES / f"{profile}.yaml").read_text())["mechanisms"]
    for variant, name in (("em", "exponential"), ("wp", "mvc")):
        entry = entries[f"privrewrite_{variant}"]
        assert (entry["file"], entry["resource"]) == (
            f"epsilometer/mechanisms/words/{name}.py",
            "data/vectors/minilm.npz",
        )
        assert "settings" not in entry


def test_phase_1_is_the_exponential_mechanism_on_the_encoders_word_vectors(tmp_path: Path) -> None:
    """So em, phase 1 at the whole epsilon, is a cell of it; the vectors are those that stage `vectors` writes."""
    mechanism = PrivRewrite(resource="none")
    WordVectors.from_transformer(locate(mechanism.encoder)).save(tmp_path / "minilm.npz")
    twin = Exponential(resource=tmp_path / "minilm.npz")
    assert isinstance(twin, type(mechanism.sanitiser))
    assert twin.vocabulary.words == mechanism.sanitiser.vocabulary.words
    np.testing.assert_array_equal(twin.vectors.exact, mechanism.sanitiser.vectors.exact)
    texts, noise = ["a good flight to boston"] * 3, Noise.named(3, "em")
    assert mechanism.sanitiser.rewrite(texts, 20.0, noise).texts == twin.rewrite(texts, 20.0, noise).texts


def test_the_whole_mechanism_lists_no_inputs_and_is_attacked_by_its_likelihood() -> None:
    assert check_claim(small(), 4.0).method == "not checked"
    assert isinstance(small(), HasLikelihood)
    assert LikelihoodAttack().applies(small())


def test_unlike_lengths_are_not_covered_and_all_words_cost_no_more_than_the_range() -> None:
    mechanism = small(beta=1.0, split=0.5)
    texts = ["good good good good", "bad bad bad bad", "good good good", "good good good bad"]
    distances = mechanism.distance(texts, np.array([[0, 1], [0, 2], [0, 3], [0, 0]]), 1.0)
    np.testing.assert_allclose(distances, [0.5 * 4 + 0.5 * 4, np.inf, 1.0, 0.0])
    naive = small(variant="naive")
    np.testing.assert_allclose(naive.distance(texts, np.array([[0, 1], [0, 3]]), 1.0), [0.5 * 4 + 0.5, 1.0])


BAD: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"k": 0}, ("EPS-C015", ".k: ", "0")),
    ({"tau": 0}, ("EPS-C015", ".tau: ", "0")),
    ({"tau": 1.1}, ("EPS-C015", ".tau: ", "1.1")),
    ({"split": 0}, ("EPS-C015", ".split: ", "0")),
    ({"split": 1}, ("EPS-C015", ".split: ", "1")),
    ({"beta": -0.1}, ("EPS-C015", ".beta: ", "-0.1")),
    ({"beta": float("inf")}, ("EPS-C015", ".beta: ", "inf")),
    ({"temperature": 0}, ("EPS-C015", ".temperature: ", "0")),
    ({"max_new_tokens": 0}, ("EPS-C015", ".max_new_tokens: ", "0")),
    ({"fallback": "retry"}, ("EPS-C015", ".fallback: ", "sanitised", "abstain", "retry")),
    ({"variant": "wd"}, ("EPS-C015", ".variant: ", "'full'", "'naive'", "'wd'")),
    ({"variant": "em"}, ("EPS-C015", ".variant: em", "words/exponential.py", "resource: data/vectors/")),
    ({"variant": "wp"}, ("EPS-C015", ".variant: wp", "words/mvc.py")),
    ({"resource": None}, ("EPS-C015", "resource", "endpoint")),
    ({"kk": 3}, ("EPS-C022", "'kk'")),
]


@pytest.mark.parametrize(("settings", "refusal"), BAD, ids=[str(settings) for settings, _ in BAD])
def test_bad_settings_name_place_rule_and_value(settings: dict[str, Any], refusal: tuple[str, ...]) -> None:
    with refused(*refusal, "mechanisms.p.settings"):
        build(find("mechanisms", "privrewrite", "rewrite"), {"resource": "none", **settings}, "mechanisms.p.settings")


@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), float("inf")])
def test_an_epsilon_that_is_no_budget_is_refused(epsilon: float) -> None:
    with refused("EPS-C033", "0"):
        small().rewrite(["good bad"], epsilon, Noise.named(1, "x"))
    with refused("EPS-C026", "0"):
        small().guarantee(epsilon)


def test_models_that_cannot_write_and_prompts_without_a_place_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["BertForMaskedLM"]}')
    save_file({"weight": np.zeros(1, np.float32)}, tmp_path / "model.safetensors")
    with refused("EPS-N062"):
        _ = PrivRewrite(resource=tmp_path).provider
    folder = tiny_models.save_gpt2(tmp_path / "model")
    with refused("EPS-N061", "rewrite"):
        _ = PrivRewrite(resource=folder, prompt="rewrite").provider
    with refused("EPS-N063", "64"):
        _ = PrivRewrite(resource=folder, max_new_tokens=64).provider


def test_how_models_are_asked(tmp_path: Path) -> None:
    assert LocalProvider(tiny_models.save_t5(tmp_path / "t5"), None, 1.0, 4)._prompt == DOCUMENT
    assert LocalProvider(tiny_models.save_qwen(tmp_path / "qwen"), "a {}", 1.0, 4).candidates(["b"], 1)
    assert local(tmp_path / "t5", None, 1.0, 4) is local(tmp_path / "t5", None, 1.0, 4)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`epsilometer rewrite` with a small local model, and its line among the mechanisms."""
    folder = tiny_models.save_gpt2(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("a good day\n\nshow me flights\n")
    options = ["--mechanism", "privrewrite", "--epsilon", "40", "--seed", "1"]
    settings = [f"resource={folder}", "k=2", "max_new_tokens=6"]
    with pytest.raises(SystemExit) as ended:
        main(["rewrite", str(tmp_path / "texts.txt"), *options, *(part for s in settings for part in ("--set", s))])
    assert ended.value.code == 0
    written = capsys.readouterr().out.split("\n")
    assert [bool(line) for line in written] == [True, False, True, False]
    with pytest.raises(SystemExit) as ended:
        main(["list"])
    assert ended.value.code == 0
    line = re.search(r"privrewrite\n  (.*)\n  Claim: (.*)", capsys.readouterr().out)
    assert line is not None
    assert "Applied Sciences" in line[1]
    assert "Epsilon_1 + epsilon_2" in line[2]


@pytest.mark.slow
def test_the_embedded_provider(tmp_path: Path) -> None:
    mechanism = api.mechanism("privrewrite", {"k": 3, "max_new_tokens": 16})
    rewrites = mechanism.rewrite(["show me the cheapest flight to boston"] * 3, 80.0, Noise.named(3, "embedded"))
    assert any("flight" in text for text in rewrites.texts)
