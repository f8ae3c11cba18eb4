"""Cape as published loses ln 25 more than the claimed epsilon + epsilon'. Needs only numpy.

epsilon' = ln max |b_i| / |b_j| compares the numbers of words in buckets; with 1,000 words it is at most ln 999. At
epsilon 0.01 all buckets are nearly equally probable. The scores of one input word fill two buckets, one of which
contains only y. The scores of another input fill fifty buckets, the lowest of which contains y and 950 other words.

Prints a JSON object.
"""

import json
import math
import sys

import numpy as np

EPSILON, WORDS, BUCKETS = 0.01, 1000, 50


def log_probability(scores: np.ndarray) -> float:
    """Return ln P(word 0) for scores in [0, 1], with sensitivity Delta = 1."""
    place = np.minimum((scores - scores.min()) / np.ptp(scores) * BUCKETS, BUCKETS - 1).astype(int)
    weights = {int(b): math.exp(EPSILON / 2 * scores[place == b].mean()) for b in np.unique(place)}
    own = int(place[0])
    return math.log(weights[own] / sum(weights.values()) / (place == own).sum())


def main() -> dict[str, object]:
    """Return the claimed and the attained loss, in nats."""
    two, fifty = np.zeros(WORDS), np.zeros(WORDS)
    two[0] = 1.0
    fifty[1:50] = (np.arange(1, 50) + 0.5) / 50
    fifty[49] = 1.0
    attained = log_probability(two) - log_probability(fifty)
    return {
        "claimed": EPSILON + math.log(WORDS - 1),
        "attained": attained,
        "without_epsilometer": "epsilometer" not in sys.modules,
    }


if __name__ == "__main__":
    print(json.dumps(main()))
