"""Growth of time and memory with the size of an audit, to a million texts or trials.

Each size runs in a process of its own on one thread. The exponent is that of the two largest sizes: time grows with
size ** exponent. Memory is the process's peak, imports included; its exponent is that of the memory beyond that of a
process without work.

usage: python -m benchmarks.growth [CASE...]
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.shared.pages import dated, table
from benchmarks.words import alone, peak
from epsilometer.auditing import text_audit as api
from epsilometer.auditing.exact_loss.from_texts import exact_loss
from epsilometer.auditing.text_audit import audit
from epsilometer.auditing.trials.design import Design
from epsilometer.core.randomness import Noise
from epsilometer.text.vectors import WordVectors

Measured = tuple[float, float]
"""Seconds of processor time, and MiB of peak memory."""
LIMIT = 8 * 1024  # MiB
_DESIGN = Design(temperature=0)  # candidates at random, so that no text is embedded
_WORDS, _DIMENSIONS = 20_000, 50


def _half(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """Replace each word by another with probability 1/2."""
    words = text.split()
    return " ".join(np.where(rng.random(len(words)) < 0.5, words, "x").tolist())


def _distinct(count: int, words: int) -> list[str]:
    """Return distinct texts of this many words."""
    rows = np.random.default_rng(0).integers(_WORDS, size=(count, words - 1))
    return [f"t{number} " + " ".join(f"w{word}" for word in row) for number, row in enumerate(rows)]


def texts(count: int) -> None:
    """Audit a function on this many texts, in 1,000 trials."""
    audit(_distinct(count, 10), _half, [1.0], attacks=["lexical"], trials=1000, design=_DESIGN)


def trials(count: int) -> None:
    """Audit a function on 1,000 texts, in this many trials."""
    audit(_distinct(1000, 10), _half, [1.0], attacks=["lexical"], trials=count, design=_DESIGN)


def document(words: int) -> None:
    """Audit a function on 100 documents of this many words, in 200 trials."""
    audit(_distinct(100, words), _half, [1.0], attacks=["lexical"], trials=200, design=_DESIGN)


def vocabulary(words: int) -> None:
    """Compute the exact losses of TEM on texts of 10 words, and rewrite them, with this many word vectors."""
    names = [f"w{number}" for number in range(words)]
    few = [" ".join(np.random.default_rng(number).choice(names, 10)) for number in range(50)]
    with TemporaryDirectory() as folder:
        file = Path(folder, "vectors.npz")
        WordVectors(names, np.random.default_rng(0).normal(size=(words, _DIMENSIONS))).save(file)
        settings = {"resource": file}
        exact_loss(few, "tem", [5.0], settings, trials=50, design=_DESIGN)
        api.mechanism("tem", settings).rewrite(few, 5.0, Noise.named(len(few)))


def report(cells: int) -> None:
    """Write the page of an audit of this many mechanisms by three attacks."""
    from tests.support.audited import NO_CLAIM, bare, build_page, frame

    rows = [
        ("letters", f"mechanism {number}", 1.0, attack, 500 + number, None, NO_CLAIM)
        for number in range(cells)
        for attack in ("embedding", "length", "lexical")
    ]
    with TemporaryDirectory() as folder:
        build_page(bare(frame(*rows)), Path(folder, "audit.html"), Path(folder, "figures"))


CASES: dict[str, tuple[str, Callable[[int], None], Sequence[int]]] = {
    "texts": ("texts", texts, (10_000, 100_000, 1_000_000)),
    "trials": ("trials", trials, (10_000, 100_000, 1_000_000)),
    "document": ("words in each of 100 documents", document, (100, 1_000, 10_000)),
    "vocabulary": ("words of the vocabulary", vocabulary, (1_000, 10_000, 100_000)),
    "report": ("cells in a report", report, (10, 30, 100)),
}


def once(case: str, size: int) -> Measured:
    """Run a case in this process, and measure it."""
    begun = time.process_time()
    if size:
        CASES[case][1](size)
    return time.process_time() - begun, peak()


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the exponent of the growth between the last two sizes."""
    return math.log(values[-1] / values[-2]) / math.log(sizes[-1] / sizes[-2])


def rows(case: str) -> Iterator[str]:
    """Yield the row of a case: the name, then time and memory by size, then both exponents."""
    what, _, sizes = CASES[case]
    _, empty = alone(once, case, 0)
    measured = [alone(once, case, size) for size in sizes]
    times, peaks = zip(*measured, strict=True)
    growth = exponent(sizes, [max(1.0, each - empty) for each in peaks])
    cells = [f"{size:,}: {time:.1f} s, {memory:,.0f} MiB" for size, (time, memory) in zip(sizes, measured, strict=True)]
    fits = "yes" if peaks[-1] < LIMIT else "**no**"
    yield f"| {what} | {' | '.join(cells)} | {exponent(sizes, times):.2f} | {growth:.2f} | {fits} |"


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    os.environ["OMP_NUM_THREADS"] = "1"
    head = "| size | small | medium | large | exponent of time | of memory | below 8 GiB |"
    lines = table("Growth", dated(), head, (row for case in arguments or CASES for row in rows(case)))
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
