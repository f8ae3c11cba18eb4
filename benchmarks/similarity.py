"""Similarity of rewrites to their texts: mean cosine of sentence embeddings, compared with 1-Diffractor's Table 2.

Every word mechanism rewrites the first texts of each file once at each epsilon of the paper (IWSPA 2024). The
vocabulary consists of the words that all sources of vectors have. Mechanisms without lists read the vectors of the
first source. As in the paper, rows of 1-Diffractor are means over its list settings: L0, one list from each source; L1,
two lists from each; L2, one list from the first source. Means are over the texts of all files, with 99 % intervals. The
last row is the limit of all mechanisms for large epsilons: only words outside the vocabulary are replaced. The paper's
mechanisms leave these words and stop-words unchanged, which alone makes texts similar; rows `(published)` do the same.
In these rows TEM has gamma 5, as in the reference code. In other rows gamma follows the formula of TEM's paper, unless
the row states another value.

usage: python -m benchmarks.similarity --vectors SOURCE... --texts FILE... [--count N]
       vectors: files of word vectors, or transformers by id or folder; texts: Parquet with a column `text` or `text_a`
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from benchmarks.shared.pages import RESULTS, head, write
from benchmarks.shared.word_lists import Resources, save
from epsilometer.auditing.text_audit import ENCODER
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.diffractor import Geometric, Truncated
from epsilometer.mechanisms.words.shared.vocabulary import Vocabulary
from epsilometer.models.encoder import Encoder
from epsilometer.report.wording import mean_interval
from epsilometer.text.vectors import WordVectors

FOLDER = RESULTS / "similarity"
EPSILONS = [0.1, 0.5, 1, 3, 5, 10, 25, 50]

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


STAYS_SAID = "By the law, in the middle of one list; with several lists, another list can also lead back to the word."


def noises(size: int) -> dict[str, Geometric | Truncated]:
    """Return the noises of 1-Diffractor on lists of this size."""
    return {
        "1-D geometric": Geometric(size),
        "1-D TEM": Truncated(size),
        "1-D TEM (gamma 5)": Truncated(size, 5),
    }


def stays(noise: Geometric | Truncated, epsilon: float) -> float:
    """Return the probability that the word in the middle of a list stays unchanged."""
    middle = np.array([noise.size // 2])
    return float(np.exp(noise.log_law(middle, middle, epsilon))[0])


def first(file: str, count: int) -> list[str]:
    """Return the first distinct texts of a file."""
    table = pl.read_parquet(file)
    column = "text" if "text" in table.columns else "text_a"
    return table[column].unique(maintain_order=True).head(count).to_list()


def rewritten(resources: Resources, texts: Sequence[str]) -> dict[str, list[list[Sequence[str]]]]:
    """Return the rewrites by mechanism, epsilon and list setting, including a mechanism without noise."""
    rewrites: dict[str, list[list[Sequence[str]]]] = {}
    for case, (module, settings) in CASES.items():
        used = [*resources.used] if module == "diffractor" else ["L0"]
        mechanisms = {setting: resources.mechanism(module, settings, setting) for setting in used}
        rewrites[case] = [
            [
                built.rewrite(texts, epsilon, Noise.named(len(texts), "similarity", case, setting, epsilon)).texts
                for setting, built in mechanisms.items()
            ]
            for epsilon in EPSILONS
        ]
        print(case, file=sys.stderr, flush=True)
    vocabulary = Vocabulary(WordVectors.load(resources.vectors).words)
    return rewrites | {"no noise": [[vocabulary.decode(vocabulary.encode(texts))]] * len(EPSILONS)}


def main(arguments: Sequence[str]) -> None:
    """Write results/similarity."""
    parser = ArgumentParser(prog="python -m benchmarks.similarity", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--vectors", metavar="SOURCE", nargs="+", required=True)
    parser.add_argument("--texts", metavar="FILE", nargs="+", required=True)
    parser.add_argument("--count", metavar="N", type=int, default=100, help="texts of each file")
    options = parser.parse_args(arguments)
    texts = [text for file in options.texts for text in first(file, options.count)]
    with TemporaryDirectory() as folder:
        resources = save(options.vectors, Path(folder))
        by_case = rewritten(resources, texts)
        size = len(WordVectors.load(resources.vectors))
    number: dict[str, int] = {}  # equal texts are encoded once
    for text in chain(texts, *(rewrites for grid in by_case.values() for settings in grid for rewrites in settings)):
        number.setdefault(text, len(number))
    embedded = Encoder(ENCODER).encode(list(number))

    def rows(some: Sequence[str]) -> np.ndarray:
        return embedded[[number[text] for text in some]]

    def cosine(settings: Sequence[Sequence[str]]) -> str:
        every = [np.einsum("ij,ij->i", rows(texts), rows(rewrites), dtype=np.float64) for rewrites in settings]
        return mean_interval(np.mean(every, axis=0))

    files, vectors = (", ".join(Path(file).stem for file in some) for some in (options.texts, options.vectors))
    columns = ["| mechanism | " + " | ".join(f"{epsilon:g}" for epsilon in EPSILONS) + " |"]
    columns.append("|---" * (1 + len(EPSILONS)) + "|")
    lines = [
        *head(
            "Cosines of texts and rewrites, after 1-Diffractor's table 2",
            "similarity",
            f"{len(texts):,} texts of {files}; the {size:,} words that {vectors} share; "
            f"{len(number):,} distinct texts encoded.",
        ),
        *("", "## Mean cosine by epsilon", "", *columns),
        *(f"| {case} | " + " | ".join(map(cosine, grid)) + " |" for case, grid in by_case.items()),
        *("", "## Probability that a word stays", "", STAYS_SAID, "", *columns),
        *(
            f"| {case} | " + " | ".join(f"{stays(noise, epsilon):.2f}" for epsilon in EPSILONS) + " |"
            for case, noise in noises(size).items()
        ),
    ]
    write(lines, FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
