"""Checks that the mechanisms, data sets, labels and models named in params.yaml exist."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from epsilometer.core.component import shipped
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.guarantees import check_epsilons
from epsilometer.project.confinement import NAME
from epsilometer.project.sections import Cell, Dataset, MechanismEntry

# Shown with an error in a mechanism's entry.
EXAMPLE = """an entry of your own looks like this:
mechanisms:
  mine: &mine {mechanism: mine, file: mine.py, epsilons: [1, 10]}
cells:
  queries-mine: {dataset: queries, <<: *mine}"""


def check_entry(entry: MechanismEntry, place: str) -> None:
    """Raise UserError for epsilons out of range, an unknown or invalid mechanism name, or a `file` other than .py."""
    if entry.epsilons is not None:
        check_epsilons(entry.epsilons, f"{place}.epsilons")
    if not NAME.fullmatch(entry.mechanism) or entry.mechanism.endswith(".py"):
        raise UserError(
            f"{place}.mechanism must be a name for tables and files, got {entry.mechanism!r}; write the path under "
            f"`file`\n{EXAMPLE}",
            "EPS-P062",
        )
    if entry.file is None and entry.mechanism not in shipped("mechanisms"):
        message = unknown(f"mechanism in {place}", entry.mechanism, sorted(shipped("mechanisms")))
        raise UserError(f"{message}; a mechanism of your own needs `file`\n{EXAMPLE}", "EPS-P063")
    if entry.file is not None and not entry.file.endswith(".py"):
        raise UserError(f"{place}.file must be the path of a .py file, got {entry.file!r}\n{EXAMPLE}", "EPS-P064")


def check_cell(datasets: Mapping[str, Dataset], cell: Cell, kind: str, name: str) -> None:
    """Raise UserError as `check_entry` does, and for a cell of an unknown data set or under a wrong name."""
    check_entry(cell, f"{kind}.{name}")
    check_dataset(datasets, cell.dataset, f"{kind}.{name}")
    if name != f"{cell.dataset}-{cell.mechanism}":
        raise UserError(
            f"{kind}.{name} must be named {cell.dataset}-{cell.mechanism}, after its data set and its mechanism",
            "EPS-P065",
        )


def check_dataset(datasets: Mapping[str, Dataset], dataset: str, place: str) -> None:
    """Raise UserError for a data set that params.yaml does not have."""
    if dataset not in datasets:
        raise unknown(f"data set in {place}.dataset", dataset, datasets)


def check_label(datasets: Mapping[str, Dataset], dataset: str, label: str, place: str) -> None:
    """Raise UserError for a label that a data set does not have."""
    if label not in datasets[dataset].labels:
        raise unknown(f"label in {place}", label, datasets[dataset].labels)


def check_model(models: Mapping[str, str], model: str, place: str) -> None:
    """Raise UserError unless stage `model` makes this model, because other stages depend on its path."""
    path = PurePath(model)
    if path.parent != PurePath("data/models"):
        raise UserError(f"{place} must be data/models/NAME, with NAME under `models`, got {model!r}", "EPS-P066")
    if path.name not in models:
        raise unknown(f"model in {place}", path.name, models)
