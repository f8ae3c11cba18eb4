"""The noise of six published trainings, reproduced, and their privacy loss: `python -m benchmarks.table7`.

Table 7 of "Empirical Calibration and Metric Differential Privacy in Language Models" (IEEE Access 13, 2025) gives 42
sigmas for epsilons 1 to 10^6. They result from Renyi accounting with the orders 1.1 to 63 at delta = 1/N, rate
1/ceil(N/128) and the number of steps in `EPOCHS` passes. The paper does not give delta, nor these epochs for the last
four trainings (its Table 5 has 5, 5, 3 and 4). Two sigmas are misprints; other tables of the paper have the correct
values. The further columns are sigma by that accountant, and epsilon of the printed sigma by that accountant, by orders
from 1.00001 on, and exactly.
"""

from __future__ import annotations

import math
import time

from scipy.optimize import brentq

from epsilometer.accounting.loss_distribution import EpsilonBracket, bracket
from epsilometer.accounting.releases import Gaussian
from epsilometer.accounting.renyi import RELEASED, renyi, renyi_on
from epsilometer.accounting.schedule import Poisson
from epsilometer.accounting.steps import Steps, steps_of
from epsilometer.core.guarantees import Neighbours

TEXTS = {"CoLA": 5_056, "IMDb": 22_500, "SST2": 53_710}
TARGETS = (1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)
EPOCHS = {
    ("GPT-2", "CoLA"): 30,
    ("BERT", "CoLA"): 10,
    ("GPT-2", "IMDb"): 4,
    ("BERT", "IMDb"): 3,
    ("GPT-2", "SST2"): 6,
    ("BERT", "SST2"): 10,
}
PRINTED = {
    ("GPT-2", "CoLA"): (3.06, 0.747, 0.347, 0.173, 0.112, 0.066, 0.024),
    ("BERT", "CoLA"): (1.191, 0.615, 0.278, 0.140, 0.092, 0.043, 0.014),
    ("GPT-2", "IMDb"): (1.01, 0.472, 0.226, 0.121, 0.089, 0.052, 0.019),
    ("BERT", "IMDb"): (0.993, 0.460, 0.216, 0.116, 0.086, 0.072, 0.016),
    ("GPT-2", "SST2"): (0.957, 0.458, 0.234, 0.127, 0.096, 0.072, 0.034),
    ("BERT", "SST2"): (1.00, 0.478, 0.254, 0.137, 0.101, 0.078, 0.042),
}
MISPRINTS = {("BERT", "CoLA", 1e0): 1.91, ("BERT", "IMDb", 1e5): 0.047}  # as in the paper's Tables 2 to 4
Cell = tuple[str, str]


def meant(cell: Cell, target: float) -> float:
    """Return the sigma in the table, with misprints corrected."""
    return MISPRINTS.get((*cell, target), PRINTED[cell][TARGETS.index(target)])


def tolerance(sigma: float) -> float:
    """Return the allowed relative error of a printed sigma: small ones are truncated after the third decimal."""
    return 0.06 if sigma < 0.03 else 0.02


def steps_at(cell: Cell, sigma: float) -> tuple[Steps, float]:
    """Return the steps of a training at this noise, and its delta."""
    schedule = Poisson(TEXTS[cell[1]], 128, EPOCHS[cell])
    return steps_of(Gaussian(sigma), schedule, Neighbours.ADDED_OR_REMOVED), 1 / schedule.texts


def released(cell: Cell, sigma: float) -> float:
    """Return epsilon by the orders of released accountants."""
    steps, delta = steps_at(cell, sigma)
    return renyi_on(RELEASED, steps.directions[:1], steps.count, delta)


def exact(cell: Cell, sigma: float) -> EpsilonBracket:
    """Return the bracket of the exact epsilon."""
    steps, delta = steps_at(cell, sigma)
    return bracket(steps.directions, steps.count, delta)


def reproduced(cell: Cell, target: float) -> float:
    """Return the sigma at which the orders of released accountants give the target."""

    def excess(log_sigma: float) -> float:
        return math.log(released(cell, math.exp(log_sigma)) / target)

    about = math.log(meant(cell, target))
    return math.exp(brentq(excess, about - 0.2, about + 0.2, xtol=1e-5))


def main() -> None:
    """Print the table."""
    print("training     epsilon  printed  reproduced  by its orders  by all orders  exactly, from      to  seconds")
    for cell in PRINTED:
        for target in TARGETS:
            sigma = meant(cell, target)
            steps, delta = steps_at(cell, sigma)
            start = time.perf_counter()
            ends = exact(cell, sigma)
            seconds = time.perf_counter() - start
            figures = (reproduced(cell, target), released(cell, sigma), renyi(steps.directions, steps.count, delta))
            again, coarse, fine = figures
            print(
                f"{' '.join(cell):12} {target:7.0e} {sigma:8.3f} {again:11.4f} {coarse:14.4g} {fine:14.4g} "
                f"{ends.lower:14.5g} {ends.upper:7.5g} {seconds:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
