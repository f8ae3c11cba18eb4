"""TeDA's figure 5: the loss of DP-MLM that 10,000, 100,000 and a million trials prove (arXiv:2603.22968, section 4.3).

Each row is for one epsilon and one attack. It has the share of right guesses, and for each number of trials the
interval of the loss: its lower and upper end, or `at least` the lower end if every guess was right. Smaller numbers of
trials use the first of all trials, so that columns differ only by their number. `by law` is the loss for an attacker
with the mechanism's law, averaged over the pairs of the first 10,000 trials; with more trials the likelihood attack
approaches it. The embedding attack must encode nearly one distinct rewrite per trial, so it has at most 100,000 trials;
the other attacks have all. Unlike in the paper, no language model guesses. DP-MLM has its default settings and the
embedded model. There are two candidates, as dissimilar as possible (lambda = -10,000). Without a file, the texts are
generated requests, there are a hundredth of the trials, and no page is written.

usage: python -m benchmarks.trials [--texts FILE] [--count N]
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.shared.pages import RESULTS, head, write
from epsilometer.attacks.identification.embedding import EmbeddingAttack
from epsilometer.attacks.identification.length import LengthAttack
from epsilometer.attacks.identification.lexical import LexicalAttack
from epsilometer.attacks.identification.likelihood import LikelihoodAttack
from epsilometer.auditing.exact_loss.losses import Effort
from epsilometer.auditing.exact_loss.measuring import measure
from epsilometer.auditing.exact_loss.pairs import of_trials
from epsilometer.auditing.text_audit import Pool, attacked, mechanism
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.trials.sampling import Trials, sample
from epsilometer.core.attack import Attack, Embedded
from epsilometer.core.mechanism import HasReadings
from epsilometer.core.randomness import Noise
from epsilometer.corpora import synthetic
from epsilometer.corpora.reading import read
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER

FOLDER = RESULTS / "teda_trials"
EPSILONS = (50.0, 250.0)
TRIALS = (10_000, 100_000, 1_000_000)
ENCODED = 100_000  # most rewrites that are encoded
COUNT, LESS = 500, 100


class Bench:
    """Trials of some texts, and DP-MLM with its cached readings of these texts."""

    def __init__(self, texts: Sequence[str], trials: Sequence[int]) -> None:
        self.texts, self.trials = list(texts), list(trials)
        vectors = Encoder(ENCODER).encode(self.texts)
        self.pool = Pool(self.texts, Embedded(ENCODER, "float32", vectors))
        self.all = sample(vectors, max(trials), seed="benchmarks/trials")
        self.mechanism = mechanism("dp_mlm")
        assert isinstance(self.mechanism, HasReadings)
        self.mechanism.recall(self.texts, self.mechanism.read(self.texts))

    def first(self, count: int) -> Trials:
        """Return the first count trials."""
        return Trials(self.all.candidates[:count], self.all.target[:count])

    def losses(self, epsilon: float) -> dict[tuple[str, int], dict[str, Any]]:
        """Return the audit's rows by attack and number of trials, with the loss that is proved."""
        noise = Noise.named(len(self.all.target), "benchmarks/trials", epsilon)
        (rewrites,) = rewrite_all(self.mechanism, Job(self.texts, self.all.source, [epsilon], [noise]))
        proved = dict[tuple[str, int], dict[str, Any]]()
        for count in self.trials:
            attacks: dict[str, Attack] = {
                "lexical": LexicalAttack(),
                "length": LengthAttack(),
                "likelihood": LikelihoodAttack(),
            }
            if count <= ENCODED:
                attacks["embedding"] = EmbeddingAttack()
            some = rewrites.take(np.arange(count))
            of_count = attacked(self.pool, self.first(count), {epsilon: some}, attacks, mechanism=self.mechanism)
            proved |= {
                (row["attack"], count): row for row in of_count.iter_rows(named=True) if row["attack"] in attacks
            }
        return proved

    def by_law(self, epsilon: float) -> tuple[float, float]:
        """Return the lower and the upper bound on the average loss by law."""
        pairs = of_trials(self.first(self.trials[0]), self.texts)
        losses = measure(self.mechanism, self.texts, [epsilon], pairs, Effort(all_pairs=False)).losses
        row = losses.row(by_predicate=pl.col("pairs") == "all", named=True)
        return row["average_low"], row["average_high"]


def interval(row: dict[str, Any] | None) -> str:
    """Return a loss and the upper end of its interval, as a cell of a table."""
    if row is None:
        return "–"
    low = f"{row['loss']:.2f}"
    return f"at least {low}" if row["success_rate"] == 1 else f"{low} to {row['upper']:.2f}"


def rows(bench: Bench) -> Iterator[str]:
    """Yield the rows of the table, by epsilon."""
    for epsilon in EPSILONS:
        begun, losses = time.process_time(), bench.losses(epsilon)
        law = "{:.2f} to {:.2f}".format(*bench.by_law(epsilon))
        for attack in dict.fromkeys(attack for attack, _ in losses):
            of_attack = [losses.get((attack, count)) for count in bench.trials]
            most = [row for row in of_attack if row is not None][-1]
            cells = " | ".join(map(interval, of_attack))
            yield f"| {epsilon:g} | {attack} | {most['success_rate']:.4f} of {most['trials']:,} | {cells} | {law} |"
        print(f"{epsilon:g}: {time.process_time() - begun:.0f} s of processor time", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table, and write results/teda_trials of a file of texts."""
    parser = ArgumentParser(prog="python -m benchmarks.trials", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", metavar="FILE", type=Path, help="public texts, in a column `text`")
    parser.add_argument("--count", metavar="N", type=int, default=COUNT, help="number of distinct texts")
    options = parser.parse_args(arguments)
    source = read(options.texts) if options.texts else synthetic.generate("queries", 2 * options.count, 0)
    texts = list(dict.fromkeys(source.filter(split="train")["text"]))[: options.count]
    bench = Bench(texts, TRIALS if options.texts else [count // LESS for count in TRIALS])
    columns = " | ".join(f"loss at {count:,}" for count in bench.trials)
    lines = [
        *head(
            "TeDA's figure 5: numbers of trials",
            "trials --texts",
            f"DP-MLM on the first {len(texts):,} training texts of "
            f"{options.texts.stem if options.texts else 'queries'}, where the paper has all; k = 2, lambda = -10000, "
            "alpha = 0.01. Losses are in nats.",
        ),
        "",
        "## What trials prove",
        "",
        f"| epsilon | attack | right guesses | {columns} | by law |",
        "|---" * (4 + len(bench.trials)) + "|",
    ]
    print(*lines, sep="\n", flush=True)
    for row in rows(bench):
        print(row, flush=True)
        lines.append(row)
    if options.texts:
        write(lines, FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
