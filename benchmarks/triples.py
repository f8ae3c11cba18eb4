"""Speed of DP-ST's parts: tagging, building the public corpus, rewriting, beside plain sentence encoding.

usage: python -m benchmarks.triples
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from epsilometer.core.randomness import Noise
from epsilometer.corpora import synthetic
from epsilometer.mechanisms.selection.dp_st import DPST
from epsilometer.mechanisms.selection.shared.near_duplicates import stand_ins
from epsilometer.mechanisms.selection.shared.triples import build
from epsilometer.models.encoder import Encoder
from epsilometer.models.tagging import Tagger, sentences, words_and_marks

PUBLIC, PRIVATE, TRIALS = 1000, 200, 2000
EPSILONS = [10.0, 50.0, 200.0]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what the work returned."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def main() -> None:
    """Print a table of rates."""
    public = synthetic.generate("reviews", PUBLIC, 1)["text"].to_list()
    private = synthetic.generate("reviews", PRIVATE, 0)["text"].to_list()
    split = [sentence for text in public for sentence in sentences(text)]
    tagger, encoder = Tagger(), Encoder("all-MiniLM-L6-v2")
    tagger.triples(public[:20])
    encoder.encode(public[:20])
    print(f"{PUBLIC} reviews, {len(split)} sentences, {torch.get_num_threads()} threads")
    print(f"{'part':44} {'rate':>9} unit")

    def row(part: str, count: int, seconds: float, unit: str) -> None:
        print(f"{part:44} {count / seconds:9.1f} {unit}/s")

    row("sentence embedding alone", len(split), timed(lambda: encoder.encode(split))[0], "sentences")
    seconds, found = timed(lambda: tagger.tag([words_and_marks(sentence) for sentence in split]))
    row("tags and roles", len(split), seconds, "sentences")
    texts = [" ".join(tagged.words) for tagged in found]
    row("near-duplicates by MinHash", len(texts), timed(lambda: stand_ins(texts))[0], "texts")
    with TemporaryDirectory() as name:
        folder = Path(name)
        seconds, corpus = timed(lambda: build(public, folder, [20, 100]))
        row("public corpus, all steps", len(split), seconds, "sentences")
        mechanism = DPST(resource=folder)
        trials = private * (TRIALS // PRIVATE)
        noises = [Noise.named(TRIALS, "benchmark", epsilon) for epsilon in EPSILONS]
        mechanism.rewrite(private[:5], 1.0, Noise.named(5, "warm"))
        seconds, _ = timed(lambda: mechanism.rewrite_grid(trials, EPSILONS, noises))
        row(
            f"dp_st, {len(corpus.triples)} triples, {PRIVATE} distinct texts",
            TRIALS * len(EPSILONS),
            seconds,
            "rewrites",
        )
        seconds, _ = timed(lambda: mechanism.rewrite(private, 10.0, Noise.named(PRIVATE, "one")))
        row("dp_st, each text once", PRIVATE, seconds, "rewrites")


if __name__ == "__main__":
    main()
