"""True positive rates at a low false positive rate: exact for Gaussian scores, and a valid interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.metrics import roc_curve

import epsilometer
from epsilometer.auditing.estimation.roc import Rate, rate
from epsilometer.auditing.trials.design import Design
from epsilometer.core.attack import Guesses
from tests.support.refusals import refused


def gaussian(trials: int, shift: float, rng: np.random.Generator) -> tuple[Guesses, np.ndarray]:
    """An output of mean shift / 2 under the first text and - shift / 2 under the second; the likelihood ratio."""
    target = rng.integers(0, 2, trials).astype(np.int16)
    seen = rng.normal(size=trials) + np.where(target == 0, shift / 2, -shift / 2)
    return Guesses((seen < 0).astype(np.int16), shift * np.abs(seen)), target


@pytest.mark.parametrize("fpr", [0.1, 0.01, 0.001])
def test_gaussian_scores_have_their_closed_form(fpr: float) -> None:
    """TPR = Phi(shift - z) with Phi(-z) = FPR; the threshold of 10^5 negatives is off by less than its own error."""
    guesses, target = gaussian(200_000, 2.0, np.random.default_rng(0))
    interval = rate(guesses, target, fpr, 0.01)
    assert interval is not None
    assert interval.tpr == pytest.approx(norm.cdf(2 - norm.isf(fpr)), rel=0.1)
    assert interval.low < interval.tpr < interval.high


@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0])
def test_the_interval_holds_as_often_as_it_says(shift: float) -> None:
    """Of the rate at this FPR, a closed form: at alpha = .1 more than 60 misses of 400 with probability 1e-3."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(400):
        guesses, target = gaussian(1000, shift, rng)
        interval = rate(Guesses(guesses.slots, guesses.scores if shift else rng.random(1000)), target, 0.05, 0.1)
        assert interval is not None
        missed += not interval.low <= norm.sf(norm.isf(0.05) - shift) <= interval.high
    assert missed <= binom.isf(1e-3, 400, 0.1)


def test_few_negatives_know_no_rare_threshold() -> None:
    """That 500 negatives do not reach a threshold shows no rate of 1 % at alpha / 4; that 600 do not does."""
    for trials, enough in ((1000, False), (1200, True)):
        target = np.arange(trials) % 2
        interval = rate(Guesses(target, np.ones(trials)), target.astype(np.int16), 0.01, 0.01)
        assert interval is not None
        assert (interval.low > 0.9) == enough, "every positive is beyond every negative"


def test_the_ends() -> None:
    target = np.array([0, 0, 1, 1], np.int16)
    sure = np.full(4, np.inf)
    assert rate(Guesses(target, sure), target, 0.0, 0.01) == Rate(1.0, 0.0, 1.0)
    assert rate(Guesses(1 - target, sure), target, 0.0, 0.01) == Rate(0.0, 0.0, pytest.approx(0.95))
    assert rate(Guesses(target * 0, np.zeros(4)), target, 0.4, 0.01) == Rate(0.0, 0.0, 1.0)
    assert rate(Guesses(target), target, 0.1, 0.01) is None
    assert rate(Guesses(target[:2], sure[:2]), target[:2], 0.1, 0.01) is None


def test_an_audit_says_it_at_the_rate_of_its_design() -> None:
    """One text in ten passes, the others say nothing: what an average of a few per cent hides."""
    texts = [f"please call number {i * 7919} of {i}" for i in range(100)]

    def leaks(text: str, epsilon: float, rng: np.random.Generator) -> str:
        return text if rng.random() < 0.1 else ""

    design = Design(temperature=0, fpr=0.001)
    row = epsilometer.audit(texts, leaks, [1.0], ["lexical"], trials=3000, design=design).row(0, named=True)
    assert row["fpr"] == 0.001
    assert row["tpr_low"] < 0.1 < row["tpr_high"]
    assert row["tpr"] > 0.07
    with refused("EPS-A173", "0", "1", "1.5"):
        Design(fpr=1.5)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("fpr", [0.0, 0.01, 0.3])
def test_counted_scores_have_the_rates_of_the_curve(rounded: bool, fpr: float) -> None:
    """Beside scikit-learn's curve of every trial, with ties and with scores of 0 on both sides."""
    guesses, target = gaussian(4000, 1.0, np.random.default_rng(2))
    assert guesses.scores is not None
    guesses = Guesses(guesses.slots, np.round(guesses.scores)) if rounded else guesses
    assert guesses.scores is not None
    score = np.where(guesses.slots == 0, guesses.scores, -guesses.scores)
    false, true, _ = roc_curve(target == 0, score, drop_intermediate=False)
    interval = rate(guesses, target, fpr, 0.01)
    assert interval is not None
    assert interval.tpr == pytest.approx(true[false <= fpr].max(), abs=1e-12)
