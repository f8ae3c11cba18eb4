"""PrivFill's variant of DP-Prompt: an output can exclude texts of fewer sentences, and each token costs epsilon.

Needs no package. The "model" has two tokens and an end; its clipped logits depend on whether the blanked sentence
begins with a capital. privfill 0.1.0 draws at most 32 tokens per sentence from softmax(l epsilon / (2 Delta)), Delta =
103 (logits clipped to [-95, 8]), and joins them. For two texts of k sentences each, the program compares the loss of
32 k tokens with the epsilon given to `privatize(text, epsilon)`. For texts of one and of two sentences, an output of 33
tokens has probability 0 for the shorter text. Numbers have 60 digits. Prints a JSON object.
"""

import json
import sys
from decimal import Decimal, getcontext

EPSILON, LOW, HIGH, MOST = Decimal(10), Decimal(-95), Decimal(8), 32
VOCABULARY = 3  # two tokens and the end


def token_law(capital: bool) -> list[Decimal]:
    """Return the law of one token: the first token's logit is at the upper end of the clip, or the second's."""
    logits = [LOW] * VOCABULARY
    logits[0 if capital else 1] = HIGH
    weights = [(logit * EPSILON / (2 * (HIGH - LOW))).exp() for logit in logits]
    return [w / sum(weights) for w in weights]


def probability(tokens: int, sentences: int, law: list[Decimal]) -> Decimal:
    """Return the probability that all blanks are filled with the most tokens, and each is the first token."""
    return law[0] ** tokens if tokens == MOST * sentences else Decimal(0)


def main() -> dict[str, object]:
    """Return the claimed and the attained loss of a token and of a text, and the probabilities of 64 tokens."""
    getcontext().prec = 60
    here, there = token_law(True), token_law(False)
    token = max((a / b).ln() for a, b in zip(here, there, strict=True))
    both = [probability(2 * MOST, 2, law) for law in (here, there)]
    return {
        "claimed": float(EPSILON),
        "attained_token": float(token),
        "attained_two_sentences": float((both[0] / both[1]).ln()),
        "possible_after_two_sentences": both[0] > 0,
        "possible_after_one_sentence": probability(2 * MOST, 1, here) > 0,
        "without_epsilometer": "epsilometer" not in sys.modules,
    }


if __name__ == "__main__":
    print(json.dumps(main()))
