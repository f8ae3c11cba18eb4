"""A budget distributed over a text's words: two texts of two words exceed the sum of their words' claims.

Needs no package. 1-Diffractor's geometric noise moves each word along a list of 101 words. At epsilon_i, the loss
between two words is at most epsilon_i times the number of places between them, with equality for neighbours. The
epsilon of a text is distributed in inverse proportion to the released code's scores of parts of speech
(sjmeis/EpsilonDistributor 82f6096: noun 14, number 2, all others 0.1). "of" and "two" are neighbours on the list. The
counted claim is generous: for each word, it uses the larger of its shares in the two texts.
Prints a JSON object.
"""

import json
import sys
from decimal import Decimal, getcontext

EPSILON, PLACES = Decimal(10), 101
PLACE = {"cat": 0, "of": 49, "two": 50}
SCORE = {"cat": Decimal(14), "of": Decimal("0.1"), "two": Decimal(2)}


def shares(words: list[str]) -> list[Decimal]:
    """Return the share of each word: inverse to its score among those of the text."""
    total = sum(SCORE[word] for word in words)
    inverse = [1 / (SCORE[word] / total) for word in words]
    return [part / sum(inverse) for part in inverse]


def log_law(place: int, epsilon: Decimal) -> list[Decimal]:
    """Return ln P of all places: geometric in the distance; the mass beyond an end is moved to the end."""
    a = (-epsilon).exp()
    inside = [((1 - a) / (1 + a)).ln() - epsilon * abs(q - place) for q in range(PLACES)]
    for end in (0, PLACES - 1):
        inside[end] = -(1 + a).ln() - epsilon * abs(end - place)
    assert abs(sum(p.exp() for p in inside) - 1) < Decimal("1e-40")
    return inside


def main() -> dict[str, object]:
    """Return the claimed and the attained loss, and the losses of both words."""
    getcontext().prec = 60
    here, there = ["cat", "of"], ["cat", "two"]
    budgets = [[EPSILON * share for share in shares(words)] for words in (here, there)]
    claimed = sum(max(pair) * abs(PLACE[a] - PLACE[b]) for *pair, a, b in zip(*budgets, here, there, strict=True))
    losses = []
    for position in range(2):
        left = log_law(PLACE[here[position]], budgets[0][position])
        right = log_law(PLACE[there[position]], budgets[1][position])
        losses.append(max(p - q for p, q in zip(left, right, strict=True)))
    return {
        "claimed": float(claimed),
        "attained": float(sum(losses)),
        "of_the_equal_word": float(losses[0]),
        "without_epsilometer": "epsilometer" not in sys.modules,
    }


if __name__ == "__main__":
    print(json.dumps(main()))
