"""CluSanT's standard form as published loses almost 2 epsilon. Needs only numpy.

The cluster of x contains x and 200 words at distance 1 from x, which is the cluster's diameter. There are 200 other
clusters of one word each, at the largest distance from the cluster of x; x' is one of these words. The program compares
P(x | x) with P(x | x'), each computed from the two steps with weights exp(-epsilon / 2 score).

Prints a JSON object.
"""

import json
import math
import sys

import numpy as np

EPSILON, MANY = 4.0, 200


def main() -> dict[str, object]:
    """Return the claimed and the attained loss, in nats."""
    x, near, far = np.zeros(1), np.ones(MANY), np.full(MANY, 60.0)
    centre = np.concatenate([x, near]).mean()
    means = np.concatenate([[centre], far])
    largest = float(np.ptp(means))

    def log_law(word: float, cluster: int) -> float:
        """Return ln P(x | word): first the cluster of x is chosen, then x within it."""
        clusters = -EPSILON / 2 * np.abs(means - means[cluster]) / largest
        inside = -EPSILON / 2 * np.abs(np.concatenate([x, near]) - word) / 1.0
        # A private word of another cluster has the largest possible score, because scores lie in [0, 1].
        inside = inside - inside.max()
        first = clusters[0] - math.log(np.exp(clusters).sum())
        return float(first + inside[0] - math.log(np.exp(inside).sum()))

    attained = log_law(0.0, 0) - log_law(60.0, 1)
    return {"claimed": EPSILON, "attained": attained, "without_epsilometer": "epsilometer" not in sys.modules}


if __name__ == "__main__":
    print(json.dumps(main()))
