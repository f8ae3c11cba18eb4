"""CluSanT's standard form as published loses almost 2 epsilon. Needs numpy alone.

Cluster c of x has x and 200 words at its diameter of 1 from x; 200 clusters of one word lie at the largest distance
from it, and x' is one of them. P(x | x) against P(x | x'), each by its two steps of exp(-epsilon / 2 score).

Prints a JSON object.
"""

import json
import math
import sys

import numpy as np

EPSILON, MANY = 4.0, 200


def main() -> dict[str, object]:
    """Return the claimed and the attained loss."""
    x, near, far = np.zeros(1), np.ones(MANY), np.full(MANY, 60.0)
    centre = np.concatenate([x, near]).mean()
    means = np.concatenate([[centre], far])
    largest = float(np.ptp(means))

    def log_law(word: float, cluster: int) -> float:
        """ln P(x | word): the cluster of x, then x within it."""
        clusters = -EPSILON / 2 * np.abs(means - means[cluster]) / largest
        inside = -EPSILON / 2 * np.abs(np.concatenate([x, near]) - word) / 1.0
        # A private word of another cluster is as far from x as the diameter allows: scores lie in [0, 1] at most.
        inside = inside - inside.max()
        first = clusters[0] - math.log(np.exp(clusters).sum())
        return float(first + inside[0] - math.log(np.exp(inside).sum()))

    attained = log_law(0.0, 0) - log_law(60.0, 1)
    return {"claimed": EPSILON, "attained": attained, "without_epsilometer": "epsilometer" not in sys.modules}


if __name__ == "__main__":
    print(json.dumps(main()))
