"""Stage claims: every claim against its worst case over a vocabulary, and the plausible deniability of its words."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing.claims.finding import Finding
from epsilometer.auditing.claims.largest_loss import largest_losses
from epsilometer.auditing.claims.verdicts import describe
from epsilometer.auditing.claims.worst_case import EXACT, check_claim, extra_epsilons, is_sampled
from epsilometer.auditing.deniability import deniability
from epsilometer.auditing.schemas import CLAIMS, DENIABILITY
from epsilometer.core import tables
from epsilometer.core.mechanism import HasInputs, Mechanism, build_mechanism, has_budget
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.project.sections import Cell
from epsilometer.runtime.progress import track
from epsilometer.studies.texts.params import TextsParams, read
from epsilometer.text.vectors import WordVectors

WORDS, DRAWS = 100, 100  # of plausible deniability, as in the paper


def main() -> None:
    """Write data/claims.parquet and data/deniability.parquet: a row for each mechanism on words and epsilon."""
    params = read()
    cells: dict[str, Cell] = {}  # the data sets do not matter here: one cell represents all of a mechanism
    for cell in params.cells.values():
        cells.setdefault(cell.mechanism, cell)
    with (
        tables.Writer("data/claims.parquet", CLAIMS) as claims,
        tables.Writer("data/deniability.parquet", DENIABILITY) as hidden,
        tempfile.TemporaryDirectory() as folder,
    ):
        few = {
            name: _few(cell.resource, params.claims.vocabulary, Path(folder) / f"{name}.npz")
            for name, cell in cells.items()
        }
        smaller = {name: _build(params, cell, few[name]) for name, cell in cells.items()}
        budgets = {name: _budgets(params, name, smaller[name]) for name in cells}
        sampled = sum(is_sampled(smaller[name], epsilon) for name in cells for epsilon in budgets[name])
        alpha = params.audit.alpha / max(1, sampled)  # of each check that may err: together they err with at most alpha
        for name, cell in track(cells.items(), len(cells), "check claims"):
            whole = _build(params, cell, cell.resource)
            # Inputs may be a data set's texts, as many as there are.
            texts = (cell.resource or "").startswith("data/prepared/")
            inputs = params.claims.vocabulary if texts else EXACT
            findings = [check_claim(smaller[name], e, alpha, params.audit.seed, inputs=inputs) for e in budgets[name]]
            private = _is_private(params, cell)
            rows = [
                {"mechanism": name, "audited": audited, "claim": describe(whole.guarantee(epsilon))}
                | _row(finding, largest, private)
                for (epsilon, audited), finding, largest in zip(
                    budgets[name].items(), findings, largest_losses(whole, findings), strict=True
                )
            ]
            claims.write(pl.DataFrame(rows, schema=dict(CLAIMS)))
            if cell.epsilons is not None and few[name] != cell.resource and isinstance(whole, HasInputs):
                order = Noise.named(len(whole.inputs), "deniability", params.audit.seed).uniforms()[:, 0]
                words = [whole.inputs[i] for i in np.sort(np.argsort(order)[:WORDS])]
                table = deniability(whole, words, cell.epsilons, DRAWS, seed=params.audit.seed)
                hidden.write(table.with_columns(pl.lit(name).alias("mechanism")).select(list(DENIABILITY)))


def _build(params: TextsParams, cell: Cell, resource: str | None) -> Mechanism:
    return build_mechanism(str(params.code(cell)), cell.settings, resource, f"mechanisms.{cell.mechanism}.settings")


def _budgets(params: TextsParams, name: str, mechanism: Mechanism) -> dict[float, bool]:
    """The epsilons at which a mechanism is checked, and whether they are audited; in ascending order."""
    audited = {epsilon for cell in params.cells.values() if cell.mechanism == name for epsilon in cell.budgets}
    if not has_budget(mechanism):
        return dict.fromkeys(audited, True)
    added = extra_epsilons(mechanism, min(audited), params.audit.seed)
    return {epsilon: epsilon in audited for epsilon in sorted({*audited, *added})}


def _row(finding: Finding, largest: tuple[float, str] | None, private: bool) -> dict[str, Any]:
    row = asdict(finding) | {"slack": finding.slack}
    row["largest"], row["largest_method"] = largest or (None, None)
    witness = row.pop("witness")
    row["x"], row["other"], row["output"] = (None, None, None) if private or witness is None else witness
    return row


def _is_private(params: TextsParams, cell: Cell) -> bool:
    """Whether a mechanism's inputs may be the texts of a data set that is not public."""
    return any(
        cell.resource in (f"data/prepared/{name}.parquet", dataset.source)
        for name, dataset in params.datasets.items()
        if not dataset.public
    )


def _few(resource: str | None, count: int, out: Path) -> str | None:
    """The resource with its first `count` words alone, where it is one of words."""
    if resource == "data/lists.npz":
        WordLists.load(resource).first(count).save(out)
    elif resource is not None and resource.startswith("data/vectors/"):
        WordVectors.load(resource).whole_words().first(count).save(out)
    else:
        return resource
    return str(out)
