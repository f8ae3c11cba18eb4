"""TeDA's mechanisms on the same texts, at equal epsilon and at equal loss: rewrites, parts of a text and first tokens.

    Kept        tables 1 and 3 of TeDA (arXiv:2603.22968) as numbers: mean cosine of text and rewrite at equal epsilon;
                the shares of rewrites that equal the text, and of empty rewrites; processor time for each text, which
                includes loading the model at the first budget of a mechanism
    Texts       tables 1 and 3: the same texts at equal epsilon
    Equal loss  the budget at which the average loss by law, over pairs of texts, equals a target; also the cosine and
                the first rewrite at this budget. For mechanisms with latents, the loss is that of the latents, an upper
                bound on the loss of the texts. For mechanisms that write token by token, it is estimated from about a
                hundred samples
    Cut         table 5: the parts of a text that a claim counts, such as words
    First token figure 11: the most probable first token of the rewrite, and the first token of the text, by the
                mechanism's law. Rank 1 is the most probable; ranks beyond 1,000 are not searched. The values are for
                the first text, with means over all texts
    Seeds       table 4: DP-BART with three seeds; mean cosine between the rewrites of a text with different seeds
Mechanisms have their default settings and the embedded models, except that DP-BART clips at .5 and DP-ST writes one
triple, as in the profile `teda`. All texts have as many words as the first, so that losses compare texts of equal
length. Without a file, the texts are generated requests, and no page is written.

usage: python -m benchmarks.rewrites [--texts FILE] [--count N]
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.shared.budgets import LossByBudget
from benchmarks.shared.pages import RESULTS, cell, head, table, write
from epsilometer.auditing.text_audit import mechanism
from epsilometer.core.mechanism import HasFirstTokens, HasTokens, Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.corpora import synthetic
from epsilometer.corpora.reading import read
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER
from epsilometer.report.wording import mean_interval
from epsilometer.text.words import words

FOLDER = RESULTS / "teda_texts"
SETTINGS: dict[str, dict[str, Any]] = {
    "adept": {},
    "dp_bart": {"clip": 0.5},
    "dp_paraphrase": {"max_new_tokens": 24},
    "dp_prompt": {"max_new_tokens": 24},
    "dp_mlm": {},
    "dp_st": {"triples": 1},
}
EPSILONS = (2500.0, 1000.0, 250.0, 10.0)  # tables 1 and 3
TARGETS = (0.5, 1.0, 2.0)  # nats
LEAST, MOST = 5.0, 60.0  # budgets searched
COUNT, SHOWN, SEEDS, LIKELIEST = 12, 3, 3, 1000
_INTERVALS = "with 99 % intervals of Student's t"


class Preserved(NamedTuple):
    """The rewrites of texts, and their similarity to the texts."""

    rewrites: list[str]
    cosines: NDArray[np.float64]
    unchanged: float
    empty: float
    seconds: float


class Bench:
    """The texts, their embeddings, and the mechanisms."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts, self.encoder = list(texts), Encoder(ENCODER)
        self.embedded = self.encoder.encode(self.texts)
        self.mechanisms: dict[str, Mechanism] = {name: mechanism(name, of) for name, of in SETTINGS.items()}

    def rewritten(self, name: str, epsilon: float, seed: int = 0) -> Preserved:
        """Return one rewrite of every text."""
        begun, noise = time.process_time(), Noise.named(len(self.texts), "rewrites", name, epsilon, seed)
        rewrites = self.mechanisms[name].rewrite(self.texts, epsilon, noise).texts
        seconds = (time.process_time() - begun) / len(self.texts)
        cosines = np.einsum("ij,ij->i", self.embedded, self.encoder.encode(rewrites))
        same = [words(a) == words(b) for a, b in zip(self.texts, rewrites, strict=True)]
        empty = [not text.strip() for text in rewrites]
        return Preserved(list(rewrites), cosines, float(np.mean(same)), float(np.mean(empty)), seconds)


def alike(texts: Sequence[str], count: int) -> list[str]:
    """Return the first distinct texts with as many words as the first."""
    length = len(words(texts[0]))
    return [text for text in dict.fromkeys(texts) if len(words(text)) == length][:count]


def equal_epsilon(bench: Bench) -> Iterator[str]:
    """Yield the table of similarities at each budget, and the tables of rewrites of the first texts."""
    every = {(name, epsilon): bench.rewritten(name, epsilon) for name in SETTINGS for epsilon in EPSILONS}
    rows = [
        f"| {name} | {epsilon:,g} | {mean_interval(result.cosines)} | {result.unchanged:.1%} | {result.empty:.1%} "
        f"| {result.seconds:.3f} |"
        for (name, epsilon), result in every.items()
    ]
    head = "| mechanism | epsilon | cosine | unchanged | empty | seconds a text |"
    said = f"Means over {len(bench.texts)} texts, {_INTERVALS}."
    yield from table("What is kept at equal epsilon", said, head, rows)
    for number, text in enumerate(bench.texts[:SHOWN], 1):
        rows = [
            f"| {epsilon:,g} | {name} | {cell(every[name, epsilon].rewrites[number - 1])} |"
            for epsilon in EPSILONS
            for name in SETTINGS
        ]
        said = f"“{cell(text)}”"
        yield from table(f"Text {number} at equal epsilon", said, "| epsilon | mechanism | rewrite |", rows)


def equal_loss(bench: Bench) -> Iterator[str]:
    """Return the table of the budget at each target, with the similarity at this budget."""
    rows = dict[float, list[str]]()
    for name, built in bench.mechanisms.items():
        losses = LossByBudget(built, bench.texts)
        for target in TARGETS:
            epsilon, _ = losses.losing(target, LEAST, MOST)
            low, high = losses.ends(epsilon)
            result, by = bench.rewritten(name, epsilon), losses.method(epsilon)
            row = (f"{target:g}", name, f"{epsilon:g}", f"{low:.2f} to {high:.2f}", by, mean_interval(result.cosines))
            rows.setdefault(target, []).append(f"| {' | '.join(row)} | {cell(result.rewrites[0])} |")
    said = f"Losses in nats over pairs of {len(bench.texts)} texts; the text is “{cell(bench.texts[0])}”."
    head = "| target | mechanism | epsilon | loss | by | cosine | rewrite |"
    return table("What is kept at equal loss", said, head, [row for of_target in rows.values() for row in of_target])


def cut(bench: Bench) -> Iterator[str]:
    """Return the table of the parts of the first text."""
    rows = []
    for name, built in bench.mechanisms.items():
        if isinstance(built, HasTokens):
            parts = built.tokens(bench.texts[0])
            rows.append(f"| {name} | {len(parts)} | {cell(' · '.join(parts))} |")
    said = f"“{cell(bench.texts[0])}” in the parts that a claim counts; other mechanisms claim for a whole text."
    return table("How a text is cut", said, "| mechanism | parts | text |", rows)


def first_token(built: Any, text: str, epsilon: float) -> tuple[str, float, str, int | None, float]:
    """Return the likeliest first token and its probability; the text's first token, its rank and its probability.

    Ranks start at 1. If the text's first token is not among the `LIKELIEST` tokens, its rank is None, and the returned
    probability is that of the last of them, an upper bound.
    """
    own = built.tokens(text)[0]
    (law,) = built.first_tokens(text, [epsilon], LIKELIEST)
    rank, probability = next(((i, p) for i, (token, p) in enumerate(law, 1) if token == own), (None, law[-1][1]))
    return *law[0], own, rank, probability


def first_tokens(bench: Bench) -> Iterator[str]:
    """Return the table with a row for each budget and mechanism that writes token by token."""
    rows = []
    for name, built in bench.mechanisms.items():
        if not isinstance(built, HasFirstTokens):
            continue
        for epsilon in EPSILONS:
            every = [first_token(built, text, epsilon) for text in bench.texts]
            token, likely, own, rank, probability = every[0]
            likeliest = np.mean([of_text[3] == 1 for of_text in every])
            rows.append(
                f"| {name} | {epsilon:,g} | {cell(token)} | {likely:.2g} | {cell(own)} | {rank or 'beyond 1,000'} | "
                f"{'' if rank else '≤ '}{probability:.2g} | {mean_interval([of_text[4] for of_text in every])} | "
                f"{likeliest:.1%} |"
            )
    head = "| mechanism | epsilon | likeliest | probability | own | rank of own | probability of own "
    head += "| probability of own, mean | own is likeliest |"
    said = f"Of “{cell(bench.texts[0])}”; the last two columns are over {len(bench.texts)} texts."
    return table("The first token", said, head, rows)


def seeds(bench: Bench) -> Iterator[str]:
    """Return the table of similarities between rewrites of a text by DP-BART with different seeds."""
    rows = []
    for epsilon in EPSILONS[:2]:
        every = [bench.rewritten("dp_bart", epsilon, seed) for seed in range(SEEDS)]
        vectors = [bench.encoder.encode(result.rewrites) for result in every]
        like = np.mean([np.einsum("ij,ij->i", a, b) for a, b in combinations(vectors, 2)], axis=0)  # of each text
        cosine = np.mean([result.cosines for result in every], axis=0)
        shown = " | ".join(cell(result.rewrites[0]) for result in every)
        rows.append(f"| {epsilon:,g} | {mean_interval(like)} | {mean_interval(cosine)} | {shown} |")
    head = "| epsilon | between seeds | to the text | " + " | ".join(f"seed {seed}" for seed in range(SEEDS)) + " |"
    said = f"Mean cosines over {len(bench.texts)} texts, {_INTERVALS}; the rewrites are of “{cell(bench.texts[0])}”."
    return table("DP-BART with other seeds", said, head, rows)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the tables, and write results/teda_texts of a file of texts."""
    parser = ArgumentParser(prog="python -m benchmarks.rewrites", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", metavar="FILE", type=Path, help="public texts, in a column `text`")
    parser.add_argument("--count", metavar="N", type=int, default=COUNT, help="number of texts")
    options = parser.parse_args(arguments)
    source = read(options.texts) if options.texts else synthetic.generate("queries", 100 * options.count, 0)
    bench = Bench(alike(source["text"].to_list(), options.count))
    name = options.texts.stem if options.texts else "queries"
    about = f"{len(bench.texts)} texts of {name}, of {len(words(bench.texts[0]))} words each, on the embedded models."
    lines = head("TeDA's mechanisms on the same texts", "rewrites --texts", about)
    for part in (equal_epsilon, equal_loss, cut, first_tokens, seeds):
        for line in part(bench):
            print(line, flush=True)
            lines.append(line)
    if options.texts:
        write(lines, FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
