"""Functions of stage `claims`: build mechanisms on fewer words, choose epsilons to check, and make rows of findings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from epsilometer.auditing.claims.finding import Finding
from epsilometer.auditing.claims.worst_case import extra_epsilons
from epsilometer.cells.params import TextsParams
from epsilometer.core.mechanism import Mechanism, build_mechanism, has_budget
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.project.sections import Cell
from epsilometer.text.vectors import WordVectors


def built(params: TextsParams, cell: Cell, resource: str | None) -> Mechanism:
    """Return the mechanism of a cell with this resource instead of its own."""
    return build_mechanism(str(params.code(cell)), cell.settings, resource, f"mechanisms.{cell.mechanism}.settings")


def budgets(params: TextsParams, name: str, mechanism: Mechanism) -> dict[float, bool]:
    """Return the epsilons at which a claim is checked, in ascending order, each with True if a cell audits it."""
    audited = {epsilon for cell in params.cells.values() if cell.mechanism == name for epsilon in cell.budgets}
    if not has_budget(mechanism):
        return dict.fromkeys(audited, True)
    added = extra_epsilons(mechanism, min(audited), params.audit.seed)
    return {epsilon: epsilon in audited for epsilon in sorted({*audited, *added})}


def row(finding: Finding, largest: tuple[float, str] | None, private: bool) -> dict[str, Any]:
    """Return a finding as a row.

    largest: the largest loss in nats, and its evidence (`largest_losses`); None if unknown. private: True if the
    finding's inputs must not be shown.
    """
    row = asdict(finding) | {"slack": finding.slack}
    row["largest"], row["largest_method"] = largest or (None, None)
    witness = row.pop("witness")
    row["x"], row["other"], row["output"] = (None, None, None) if private or witness is None else witness
    return row


def is_private(params: TextsParams, cell: Cell) -> bool:
    """Return True if a mechanism's inputs may be the texts of a data set that is not public."""
    return any(
        cell.resource in (f"data/prepared/{name}.parquet", dataset.source)
        for name, dataset in params.datasets.items()
        if not dataset.public
    )


def few_words(resource: str | None, count: int, out: Path) -> str | None:
    """Return the path of a resource. Word vectors and lists are copied to `out`, with only the first `count` words."""
    if resource == "data/lists.npz":
        WordLists.load(resource).first(count).save(out)
    elif resource is not None and resource.startswith("data/vectors/"):
        WordVectors.load(resource).whole_words().first(count).save(out)
    else:
        return resource
    return str(out)
