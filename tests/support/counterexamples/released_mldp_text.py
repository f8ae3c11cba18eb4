"""mldp-text 0.1.2: TEM and Vickrey lose more than epsilon times the distance. Needs only mldp-text and gensim.

The claim is epsilon |x - x'| between any two words (metric differential privacy).

1. TEM gives the candidate for all words beyond the threshold the score -gamma + 2 ln(|V| / |L|) / epsilon,
   where V is the vocabulary and L the words within the threshold. The exponential mechanism would need ln of the number
   of words beyond it. x and x' have distance 0.2, and 97 words are within the threshold of x and beyond that of x'.
2. Vickrey leaves out the private word if it is nearest to the noisy point. x and x' have a distance of 0.01, and the
   output is x twice as often for the private word x' as for x.

Each probability is computed by the formula of the package's code, and estimated by draws from the package. Prints a
JSON object.
"""

from __future__ import annotations

import json
import math
import sys

import numpy as np

EPSILON, DRAWS = 1.0, 3000
VICKREY, NEAR = 10.0, 0.01


def vectors(places: list[float]) -> object:
    """Return vectors of words w0, w1, ... at these places on a line."""
    from gensim.models import KeyedVectors

    keyed = KeyedVectors(1)
    keyed.add_vectors([f"w{i}" for i in range(len(places))], np.array(places, np.float32)[:, None])
    return keyed


def tem() -> dict[str, float]:
    """Return the claimed and attained loss of the event that the output is one of the 97 words, from x and from x'."""
    from mldp_text.mechanisms import TEM

    size = 100
    threshold = round(2 / EPSILON * math.log(0.999 * size / 0.001), 1)
    places = [0.0, -0.2, *[threshold - 0.1] * 97, 1000.0]
    mechanism = TEM(EPSILON, vectors(places), dim=1)

    def law(word: int) -> float:
        apart = np.abs(np.array(places) - places[word])
        weights = np.exp(-EPSILON / 2 * apart) * (apart <= threshold)
        inside = int((apart <= threshold).sum())
        rest = math.exp(-EPSILON / 2 * threshold) * mechanism.vocab_size / inside
        event = np.isin(np.arange(size), np.arange(2, 99))
        beyond = (event & (apart > threshold)).sum() / (size - inside)
        return float((weights[event].sum() + rest * beyond) / (weights.sum() + rest))

    counts = []
    for word in ("w0", "w1"):
        texts = [mechanism.replace_word(word) for _ in range(DRAWS)]
        counts.append(sum(text not in ("w0", "w1", "w99") for text in texts))
    exact = [law(0), law(1)]
    return {"claimed": EPSILON * 0.2, "attained": math.log(exact[1] / exact[0]), "exact": exact, "drawn": counts}


def vickrey() -> dict[str, float]:
    """Return the claimed and attained loss of the output x, from x' and from x, with a third word far away."""
    from mldp_text.mechanisms import VickreyMechanism

    places = [0.0, NEAR, 1000.0]
    mechanism = VickreyMechanism(VICKREY, vectors(places), dim=1, use_faiss=False)

    def law(word: int) -> float:
        """Return P(x | word) by quadrature over Laplace noise z. A softmax of (-dist, 0) selects a candidate."""
        z = np.linspace(-20 / VICKREY, 20 / VICKREY, 400_001)
        density = VICKREY / 2 * np.exp(-VICKREY * np.abs(z))
        apart = np.abs(places[word] + z[:, None] - np.array(places))
        order = np.argsort(apart, axis=1, kind="stable")
        first = np.where(order[:, 0] == word, order[:, 1], order[:, 0])
        second = np.where(order[:, 0] == word, order[:, 2], order[:, 1])
        share = 1 / (1 + np.exp(apart[np.arange(len(z)), first]))
        probability = np.where(first == 0, share, 0) + np.where(second == 0, 1 - share, 0)
        return float((density * probability).sum() * (z[1] - z[0]))

    counts = [sum(mechanism.replace_word(word) == "w0" for _ in range(DRAWS)) for word in ("w0", "w1")]
    exact = [law(0), law(1)]
    return {"claimed": VICKREY * NEAR, "attained": math.log(exact[1] / exact[0]), "exact": exact, "drawn": counts}


def main() -> dict[str, object]:
    """Run both cases."""
    import nltk

    find = nltk.data.find
    nltk.data.find = lambda name, *rest, **named: name if "wordnet" in name else find(name, *rest, **named)  # unused
    np.random.seed(0)  # noqa: NPY002 - the package uses this generator
    return {
        "tem": tem(),
        "vickrey": vickrey(),
        "draws": DRAWS,
        "without_epsilometer": "epsilometer" not in sys.modules,
    }


if __name__ == "__main__":
    print(json.dumps(main()))
