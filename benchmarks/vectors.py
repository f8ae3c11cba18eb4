"""TEM on GloVe's word vectors, compared with TEM on MiniLM's at budgets of equal exact loss.

Both run on the same messages and trials. Budgets are compared in pairs, in the order of the profile, and the average
losses of each pair are stated. The numbers of each attack's right guesses on both are compared by an exact paired test,
and p values are corrected for the number of rows (Holm 1979).

usage: python -m benchmarks.vectors          after `make audit PROFILE=published`; writes results/vectors
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from benchmarks.shared.pages import RESULTS, ROOT, head, table, write
from epsilometer.auditing.results.comparison import Comparison, compare, holm
from epsilometer.auditing.results.detectable import least_difference
from epsilometer.pipeline.params import read

RUN = ROOT / "runs/published"
FIRST, SECOND = "tem", "tem_glove"
ATTACKS = ("likelihood", "embedding", "lexical", "judge", "paraphrase")
ALPHA = 0.01
_ABOUT = "TEM, real messages of 5 to 25 words, unlike candidates of equal length; half of the trials is chance."
_LOSSES = "Exact losses in nats, averages over all pairs of texts of the first trials; the worst is of these pairs."
_CLAIMS = (
    "Loss of the pair of words that comes nearest to its claim, as a share of this claim, of {} words; and the largest "
    "loss between any two words that was met, in nats."
)
_RIGHT = (
    "Right guesses of {} by each attack; p values are corrected for all rows. The last column is the difference that "
    "the test shows with probability .9."
)


class Guesses(NamedTuple):
    """Numbers of right guesses of an attack at the two budgets of a pair, and their comparison."""

    budgets: tuple[float, float]
    attack: str
    right: tuple[int, int]
    compared: Comparison


def main() -> None:
    """Write results/vectors."""
    params = read(RUN / "params.yaml")
    pairs = list(zip(*(params.cells[f"messages-{name}"].budgets for name in (FIRST, SECOND)), strict=True))
    lines = head("Two word vectors at equal loss", "vectors", _ABOUT)
    columns = "| epsilon, MiniLM | epsilon, GloVe | average, MiniLM | average, GloVe | worst, MiniLM | worst, GloVe |"
    lines += table("Losses", _LOSSES, columns, map(_losses, pairs))
    columns = "| epsilon, MiniLM | epsilon, GloVe | share, MiniLM | share, GloVe | largest, MiniLM | largest, GloVe |"
    lines += table("Claims", _CLAIMS.format(params.claims.vocabulary), columns, map(_claims, pairs))
    columns = "| p value | epsilon, MiniLM | epsilon, GloVe | attack | right, MiniLM | right, GloVe | shown from |"
    lines += table("Guesses", _RIGHT.format(params.trials.count), columns, shown(list(_guesses(pairs))))
    write(lines, RESULTS / "vectors")


def shown(rows: list[Guesses]) -> Iterator[str]:
    """Yield the rows of guesses, with p values that are corrected for all of them."""
    adjusted = holm([row.compared.p_value for row in rows])
    for row, p in zip(rows, adjusted, strict=True):
        power = row.compared.trials * least_difference(row.compared, ALPHA / len(rows))
        figures = " | ".join(f"{figure:g}" for figure in (*row.budgets,))
        yield f"| {p:.2g} | {figures} | {row.attack} | {row.right[0]} | {row.right[1]} | {power:.0f} |"


def _losses(pair: tuple[float, float]) -> str:
    frames = [pl.read_parquet(RUN / f"data/exact/messages-{name}.parquet") for name in (FIRST, SECOND)]
    rows = [frame.filter(epsilon=epsilon, pairs="equal length") for frame, epsilon in zip(frames, pair, strict=True)]
    return _row(pair, [row[column].item() for column in ("average", "worst") for row in rows])


def _claims(pair: tuple[float, float]) -> str:
    frame = pl.read_parquet(RUN / "data/claims.parquet")
    rows = [frame.filter(mechanism=name, epsilon=epsilon) for name, epsilon in zip((FIRST, SECOND), pair, strict=True)]
    return _row(
        pair, [row["worst"].item() / row["claimed"].item() for row in rows] + [row["largest"].item() for row in rows]
    )


def _row(pair: tuple[float, float], figures: list[float]) -> str:
    return f"| {' | '.join([*(f'{epsilon:g}' for epsilon in pair), *(f'{figure:.3g}' for figure in figures)])} |"


def _guesses(pairs: list[tuple[float, float]]) -> Iterator[Guesses]:
    targets = pl.read_parquet(RUN / "data/trials/messages.parquet").sort("trial")["target"].to_numpy()
    frames = [pl.read_parquet(RUN / f"data/guesses/messages-{name}.parquet").sort("trial") for name in (FIRST, SECOND)]
    for pair in pairs:
        for attack in ATTACKS:
            ours, theirs = (
                frame.filter(attack=attack, epsilon=epsilon)["guess"].to_numpy() == targets
                for frame, epsilon in zip(frames, pair, strict=True)
            )
            yield Guesses(pair, attack, (int(ours.sum()), int(theirs.sum())), compare(ours, theirs))


if __name__ == "__main__":
    main()
