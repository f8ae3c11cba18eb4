"""RANTEXT as published loses more than epsilon between two of four words on a line. Needs only numpy.

P(y | x) = E_r[1{d(x, y) < r} exp(epsilon / 2 (1 - d / r)) / Z_r(x)], where the radius r is the absolute value of a
Laplace number of scale R / tau. The word y has distance 0.01 from x and 0.99 from x', so y is a candidate of x' only
at rare radii. Prints a JSON object.
"""

import json
import math
import sys

import numpy as np

EPSILON = 4.0
WORDS = np.array([0.0, 1.0, 0.01, 0.5])  # x, x', y and another word


def law(word: int, nodes: int) -> float:
    """Return P(y | word), by the trapezoidal rule in ln r."""
    tau = 0.01658160142016071 * math.log(19.064721649556482 * EPSILON - 38.1294334077209) + 9.311083811697406
    log_r = np.linspace(-40, math.log(80 / tau), nodes)
    r = np.exp(log_r)[:, None]
    density = tau * r[:, 0] * np.exp(-tau * r[:, 0])  # density of ln r, for R = 1
    apart = np.abs(WORDS - WORDS[word])
    weights = np.where(apart < r, np.exp(EPSILON / 2 * (1 - apart / r)), 0)
    inside = density * weights[:, 2] / weights.sum(axis=1)
    return float((inside[1:] + inside[:-1]) @ np.diff(log_r) / 2)


def main() -> dict[str, object]:
    """Return the claimed loss, and the attained loss computed with two numbers of nodes, in nats."""
    losses = [math.log(law(0, nodes) / law(1, nodes)) for nodes in (1_000_001, 4_000_001)]
    return {"claimed": EPSILON, "attained": losses, "without_epsilometer": "epsilometer" not in sys.modules}


if __name__ == "__main__":
    print(json.dumps(main()))
