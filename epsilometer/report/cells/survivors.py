"""The section on identifiers that survive in rewrites, unchanged or in part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from epsilometer.auditing.decisions.limits import IDENTIFIERS
from epsilometer.auditing.schemas import LEAKAGE
from epsilometer.auditing.worth.leakage import ALL
from epsilometer.report.cells.answers import Counts
from epsilometer.report.cells.results import TextResults
from epsilometer.report.rows import CELL
from epsilometer.report.section import Section
from epsilometer.report.table import Table, by_budget, record
from epsilometer.report.wording import FEW, budget, plural, survived


def section(results: TextResults) -> Section | None:
    """Return a matrix per data set; None if no audited text has an identifier."""
    leakage = results.table("data/leakage.parquet", LEAKAGE)
    if leakage.is_empty():
        return None
    said = [
        "Each cell names the kind of identifier that survives most often, and the share of it that rewrites contain "
        "unchanged."
    ]
    said += [leak_sentence(str(name), part) for (name,), part in leakage.group_by("dataset", maintain_order=True)]
    blocks = [*matrices(leakage), *identifiers(leakage)]
    return Section("identifiers", "Identifiers", "Identifiers that survive", said, blocks=blocks)


def matrices(leakage: pl.DataFrame) -> Iterator[Table]:
    """Yield a table per data set: at each budget, the share of the kind of identifier that survives most often."""
    by_patterns = pl.col("recorded") < pl.col("identifiers")
    worst = leakage.filter(pl.col("kind") != ALL).sort(-pl.col("share"), by_patterns, maintain_order=True)
    most = worst.unique(CELL, keep="first", maintain_order=True).sort(CELL)
    return by_budget(most, _in_a_cell)


def _in_a_cell(cell: pl.DataFrame) -> str:
    row = cell.row(0, named=True)
    at = "" if row["epsilon"] is None else f"ε {budget(row['epsilon'])}: "
    if row["identifiers"] < FEW and row["recorded"] == row["identifiers"]:
        return f"{at}{plural(row['kind'])} {survived(row['survived'], row['identifiers'], row['high'])}"
    return f"{at}{_survived(row)} {plural(row['kind'])}"


def _survived(cell: Mapping[str, Any]) -> str:
    """Return `3.1 % of` or `1 of 3`; `not testable:` if patterns found some identifiers and none survives.

    A masker with the same patterns leaves only what these patterns cannot find.
    """
    if cell["recorded"] != cell["identifiers"] and not cell["survived"]:
        return "not testable:"
    count = survived(cell["survived"], cell["identifiers"])
    many = f"{count} of" if cell["identifiers"] >= FEW else count
    return many if cell["recorded"] == cell["identifiers"] else f"at least {many}"


def identifiers(leakage: pl.DataFrame) -> Iterator[Table]:
    """Yield a table per data set: the share of its identifiers, by kind, that survive unchanged."""
    for (dataset,), table in leakage.group_by("dataset", maintain_order=True):
        rows = []
        for _, cell in table.group_by(CELL[1:], maintain_order=True):
            row = record(cell.row(0, named=True), "mechanism: {mechanism} | epsilon: {epsilon:budget}")
            rows.append(row | {f"{each['kind']} ({each['identifiers']})": _between(each) for each in cell.to_dicts()})
        yield Table(
            f"Identifiers that survive on {dataset}",
            "In parentheses: the number of each kind. In part: changed identifiers whose surname, initials or last "
            "digits survive.",
            rows,
            off_page=True,
        )


def _between(row: Mapping[str, Any]) -> str:
    """Return a share and its interval (a lower bound if patterns found identifiers), and the partly surviving share."""
    part = f"; in part {row['partly'] / row['identifiers']:.0%}" if row["partly"] else ""
    if row["identifiers"] < FEW:
        high = row["high"] if row["recorded"] == row["identifiers"] else None
        return f"{survived(row['survived'], row['identifiers'], high)}{part}"
    if row["recorded"] == row["identifiers"]:
        return f"{row['share']:.0%} ({row['low']:.0%} to {row['high']:.0%}){part}"
    return (f"at least {row['low']:.0%}" if row["survived"] else "not testable") + part


def counts(results: TextResults) -> Counts:
    """Return the numbers of surviving and of all identifiers, by cell and limit."""
    table = results.table("data/leakage.parquet", LEAKAGE).filter(pl.col("kind") != ALL)
    return {
        (row["dataset"], row["mechanism"], row["epsilon"], f"{IDENTIFIERS}: {row['kind']}"): (
            row["survived"],
            row["identifiers"],
        )
        for row in table.to_dicts()
    }


def leak_sentence(dataset: str, leakage: pl.DataFrame) -> str:
    """Return a sentence on the numbers of identifiers that the corpus records and that patterns found."""
    every = leakage.filter(kind=ALL)
    count, record = every["identifiers"][0], every["recorded"][0]
    if record == count:
        return f"Identifiers on {dataset}: {count:,}, all recorded in the corpus."
    return (
        f"Identifiers on {dataset}: {count:,}, {record:,} recorded in the corpus. Patterns found the others; they "
        "cannot "
        "find what a masker with the same patterns misses."
    )
