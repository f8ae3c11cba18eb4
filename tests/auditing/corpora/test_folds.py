"""The interval of F1 over folds covers the expected F1 in simulated populations, and narrower ones do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from epsilometer.auditing.corpora.folds import CHOICE, FOLDS, Folds
from epsilometer.auditing.corpora.ways import Labelled
from epsilometer.auditing.estimation.runs import mean_and_reach
from epsilometer.auditing.estimation.successes import clopper_pearson

CORPORA, TRAININGS = 200, 2000


@dataclass(frozen=True)
class Population:
    """Vectors around a centre for each label, and a learner of the labels' noisy mean vectors.

    shares: of the labels; spread: the length of the deviations; texts: the size of a corpus; read: the share of the
    training texts that is learnt from; noise: the standard deviation of a label's noisy sum.
    """

    shares: Sequence[float]
    dimensions: int
    spread: float
    texts: int
    read: float = 1.0
    noise: float = 0.0

    @cached_property
    def centres(self) -> NDArray[np.float64]:
        rows = np.random.default_rng(0).normal(size=(len(self.shares), self.dimensions))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def sample(self, count: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        labels = rng.choice(len(self.shares), count, p=self.shares)
        noise = rng.normal(size=(count, self.dimensions)) * self.spread / math.sqrt(self.dimensions)
        return self.centres[labels] + noise, labels

    def f1(
        self,
        learnt: tuple[NDArray[np.float64], NDArray[np.int64]],
        tests: tuple[NDArray[np.float64], NDArray[np.int64]],
        rng: np.random.Generator,
    ) -> float:
        """Macro F1 of one training."""
        every = np.arange(len(self.shares))
        sums = (learnt[1] == every[:, None]).astype(float) @ learnt[0]
        sums += self.noise * rng.normal(size=sums.shape)
        means = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        guesses = (tests[0] @ means.T).argmax(1)
        hits = np.bincount(tests[1][guesses == tests[1]], minlength=len(every))
        both = np.bincount(tests[1], minlength=len(every)) + np.bincount(guesses, minlength=len(every))
        return float((2 * hits[both > 0] / both[both > 0]).mean())

    def truth(self) -> float:
        """The mean F1 of independent trainings with as many texts and tests as in a fold."""
        rng, whole = np.random.default_rng(1), self.texts * (1 - CHOICE)
        learnt, tests = round(whole * (1 - 1 / FOLDS) * self.read), round(whole / FOLDS)
        each = (self.f1(self.sample(learnt, rng), self.sample(tests, rng), rng) for _ in range(TRAININGS))
        return float(np.mean(list(each)))

    def corpus(self, number: int) -> tuple[list[float], float]:
        """F1 of the folds of a corpus, and the half-width of its interval."""
        rng = np.random.default_rng([2, number])
        vectors, labels = self.sample(self.texts, rng)
        names = [str(label) for label in labels]
        public = Labelled(
            list(map(str, range(len(self.shares)))), self.centres, list(map(str, range(len(self.shares))))
        )
        folds = Folds(public, Labelled(names, vectors, names), np.arange(self.texts), number, "simulated")
        read, f1 = rng.random(self.texts) < self.read, []
        for learnt, ways in zip(folds.learnt, folds.ways, strict=True):
            chosen, tests = learnt[read[learnt]], np.array(ways.tests.labels).astype(int)
            f1.append(self.f1((vectors[chosen], labels[chosen]), (ways.tests.vectors, tests), rng))
        return f1, folds.reach(f1, round(len(folds.learnt[0]) * self.read))


POPULATIONS = {
    "usual": Population((0.25,) * 4, 8, 1.5, 300),
    "noisy sums": Population((0.25,) * 4, 8, 1.5, 300, noise=8.0),
    "18 texts learnt from, 90 tests": Population((0.7, 0.2, 0.06, 0.04), 16, 1.5, 500, read=0.05),
    "folds that often agree": Population((0.5, 0.5), 8, 1.0, 60),
    "11 tests with rare labels": Population((0.6, 0.2, 0.2), 8, 1.0, 60),
}
MOST = 8  # misses of an interval that covers 99 of 100 corpora


def misses(population: Population, reach: Callable[[list[float], float], float]) -> int:
    """The number of corpora whose interval misses the truth. reach: of the F1 of the folds, and the half-width."""
    truth, rows = population.truth(), map(population.corpus, range(CORPORA))
    return sum(abs(np.mean(f1) - truth) > reach(f1, own) for f1, own in rows)


@pytest.mark.parametrize("name", POPULATIONS)
def test_the_interval_covers_the_expected_f1_of_new_texts(name: str) -> None:
    """False alarm below 3e-4 for each population, by the binomial law of 200 independent corpora."""
    assert binom.sf(MOST, CORPORA, 0.01) < 3e-4
    assert misses(POPULATIONS[name], lambda _, own: own) <= MOST


@pytest.mark.parametrize("name", [*POPULATIONS][2:])
def test_an_interval_without_the_corrections_does_not(name: str) -> None:
    """Student's interval with a fifth of the variance. Seeded, so the outcome is fixed."""
    assert misses(POPULATIONS[name], lambda f1, _: mean_and_reach(f1)[1]) > MOST


def test_folds_that_agree_have_the_interval_of_a_share_of_their_test_groups() -> None:
    """45 of 50 groups of two texts are in folds; the bound of no error in 45 of 45 is that of Clopper and Pearson."""
    names = ["a", "b"] * 50
    public = Labelled(["a", "b"], np.eye(2), ["a", "b"])
    folds = Folds(public, Labelled(names, np.eye(2)[[0, 1] * 50], names), np.arange(100) // 2, 0, "agree")
    assert sum(len(ways.tests) for ways in folds.ways) == 90
    for texts in (None, 72):
        assert folds.reach([1.0] * FOLDS, texts) == pytest.approx(1 - clopper_pearson(45, 45, 0.01)[0])
        assert folds.reach([0.0] * FOLDS, texts) == pytest.approx(clopper_pearson(0, 45, 0.01)[1])


@pytest.mark.parametrize(("texts", "shared"), [(None, 0), (72, 1 / 5), (18, 1 / 2), (6, 3 / 4), (2, 3 / 4)])
def test_the_correction_is_of_the_numbers_of_texts_and_tests(texts: int | None, shared: float) -> None:
    """18 of 100 texts are tests in a fold. No more than the three quarters that folds have in common are corrected."""
    names, f1 = ["a", "b"] * 50, [0.1, 0.9, 0.5, 0.2, 0.8]
    public = Labelled(["a", "b"], np.eye(2), ["a", "b"])
    folds = Folds(public, Labelled(names, np.eye(2)[[0, 1] * 50], names), np.arange(100), 0, "numbers")
    assert folds.reach(f1, texts) == pytest.approx(mean_and_reach(f1, shared=shared)[1])
