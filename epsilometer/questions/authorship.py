"""Authorship: which of N people wrote n rewrites, seen together.

The adversary knows one half of each author's texts; the other half is for tests. A trial draws an author and n of that
author's test texts uniformly, and rewrites each of these texts once. For each rewrite, a classifier of words and
character n-grams gives the probability of each author. The adversary multiplies the probabilities over the n rewrites,
and names the most probable author. The `static` adversary learns from the known texts themselves. The `adaptive`
adversary learns from rewrites of the known texts, which anybody who knows the mechanism can make.

Given the texts that the adversary knows, trials are independent, so the number of right guesses is binomial. Its rate
is an average over these authors and their test texts.

**The loss** is the loss of guessing one of N equally likely authors with success rate p: ln((N - 1) p / (1 - p)) (TeDA
eq. 10). Two authors differ in all n texts. Let the pure loss between any two texts be at most c. Then the likelihoods
of n rewrites under two authors differ by at most a factor e^(n c), so the loss of n texts together is at most n c. An
average loss of c gives no such bound. The control `identity`, which returns texts unchanged, shows how much these
adversaries learn from n unprotected texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import model_validator

from epsilometer.auditing.evidence.evidence import By, Covers, Evidence, Hits
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.gate_statistics import Errors, enough_texts
from epsilometer.auditing.question import Gives, Need, Observed
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.models.classifiers.linear import logistic_regression
from epsilometer.text.words import words

STATIC, ADAPTIVE = "static", "adaptive"
_TIMES = 4  # rewrites of each known text
_CHARACTERS = (2, 4)  # shortest and longest character n-gram


@dataclass(frozen=True)
class _Writers:
    """Texts by author. profile, test: for each author, indices of texts that the adversary knows, and of test texts."""

    texts: Sequence[str]
    profile: Sequence[NDArray[np.int64]]
    test: Sequence[NDArray[np.int64]]


@component
class Authorship:
    """author: the column of each text's author. authors: the number of possible authors; those with the most
    texts are chosen. together: numbers of texts by one author that the adversary sees at once.
    """

    author: str = "author"
    authors: int = 20
    together: Sequence[int] = (1, 5, 20)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.COLUMNS})
    gives: ClassVar[frozenset[Gives]] = frozenset({Gives.LOW, Gives.HIGH, Gives.OUTCOMES})
    usual: ClassVar[int] = 200

    @model_validator(mode="after")
    def _check(self) -> Authorship:
        if self.authors < 2:
            raise ValueError(f"authors must be at least 2, got {self.authors}: one author leaves nothing to guess")
        if not self.together or min(self.together) < 1 or len({*self.together}) < len(self.together):
            raise ValueError(f"together must name different numbers of texts, each at least 1, got {self.together}")
        return self

    @property
    def columns(self) -> Sequence[str]:
        """The column of authors."""
        return [self.author]

    def limit(self, of: Subject, allowed: float) -> Limit:
        """Return a limit on the loss, in nats, of each adversary and number of texts."""
        if not allowed > 0:
            raise UserError(f"the limit of authorship, in nats, must be > 0, got {allowed}", "EPS-Q053")
        return Limit(allowed, self._scale, "the largest loss of authorship allowed")

    def tests(self, of: Subject) -> Sequence[str]:
        """Return a name for each number of texts and adversary."""
        return [_name(adversary, n) for n in self.together for adversary in (STATIC, ADAPTIVE)]

    def amount(self, of: Subject, limit: Limit, budget: int, tests: int, *, errors: Errors) -> int:
        """Return the number of trials. Each trial rewrites the largest number of texts that are seen together."""
        if limit.rate > 1 - 1e-6:
            raise UserError(
                f"no rate of guesses can exceed a loss of {limit.allowed:g} nats; give a lower limit", "EPS-Q054"
            )
        needed = enough_texts(limit.rate, tests, errors=errors, share=1 / self.authors)
        most = max(0, budget - _TIMES * sum(map(len, self._writers(of).profile))) // max(self.together)
        if needed > most:
            raise UserError(
                f"a limit of {limit.allowed:g} nats on authorship takes {needed:,} trials of {max(self.together)} "
                f"rewrites to test, and the budget allows {most:,}; give a larger budget (--budget), fewer texts "
                "(authorship.together), or a higher limit",
                "EPS-Q055",
            )
        return needed

    def observe(self, of: Subject, count: int) -> Sequence[Observed]:
        """Return the evidence of each adversary at each number of texts, all from the same trials."""
        writers, seed, most = self._writers(of), of.design.seed, max(self.together)
        truth, tests = _trials(writers, count, most, seed)
        rewrites = np.array(_rewritten(of, writers.texts, tests.ravel(), "tests"), object).reshape(tests.shape)
        learnt, author = (
            np.concatenate(writers.profile),
            np.repeat(np.arange(self.authors), [*map(len, writers.profile)]),
        )
        again = np.repeat(learnt, _TIMES)
        learners = {
            STATIC: _learned(tuple(writers.texts[i] for i in learnt), tuple(author)),
            ADAPTIVE: _learn(_rewritten(of, writers.texts, again, "known"), np.repeat(author, _TIMES)),
        }
        every = {name: log_of(rewrites.ravel().tolist()).reshape(count, most, -1) for name, log_of in learners.items()}
        observed = []
        for n in self.together:
            for name, logs in every.items():
                right = logs[:, :n].sum(axis=1).argmax(axis=1) == truth
                evidence = Evidence(
                    _name(name, n), By.ATTACK, self._scale, Hits(int(right.sum()), count), covers=Covers.THESE
                )
                of_texts = [
                    (writers.texts[i], bool(hit))
                    for row, hit in zip(tests[:, :n].tolist(), right, strict=True)
                    for i in row
                ]
                observed.append(Observed(evidence, right.astype(np.float64), of_texts))
        return observed

    @property
    def _scale(self) -> Scale:
        return Scale("authorship", self.authors)

    def _writers(self, of: Subject) -> _Writers:
        """Return the authors with most texts, whose texts are halved at random. All known halves get the same size."""
        assert of.table is not None, "the columns are checked first"
        by_author = (
            of.table.with_row_index("row")
            .filter(pl.col(self.author).is_not_null())
            .group_by(self.author, maintain_order=True)
            .agg("row", pl.len().alias("texts"))
            .sort("texts", descending=True, maintain_order=True)
        )
        least, rows = 2 * max(self.together), by_author.head(self.authors)
        if len(rows) < self.authors or rows["texts"].min() < least:  # type: ignore[operator]
            enough = by_author.filter(pl.col("texts") >= least).height
            raise UserError(
                f"authorship among {self.authors} authors takes {least} texts of each, half of them to learn from; "
                f"{enough} of {len(by_author)} authors have {least}; give texts of more authors, fewer texts seen "
                "together (authorship.together), or fewer authors (authorship.authors)",
                "EPS-Q056",
            )
        streams, halves = Noise.named(len(rows), of.design.seed, "authorship", "halves"), []
        for i, row in enumerate(rows["row"].to_list()):
            order = streams.generator(i).permutation(np.array(row, np.int64))
            halves.append((order[: len(order) // 2], order[len(order) // 2 :]))
        fewest = min(len(first) for first, _ in halves)
        return _Writers(
            of.table["text"].to_list(), [first[:fewest] for first, _ in halves], [test for _, test in halves]
        )


def _name(adversary: str, texts: int) -> str:
    return f"{texts} text{'s' * (texts > 1)}: {adversary}"


def _trials(writers: _Writers, count: int, most: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the author of each trial [count], and indices of the author's texts [count, most] in random order."""
    streams = Noise.named(count, seed, "authorship", "trials")
    truth, tests = np.empty(count, np.int64), np.empty((count, most), np.int64)
    for row in range(count):
        generator = streams.generator(row)
        truth[row] = generator.integers(len(writers.test))
        tests[row] = generator.permutation(writers.test[truth[row]])[:most]
    return truth, tests


def _rewritten(of: Subject, texts: Sequence[str], numbers: NDArray[np.int64], stream: str) -> Sequence[str]:
    """Return one fresh rewrite of the text at each of these indices."""
    noise = Noise.named(len(numbers), of.design.seed, "authorship", stream, of.epsilon)
    (rewrites,) = rewrite_all(of.mechanism, Job(texts, numbers, [of.epsilon], [noise], tally=of.tally), paced=True)
    return list(rewrites.texts)


@lru_cache(maxsize=1)
def _learned(texts: tuple[str, ...], author: tuple[int, ...]) -> Callable[[Sequence[str]], NDArray[np.float64]]:
    """Return the result of `_learn` for the known texts, cached, since these texts are the same at every budget."""
    return _learn(texts, np.array(author))


def _learn(texts: Sequence[str], author: NDArray[np.int64]) -> Callable[[Sequence[str]], NDArray[np.float64]]:
    """Train a classifier; return a function from n texts to log-probabilities of authors [n, authors]."""
    if not any(map(words, texts)):  # without words, authors cannot be told apart
        count = int(author.max()) + 1
        return lambda others: np.zeros((len(others), count))
    features = _features().fit(texts)
    _, coefficients, intercepts = logistic_regression(features.transform(texts), [f"{i:09}" for i in author])

    def logs(others: Sequence[str]) -> NDArray[np.float64]:
        scores = features.transform(others) @ coefficients.T + intercepts
        return np.asarray(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True), np.float64)

    return logs


def _features() -> Any:
    """Return a vectorizer: TF-IDF of words, and of character n-grams within words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import FeatureUnion

    of_words = TfidfVectorizer(analyzer=words, sublinear_tf=True)
    of_characters = TfidfVectorizer(analyzer="char_wb", ngram_range=_CHARACTERS, min_df=2, sublinear_tf=True)
    return FeatureUnion([("words", of_words), ("characters", of_characters)])
