"""Stage tokens: how all mechanisms of a data set with ablations cut the same public text."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from epsilometer.auditing.schemas import TOKENS
from epsilometer.core import tables
from epsilometer.core.mechanism import HasTokens
from epsilometer.project.paths import audited_texts
from epsilometer.studies.texts.cells import mechanism
from epsilometer.studies.texts.params import TextsParams
from epsilometer.studies.texts.params import read as read_params


def main() -> None:
    """Write data/varied/tokens.parquet, without rows unless ablations names cells."""
    params = read_params()
    datasets = {cell.dataset for cell in params.ablations.values()}
    rows = [row for name, cell in params.cells.items() if cell.dataset in datasets for row in _tokens(params, name)]
    tables.write(pl.DataFrame(rows, schema=dict(TOKENS)), "data/varied/tokens.parquet", TOKENS)


def _tokens(params: TextsParams, name: str) -> Iterator[dict[str, str | list[str]]]:
    """The row of a cell, for a public text only."""
    cell, built = params.cells[name], mechanism(params, name)
    if isinstance(built, HasTokens) and params.datasets[cell.dataset].public:
        text = audited_texts(params, cell.dataset)[0]
        yield {"dataset": cell.dataset, "mechanism": cell.mechanism, "text": text, "tokens": built.tokens(text)}
