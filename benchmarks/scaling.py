"""Workers: the speed-up of two workers over one, the cost of a slice, and the driver's memory with a million trials.

usage: python -m benchmarks.scaling [speed | slices | memory]     all three by default; Ray needs the extra `ray`
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing import text_audit as api
from epsilometer.auditing.schemas import TRIALS
from epsilometer.auditing.trials.rewriting import Job, rewrite_blocks
from epsilometer.auditing.trials.sampling import sample
from epsilometer.core import tables
from epsilometer.core.component import shipped
from epsilometer.core.mechanism import Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.corpora.reading import PREPARED
from epsilometer.corpora.synthetic import generate
from epsilometer.runtime.scaling import Engine, cluster, run
from epsilometer.text.words import words

RAY = [Engine(1, "auto"), Engine(2, "auto")] if importlib.util.find_spec("ray") else []
RUNS = 3
EPSILONS = [5.0, 8.0, 11.0, 19.0]


def speed(count: str = "12000") -> None:
    """Measure trials per second of TEM with one and two workers, in turn: after all workers have begun, and overall."""
    texts = generate("queries", 2000, 0)["text"].to_list()
    trials = int(count)
    source = (Noise.named(trials, "source").uniforms()[:, 0] * len(texts)).astype(int)
    job = Job(texts, source, EPSILONS, [Noise.named(trials, "rewrite", e) for e in EPSILONS])
    engines = [Engine(1), Engine(2), *RAY]
    measured: dict[Engine, list[tuple[float, float]]] = {engine: [] for engine in engines}
    for _ in range(RUNS):
        for engine in engines:
            begun = time.perf_counter()
            times = [time.perf_counter() for _ in rewrite_blocks(partial(_mechanism, "tem"), job, 256, engine)]
            skipped = 2 * engine.workers  # before this, workers read vectors
            steady = (len(times) - skipped) / (times[-1] - times[skipped - 1])
            measured[engine].append((steady * trials / len(times), trials / (times[-1] - begun)))
    print(f"{'engine':<12} {'workers':>7} {'trials/s, under way':>20} {'trials/s, in all':>18}   medians of {RUNS}")
    for engine, speeds in measured.items():
        steady, whole = (statistics.median(each) for each in zip(*speeds, strict=True))
        print(f"{engine.ray or 'local':<12} {engine.workers:>7} {steady:>20,.0f} {whole:>18,.0f}")


def _mechanism(name: str) -> Mechanism:
    return api.mechanism(name)


def slices(count: str = "2000") -> None:
    """Measure the cost of a slice, with a function that does nothing and returns a few bytes, or a megabyte."""
    print(f"{'engine':<12} {'workers':>7} {'returned':>10} {'ms a slice':>11} {'start, s':>9}")
    for engine in [Engine(1), Engine(2), *RAY]:
        for size in (0, 1 << 20):
            times = [time.perf_counter()]
            times += [time.perf_counter() for _ in run(partial(_nothing, size), range(int(count)), engine)]
            rest = times[10 * engine.workers :]
            each = (rest[-1] - rest[0]) / (len(rest) - 1)
            print(
                f"{engine.ray or 'local':<12} {engine.workers:>7} {size:>10,} {1e3 * each:>11.2f} "
                f"{times[1] - times[0]:>9.1f}"
            )


def _nothing(size: int) -> Callable[[int], np.ndarray]:
    return lambda number: np.zeros(size, np.uint8)


def memory(*counts: str) -> None:
    """Measure peak resident memory of the stages rewrite and attack, by number of trials, for randomised response."""
    print(f"{'stage':<8} {'engine':<12} {'workers':>7} {'T':>10} {'seconds':>8} {'peak MiB':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, counts or ("100000", "1000000")):
            _alone(_make, folder, count)
            for engine in [Engine(1), *RAY[1:]]:
                for stage in ("rewrite", "attack"):
                    seconds, peak = _alone(_stage, folder, stage, count, engine)
                    print(
                        f"{stage:<8} {engine.ray or 'local':<12} {engine.workers:>7} {count:>10,} {seconds:>8.1f} "
                        f"{peak:>9,.0f}",
                        flush=True,
                    )


def _alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the call's result from a separate process, so that the peak memory is only that of the call."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def _stage(folder: str, stage: str, count: int, engine: Engine) -> tuple[float, float]:
    """Return the seconds and peak MiB of a stage in this process."""
    os.environ["PYTHONPATH"] = os.getcwd()
    os.chdir(folder)
    _write_params(count, {"workers": engine.workers, "ray": engine.ray})
    from epsilometer.pipeline.stages import attack, rewrite

    begun = time.perf_counter()
    {"rewrite": rewrite, "attack": attack}[stage].main("queries-rr")
    return time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _write_params(count: int, runtime: dict[str, object]) -> None:
    cell = {
        "mechanism": "rr",
        "file": str(shipped("mechanisms")["randomized_response"]),
        "resource": "data/prepared/queries.parquet",
        "epsilons": [4, 8],
        "dataset": "queries",
    }
    params = {
        "audit": {"seed": 0},
        "datasets": {"queries": {"source": "queries.txt"}},
        "trials": {"count": count},
        "words": {"sources": {"own": "vectors.txt"}},
        "mechanisms": {},
        "cells": {"queries-rr": cell},
        "attacks": {"length": {}, "likelihood": {}},
        "runtime": runtime,
    }
    Path("params.yaml").write_text(json.dumps(params))  # JSON is YAML


def _make(folder: str, count: int) -> None:
    os.chdir(folder)
    texts = generate("queries", 4000, 0)["text"].unique(maintain_order=True).to_list()
    prepared = {
        "id": [str(i) for i in range(len(texts))],
        "text": texts,
        "split": ["train"] * len(texts),
        "words": pl.Series([len(words(text)) for text in texts], dtype=pl.Int32),
    }
    tables.write(pl.DataFrame(prepared), "data/prepared/queries.parquet", PREPARED)
    vectors = np.random.default_rng(0).normal(size=(len(texts), 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    tables.write_array(vectors, "data/embeddings/queries.npy")
    sampled = sample(vectors, count)
    table = {
        "trial": np.arange(count),
        "candidates": pl.Series(sampled.candidates).cast(pl.List(pl.Int32)),
        "target": sampled.target,
    }
    tables.write(pl.DataFrame(table), "data/trials/queries.parquet", TRIALS)


PARTS: dict[str, Callable[..., None]] = {"speed": speed, "slices": slices, "memory": memory}


def main(part: str = "", *rest: str) -> None:
    """Print the tables."""
    for name, table in PARTS.items():
        if part in ("", name):
            with cluster(RAY[1]) if RAY and table is not memory else nullcontext():
                table(*rest)


if __name__ == "__main__":
    main(*sys.argv[1:])
