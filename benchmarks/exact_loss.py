"""Processor time and memory of exact losses of the most dissimilar pairs of texts.

Texts come from a file (such as ATIS), or are 1,000 generated requests. Each is compared with the most dissimilar text
with the same number of words, at four budgets, to +- .02 nats. tem runs on the embedded word vectors, DP-MLM on the
embedded model. Each mechanism runs in a separate process. Times are shown for the laws and for the rest. If `--pairs`
is less than the number of pairs, the total time is extrapolated.

usage: python -m benchmarks.exact_loss [--texts FILE] [--pairs N]
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.words import alone, peak
from epsilometer.auditing.exact_loss import by_laws
from epsilometer.auditing.exact_loss.all_pairs import relative
from epsilometer.auditing.exact_loss.bracket import guess_losses
from epsilometer.auditing.exact_loss.from_texts import sampled_pairs
from epsilometer.auditing.exact_loss.measuring import pair_losses, request
from epsilometer.auditing.text_audit import distinct, embed, mechanism
from epsilometer.corpora import synthetic
from epsilometer.corpora.reading import read
from epsilometer.text.words import words

CERTAIN = 300.0  # nats; above, only Bhattacharyya's bounds are computed
CASES = {"tem": [5.0, 8.0, 11.0, 19.0], "dp_mlm": [1.0, 25.0, 50.0, 200.0]}


class Measured(NamedTuple):
    """Measurements of one mechanism.

    pairs:      number of measured pairs.
    among:      number of all pairs.
    laws, rest: processor seconds for the laws, and for everything else.
    single:     seconds per pair and budget, without the laws.
    relative:   seconds for the relative epsilon, with its laws.
    error:      largest half width, in nats, of the bounds on losses below 300 nats.
    certain:    share of losses above 300 nats, which are known to a factor of two (`products`).
    peak:       peak memory in MiB.
    """

    pairs: int
    among: int
    laws: float
    rest: float
    single: float
    relative: float
    error: float
    certain: float
    peak: float


def vectors(texts: Sequence[str]) -> Any:
    """Return the texts' embeddings."""
    return embed(texts).vectors


def once(texts: Sequence[str], embeddings: Any, name: str, pairs: int) -> Measured:
    """Measure one mechanism."""
    counts = np.array([len(words(text)) for text in texts])
    every = sampled_pairs(texts, embeddings, len(texts), groups=counts)
    some = np.sort(np.random.default_rng(0).permutation(len(every))[:pairs])
    chosen = replace(every, numbers=every.numbers[some], weights=every.weights[some], equal=every.equal[some])
    built, laws = mechanism(name), [0.0]
    compute: Callable[..., Any] = by_laws.log_laws

    def timed(*arguments: Any) -> Any:
        begun = time.process_time()
        losses = compute(*arguments)
        laws[0] += time.process_time() - begun
        return losses

    by_laws.log_laws = timed
    begun = time.process_time()
    losses = pair_losses(request(built, texts, CASES[name], chosen))
    total = time.process_time() - begun
    begun = time.process_time()
    relative(built, texts, CASES[name])
    whole = time.process_time() - begun
    brackets = [guess_losses(loss.log_error) for loss in losses]
    low, high = (np.stack([getattr(bracket, end) for bracket in brackets]) for end in ("low", "high"))
    certain = high > CERTAIN
    error = float((high - low)[~certain].max()) / 2
    rest = total - laws[0]
    single = rest / len(chosen) / len(CASES[name])
    return Measured(
        len(chosen), len(every), laws[0], rest, single, whole, error=error, certain=certain.mean(), peak=peak()
    )


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = ArgumentParser(prog="python -m benchmarks.exact_loss", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", metavar="FILE", help="a corpus with a column `text` (default: 1,000 requests)")
    parser.add_argument("--pairs", metavar="N", type=int, default=1 << 40, help="largest number of pairs")
    options = parser.parse_args(arguments)
    texts = distinct(
        (read(options.texts) if options.texts else synthetic.generate("queries", 1000, 0))["text"].to_list()
    )
    embeddings = alone(vectors, texts)
    print(f"{len(texts):,} texts; processor seconds")
    heads = "".join(f" {head:>8}" for head in ("laws", "rest", "all", "a pair", "relative"))
    print(f"{'mechanism':<12} {'pairs':>13}{heads} {'+-':>7} {'beyond':>7} {'MiB':>7}")
    for name in CASES:
        cell = alone(once, texts, embeddings, name, options.pairs)
        everything = (cell.laws + cell.rest) * cell.among / cell.pairs
        pairs = f"{cell.pairs:,}/{cell.among:,}"
        times = f"{cell.laws:>8.1f} {cell.rest:>8.1f} {everything:>8.0f} {cell.single:>8.4f} {cell.relative:>9.1f}"
        print(
            f"{name:<12} {pairs:>13} {times} {cell.error:>7.4f} {cell.certain:>7.1%} {cell.peak:>7,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
