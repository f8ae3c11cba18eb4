"""Speed of DP-ST's parts: tagging, building the public corpus and rewriting, compared with plain sentence encoding.

usage: python -m benchmarks.triples
       python -m benchmarks.triples index [TEXTS]    the index of near-duplicates, compared with one in memory
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from datasketch import MinHash, MinHashLSH

from epsilometer.core.randomness import Noise
from epsilometer.corpora import synthetic
from epsilometer.mechanisms.selection.dp_st import DPST
from epsilometer.mechanisms.selection.shared.near_duplicates import PERMUTATIONS, _grams, stand_ins
from epsilometer.mechanisms.selection.shared.triples import Clustering, build
from epsilometer.models.encoder import Encoder
from epsilometer.models.tagging import Tagger, sentences, words_and_marks

PUBLIC, PRIVATE, TRIALS = 1000, 200, 2000
EPSILONS = [10.0, 50.0, 200.0]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds and the result of the work."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def in_memory(texts: Sequence[str], threshold: float = 0.4) -> int:
    """Return how many texts remain by one index in memory, one text after another."""
    index, signatures = MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS), {}
    hashes = MinHash.generator(map(_grams, texts), num_perm=PERMUTATIONS, seed=1, scheme="affine32")
    for i, own in enumerate(hashes):
        if not any(own.jaccard(signatures[j]) >= threshold for j in index.query(own)):
            signatures[i] = own
            index.insert(i, own, check_duplication=False)
    return len(signatures)


def on_disk(texts: Sequence[str]) -> int:
    """Return how many texts remain by the index on disk."""
    return len(np.unique(stand_ins(texts)))


def measured(name: str, count: int) -> tuple[float, float, int]:
    """Return the processor time in seconds, the increase of peak memory in MiB, and how many texts remain."""
    random = np.random.default_rng(0)
    letters = np.array([*"abcdefghijklmnopqrstuvwxyz"])
    words = ["".join(random.choice(letters, random.integers(3, 9))) for _ in range(20_000)]
    texts = [" | ".join(" ".join(row[i : i + 2]) for i in (0, 2, 4)) for row in random.choice(words, (count, 6))]
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    stayed = {"memory": in_memory, "disk": on_disk}[name](texts)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return time.process_time() - start, grown / 1024, stayed


def index(count: int) -> None:
    """Print the time and memory of both indices for texts like triples, each in a separate process."""
    rows = {}
    for name in ("memory", "disk"):
        with get_context("spawn").Pool(1) as pool:
            rows[name] = pool.apply(measured, (name, count))
        print(f"{count} texts, index in {name:6}: %.1f s, %.0f MiB more, %d stay" % rows[name], flush=True)
    memory, disk = rows["memory"], rows["disk"]
    print(f"disk to memory: {disk[0] / memory[0]:.2f} of the time, {disk[1] / memory[1]:.2f} of the memory")


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
    seconds, tags = timed(lambda: tagger.tag([words_and_marks(sentence) for sentence in split]))
    row("tags and roles", len(split), seconds, "sentences")
    texts = [" ".join(tagged.words) for tagged in tags]
    row("near-duplicates by MinHash", len(texts), timed(lambda: stand_ins(texts))[0], "texts")
    with TemporaryDirectory() as name:
        folder = Path(name)
        seconds, corpus = timed(lambda: build(public, folder, Clustering([20, 100])))
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
    if sys.argv[1:2] == ["index"]:
        index(int(sys.argv[2]) if sys.argv[2:] else 50_000)
    else:
        main()
