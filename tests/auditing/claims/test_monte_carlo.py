"""Claims that draws can and cannot refute, and tests of whether noise satisfies a claim."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom

from epsilometer.auditing.claims.largest_loss import largest_losses
from epsilometer.auditing.claims.monte_carlo import monte_carlo
from epsilometer.auditing.claims.noise_fit import fit, noise_p_value
from epsilometer.auditing.claims.verdicts import NOT_CHECKED, NOT_REFUTED, NOT_TESTABLE, VIOLATED
from epsilometer.auditing.claims.worst_case import check_claim, extra_epsilons
from epsilometer.core.component import build, find
from epsilometer.core.exact_samplers import ExactDraws
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.mahalanobis import Mahalanobis
from epsilometer.mechanisms.words.mvc import MVC
from epsilometer.text.vectors import WordVectors
from tests.support.sparing import first

NAMES = ["mvc", "vickrey", "mahalanobis"]


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Forty words of eight dimensions, some spread wider than others."""
    vectors = np.random.default_rng(3).normal(size=(40, 8)) * np.linspace(0.5, 2, 8)
    WordVectors([f"w{i}" for i in range(40)], vectors).save(tmp_path / "v.npz")
    return tmp_path / "v.npz"


def make(name: str, resource: Path) -> Any:
    return build(find("mechanisms", name, "rewrite"), {"resource": resource}, name)


class Unchanged(MVC):
    """Claims what MVC claims, and returns every word as it is."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return Rewrites(list(texts))


class Shorter(MVC):
    """MVC with the noise of twice the epsilon that it claims."""

    def guarantee(self, epsilon: float) -> Guarantee | None:
        return super().guarantee(epsilon / 2)


class OneNoise(MVC):
    """MVC with one noise vector for all words."""

    def moved(self, texts: Sequence[str], epsilon: float, noise: Noise) -> tuple[np.ndarray, np.ndarray]:
        before, after = super().moved(texts, epsilon, noise)
        return before, before + (after - before)[:1]


class OtherDistance(Mahalanobis):
    """Mahalanobis noise under a claim that counts the Euclidean distance."""

    def distance(self, texts: Sequence[str], pairs: np.ndarray, epsilon: float) -> np.ndarray:
        return MVC.distance(self, texts, pairs, epsilon)  # type: ignore[arg-type]


class Stretched(MVC):
    """Mahalanobis noise, said to be spherical."""

    def stretched(self, noise: np.ndarray) -> np.ndarray:
        return Mahalanobis(resource=self.resource, tilt=0.5).stretched(noise)


@pytest.mark.parametrize("epsilon", [20, 40, 70, 125])
def test_words_that_come_out_unchanged_are_not_reassuring(words: Path, epsilon: float) -> None:
    mechanism = Unchanged(resource=words)
    finding = check_claim(mechanism, epsilon)
    assert (finding.verdict, finding.draws, finding.worst) == (NOT_TESTABLE, None, None)
    assert finding.testable < epsilon * 0.5
    assert f"{finding.testable:.2f}" in finding.reason
    low = extra_epsilons(mechanism, epsilon)
    assert len(low) == 2
    checked = [check_claim(mechanism, epsilon) for epsilon in low]
    assert {finding.verdict for finding in checked} == {VIOLATED}
    assert all(finding.claimed < 3.1 < finding.worst == pytest.approx(finding.testable) for finding in checked)


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_code_stands_where_it_can_be_tested(words: Path, name: str) -> None:
    """A true claim is refuted, and true noise misfits, each in at most 1 of 100 checks; the seed is fixed."""
    mechanism = make(name, words)
    assert check_claim(mechanism, 50).verdict == NOT_TESTABLE
    for epsilon in extra_epsilons(mechanism, 50):
        finding = check_claim(mechanism, epsilon)
        assert (finding.verdict, finding.draws) == (NOT_REFUTED, 2000)
        assert finding.claimed < finding.testable
        assert finding.noise_p > 0.01


def test_the_ceiling_is_what_the_best_outcome_proves(words: Path) -> None:
    """All draws one output at one input and none at the other, by the Clopper-Pearson limits themselves."""
    mechanism = Unchanged(resource=words)
    finding = monte_carlo(mechanism, extra_epsilons(mechanism, 50)[1], mechanism.inputs, inputs=4)
    best = [
        float(np.log(low) - np.log1p(-low)) for tests in range(1, 13) for low in [beta.ppf(0.01 / (2 * tests), 1000, 1)]
    ]
    assert min(abs(finding.testable - loss) for loss in best) < 1e-9
    assert finding.worst == pytest.approx(finding.testable)


def test_claims_that_no_draw_can_refute_leave_the_correction() -> None:
    """One pair near, the others far apart: it is tested at the level of its own two directions."""

    class Line:
        inputs = output_texts = ("a", "b", "far")

        def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
            return Rewrites(list(texts))

        def guarantee(self, epsilon: float) -> Guarantee:
            return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH, metric="place")

        def distance(self, texts: Sequence[str], pairs: np.ndarray, epsilon: float) -> np.ndarray:
            place = np.array([{"a": 0, "b": 1, "far": 100}[text] for text in texts])
            return np.abs(place[pairs[:, 0]] - place[pairs[:, 1]]).astype(float)

    finding = monte_carlo(Line(), 1.0, Line.inputs)
    low = beta.ppf(0.01 / (2 * 2), 1000, 1)
    assert finding.verdict == VIOLATED
    assert finding.testable == pytest.approx(np.log(low / (1 - low)))
    assert set(finding.witness[:2]) == {"a", "b"}


def test_a_claim_that_covers_no_pair_is_not_checked() -> None:
    class Silent:
        inputs = output_texts = ("a", "b")

        def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
            return Rewrites(list(texts))

        def guarantee(self, epsilon: float) -> Guarantee:
            return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)

    finding = check_claim(Silent(), 1.0)
    assert finding.verdict == NOT_CHECKED
    assert "`distance(texts, pairs, epsilon)`" in finding.reason
    assert extra_epsilons(Silent(), 1.0) == []


WORDS = ("alpha", "bravo", "charlie", "delta")


class Response:
    """Randomised response, exactly as private as it says: epsilon, and with probability delta the word itself.

    Each output carries a random number of so many digits, so that outputs hardly ever repeat. factor: of the epsilon
    that it says, what it has; leak: what comes with it, of the word and a generator.
    """

    def __init__(self, words: int = 4, digits: int = 0, delta: float = 0, factor: float = 1, leak: Any = None) -> None:
        self.inputs = self.output_texts = WORDS[:words]
        self.digits, self.delta, self.factor, self.leak = digits, delta, factor, leak

    def guarantee(self, epsilon: float) -> Guarantee:
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY, delta=self.delta)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return Rewrites([self._rewritten(text, epsilon, noise.generator(i)) for i, text in enumerate(texts)])

    def _rewritten(self, text: str, epsilon: float, rng: np.random.Generator) -> str:
        others = [word for word in self.inputs if word != text]
        true = rng.random() < 1 / (1 + len(others) * np.exp(-self.factor * epsilon))
        clear = rng.random() < self.factor * self.delta
        word = f"it is {text}" if clear else text if true else others[rng.integers(len(others))]
        parts = [word, *([str(rng.integers(10**self.digits))] if self.digits else [])]
        return " ".join([*parts, self.leak(text, rng)] if self.leak else parts)


class Clear(Response):
    """Claims what randomised response claims, and writes the word beside a number."""

    def _rewritten(self, text: str, epsilon: float, rng: np.random.Generator) -> str:
        return f"{text} {rng.integers(10**self.digits)}" if self.digits else text


class Beside(Response):
    """Writes a number and what leaks, no word."""

    def _rewritten(self, text: str, epsilon: float, rng: np.random.Generator) -> str:
        return f"{rng.integers(10**12)}{self.leak(text, rng)}"


@pytest.mark.parametrize("digits", [0, 2, 3, 6, 12])
@pytest.mark.parametrize("epsilon", [1, 3])
def test_a_word_in_clear_is_seen_beside_any_number(digits: int, epsilon: float) -> None:
    """Among so many draws hardly a number comes twice, so no single output says anything."""
    finding = check_claim(Clear(digits=digits), epsilon)
    assert finding.verdict == VIOLATED
    assert finding.worst == pytest.approx(finding.testable)
    assert finding.worst > 4.5
    assert "alpha" in finding.witness[2]


@pytest.mark.parametrize(
    "leak",
    [
        lambda text, rng: text[::-1],
        lambda text, rng: "".join(letter + str(rng.integers(10)) for letter in text),
        lambda text, rng: hashlib.sha256(text.encode()).hexdigest(),
        lambda text, rng: hashlib.sha256(f"{text}{rng.integers(300)}".encode()).hexdigest(),  # one of 300 codes
        lambda text, rng: "." * len(text),
        lambda text, rng: f" {rng.normal() + 2 * WORDS.index(text):.9f}",
    ],
)
def test_a_leak_in_another_form_is_seen(leak: Any) -> None:
    finding = check_claim(Beside(leak=leak), 1)
    assert finding.verdict == VIOLATED
    assert finding.worst > 2


def test_a_loss_beyond_the_claim_is_seen_where_outputs_never_repeat() -> None:
    """Twice the epsilon: each output is 2 nats likelier at its own input than at the others."""
    finding = check_claim(Response(digits=12, factor=2), 1)
    assert finding.verdict == VIOLATED
    assert 1 < finding.worst < 2


@pytest.mark.parametrize("digits", [0, 6])
def test_a_delta_too_small_is_seen(digits: int) -> None:
    """Eight times as often in clear as it says, with the epsilon that it says."""

    class Often(Response):
        def guarantee(self, epsilon: float) -> Guarantee:
            return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY, delta=self.delta / 8)

    assert check_claim(Often(digits=digits, delta=0.4), 1).verdict == VIOLATED
    assert check_claim(Response(digits=digits, delta=0.4), 1).verdict == NOT_REFUTED


@pytest.mark.parametrize(
    ("digits", "delta", "runs"), first(1, [(6, 0.05, 40), (6, 0.0, 40), (0, 0.0, 150), (0, 0.05, 150)])
)
def test_claims_that_are_met_exactly_are_refuted_as_seldom_as_stated(digits: int, delta: float, runs: int) -> None:
    """At level 0.2, seeds fixed: more alarms than allowed have a probability below 1e-4 if it holds (seen: 2 %)."""
    mechanism = Response(words=2, digits=digits, delta=delta)
    verdicts = [monte_carlo(mechanism, 1, mechanism.inputs, draws=400, alpha=0.2, seed=s).verdict for s in range(runs)]
    allowed = int(binom.isf(1e-4, runs, 0.2))
    assert set(verdicts) <= {VIOLATED, NOT_REFUTED}
    assert verdicts.count(VIOLATED) <= allowed < runs / 2


def test_what_no_count_could_refute_is_not_testable() -> None:
    """Numbers alone: what a classifier takes for an input comes in some 60 % of its draws, which refutes 4.2 nats."""
    numbers = Beside(leak=lambda text, rng: "")
    low, high = check_claim(numbers, 1), check_claim(numbers, 4.5)
    assert low.verdict == NOT_REFUTED
    assert "came only once" in low.reason
    assert high.verdict == NOT_TESTABLE
    assert high.testable < 4.5
    assert high.draws == 2000


def test_a_claim_is_no_loss() -> None:
    """Where nothing is computed, the largest loss is what draws prove, or unknown."""
    mechanism = Response()
    findings = [check_claim(mechanism, epsilon) for epsilon in (1, 50)]
    (low, how), untested = largest_losses(mechanism, findings)
    assert how == "draws"
    assert 0.5 < low < 1
    assert untested is None


def bits(rng: np.random.Generator, count: int) -> np.ndarray:
    """In place of the operating system's."""
    return rng.integers(0, 1 << 64, count, np.uint64, endpoint=False)


@pytest.mark.parametrize("name", NAMES)
def test_noise_has_the_claimed_density_in_audits_and_in_releases(words: Path, name: str) -> None:
    """Each p-value is below 0.001 with probability at most 0.001; the seeds are fixed."""
    mechanism = make(name, words)
    for epsilon in (0.5, 20):
        assert noise_p_value(mechanism, epsilon, mechanism.inputs) > 0.001
        release = Noise(np.arange(1000), None, ExactDraws(partial(bits, np.random.default_rng(7))))
        before, after = mechanism.moved([mechanism.inputs[i % 40] for i in range(1000)], epsilon, release)
        assert fit(before, after - before, epsilon) > 0.001


@pytest.mark.parametrize("wrong", [Shorter, OneNoise, OtherDistance, Stretched])
def test_other_noise_than_the_claim_needs_is_seen(words: Path, wrong: Any) -> None:
    mechanism = wrong(resource=words)
    assert noise_p_value(mechanism, 20, mechanism.inputs) < 1e-6
    finding = check_claim(mechanism, 20)
    assert "does not have the density" in finding.reason
    for epsilon in (20, *extra_epsilons(mechanism, 20)):
        assert check_claim(mechanism, epsilon).verdict != NOT_REFUTED, "its only support is gone"


def test_the_noise_check_of_few_vectors_does_not_hang_on_their_last_bits() -> None:
    """Twelve vectors in fifty dimensions: along most axes they do not vary, and rounding turns those."""
    rng = np.random.default_rng(3)
    vectors = np.tile(rng.normal(size=(12, 50)), (100, 1))
    direction = rng.normal(size=(1200, 50)) * np.repeat([1.0, 0.8], 25)
    noise = direction / np.linalg.norm(direction, axis=1, keepdims=True) * rng.gamma(50, 1 / 7, size=(1200, 1))
    p_values = {fit(vectors + size * rng.normal(size=vectors.shape), noise, 7.0) for size in (0, 1e-13, 1e-13, 1e-13)}
    assert max(p_values) == pytest.approx(min(p_values), rel=1e-4)


def test_false_alarms_of_the_noise_check_are_as_stated() -> None:
    """At level 0.05; more than 24 of 200 with probability below 1e-4 if the p-values are valid (seed fixed)."""
    rng, alarms = np.random.default_rng(11), 0
    for _ in range(200):
        direction = rng.normal(size=(400, 5))
        length = rng.gamma(5, 1 / 3.0, size=(400, 1))
        noise = direction / np.linalg.norm(direction, axis=1, keepdims=True) * length
        alarms += fit(rng.normal(size=(400, 5)), noise, 3.0) <= 0.05
    assert binom.sf(24, 200, 0.05) < 1e-4
    assert alarms <= 24
