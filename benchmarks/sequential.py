"""Verdicts and drift by tests for one look, and by e-processes that may be looked at after every 50 trials.

usage: python -m benchmarks.sequential

Power at T = 1,000, and the mean number of trials until the e-process decides (T where it does not), of 2,000 runs.
Levels are those of the default audit: alpha .01 among 16 testable claims; for drift alpha/104, a week of a year.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp
from scipy.stats import binom, binomtest

TRIALS, RUNS, LOOK = 1000, 2000, 50
CLAIM_LEVEL, DRIFT_LEVEL = 0.01 / 16, 0.01 / 104
TILTS = np.geomspace(0.1, 4, 8)  # of the log odds of a success


def main() -> None:
    """Print both tables."""
    rng = np.random.default_rng(0)
    print(f"{'claim':>6} {'loss':>6} {'exact':>7} {'e-process':>10} {'trials':>7}")
    for claim, excess in [(1.0, x) for x in (0, 0.15, 0.25, 0.4, 0.6, 1, 2)] + [(3.0, x) for x in (0, 0.4, 0.6, 1, 2)]:
        allowed, hit = expit(claim), rng.random((RUNS, TRIALS)) < expit(claim + excess)
        exact = binom.sf(hit.sum(axis=1) - 1, TRIALS, allowed) <= CLAIM_LEVEL
        stopped = decided(hit, np.ones_like(hit), TILTS, allowed, level=CLAIM_LEVEL)
        show(f"{claim:>6g} {claim + excess:>6g}", exact, stopped)
    print(f"{'before':>6} {'now':>6} {'McNemar':>7} {'e-process':>10} {'trials':>7}")
    for now in (0.75, 0.8, 0.85, 0.95):
        before, after = (rng.random((RUNS, TRIALS)) < p for p in (0.75, now))
        up, apart = after & ~before, after ^ before
        counts = zip(up.sum(axis=1).tolist(), apart.sum(axis=1).tolist(), strict=True)
        exact = np.array([binomtest(won, of).pvalue <= DRIFT_LEVEL for won, of in counts])
        both = np.concatenate([TILTS, -TILTS])
        show(f"{0.75:>6g} {now:>6g}", exact, decided(up, apart, both, 0.5, level=DRIFT_LEVEL))


def decided(
    won: NDArray[np.bool_], counted: NDArray[np.bool_], tilts: NDArray[np.float64], p: float, *, level: float
) -> NDArray[np.float64]:
    """[runs]: after how many trials a bet against coins of probability p reaches 1 / level; infinite where never."""
    s, n = (np.cumsum(of, axis=1)[:, LOOK - 1 :: LOOK, None] for of in (won, counted))
    wealth = logsumexp(s * tilts - n * np.log1p(p * np.expm1(tilts)), axis=2) - math.log(len(tilts))
    reached = wealth >= math.log(1 / level)
    return np.where(reached.any(axis=1), LOOK * (1 + reached.argmax(axis=1)), np.inf)


def show(case: str, exact: NDArray[np.bool_], stopped: NDArray[np.float64]) -> None:
    """Print a row."""
    spent = np.minimum(stopped, TRIALS).mean()
    print(f"{case} {exact.mean():>7.3f} {np.isfinite(stopped).mean():>10.3f} {spent:>7.0f}")


if __name__ == "__main__":
    main()
