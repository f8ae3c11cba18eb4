"""How near rewrites stay to their texts: mean cosine of sentence embeddings, set beside 1-Diffractor's Table 2.

Every word mechanism rewrites the first texts of each file once at each epsilon of the paper (IWSPA 2024), all on the
same word vectors; the lists of 1-Diffractor are five greedy ones of these vectors. Means over texts, then over files.
The last row is what all mechanisms tend to: only words outside the vocabulary are replaced. The paper's mechanisms let
these through, stop-words too, which in itself keeps texts alike.

usage: python -m benchmarks.similarity VECTORS FILE... [--texts N]     FILE: Parquet with a column `text` or `text_a`
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing.text_audit import ENCODER, mechanism
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.mechanisms.words.shared.vocabulary import Vocabulary
from epsilometer.models.encoder import Encoder
from epsilometer.text.vectors import WordVectors

EPSILONS = [0.1, 0.5, 1, 3, 5, 10, 25, 50]
LISTS = 5

CASES: dict[str, tuple[str, dict[str, Any]]] = {  # mechanism: module, settings; the paper's order, then the others
    "1-D geometric": ("diffractor", {}),
    "1-D TEM": ("diffractor", {"noise": "tem"}),
    "MVC": ("mvc", {}),
    "truncated Gumbel": ("truncated_gumbel", {}),
    "Vickrey": ("vickrey", {}),
    "TEM": ("tem", {}),
    "Mahalanobis": ("mahalanobis", {}),
    "SanText": ("santext", {}),
    "SanText+": ("santext_plus", {}),
    "CusText": ("custext", {}),
    "exponential": ("exponential", {}),
}


def first(file: str, count: int) -> list[str]:
    """The first distinct texts of a file."""
    table = pl.read_parquet(file)
    column = "text" if "text" in table.columns else "text_a"
    return table[column].unique(maintain_order=True).head(count).to_list()


def rewritten(vectors: Path, texts: Sequence[str]) -> dict[str, list[Sequence[str]]]:
    """The rewrites by every mechanism at every epsilon, and what becomes of the texts without any noise."""
    whole_words = WordVectors.load(vectors).whole_words()
    vocabulary = Vocabulary(whole_words.words)
    rewrites: dict[str, list[Sequence[str]]] = {}
    with TemporaryDirectory() as name:
        lists = Path(name) / "lists.npz"
        WordLists.build([whole_words], LISTS).save(lists)
        for case, (module, settings) in CASES.items():
            built = mechanism(module, {"resource": lists if module == "diffractor" else vectors, **settings})
            streams = [Noise.named(len(texts), "similarity", case, epsilon) for epsilon in EPSILONS]
            rewrites[case] = [
                built.rewrite(texts, epsilon, stream).texts for epsilon, stream in zip(EPSILONS, streams, strict=True)
            ]
    return rewrites | {"no noise": [vocabulary.decode(vocabulary.encode(texts))] * len(EPSILONS)}


def main(arguments: Sequence[str]) -> None:
    """Print a Markdown table."""
    parser = ArgumentParser(prog="python -m benchmarks.similarity", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("vectors", metavar="VECTORS", type=Path)
    parser.add_argument("files", metavar="FILE", nargs="+")
    parser.add_argument("--texts", metavar="N", type=int, default=300, help="of each file")
    options = parser.parse_args(arguments)
    parts = [first(file, options.texts) for file in options.files]
    texts = [text for part in parts for text in part]
    ends = np.cumsum([len(part) for part in parts])[:-1]
    by_case = rewritten(options.vectors, texts)
    number: dict[str, int] = {}  # equal texts are encoded once
    for text in [*texts, *(text for grid in by_case.values() for rewrites in grid for text in rewrites)]:
        number.setdefault(text, len(number))
    embedded = Encoder(ENCODER).encode(list(number))

    def rows(some: Sequence[str]) -> np.ndarray:
        return embedded[[number[text] for text in some]]

    def mean(rewrites: Sequence[str]) -> float:
        cosine = np.einsum("ij,ij->i", rows(texts), rows(rewrites), dtype=np.float64)
        return float(np.mean([part.mean() for part in np.split(cosine, ends)]))

    print(f"{len(texts):,} texts of {len(parts)} files, {len(number):,} distinct texts encoded\n")
    print("| epsilon | " + " | ".join(f"{epsilon:g}" for epsilon in EPSILONS) + " |")
    print("|---" * (1 + len(EPSILONS)) + "|")
    for case, grid in by_case.items():
        print(f"| {case} | " + " | ".join(f"{mean(rewrites):.2f}" for rewrites in grid) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
