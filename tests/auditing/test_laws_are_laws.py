"""A stated law is checked wherever it is used. A wrong law gives an error that names the input, and never a figure.

The law is a table of the outputs of the words a, b and c; the row of b is broken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import epsilometer
from epsilometer.auditing.claims.largest_loss import largest_losses
from epsilometer.auditing.claims.worst_case import check_claim
from epsilometer.auditing.deniability import deniability
from epsilometer.auditing.exact_loss.importance import Sampling, draws, mixed, sampled_mean
from epsilometer.auditing.exact_loss.latents import losses
from epsilometer.auditing.exact_loss.losses import Request
from epsilometer.auditing.trials.design import Design
from epsilometer.cells.calibrating import losses as calibrating
from epsilometer.core.between import Between
from epsilometer.core.errors import LawError
from epsilometer.core.laws import Laws
from epsilometer.core.likelihood import log_likelihoods
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.latents.shared.noise import Gaussian, Laplace
from epsilometer.questions.worst_pair import audit_worst
from tests.support.commands import call
from tests.support.refusals import refused
from tests.support.spelled import Spelled

TEXTS = ["a a", "a b", "c b", "c c"]
LAW = np.log([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])
BROKEN = {
    "weights": LAW[1] + 1.0,
    "overflow": np.array([800.0, 0.0, 0.0]),
    "NaN": np.array([math.nan, *LAW[1, 1:]]),
    "no output": np.full(3, -math.inf),
    "a little": LAW[1] + 2e-6,
}
PLAIN = Design(temperature=0)


class Unchecked(Spelled):
    """Draws from true laws, and states the broken row."""

    def __init__(self, broken: NDArray[np.float64]) -> None:
        super().__init__(LAW, claimed=2.0)
        self.broken = broken

    def stated(self, rows: NDArray[np.integer]) -> NDArray[np.float64]:
        return np.where(rows[:, None] == 1, self.broken, LAW[rows])

    def laws(self, texts: Sequence[str]) -> Laws:
        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for _ in epsilons:
                yield self.stated(rows)

        return Laws(super().laws(texts).rows, 3, log_probabilities)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return Spelled(LAW).rewrite(texts, epsilon, noise)


def likely(mechanism: Unchecked) -> Any:
    """The likelihoods alone, from a list of rewrites."""
    rewrites = mechanism.rewrite(TEXTS, 2.0, Noise.named(len(TEXTS), "rewrite"))
    return log_likelihoods(mechanism, TEXTS, np.array([[0, 1], [1, 0], [2, 3], [3, 2]]), [rewrites], epsilons=[2.0])


def calibrate(mechanism: Unchecked, **search: Any) -> Any:
    return calibrating.calibrate_texts(TEXTS, mechanism, 0.5, calibrating.Search(low=1, high=4, **search))


USES: dict[str, Callable[[Unchecked], Any]] = {
    "exact loss": lambda m: epsilometer.exact_loss(TEXTS, m, [2.0], design=PLAIN),
    "among sets": lambda m: epsilometer.exact_loss(TEXTS, m, [2.0], design=Design(candidates=3, temperature=0)),
    "curves": lambda m: epsilometer.exact_curves(TEXTS, m, [2.0], design=PLAIN),
    "pairs": lambda m: epsilometer.exact_pairs(TEXTS, m, [2.0]),
    "audit": lambda m: epsilometer.audit(TEXTS, m, [2.0], ["likelihood"], 40, design=PLAIN),
    "audit by another attack": lambda m: epsilometer.audit(TEXTS, m, [2.0], ["lexical"], 40, design=PLAIN),
    "likelihoods": likely,
    "worst pair": lambda m: audit_worst(TEXTS, m, [2.0], ["lexical"], trials=400),
    "claim": lambda m: check_claim(m, 2.0),
    "largest loss": lambda m: largest_losses(m, [SimpleNamespace(epsilon=2.0)]),  # type: ignore[list-item]
    "calibration by the law": lambda m: calibrate(m, measure="average"),
    "calibration of delta": lambda m: calibrate(m, measure="delta", at=0.5),
    "calibration by attacks": lambda m: calibrate(m, attack="likelihood", budget=400),
    "deniability": lambda m: deniability(m, "abc", [2.0]),
}


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("use", USES)
def test_what_is_no_law_gives_no_figure(use: str, broken: str) -> None:
    """The error names where the row is met first, by number, and the epsilon; a true row raises nothing."""
    with refused("EPS-C042", kind=LawError) as caught:
        USES[use](Unchecked(BROKEN[broken]))
    assert re.search(r"unit [01] of input [012] \(counted from 0\) at epsilon [0-9.]+ ", str(caught.value))


@pytest.mark.parametrize("use", USES)
def test_a_law_passes(use: str) -> None:
    USES[use](Unchecked(LAW[1] + 5e-7))


def test_entries_must_be_those_of_the_rows() -> None:
    def rows(numbers: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
        return (LAW[numbers] for _ in epsilons)

    for shift, fails in ((0.0, False), (-0.1, True), (1.0, True), (math.nan, True)):
        laws = Laws(
            Ragged.of([[0], [1]]),
            3,
            rows,
            lambda at, out, e, by=shift: [LAW[at, y] + by for y in out],  # type: ignore[misc]
        )
        assert laws.entries is not None
        values = laws.entries(np.array([0, 1]), [np.array([2, 1])], [1.0])
        if fails:
            with refused("EPS-C043", "unit 0 of input 0", "epsilon 1", kind=LawError):
                list(values)
        else:
            np.testing.assert_array_equal(list(values), [LAW[[0, 1], [2, 1]]])


def test_rows_must_be_as_many_and_as_long_as_units_and_outputs() -> None:
    laws = Laws(Ragged.of([[0], [1]]), 3, lambda rows, epsilons: iter([LAW[:1, :2]]))
    with refused("EPS-C041", "(2, 3)", "(1, 2)", kind=LawError):
        list(laws.log_probabilities(np.array([0, 1]), [1.0]))


class OnlyLikely:
    """Generated text, say: a likelihood without laws, which gives this for every rewrite."""

    def __init__(self, says: float) -> None:
        self.says = says

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return Rewrites(list(texts), Ragged.of([[0]] * len(texts)))

    def guarantee(self, epsilon: float) -> None:
        return None

    def log_likelihoods(self, texts: Any, candidates: NDArray[np.integer], rewrites: Any, epsilons: Any) -> Any:
        return [np.full(candidates.shape, self.says) for _ in epsilons]


@pytest.mark.parametrize("says", [math.nan, math.inf])
def test_likelihoods_must_be_numbers(says: float) -> None:
    for attacked in (
        lambda m: epsilometer.audit(TEXTS, m, [2.0], ["likelihood"], 40, design=PLAIN),
        lambda m: epsilometer.exact_loss(TEXTS, m, [2.0], design=PLAIN),
        lambda m: epsilometer.exact_loss(TEXTS, m, [2.0], design=Design(candidates=3, temperature=0)),
    ):
        with refused("EPS-C045", str(says), "rewrite 0", kind=LawError):
            attacked(OnlyLikely(says))


def test_a_rewrite_that_its_likelihood_rules_out_gives_no_exact_loss() -> None:
    """It had ended in a bare ValueError; an audit by what is read off the rewrites says that the law is not theirs."""
    impossible = OnlyLikely(-math.inf)
    with refused("EPS-A085", kind=LawError):
        mixed(impossible, TEXTS, np.array([[0, 1]]), (2.0, Noise.named(1, "draw")))
    with refused("EPS-A085", kind=LawError):
        epsilometer.exact_loss(TEXTS, impossible, [2.0], design=Design(candidates=3, temperature=0))
    audited = epsilometer.audit(TEXTS, impossible, [2.0], ["lexical"], 40, design=PLAIN)
    assert audited["departs"].all()


@pytest.mark.parametrize("design", [PLAIN, replace(PLAIN, prior=(0.4, 0.6))])
def test_nothing_is_said_by_a_law_that_rules_every_rewrite_out(design: Design) -> None:
    """An attack by it guessed at random, and the claim was "not refuted"; where some are possible, that law departs."""
    with refused("EPS-A004", "40", kind=LawError):
        epsilometer.audit(TEXTS, OnlyLikely(-math.inf), [2.0], ["likelihood"], 40, design=design)

    class Partly(OnlyLikely):
        def log_likelihoods(self, texts: Any, candidates: NDArray[np.integer], rewrites: Any, epsilons: Any) -> Any:
            return [np.where(np.arange(len(candidates))[:, None] < 3, -np.inf, 0.0) + np.zeros(candidates.shape)]

    audited = epsilometer.audit(TEXTS, Partly(0.0), [2.0], ["likelihood"], 40, design=PLAIN)
    assert audited["departs"].all()


@pytest.mark.parametrize("log_rho", [0.5, math.nan])
def test_draws_must_keep_the_bound_that_is_stated_for_them(log_rho: float) -> None:
    class Beyond(OnlyLikely):
        def draws_between(self, texts: Any, pairs: NDArray[np.integer], epsilon: float, noise: Noise) -> Between:
            return Between(*np.array([[log_rho], [0.2], [0.0]]).repeat(len(pairs), axis=1))

    draw = draws(Beyond(0.0), TEXTS, np.array([[0, 1]]), 2.0)
    assert draw is not None
    with refused("EPS-A086", "[0, 1]", kind=LawError):
        sampled_mean(draw, np.ones(1), lambda numbers: Noise.named(numbers, "draw"), Sampling())


@pytest.mark.parametrize("law", [Gaussian(math.nan), Gaussian(0.0), Laplace(math.inf), Laplace(-1.0)])
def test_noise_must_have_a_scale_and_latents_numbers(law: Gaussian | Laplace) -> None:
    noisy = SimpleNamespace(encode=lambda texts: np.zeros((len(texts), 2)), law=lambda epsilon: law)
    request = Request(noisy, TEXTS, np.array([[0, 1], [2, 3]]), [1.0], claims=[np.ones(2)])
    with refused("EPS-A089", kind=LawError):
        losses(request)
    noisy.encode = lambda texts: np.where(np.arange(len(texts))[:, None] == 2, math.nan, np.zeros((len(texts), 2)))
    with refused("EPS-A087", "input 2", kind=LawError):
        losses(request)


@pytest.mark.parametrize("apart", [math.nan, -1.0])
def test_distances_must_be_numbers_from_0_up(apart: float) -> None:
    """NaN had counted as "not covered", so that the claim stood without a pair."""
    mechanism = Spelled(LAW, claimed=2.0)
    mechanism.distance = lambda texts, pairs, epsilon: np.full(len(pairs), apart)  # type: ignore[method-assign]
    for use in (USES["exact loss"], USES["claim"], USES["audit"]):
        with refused("EPS-A056", str(apart)):
            use(mechanism)  # type: ignore[arg-type]


@pytest.mark.parametrize(("answer", "shown"), [(1.0, "1.0"), ("far", "str"), ([1.0] * 5, "(5,)"), (None, "None")])
def test_distances_are_one_a_pair_before_anything_is_rewritten(answer: object, shown: str) -> None:
    mechanism = Spelled(LAW, claimed=2.0)
    mechanism.distance = lambda texts, pairs, epsilon: answer  # type: ignore[method-assign,assignment,return-value]
    mechanism.rewrite = lambda texts, epsilon, noise: pytest.fail("rewritten")  # type: ignore[method-assign]
    for use in (USES["exact loss"], USES["claim"], USES["audit"]):
        with refused("EPS-A057", shown):
            use(mechanism)  # type: ignore[arg-type]


def test_a_list_of_distances_will_do() -> None:
    mechanism = Spelled(LAW, claimed=2.0)
    mechanism.distance = lambda texts, pairs, epsilon: [1.0] * len(pairs)  # type: ignore[method-assign,assignment,return-value]
    USES["audit"](mechanism)  # type: ignore[arg-type]


FILE = """
import numpy as np
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.component import component
from epsilometer.core.laws import Laws
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged


@component
class Weights:
    releases = frozenset({"text", "units"})
    inputs = output_texts = ["a", "b"]

    def laws(self, texts):
        rows = Ragged.of([["ab".index(word) for word in text.split()] for text in texts])
        table = np.array([[0.0, -1.0], [-1.0, 0.0]])  # weights, and no probabilities
        return Laws(rows, 2, lambda rows, epsilons: (table[rows] for _ in epsilons))

    def rewrite(self, texts, epsilon, noise):
        words = [["ab"[int(noise.generator(i).random() < .5)] for _ in text.split()] for i, text in enumerate(texts)]
        return Rewrites(list(map(" ".join, words)), Ragged.of([["ab".index(w) for w in row] for row in words]))

    def guarantee(self, epsilon):
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)

    def distance(self, texts, pairs, epsilon):
        return np.array([float(texts[i] != texts[j]) for i, j in pairs])
"""


@pytest.mark.parametrize(
    "command",
    [
        ("exact", "texts.txt", "--epsilons", 1, "--temperature", 0, "--mechanism"),
        ("audit", "texts.txt", "--epsilons", 1, "--trials", 20, "--attacks", "likelihood", "--mechanism"),
        ("audit", "texts.txt", "--worst", "--epsilons", 1, "--trials", 20, "--attacks", "lexical", "--mechanism"),
        ("calibrate", "texts.txt", "--target", 1, "--measure", "average", "--mechanism"),
        ("claims", "--epsilon", 1),
    ],
)
def test_commands_end_with_2_and_quote_no_text(
    command: Sequence[object], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("weights.py").write_text(FILE)
    Path("texts.txt").write_text("a a\na b\nb b\nb a\n")
    code, out, err = call(capsys, *command, "weights.py")
    assert (code, out) == (2, "")
    assert "unit 0 of input 0 (counted from 0) at epsilon" in err
    assert "sum to 1.36787944, not to 1" in err
    assert not any(text in err for text in ("a a", "a b", "b b", "b a"))
