"""How near rewrites stay to their texts: mean cosine of sentence embeddings, set beside 1-Diffractor's Table 2.

Every word mechanism rewrites the first texts of each file once at each epsilon of the paper (IWSPA 2024), all on the
same word vectors; the lists of 1-Diffractor are five greedy ones of these vectors. Means over the texts of all files,
with 99 % intervals. The last row is what all mechanisms tend to: only words outside the vocabulary are replaced. The
paper's mechanisms let these through, stop-words too, which in itself keeps texts alike: rows `(published)`. Their TEM
has gamma 5, as the reference code; other rows have the formula of TEM's paper, unless they say otherwise.

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

from benchmarks.shared.pages import RESULTS, head
from epsilometer.auditing.text_audit import ENCODER, mechanism
from epsilometer.core import tables
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.diffractor import Geometric, Truncated
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.mechanisms.words.shared.vocabulary import Vocabulary
from epsilometer.models.encoder import Encoder
from epsilometer.report.wording import mean_interval
from epsilometer.text.vectors import WordVectors

PAGE = RESULTS / "similarity.md"
EPSILONS = [0.1, 0.5, 1, 3, 5, 10, 25, 50]
LISTS = 5

CASES: dict[str, tuple[str, dict[str, Any]]] = {  # mechanism: module, settings; the paper's order, then the others
    "1-D geometric": ("diffractor", {}),
    "1-D TEM": ("diffractor", {"noise": "tem"}),
    "1-D TEM (gamma 5)": ("diffractor", {"noise": "tem", "gamma": 5}),
    "1-D geometric (published)": ("diffractor", {"as_published": True}),
    "1-D TEM (published)": ("diffractor", {"noise": "tem", "as_published": True}),
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


STAYS_SAID = "By the law, in the middle of one list; several lists add what leads back on another."


def noises(size: int) -> dict[str, Geometric | Truncated]:
    """The noises of 1-Diffractor on lists of so many words."""
    return {
        "1-D geometric": Geometric(size),
        "1-D TEM": Truncated(size),
        "1-D TEM (gamma 5)": Truncated(size, 5),
    }


def stays(noise: Geometric | Truncated, epsilon: float) -> float:
    """The probability that the word in the middle of a list comes out for itself."""
    middle = np.array([noise.size // 2])
    return float(np.exp(noise.log_law(middle, middle, epsilon))[0])


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
    """Write docs/results/similarity.md."""
    parser = ArgumentParser(prog="python -m benchmarks.similarity", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("vectors", metavar="VECTORS", type=Path)
    parser.add_argument("files", metavar="FILE", nargs="+")
    parser.add_argument("--texts", metavar="N", type=int, default=100, help="of each file")
    options = parser.parse_args(arguments)
    texts = [text for file in options.files for text in first(file, options.texts)]
    by_case = rewritten(options.vectors, texts)
    number: dict[str, int] = {}  # equal texts are encoded once
    for text in [*texts, *(text for grid in by_case.values() for rewrites in grid for text in rewrites)]:
        number.setdefault(text, len(number))
    embedded = Encoder(ENCODER).encode(list(number))

    def rows(some: Sequence[str]) -> np.ndarray:
        return embedded[[number[text] for text in some]]

    def cosine(rewrites: Sequence[str]) -> str:
        return mean_interval(np.einsum("ij,ij->i", rows(texts), rows(rewrites), dtype=np.float64))

    names = [Path(file).stem for file in options.files]
    lines = [
        *head(
            "Cosines of texts and rewrites, after 1-Diffractor's table 2",
            "similarity",
            f"{len(texts):,} texts of {', '.join(names)}; vectors {options.vectors.stem}, {LISTS} lists; "
            f"{len(number):,} distinct texts encoded.",
        ),
        "",
        "## Mean cosine by epsilon",
        "",
        "| mechanism | " + " | ".join(f"{epsilon:g}" for epsilon in EPSILONS) + " |",
        "|---" * (1 + len(EPSILONS)) + "|",
        *(f"| {case} | " + " | ".join(map(cosine, grid)) + " |" for case, grid in by_case.items()),
    ]
    lines += ["", "## Probability that a word stays", "", STAYS_SAID, "", *lines[8:10]]
    lines += [
        f"| {case} | " + " | ".join(f"{stays(noise, epsilon):.2f}" for epsilon in EPSILONS) + " |"
        for case, noise in noises(len(WordVectors.load(options.vectors).whole_words())).items()
    ]
    tables.write_text("\n".join(lines) + "\n", PAGE)


if __name__ == "__main__":
    main(sys.argv[1:])
