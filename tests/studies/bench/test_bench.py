"""The bench: estimators' bounds compared with the truth, and how often they are above it."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from epsilometer.auditing.estimation.successes import loss_at
from epsilometer.studies.bench.bench import FULL, TRUTH, Size, bench, exact_figure, rows, summary, truths
from epsilometer.studies.bench.estimators import ERROR, OURS, Estimator, own
from epsilometer.studies.bench.known import KnownMechanism
from epsilometer.studies.bench.mechanisms import every
from epsilometer.studies.bench.samples import Samples, samples
from tests.support.places import ROOT
from tests.support.refusals import refused

EVERY = {mechanism.name: mechanism for mechanism in every()}


# For these, a million samples prove 95 % of the pure loss, because every output, or a frequent one, attains it.
SURE = [name for name in EVERY if re.match(r"(GRR|SS|SUE|OUE|BLH) .*epsilon=(1|4)", name)]
SURE += ["epsilon halved", "randomized_response epsilon=2"]


@pytest.mark.parametrize("mechanism", EVERY.values(), ids=EVERY.keys())
def test_the_exact_loss_is_the_truth_to_its_stated_error(mechanism: KnownMechanism) -> None:
    """Products of the laws of parts by tilted convolution, beside sums over all outputs."""
    law, exact = mechanism.law(), exact_figure(mechanism)
    assert exact.low - 1e-9 <= loss_at(1 - law.error, 2, mechanism.delta) <= exact.high + 1e-9
    assert exact.high - exact.low < 2e-4 or math.isinf(exact.high)
    assert exact.pure == pytest.approx(law.pure, abs=1e-6)


def test_bounds_above_the_truth_are_counted() -> None:
    row = summary(np.array([0.9, 1.0, 1.1, 2.0]), 1.0)
    assert (row["above"], row["coverage"], row["seeds"]) == (2, 0.5, 4)
    assert (row["bound"], row["least"], row["largest"]) == pytest.approx((1.05, 0.9, 2.0))
    assert summary(np.array([5.0]), math.inf)["coverage"] == 1


def test_samples_are_named_by_mechanism_and_seed() -> None:
    mechanism = EVERY["SUE k=2 epsilon=1"]
    first, again, other = samples(mechanism, 100, 1), samples(mechanism, 100, 1), samples(mechanism, 100, 2)
    assert (first.outputs == again.outputs).all()
    assert (first.guess == again.guess).all()
    assert (first.first != other.first).any()


def test_guesses_follow_the_likelihood_ratio() -> None:
    sample = samples(EVERY["SVT5"], 2000, 0)
    assert sample.guess[sample.loss > 0].all()
    assert not sample.guess[sample.loss < 0].any()
    assert sample.right[np.isinf(sample.loss)].all()


def test_an_estimator_that_claims_too_much_is_seen() -> None:
    """The plug-in value of the success rate is above the truth about every other time: 5 to 35 of 40, but for 1e-6."""

    def plug_in(sample: Samples, error: float, delta: float) -> float:
        rate = sample.right.mean()
        return math.log(rate / (1 - rate))

    (row,) = rows(EVERY["GRR k=2 epsilon=1"], [Estimator("plug-in", plug_in)], [Size(1000, 40)])
    assert 5 <= row["above"] <= 35


def test_ones_own_auditor_joins_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of the guide, on a mechanism of each kind."""
    (code,) = re.findall(
        r"```python\n(# mine.py.*?)```", (ROOT / "docs/concepts/truth-bench.md").read_text(), re.DOTALL
    )
    (tmp_path / "mine.py").write_text(code)
    chosen = [EVERY[name] for name in ("NoisyHist2", "Gaussian mu=2 delta=.01", "uniform")]
    monkeypatch.setattr("epsilometer.studies.bench.bench.every", lambda: chosen)
    table = bench([Size(5000, 2)], tmp_path / "mine.py")
    assert dict(table.schema) == TRUTH
    mine = table.filter(estimator="mine")
    assert mine["mechanism"].to_list() == [mechanism.name for mechanism in chosen]
    assert (mine["bound"] > 0).to_list() == [True, True, False]
    assert mine["above"].sum() == 0
    assert mine["truth"].to_list() == [truths(mechanism)["pure"] for mechanism in chosen]


def test_a_file_that_holds_no_auditor_is_refused_before_any_work(tmp_path: Path) -> None:
    with refused("EPS-A191"):
        bench([Size(10, 1)], tmp_path / "none.py")
    (tmp_path / "empty.py").write_text("x = 1\n")
    with refused("EPS-C012"):
        own(tmp_path / "empty.py")


@pytest.mark.slow
def test_the_whole_bench() -> None:
    """Each bound may be above the truth with probability ERROR.

    False alarms: 1e-6 a row and 1e-6 for all of an estimator together.
    """
    table = bench(FULL, workers=2)
    for row in table.to_dicts():
        assert row["above"] <= binom.isf(1e-6, row["seeds"], ERROR), row
        assert row["pure"] > 0 or row["bound"] == 0
    for estimator in OURS:
        part = table.filter(estimator=estimator.name)
        assert part["above"].sum() <= binom.isf(1e-6, part["seeds"].sum(), ERROR)
    million = table.filter(pl.col("samples") == FULL[-1].samples)
    surest = million.filter(pl.col("mechanism").is_in(SURE), pl.col("estimator") == "abstention")
    assert len(surest) == len(SURE)
    for row in surest.to_dicts():
        assert row["bound"] >= 0.95 * row["truth"], row
    for row in million.filter(pl.col("guess").is_between(0.2, 100), pl.col("estimator") == "success rate").to_dicts():
        assert row["bound"] >= 0.95 * row["truth"], row
