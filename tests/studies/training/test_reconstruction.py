"""Measures of reconstruction: the paper's scores, matching within a batch, averages, and the blind baseline."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from rouge_score.rouge_scorer import RougeScorer
from scipy.stats import binom

from epsilometer.auditing.worth.intervals import mean_interval
from epsilometer.auditing.worth.leakage import Identifier
from epsilometer.metrics.rouge_l import RougeL
from epsilometer.studies.training.reconstruction import (
    assigned,
    averages,
    bounded_mean,
    in_place,
    measured,
    public_text,
)
from epsilometer.studies.training.tables import RECONSTRUCTED

TABLE_8 = [  # IEEE Access 13 (2025), Table 8: original, reconstruction, printed ROUGE-L
    ("who has seen my snorkel?", "whokel scene has mynorkel?", 0.222),
    (
        "whether she will win is a question mary never considered.",
        "mary. mary win whether although whether question. has ;",
        0.222,
    ),
    ("pummel us with phony imagery or music", "imagery with musicenciesmmel usic orony", 0.167),
    ("of softheaded metaphysical claptrap", "of sells overlooking stem clamped uefa consonants curran", 0.167),
    ("rotting underbelly", "[CLS]belly rotting rotting", 0.333),
    (
        "all the queen's men is a throwback war movie that fails on so many levels, it should pay reparations to "
        "viewers.",
        'onions tears all men is equal. abacks viewers men should" a war movie often cut fails queenion long '
        "viewersions movie.",
        0.333,
    ),
]


@pytest.mark.parametrize(("original", "rewrite", "printed"), TABLE_8)
def test_rouge_l_is_the_papers_f1(original: str, rewrite: str, printed: float) -> None:
    """The formula in its text, the subsequence over the longer length, gives .200 .200 .143 .125 .250 .318 instead.

    Our words are those of rouge-score but for apostrophes within them: "queen's" is one, and the last score .341.
    """
    theirs = RougeScorer(["rougeL"]).score(original, rewrite)["rougeL"].fmeasure
    ours = float(RougeL().measure([original], [rewrite])[0])
    assert theirs == pytest.approx(printed, abs=5e-4)
    assert ours == pytest.approx(0.341 if "queen's" in original else printed, abs=5e-4)


def test_texts_of_a_batch_are_matched_so_that_the_whole_sum_is_largest() -> None:
    """Greedy matching would give the first text "a b c d" and leave the second nothing."""
    truths, rewrites = ["a b c d", "a b c"], ["x y", "a b c d", "a b c e"]
    assert assigned(truths, rewrites[1:]).tolist() == [0, 1]
    assert assigned(["a b", "c d", "e f"], ["e f", "a b", "c d"]).tolist() == [1, 2, 0]


def test_tokens_in_their_place() -> None:
    assert in_place((5, 6, 7, 8), (5, 7, 7, 9)) == 0.5
    assert in_place((5, 6), ()) == 0
    assert in_place((5, 6), (5, 6, 7)) == 1


def row(batch: int, text: str, **others: object) -> dict[str, object]:
    named = {"level": 0.1, "size": 2, "attack": "lamp", "batch": batch, "row": 3, "truth": "call ann lee now"}
    ids = {"true_ids": [1, 2, 3, 4], "found_ids": [1, 9, 3, 4]}
    nats = dict.fromkeys(("log_likelihood", "log_prior", "true_log_likelihood", "true_log_prior"))
    return named | ids | nats | {"found": text} | others


def table(rows: list[dict[str, object]]) -> pl.DataFrame:
    schema = {name: RECONSTRUCTED[name] for name in rows[0]}
    return measured(pl.DataFrame(rows, schema=schema), {3: [Identifier("name", "ann lee", True)], 4: []})


def test_measures_and_averages() -> None:
    figures = {"log_likelihood": 5.0, "log_prior": -3.0, "true_log_likelihood": 4.0, "true_log_prior": -1.0}
    texts = table([row(0, "call ann lee now"), row(0, "hello", **figures), row(1, "ring ann lee", row=4)])
    assert texts["exact"].to_list() == [1, 0, 0]
    assert texts["identifiers"].to_list() == [1, 0, None]
    assert texts["in_place"].to_list() == [0.75] * 3
    by_measure = {row["measure"]: row for row in averages(texts, 0.05)}
    assert by_measure["exact"]["value"] == pytest.approx(1 / 4)  # the mean of batches with 1/2 and 0
    assert by_measure["rouge_l"]["low"] < by_measure["rouge_l"]["value"] < by_measure["rouge_l"]["high"]
    assert by_measure["identifiers"]["texts"] == 2
    assert by_measure["truth_less_likely"] | {"low": 0, "high": 0} == {
        "level": 0.1, "size": 2, "attack": "lamp", "measure": "truth_less_likely", "texts": 1, "value": 0.0, "low": 0,
        "high": 0,
    }  # fmt: skip
    assert by_measure["truth_less_likely"]["high"] > 0.95  # the upper bound from a single batch


def test_a_single_batch_says_next_to_nothing() -> None:
    for name, least in (("rouge_l", 0.0), ("cosine", -1.0)):
        for value in (least, 0.3, 1.0):
            mean, low, high = bounded_mean(name, [value], 0.01)
            assert mean == value
            assert least <= low < least + 0.02
            assert 0.98 < high <= 1
    assert bounded_mean("cosine", [1 + 1e-7] * 3, 0.01)[2] >= 1


@pytest.mark.parametrize("batches", [1, 3, 12])
@pytest.mark.parametrize(
    ("draw", "truth"),
    [(lambda rng, n: rng.random(n) < 0.06, 0.06), (lambda rng, n: rng.beta(0.2, 1.8, n), 0.1)],
    ids=["rare", "skewed"],
)
def test_means_of_few_batches_are_covered(
    batches: int, draw: Callable[[np.random.Generator, int], NDArray[np.float64]], truth: float
) -> None:
    """250 samples at alpha .1: more misses than allowed come by chance once in 10^6, were a tenth missed."""
    rng = np.random.default_rng(batches)
    ends = [bounded_mean("rouge_l", draw(rng, batches), 0.1)[1:] for _ in range(250)]
    assert sum(not low <= truth <= high for low, high in ends) <= binom.isf(1e-6, 250, 0.1)


def test_the_interval_of_other_means_would_miss_the_mean_of_few_batches() -> None:
    """What that by betting is for: of a skewed mean of .1 over 3 batches, resampling, or Student's interval where it is
    wider, misses far more than a tenth.
    """
    rng = np.random.default_rng(3)
    ends = [mean_interval(rng.beta(0.2, 1.8, 3), range(3), 0.1)[1:] for _ in range(120)]
    assert sum(not low <= 0.1 <= high for low, high in ends) > binom.isf(1e-6, 120, 0.1)


def test_the_blind_baseline_has_the_length_or_the_nearest() -> None:
    public = [(1, 2, 3), (4,), (5, 6, 7), (8, 9, 10, 11, 12)]
    chosen = {public_text(3, public, np.random.default_rng(seed)) for seed in range(40)}
    assert chosen == {0, 2}  # one of them is missed with probability 2^-39
    assert public_text(9, public, np.random.default_rng(0)) == 3
