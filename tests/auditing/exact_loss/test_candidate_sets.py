"""The loss of guessing among more than two texts agrees with enumeration, and its interval has the stated coverage."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from epsilometer.auditing.exact_loss.candidate_sets import mean_loss
from epsilometer.auditing.exact_loss.importance import AT_LEAST, IMPORTANCE, Sampling
from epsilometer.auditing.exact_loss.measuring import measure
from epsilometer.auditing.exact_loss.pairs import CandidateSets, of_trials
from epsilometer.auditing.trials.sampling import Trials
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise

OUTPUTS, WORDS = 4, "abcde"
LOGITS = np.random.default_rng(0).normal(size=(len(WORDS), OUTPUTS))
TEXTS = ["a b c", "c d e", "a b d", "b b", "e a a"]
UNUSED = np.empty(0, np.int64)  # trials; the mean over given sets does not depend on them
SETS = CandidateSets(np.array([[0, 1, 2], [1, 2, 4], [0, 3, 4]]), np.array([0.5, 0.3, 0.2]), UNUSED)


class Lawful:
    """Five words, four outputs."""

    def __init__(self, logits: NDArray[np.float64] = LOGITS) -> None:
        self._logits = logits

    def guarantee(self, epsilon: float) -> Guarantee:
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)

    def laws(self, texts: Sequence[str]) -> Laws:
        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                scaled = epsilon * self._logits[rows]
                yield scaled - np.logaddexp.reduce(scaled, axis=1, keepdims=True)

        rows = Ragged.of([[WORDS.index(word) for word in text.split()] for text in texts])
        return Laws(rows, OUTPUTS, log_probabilities)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        raise AssertionError("the loss of laws needs no rewrite")


class Hidden:
    """Texts are digits; one of four outputs, known by its likelihood alone."""

    def guarantee(self, epsilon: float) -> None:
        return None

    def _log_p(self, text: str, epsilon: float) -> NDArray[np.float64]:
        scaled = epsilon * LOGITS[int(text)]
        return scaled - np.logaddexp.reduce(scaled)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        laws = np.exp([self._log_p(text, epsilon) for text in texts]).cumsum(axis=1)
        out = (noise.uniforms(1) > laws[:, :-1]).sum(axis=1)
        return Rewrites([str(i) for i in out], Ragged.of(out[:, None]))

    def log_likelihoods(self, texts, candidates, rewrites, epsilons):
        laws = [np.array([self._log_p(text, epsilon) for text in texts]) for epsilon in epsilons]
        return [law[candidates, output.units.values[:, None]] for law, output in zip(laws, rewrites, strict=True)]


def error(log_p: Sequence[NDArray[np.float64]]) -> float:
    """Of guessing among texts with these log-probabilities over all outputs."""
    p = np.exp(np.array(log_p))
    return float(p.sum() - p.max(axis=0).sum()) / len(p)


def listed(text: str, epsilon: float, lawful: Lawful) -> dict[tuple[int, ...], float]:
    (log_p,) = lawful.laws([text]).log_probabilities(np.array([WORDS.index(w) for w in text.split()]), [epsilon])
    return {y: float(sum(log_p[range(len(y)), y])) for y in itertools.product(range(OUTPUTS), repeat=len(log_p))}


def truth(sets: CandidateSets, epsilon: float, lawful: Lawful | None = None) -> float:
    """The loss at the mean error, by enumeration of all outputs of all lengths."""
    each, k = [], sets.numbers.shape[1]
    for numbers in sets.numbers:
        of = [listed(TEXTS[i], epsilon, lawful or Lawful()) for i in numbers]
        outputs = sorted({y for law in of for y in law})
        each.append(error([np.array([law.get(y, -np.inf) for y in outputs]) for law in of]))
    e = float(sets.weights @ each)
    return math.log((k - 1) * (1 - e) / e)


@pytest.mark.parametrize("epsilon", [0.3, 3.0, 9.0])
def test_laws_against_enumeration(epsilon: float) -> None:
    """One of the texts has another length. False alarm 1e-9 a case."""
    result = mean_loss(Lawful(), TEXTS, SETS, epsilon, sampling=Sampling(width=0.1, draws=25_600, alpha=1e-9))
    assert result.method == IMPORTANCE
    assert result.loss.low <= truth(SETS, epsilon) <= result.loss.high
    assert result.loss.high - result.loss.low < 0.5


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-8, 8), min_size=20, max_size=20), st.sampled_from([0.1, 1.0, 4.0]))
def test_any_laws(logits: list[float], epsilon: float) -> None:
    """False alarm 1e-9 an example."""
    lawful = Lawful(np.array(logits).reshape(5, OUTPUTS))
    result = mean_loss(lawful, TEXTS, SETS, epsilon, sampling=Sampling(width=0.5, draws=800, alpha=1e-9))
    assert result.loss.low - 1e-9 <= max(0.0, truth(SETS, epsilon, lawful)) <= result.loss.high + 1e-9


def test_a_likelihood_alone_against_enumeration_and_at_least() -> None:
    """False alarm 1e-9; at epsilon 40 the error is beyond what 3,200 draws show."""
    texts, sets = list("01234"), CandidateSets(np.array([[0, 1, 2, 3], [1, 2, 3, 4]]), np.array([0.4, 0.6]), UNUSED)
    hidden = Hidden()
    sampling = Sampling(draws=3200, alpha=1e-9)
    errors = [error([hidden._log_p(texts[i], 2.0) for i in numbers]) for numbers in sets.numbers]
    e = float(sets.weights @ errors)
    result = mean_loss(hidden, texts, sets, 2.0, sampling=sampling)
    assert result.loss.low <= math.log(3 * (1 - e) / e) <= result.loss.high
    separate = CandidateSets(np.array([[0, 2, 3]]), np.ones(1), UNUSED)
    assert mean_loss(hidden, texts, separate, 60.0, sampling=sampling).method == AT_LEAST


def test_texts_that_share_no_output_are_told_apart() -> None:
    texts = ["a", "a b", "a b c"]
    result = mean_loss(
        Lawful(), texts, CandidateSets(np.array([[0, 1, 2]]), np.ones(1), UNUSED), 1.0, sampling=Sampling()
    )
    assert result.loss.low == result.loss.high == math.inf
    assert result.draws == 0


@pytest.mark.slow
def test_coverage() -> None:
    """400 intervals at alpha = 0.1, stopped at a width: more misses by chance once in 10^9."""
    alpha, runs, value = 0.1, 400, truth(SETS, 2.0)
    sampling = Sampling(width=0.4, draws=400, first=50, alpha=alpha)
    missed = 0
    for run in range(runs):
        lawful = Lawful()
        loss = mean_loss(lawful, TEXTS, SETS, 2.0 + run * 1e-12, sampling=sampling).loss  # another stream
        missed += not loss.low <= value <= loss.high
    assert missed <= stats.binom.isf(1e-9, runs, alpha)


def test_rows_of_trials_with_more_candidates() -> None:
    """The average is far narrower than its bounds by pairs, inside them, and near the truth of these very sets."""
    trials = Trials(np.array([[0, 1, 2], [2, 1, 4], [4, 3, 0], [1, 0, 2]], np.int32), np.zeros(4, np.int16))
    pairs = of_trials(trials, TEXTS)
    assert pairs.candidates == 3
    assert pairs.sets.weights.tolist() == [0.5, 0.25, 0.25]
    table = measure(Lawful(), TEXTS, [3.0], pairs).losses
    whole, equal = table.iter_rows(named=True)
    assert whole["average_high"] - whole["average_low"] < 0.2
    assert whole["average_low"] - 0.1 <= truth(pairs.sets, 3.0) <= whole["average_high"] + 0.1
    of_equal = CandidateSets(pairs.sets.numbers[[0, 2]], np.array([2, 1]) / 3, UNUSED)
    assert equal["share"] == 0.75
    assert equal["average_low"] - 0.1 <= truth(of_equal, 3.0) <= equal["average_high"] + 0.1
