"""RANTEXT as published, on four words of a line: more than epsilon between two words. Needs numpy alone.

P(y | x) = E_r[1{d(x, y) < r} exp(epsilon / 2 (1 - d / r)) / Z_r(x)], r a Laplace number's length, of scale R / tau.
The word y is at 0.01 from x and at 0.99 from x': a candidate of x' only at radii that are rare. Prints a JSON object.
"""

import json
import math
import sys

import numpy as np

EPSILON = 4.0
WORDS = np.array([0.0, 1.0, 0.01, 0.5])  # x, x', y and another


def law(word: int, nodes: int) -> float:
    """P(y | word), by the trapezoid rule in ln r over 60 nats of the radius."""
    tau = 0.01658160142016071 * math.log(19.064721649556482 * EPSILON - 38.1294334077209) + 9.311083811697406
    log_r = np.linspace(-40, math.log(80 / tau), nodes)
    r = np.exp(log_r)[:, None]
    density = tau * r[:, 0] * np.exp(-tau * r[:, 0])  # of ln r, for a range of 1
    apart = np.abs(WORDS - WORDS[word])
    weights = np.where(apart < r, np.exp(EPSILON / 2 * (1 - apart / r)), 0)
    inside = density * weights[:, 2] / weights.sum(axis=1)
    return float((inside[1:] + inside[:-1]) @ np.diff(log_r) / 2)


def main() -> dict[str, object]:
    """Return the claimed loss and the attained one at two numbers of nodes."""
    losses = [math.log(law(0, nodes) / law(1, nodes)) for nodes in (1_000_001, 4_000_001)]
    return {"claimed": EPSILON, "attained": losses, "without_epsilometer": "epsilometer" not in sys.modules}


if __name__ == "__main__":
    print(json.dumps(main()))
