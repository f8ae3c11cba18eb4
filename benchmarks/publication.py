"""Words and latents drawn per second, for an audit (seeded, floating point) and for a publication (exact).

The texts are requests, with the embedded word vectors (34,573 words of 384 dimensions); latents have 1,024 numbers.

usage: python -m benchmarks.publication
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.shared.clock import seconds
from epsilometer.auditing import text_audit as api
from epsilometer.core.randomness import Noise
from epsilometer.corpora import synthetic
from epsilometer.mechanisms.latents.shared.noise import Gaussian, Laplace, add
from epsilometer.text.words import words

TEXTS, LATENTS, NUMBERS = 60, 32, 1024
MECHANISMS: dict[str, tuple[str, dict[str, Any], float]] = {
    "santext": ("santext", {}, 11.0),
    "tem": ("tem", {}, 11.0),
    "custext": ("custext", {}, 8.0),
    "diffractor, geometric": ("diffractor", {}, 0.4),
    "diffractor, tem": ("diffractor", {"noise": "tem"}, 3.5),
    "mvc": ("mvc", {}, 70.0),
}


def main() -> None:
    """Print both rates and their ratio."""
    texts = [str(text) for text in synthetic.generate("queries", TEXTS, 0)["text"]]
    count = sum(len(words(text)) for text in texts)
    print(f"{'':24} {'audit':>12} {'publication':>12} {'ratio':>6}")
    for name, (mechanism, settings, epsilon) in MECHANISMS.items():
        built = api.mechanism(mechanism, settings)
        built.rewrite(texts, epsilon, Noise.named(len(texts), "warm"))
        audit = seconds(partial(built.rewrite, texts, epsilon, Noise.named(len(texts), "audit")))
        publication = seconds(partial(built.rewrite, texts, epsilon, Noise.operating_system(len(texts))))
        print(
            f"{name:24} {count / audit:7.0f} w/s {count / publication:8.0f} w/s {publication / audit:6.1f}", flush=True
        )
    before = np.random.default_rng(0).normal(size=(LATENTS, NUMBERS)).astype(np.float32)
    for law in (Gaussian(1.0), Laplace(1.0)):
        audit = seconds(partial(add, before, law, Noise.named(LATENTS, "audit")))
        publication = seconds(partial(add, before, law, Noise.operating_system(LATENTS)))
        name = f"{type(law).__name__} on latents".lower()
        print(
            f"{name:24} {LATENTS / audit:8.0f} /s {LATENTS / publication:9.0f} /s {publication / audit:6.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
