"""Peak memory of anonymisers that ask classifiers, above their networks, for fewer and for more texts.

Every measurement is a process of its own. Its memory is measured when networks and word vectors are loaded and one text
is rewritten, and at the end: what is above is what the searches hold. Texts are generated reviews, auxiliaries linear.

usage: python -m benchmarks.anonymize_memory [--texts N,N] [-q Q] [SEARCH...]
"""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.core.randomness import Noise
from epsilometer.corpora.synthetic import generate
from epsilometer.mechanisms.anonymisers.idt import IDT
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Plan, make
from epsilometer.mechanisms.anonymisers.textfooler import TextFooler
from epsilometer.mechanisms.words.shared.embedded import vectors
from epsilometer.models.classifier import FineTuning
from epsilometer.models.locate import ENCODER
from epsilometer.text.vectors import WordVectors

SEARCHES = ("as_published", "fewest", "textfooler")
TRAINED_ON, SEED = 3000, 1


def search(name: str, folder: Path, q: int) -> Any:
    """A mechanism over the auxiliaries in a folder."""
    if name == "textfooler":
        return TextFooler(resource=folder)
    return IDT(resource=folder, k=10, q=q, as_published=name == "as_published")


def measure(name: str, count: int, folder: Path, q: int) -> dict[str, object]:
    """What this process needs for the first texts, in MiB."""
    texts = pl.read_parquet(folder / "texts.parquet")["text"].to_list()
    mechanism, noise = search(name, folder, q), Noise.named(len(texts), SEED, "benchmark")
    mechanism.rewrite(texts[-1:], NO_BUDGET, noise[-1:])
    loaded = getrusage(RUSAGE_SELF).ru_maxrss / 1024
    mechanism.rewrite(texts[:count], NO_BUDGET, noise[:count])
    peak = getrusage(RUSAGE_SELF).ru_maxrss / 1024
    return {"search": name, "texts": count, "loaded": round(loaded), "peak": round(peak), "above": round(peak - loaded)}


def main() -> None:
    """Print a row a search and number of texts."""
    parser = ArgumentParser()
    parser.add_argument("--texts", default="50,400")
    parser.add_argument("-q", type=int, default=10)
    parser.add_argument("--alone", type=Path, help="the folder, in a process that measures itself")
    parser.add_argument("searches", nargs="*", default=list(SEARCHES))
    options = parser.parse_args()
    counts = [int(count) for count in options.texts.split(",")]
    if options.alone:
        print(json.dumps(measure(options.searches[0], counts[0], options.alone, options.q)))
        return
    reviews = generate("reviews", TRAINED_ON + max(counts) + 1, SEED).with_row_index("id")
    reviews = reviews.with_columns(pl.col("id", "rating").cast(pl.String))
    with TemporaryDirectory() as folder:
        plan = Plan("reviews", ["gender"], ["rating"], ["linear"], FineTuning(ENCODER))
        make(Path(folder), reviews.head(TRAINED_ON), plan, WordVectors.load(vectors()))
        reviews.slice(TRAINED_ON).write_parquet(Path(folder, "texts.parquet"))
        for name in options.searches:
            for count in counts:
                alone = ["--texts", str(count), "-q", str(options.q), "--alone", folder, name]
                command = [sys.executable, "-m", "benchmarks.anonymize_memory", *alone]
                print(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip(), flush=True)


if __name__ == "__main__":
    main()
