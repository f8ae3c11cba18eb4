"""Memory of word mechanisms by number of rewritten words, for the reference code and this project (1-Diffractor, table
5).

Each mechanism runs in a separate process, on one thread, with the random vectors of `benchmarks.peers`. Its vectors or
list are loaded, and one word is rewritten, before the measurement. Then it rewrites 1,000, 10,000 and 100,000 words in
texts of 20 words, and holds the results in memory. `more` is the peak memory of the process during a step (Linux's
VmHWM, reset before each step) minus its memory at the start of the step, in MiB. A step is left out if, at the speed of
the previous step, it would take longer than the limit.

usage: python -m benchmarks.peers.memory [--limit SECONDS] [ROW...]
first: as for `python -m benchmarks.peers`
"""

from __future__ import annotations

import gc
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.peers import reference
from benchmarks.peers.__main__ import DIMENSIONS, EPSILON, WORDS, Resources
from benchmarks.peers.fetch import sources
from benchmarks.shared.pages import RESULTS, dated, write
from benchmarks.words import alone, peak
from epsilometer.auditing.text_audit import mechanism
from epsilometer.core.randomness import Noise
from epsilometer.text.vectors import WordVectors

FOLDER = RESULTS / "peers_memory"
STEPS = [1_000, 10_000, 100_000]
LINE = 20  # words per text
CASES = {  # mechanism: repository, name in the reference code, name in this project, settings
    "1-D geometric, 1 list": ("Diffractor", "geometric", "diffractor", {}),
    "1-D TEM, 1 list": ("Diffractor", "TEM", "diffractor", {"noise": "tem"}),
    "MVC": ("MLDP", "MultivariateCalibrated", "mvc", {}),
    "truncated Gumbel": ("MLDP", "TruncatedGumbel", "truncated_gumbel", {}),
    "Vickrey": ("MLDP", "VickreyMechanism", "vickrey", {}),
    "TEM": ("MLDP", "TEM", "tem", {}),
    "Mahalanobis": ("MLDP", "Mahalanobis", "mahalanobis", {}),
}


def theirs(folder: Path, name: str) -> Callable[[Sequence[str]], list[str]]:
    """Return the reference code's function that rewrites texts."""
    repository, called, _, _ = CASES[name]
    vectors = WordVectors.load(folder / "vectors.npz")
    words = list(vectors.words)
    reference.one_thread()
    if repository == "Diffractor":
        return reference.diffractor(called, EPSILON, words)
    replace = reference.mldp(called, EPSILON, reference.keyed_vectors(words, vectors.vectors))
    return lambda texts: [" ".join(map(replace, text.split())) for text in texts]


def ours(folder: Path, name: str) -> Callable[[Sequence[str]], list[str]]:
    """Return this project's function that rewrites texts."""
    _, _, module, settings = CASES[name]
    resource = folder / ("list.npz" if module == "diffractor" else "vectors.npz")
    built = mechanism(module, {"resource": resource, **settings})
    return lambda texts: list(built.rewrite(texts, EPSILON, Noise.named(len(texts), len(texts))).texts)


def resident() -> float:
    """Reset the peak memory of this process, and return its current memory in MiB."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def measured(folder: Path, name: str, side: str, limit: float) -> tuple[float, list[float | None]]:
    """Return the MiB after loading, and the additional MiB at the peak of each step; None if left out."""
    rewrite = (theirs if side == "reference" else ours)(folder, name)
    rewrite(["w0"])
    draw, more, pace = np.random.default_rng(0), list[float | None](), 0.0
    loaded = resident()
    for step in STEPS:
        if pace * step > limit:
            more.append(None)
            continue
        words = [f"w{number}" for number in draw.integers(WORDS, size=step)]
        texts = [" ".join(words[start : start + LINE]) for start in range(0, step, LINE)]
        before, begun = resident(), time.perf_counter()
        written = rewrite(texts)
        pace = (time.perf_counter() - begun) / step
        more.append(peak() - before)
        assert len(written) == len(texts)
    return loaded, more


def main(arguments: Sequence[str]) -> None:
    """Write results/peers_memory."""
    parser = ArgumentParser(prog="python -m benchmarks.peers.memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", metavar="ROW", nargs="*", help="a mechanism of the table (default: all)")
    parser.add_argument("--limit", metavar="SECONDS", type=float, default=150)
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.rows if name not in CASES]:
        parser.error(f"there is no row {unknown[0]!r}; the rows are {'; '.join(CASES)}")
    lines = [
        "# Memory of word mechanisms by words rewritten",
        "",
        "Written by `python -m benchmarks.peers.memory`; do not edit. Its docstring explains the columns.",
        "",
        f"{dated()} {WORDS:,} random words x {DIMENSIONS}, epsilon {EPSILON:g}, one thread. MiB.",
        "",
        "## Peak memory",
        "",
        "| mechanism | whose | loaded | " + " | ".join(f"more at {step:,}" for step in STEPS) + " |",
        "|---" * (3 + len(STEPS)) + "|",
    ]
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        Resources(folder)
        for name in options.rows or CASES:
            repository = CASES[name][0]
            for side in ("reference", "ours"):
                whose = f"{repository} {sources()[repository]['commit'][:7]}" if side == "reference" else side
                loaded, more = alone(measured, folder, name, side, options.limit)
                steps = ["–" if each is None else f"{each:,.2f}" for each in more]
                lines.append(f"| {name} | {whose} | {loaded:,.0f} | {' | '.join(steps)} |")
                print(lines[-1], flush=True)
    write(lines, FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
