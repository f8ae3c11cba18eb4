"""DP-MLM at a million trials: rewriting at five epsilons, and the embedding attack on one of them.

usage: python -m benchmarks.million FILE [TRIALS [ATTACKED]]     FILE: texts, a line each or a Parquet file with `text`
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from epsilometer.attacks.identification.embedding import EmbeddingAttack
from epsilometer.auditing import text_audit as api
from epsilometer.auditing.trials.rewriting import Job, rewrite_blocks
from epsilometer.auditing.trials.sampling import sample
from epsilometer.core import tables
from epsilometer.core.attack import Context, Embedded
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.corpora.reading import prepare, read
from epsilometer.models.encoder import Encoder

EPSILONS = [1.0, 25.0, 50.0, 100.0, 200.0]


def main(file: str, trials: str = "1000000", attacked: str = "0") -> None:
    """Print seconds and peak memory of each step. ATTACKED: how many of the trials the attack takes."""
    table = prepare(read(file)).table
    texts = table.filter(pl.col("split") == "train")["text"].to_list()
    count, taken = int(trials), int(attacked)
    begun = time.perf_counter()

    def report(what: str) -> None:
        nonlocal begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{what:<52} {time.perf_counter() - begun:>8.0f} s, peak {peak:,.0f} MiB", flush=True)
        begun = time.perf_counter()

    vectors = Encoder(api.ENCODER).encode(texts)
    report(f"encode {len(texts):,} texts")
    sampled = sample(vectors, count)
    report(f"draw {count:,} trials")
    noises = [Noise.named(count, "rewrite", epsilon) for epsilon in EPSILONS]
    job = Job(texts, sampled.source, EPSILONS, noises)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{epsilon:g}.parquet" for epsilon in EPSILONS]
        writers = [tables.Writer(path, {"trial": pl.Int64, "text": pl.String}).__enter__() for path in paths]
        for block in rewrite_blocks(lambda: api.mechanism("dp_mlm"), job):
            for rewrites, writer in zip(block.rewrites, writers, strict=True):
                writer.write(pl.DataFrame({"trial": block.rows, "text": rewrites.texts}))
        for writer in writers:
            writer.__exit__(None, None, None)
        report(f"rewrite at {len(EPSILONS)} epsilons")
        if taken:
            rewrites = pl.read_parquet(paths[2]).sort("trial").head(taken)["text"].to_list()
            context = Context(
                texts, None, 50.0, Noise.named(taken, "attack"), Embedded(api.ENCODER, "float32", vectors)
            )
            guess = EmbeddingAttack().guess(Rewrites(rewrites), sampled.candidates[:taken], context)
            right = float(np.mean(guess == sampled.target[:taken]))
            report(f"embedding attack on {taken:,} ({len(set(rewrites)):,} distinct), {right:.3f} right")


if __name__ == "__main__":
    main(*sys.argv[1:])
