"""Seconds and peak memory of candidate sampling, with a separate process for each case."""

from __future__ import annotations

import multiprocessing
import resource
import time

import numpy as np

from epsilometer.auditing.trials.sampling import sample

CASES = [  # texts, trials, candidates, temperature
    (5_000, 1_000_000, 2, -10_000),
    (5_000, 100_000, 16, -10_000),
    (5_000, 100_000, 16, 0),
    (50_000, 100_000, 2, -10_000),
]


def once(texts: int, trials: int, candidates: int, temperature: float) -> tuple[float, float]:
    """Return the seconds, and the process's peak memory in MiB."""
    vectors = np.random.default_rng(0).normal(size=(texts, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    begun = time.perf_counter()
    sample(vectors, trials, candidates, temperature)
    return time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the table."""
    print(f"{'texts':>8} {'trials':>10} {'k':>3} {'lambda':>8} {'seconds':>9} {'peak MiB':>9}")
    for case in CASES:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, peak = pool.apply(once, case)
        print(f"{case[0]:>8,} {case[1]:>10,} {case[2]:>3} {case[3]:>8,} {seconds:>9.1f} {peak:>9,.0f}")


if __name__ == "__main__":
    main()
