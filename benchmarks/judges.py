"""Comparison of a published language model, the judge by likelihood on SmolLM2, with four attacks on the same trials.

Five mechanisms on real messages are attacked by the judge by likelihood (attack `paraphrase` on SmolLM2-135M-Instruct),
the embedded judge, embeddings, words and shadows. Right guesses of the first are compared with those of the strongest
of the other four. The paired tests correct for the choice of the strongest (`auditing/results/comparison.py`), and p
values are also corrected for the number of rows (Holm 1979).

usage: python -m benchmarks.judges          after `make audit PROFILE=judges`; writes results/judges
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.shared.pages import RESULTS, ROOT, head, table, write
from epsilometer.auditing.results.comparison import Comparison, compare_strongest, holm, least_difference
from epsilometer.pipeline.params import Params, read

RUN = ROOT / "runs/judges"
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

    def rival(self) -> str:
        """Return the strongest of the other attacks."""
        return max(OTHERS, key=lambda attack: int(self.right[attack].sum()))

    def compared(self) -> Comparison:
        """Return the comparison with the strongest of the other attacks."""
        return compare_strongest({LIKELIHOOD: self.right[LIKELIHOOD]}, {name: self.right[name] for name in OTHERS})


def main() -> None:
    """Write results/judges."""
    params = read(RUN / "params.yaml")
    write(page(list(_rows(params)), params.trials.count), RESULTS / "judges")


def page(rows: list[Row], trials: int) -> Iterator[str]:
    """Yield the lines of the page."""
    compared = [row.compared() for row in rows]
    adjusted = holm([each.p_value for each in compared])
    shown, counts = [], []
    for row, pair, p in zip(rows, compared, adjusted, strict=True):
        right = {attack: int(hits.sum()) for attack, hits in row.right.items()}
        rival, power = row.rival(), trials * least_difference(pair, ALPHA / len(rows))
        start = f"| {p:.2g} | {row.mechanism} | {row.epsilon:g} |"
        shown.append(f"{start} {right[LIKELIHOOD]} | {rival} | {right[rival]} | {power:.0f} |")
        each = " | ".join(str(right[attack]) for attack in (LIKELIHOOD, *OTHERS))
        counts.append(f"| {row.mechanism} | {row.epsilon:g} | {each} |")
    yield from head("A judge by likelihood beside other attacks", "judges", _ABOUT)
    columns = "| p value | mechanism | epsilon | right by likelihood | strongest other | right by it | shown from |"
    yield from table("Beside the strongest other attack", _SAID.format(trials), columns, shown)
    columns = f"| mechanism | epsilon | likelihood | {' | '.join(OTHERS)} |"
    yield from table("All attacks", _EACH.format(trials), columns, counts)


def _rows(params: Params) -> Iterator[Row]:
    for name, cell in params.cells.items():
        targets = pl.read_parquet(RUN / f"data/trials/{cell.dataset}.parquet").sort("trial")["target"].to_numpy()
        guesses = pl.read_parquet(RUN / f"data/guesses/{name}.parquet").sort("trial")
        for epsilon in cell.budgets:
            of = {attack: guesses.filter(attack=attack, epsilon=epsilon) for attack in (LIKELIHOOD, *OTHERS)}
            right = {attack: each["guess"].to_numpy() == targets for attack, each in of.items()}
            yield Row(cell.mechanism, epsilon, right)


if __name__ == "__main__":
    main()
