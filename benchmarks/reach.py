"""How much of a pure loss a million samples can prove, for the bench's mechanisms and an adversary with their laws.

The adversary guesses only on outputs whose loss is at least t. The best t is used, and its choice is not corrected for.
The bound is that of `abstention` (Clopper and Pearson) for the expected number of correct guesses. No other choice of
outputs by their likelihood ratio proves more in expectation. The table has the mechanisms for which the bound is below
95 % of the pure loss.

usage: python -m benchmarks.reach [--samples N]
"""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser
from collections.abc import Sequence

import numpy as np

from epsilometer.auditing.estimation.abstention import LEAST
from epsilometer.auditing.estimation.successes import clopper_pearson, loss_at
from epsilometer.studies.bench.estimators import ERROR
from epsilometer.studies.bench.law import Law
from epsilometer.studies.bench.mechanisms import every

_LEVELS = 400  # number of compared thresholds, spaced by how often they are reached


def reach(law: Law, samples: int) -> tuple[float, float]:
    """Return the largest bound in nats from this number of samples, and the share of samples that are guessed on."""
    order = np.argsort(-np.abs(law.losses), kind="stable")
    guessed = np.cumsum(((law.first + law.other) / 2)[order])
    right = np.cumsum((np.maximum(law.first, law.other) / 2)[order])
    shares = np.geomspace(LEAST / samples, 1, _LEVELS)
    best = (0.0, 1.0)
    for place in np.unique(np.minimum(np.searchsorted(guessed, shares), len(guessed) - 1)).tolist():
        guesses = int(samples * guessed[place])
        if guesses:
            successes = int(guesses * right[place] / guessed[place])
            bound = loss_at(clopper_pearson(successes, guesses, 2 * ERROR)[0], 2)
            best = max(best, (bound, float(guessed[place])))
    return best


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = ArgumentParser(prog="python -m benchmarks.reach", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", metavar="N", type=int, default=1_000_000)
    samples = parser.parse_args(arguments).samples
    print(f"{'mechanism':<32} {'pure loss':>9} {'in reach':>9} {'of it':>6} {'guessing on':>11}")
    for mechanism in every():
        law = mechanism.law()
        if mechanism.delta or not 0 < law.pure < math.inf:
            continue
        bound, share = reach(law, samples)
        if bound < 0.95 * law.pure:
            print(
                f"{mechanism.name:<32} {law.pure:>9.4f} {bound:>9.4f} {bound / law.pure:>6.0%} {share:>11.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
