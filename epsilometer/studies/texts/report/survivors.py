"""Which identifiers survive in rewrites as they were."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from epsilometer.auditing.schemas import LEAKAGE
from epsilometer.auditing.worth.leakage import ALL
from epsilometer.report.rows import CELL
from epsilometer.report.section import Section
from epsilometer.report.table import Table, record, records
from epsilometer.report.wording import budget, plural, share
from epsilometer.studies.texts.report.results import TextResults


def section(results: TextResults) -> Section | None:
    """A matrix a data set; absent where no audited text holds an identifier."""
    leakage = results.table("data/leakage.parquet", LEAKAGE)
    if leakage.is_empty():
        return None
    said = [leak_sentence(str(name), part) for (name,), part in leakage.group_by("dataset", maintain_order=True)]
    blocks = [*matrices(leakage), *identifiers(leakage)]
    return Section("identifiers", "Identifiers", "Identifiers that survive", said, blocks=blocks)


def matrices(leakage: pl.DataFrame) -> Iterator[Table]:
    """A table a data set: of the kind that survives most, its share by budget."""
    worst = leakage.filter(pl.col("kind") != ALL).sort("share", descending=True, maintain_order=True)
    most = worst.unique(CELL, keep="first", maintain_order=True).sort(CELL)
    for (dataset,), table in most.group_by("dataset", maintain_order=True):
        rows = []
        for (mechanism,), cells in table.group_by("mechanism", maintain_order=True):
            row = {"mechanism": str(mechanism)}
            for number, cell in enumerate(cells.to_dicts(), start=1):
                at = "" if cell["epsilon"] is None else f"ε {budget(cell['epsilon'])}: "
                row[f"budget {number}"] = f"{at}{share(cell['share'])} of {plural(cell['kind'])}"
            rows.append(row)
        yield Table(str(dataset), "", rows, page_only=True, stacked=True)


def identifiers(leakage: pl.DataFrame) -> Iterator[Table]:
    """A table a data set: which share of its identifiers, by kind, survive as they were."""
    for (dataset,), table in leakage.group_by("dataset", maintain_order=True):
        rows = []
        for _, cell in table.group_by(CELL[1:], maintain_order=True):
            row = record(cell.row(0, named=True), "mechanism: {mechanism} | epsilon: {epsilon:budget}")
            shares = records(cell, "of: {kind} ({identifiers}) | share: {share:.0%} ({low:.0%} to {high:.0%})")
            rows.append(row | {each["of"]: each["share"] for each in shares})
        yield Table(
            f"Identifiers that survive on {dataset}", "After each kind: how many there were.", rows, off_page=True
        )


def leak_sentence(dataset: str, leakage: pl.DataFrame) -> str:
    """How many identifiers there were, and of how many the corpus has a record."""
    every = leakage.filter(kind=ALL)
    return (
        f"On {dataset}, of {every['identifiers'][0]:,} identifiers ({every['recorded'][0]:,} on the corpus's record, "
        "the others by patterns), the kind that survives most, as it was:"
    )
