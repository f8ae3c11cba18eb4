"""Plausible deniability of a mechanism on single words (Feyisetan et al., WSDM 2020; 1-Diffractor, section 5.1).

    N_w = P(w is rewritten as w)    S_w = the number of distinct words among the rewrites of w

N_w and S_w describe the variety of a mechanism's output and bound no loss: an output without the word can still
disclose the word. Most mechanisms give every word of the vocabulary a positive probability at any epsilon, so with
enough draws S_w would be the size of the whole vocabulary. As in the papers, S_w is therefore counted in n draws, and
depends on n. If the mechanism has a law, N_w and the expectation of S_w,

    E S_w = sum over y of 1 - (1 - P(y | w))^n,

are computed from the law. Otherwise n rewrites of w are counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import check_epsilons
from epsilometer.core.laws import Laws
from epsilometer.core.mechanism import HasInputs, HasLaws, Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.text.words import words as words_of

Figures = tuple[NDArray[np.float64], NDArray[np.float64]]  # N_w and S_w of each word, [words] each


def deniability(
    mechanism: Mechanism, words: Sequence[str], epsilons: Sequence[float], draws: int = 100, seed: int = 0
) -> pl.DataFrame:
    """Compute N_w and S_w over words, at each epsilon.

    words: single words as the mechanism writes them (lower case); the paper takes 100 random words of the vocabulary.
    An out-of-vocabulary word is never rewritten as itself. draws: n, the number of draws of each word. seed: the seed
    of the draws, if the mechanism has no law.
    Returns one row per epsilon: epsilon, words (their number), draws, stays (mean N_w), stays_low, stays_high (5th and
    95th percentile over words), support (mean S_w), support_low, support_high, method ("exact" or "sampled"; sampled
    percentiles contain sampling noise).
    Raises UserError for an empty list, an entry that is not a single word, draws < 1, or an invalid epsilon.
    """
    check_epsilons(epsilons)
    if not words:
        raise UserError(
            "words is empty; give at least one word, such as 100 words of the mechanism's vocabulary", "EPS-A061"
        )
    wrong = next((word for word in words if words_of(word) != [word]), None)
    if wrong is not None:
        raise UserError(f"words must be single words in lower case, got {wrong!r}", "EPS-A062")
    if draws < 1:
        raise UserError(f"draws must be at least 1, got {draws}", "EPS-A063")
    if isinstance(mechanism, HasLaws) and isinstance(mechanism, HasInputs):
        method = "exact"
        statistics = _exact(mechanism.laws(words), mechanism.output_texts, words, epsilons, draws=draws)
    else:
        method = "sampled"
        statistics = _sampled(mechanism, words, epsilons, draws, seed=seed)
    rows = []
    for epsilon, (stays, support) in zip(epsilons, statistics, strict=True):
        row: dict[str, float | int | str] = {"epsilon": float(epsilon), "words": len(words), "draws": draws}
        for name, values in (("stays", stays), ("support", support)):
            low, high = np.quantile(values, [0.05, 0.95])
            row |= {name: float(values.mean()), f"{name}_low": float(low), f"{name}_high": float(high)}
        rows.append(row | {"method": method})
    return pl.DataFrame(rows, orient="row")


def _exact(
    laws: Laws, outputs: Sequence[str], words: Sequence[str], epsilons: Sequence[float], draws: int
) -> list[Figures]:
    """Return the figures at each epsilon from the law of each word, in chunks of words."""
    several = np.flatnonzero(laws.rows.lengths != 1)
    if len(several):
        raise UserError(
            f"the mechanism splits {words[several[0]]!r} into several units; give words that are one unit each",
            "EPS-A064",
        )
    number = {output: i for i, output in enumerate(outputs)}
    own = np.array([number.get(word, -1) for word in words])
    statistics = [(np.zeros(len(words)), np.empty(len(words))) for _ in epsilons]
    for start in range(0, len(words), laws.chunk()):
        part = slice(start, start + laws.chunk())
        written = np.flatnonzero(own[part] >= 0)
        for (stays, support), log_p in zip(
            statistics, laws.log_probabilities(laws.rows.values[part], epsilons), strict=True
        ):
            p = np.minimum(np.exp(log_p), 1)
            stays[part][written] = p[written, own[part][written]]
            with np.errstate(divide="ignore"):  # ln(1 - p) of an output with probability 1
                support[part] = -np.expm1(draws * np.log1p(-p)).sum(axis=1)
    return statistics


def _sampled(
    mechanism: Mechanism, words: Sequence[str], epsilons: Sequence[float], draws: int, seed: int
) -> list[Figures]:
    """Return the figures at each epsilon from `draws` rewrites of each word, every rewrite with a separate stream."""
    source = np.repeat(np.arange(len(words)), draws)
    noises = [Noise.named(len(source), seed, "deniability", epsilon) for epsilon in epsilons]
    statistics = []
    for rewrites in rewrite_all(mechanism, Job(words, source, epsilons, noises)):
        by_word = [rewrites.texts[start : start + draws] for start in range(0, len(source), draws)]
        stays = [np.mean([text == word for text in texts]) for word, texts in zip(words, by_word, strict=True)]
        statistics.append((np.array(stays), np.array([len(set(texts)) for texts in by_word], np.float64)))
    return statistics
