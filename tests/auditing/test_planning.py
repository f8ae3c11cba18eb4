"""The planned numbers of trials agree with a slow search through all numbers, and with the estimator."""

from __future__ import annotations

import json
import math

import pytest
from scipy.stats import binom

from epsilometer.auditing.claims.verdicts import p_value
from epsilometer.auditing.estimation.successes import estimate, success_bound
from epsilometer.auditing.planning import trials_for_width, trials_to_refute
from epsilometer.cli import main
from tests.support.refusals import refused


def power_of_test(trials: int, claim: float, leak: float, k: int, level: float) -> float:
    allowed, right = success_bound(claim, k), success_bound(leak, k)
    least = next((s for s in range(trials + 1) if p_value(s, trials, trials * allowed) <= level), None)
    return 0.0 if least is None else float(binom.sf(least - 1, trials, right))


@pytest.mark.parametrize(
    ("claim", "leak", "power", "k", "level"),
    [(1, 2.5, 0.9, 2, 0.01), (1, 2.5, 0.9, 4, 0.01), (0.2, 2, 0.8, 2, 0.05), (2, math.inf, 0.9, 2, 0.01)],
)
def test_the_fewest_trials_that_refute(claim: float, leak: float, power: float, k: int, level: float) -> None:
    trials = trials_to_refute(claim, leak, power, k, level)
    assert trials == next(t for t in range(1, 999) if power_of_test(t, claim, leak, k, level) >= power)


def power_of_interval(trials: int, loss: float, width: float, k: int, alpha: float) -> float:
    estimates = [estimate(s, trials, k, alpha) for s in range(trials + 1)]
    narrow = [s for s, estimate in enumerate(estimates) if estimate.upper - estimate.loss <= width]
    return float(binom.pmf(narrow, trials, success_bound(loss, k)).sum())


@pytest.mark.parametrize(("loss", "width", "k"), [(1.0, 1.0, 2), (0.0, 0.5, 2), (2.0, 1.2, 5)])
def test_the_trials_that_an_interval_needs(loss: float, width: float, k: int) -> None:
    trials = trials_for_width(loss, width, 0.9, k, 0.05)
    assert power_of_interval(trials, loss, width, k, 0.05) >= 0.9 > power_of_interval(trials - 1, loss, width, k, 0.05)


def test_what_needs_too_much_or_makes_no_sense_is_refused() -> None:
    with refused("EPS-A141"):
        trials_to_refute(2, 2, 0.9, 2, 0.01)
    with refused("EPS-A143", "0", "1"):
        trials_to_refute(2, 3, 1, 2, 0.01)
    with refused("EPS-A142", "0", "1", "0"):
        trials_for_width(1, 0, 0.9, 2, 0.01)
    with refused("EPS-A144"):
        trials_to_refute(60, math.inf, 0.9, 2, 0.01)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["plan", *arguments])
        return int(ended.value.code or 0), *capsys.readouterr()

    code, out, _ = call("--claim", "4.6", "--power", ".9", "--candidates", "2,8", "--tests", "16", "--json")
    rows = json.loads(out)
    assert code == 0
    assert [row["candidates"] for row in rows] == [2] * 4 + [8] * 4
    assert rows[3] == {
        "candidates": 2, "claim": 4.6, "leak": "Infinity", "power": 0.9,
        "trials": math.ceil(math.log(0.01 / 16) / math.log(success_bound(4.6, 2))),
    }  # fmt: skip
    assert rows[0]["trials"] > rows[1]["trials"] > rows[2]["trials"] > rows[3]["trials"] > rows[7]["trials"]
    code, out, _ = call("--loss", "2", "--width", "0.5", "--json")
    assert [row["trials"] for row in json.loads(out)][:2] == [1154, 567]
    code, _, err = call("--claim", "2", "--loss", "1")
    assert (code, err) == (2, "error: give --claim (and --leak, if it is known), or --loss and --width [EPS-U032]\n")
