"""Comparison of a published language model, the judge by likelihood on SmolLM2, with four attacks on the same trials.

Five mechanisms on real messages are attacked by the judge by likelihood (attack `paraphrase` on SmolLM2-135M-Instruct),
the embedded judge, embeddings, words and shadows. Right guesses of the first are compared with those of the strongest
of the other four by paired tests that pay for the choice (`auditing/results/comparison.py`), and p values are corrected
for the number of rows (Holm 1979). A table of its own has DP-Prompt on SmolLM2, whose writer the judge knows.

usage: python -m benchmarks.judges          after `make audit` with PROFILE=judges and published; writes results/judges
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.shared.pages import RESULTS, ROOT, head, table, write
from epsilometer.auditing.results.comparison import Comparison, compare_strongest, holm
from epsilometer.auditing.results.detectable import least_difference
from epsilometer.pipeline.params import read

RUNS = {"judges": (), "published": ("messages-dp_prompt",)}  # of which cells: all, or these
LIKELIHOOD, OTHERS = "paraphrase", ("judge", "embedding", "lexical", "shadow")
ALPHA = 0.01
_ABOUT = "Messages of 5 to 25 words, unlike candidates of equal length; half of the trials is chance."
_SAID = (
    "Right guesses of {} of the judge by likelihood on SmolLM2-135M-Instruct and of the strongest other attack; p "
    "values pay for its choice and are corrected for all rows. The last column is the difference from this attack that "
    "a paired test shows with probability .9."
)
_EACH = "Right guesses of {} of each attack."


class Row(NamedTuple):
    """One mechanism at one budget. right: for each attack, bool [trials], True for a right guess."""

    mechanism: str
    epsilon: float
    right: dict[str, NDArray[np.bool_]]

    @property
    def others(self) -> dict[str, NDArray[np.bool_]]:
        """The other attacks that ran."""
        return {name: self.right[name] for name in OTHERS if name in self.right}

    def rival(self) -> str:
        """Return the strongest of the other attacks."""
        return max(self.others, key=lambda attack: int(self.right[attack].sum()))

    def compared(self) -> Comparison:
        """Return the comparison with the strongest of the other attacks."""
        return compare_strongest({LIKELIHOOD: self.right[LIKELIHOOD]}, self.others)


def main() -> None:
    """Write results/judges."""
    ours, same = (list(_rows(ROOT / "runs" / run, cells)) for run, cells in RUNS.items())
    write(page(ours, same), RESULTS / "judges")


def page(ours: list[Row], same: list[Row]) -> Iterator[str]:
    """Yield the lines of the page. same: of a mechanism on the judge's own model."""
    yield from head("A judge by likelihood beside other attacks", "judges", _ABOUT)
    for heading, rows in (("Beside the strongest other attack", ours), ("On a writer of the same model", same)):
        columns = "| p value | mechanism | epsilon | right by likelihood | strongest other | right by it | shown from |"
        yield from table(heading, _SAID.format(_trials(rows)), columns, _beside(rows))
    columns = f"| mechanism | epsilon | likelihood | {' | '.join(OTHERS)} |"
    yield from table("All attacks", _EACH.format(_trials(ours)), columns, map(_counts, ours))


def _trials(rows: list[Row]) -> int:
    return len(rows[0].right[LIKELIHOOD])


def _beside(rows: list[Row]) -> Iterator[str]:
    compared = [row.compared() for row in rows]
    adjusted = holm([each.p_value for each in compared])
    for row, pair, p in zip(rows, compared, adjusted, strict=True):
        power = pair.trials * least_difference(pair, ALPHA / len(rows))
        right = [int(row.right[attack].sum()) for attack in (LIKELIHOOD, row.rival())]
        start = f"| {p:.2g} | {row.mechanism} | {row.epsilon:g} |"
        yield f"{start} {right[0]} | {row.rival()} | {right[1]} | {power:.0f} |"


def _counts(row: Row) -> str:
    each = " | ".join(str(int(row.right[attack].sum())) for attack in (LIKELIHOOD, *OTHERS))
    return f"| {row.mechanism} | {row.epsilon:g} | {each} |"


def _rows(run: Path, cells: Sequence[str]) -> Iterator[Row]:
    params = read(run / "params.yaml")
    for name, cell in params.cells.items():
        if cells and name not in cells:
            continue
        targets = pl.read_parquet(run / f"data/trials/{cell.dataset}.parquet").sort("trial")["target"].to_numpy()
        guesses = pl.read_parquet(run / f"data/guesses/{name}.parquet").sort("trial")
        for epsilon in cell.budgets:
            ran = guesses.filter(pl.col("attack").is_in([LIKELIHOOD, *OTHERS]), epsilon=epsilon)
            right = {str(attack): of["guess"].to_numpy() == targets for (attack,), of in ran.group_by("attack")}
            yield Row(cell.mechanism, epsilon, right)


if __name__ == "__main__":
    main()
