"""Word mechanisms: tokens a second after loading, on generated queries with the embedded vectors; median of three."""

from __future__ import annotations

import statistics
import time

from epsilometer.api import mechanism
from epsilometer.corpora.synthetic import generate
from epsilometer.language.words import words
from epsilometer.randomness import Noise

CASES = {  # mechanism: settings, epsilon, trials
    "diffractor geometric": ("diffractor", {}, 0.4, 20_000),
    "diffractor tem": ("diffractor", {"noise": "tem"}, 3.5, 20_000),
    "tem": ("tem", {}, 11, 20_000),
    "santext": ("santext", {}, 11, 20_000),
    "mvc": ("mvc", {}, 70, 300),
}


def main() -> None:
    """Print the table."""
    corpus = generate("queries", 3200, 0)["text"].to_list()
    print(f"\n{'mechanism':<22} {'trials':>8} {'tokens a second':>16}")
    for name, (module, settings, epsilon, trials) in CASES.items():
        built = mechanism(module, settings)
        texts = [corpus[i % len(corpus)] for i in range(trials)]
        tokens = sum(len(words(text)) for text in texts)
        built.rewrite(texts[:10], epsilon, Noise.named(10, "warm-up"))
        seconds = []
        for run in range(3):
            begun = time.perf_counter()
            built.rewrite(texts, epsilon, Noise.named(trials, run))
            seconds.append(time.perf_counter() - begun)
        print(f"{name:<22} {trials:>8,} {tokens / statistics.median(seconds):>16,.0f}")


if __name__ == "__main__":
    main()
