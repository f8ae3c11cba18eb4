"""What entries of params.yaml name: mechanisms, data sets, cells and labels, all of which must exist."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from epsilometer.core.component import shipped
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.guarantees import check_epsilons
from epsilometer.project.schema.confinement import NAME
from epsilometer.project.schema.sections import AnonymityCell, Cell, Labels, MechanismEntry, RewriterEntry

if TYPE_CHECKING:
    from epsilometer.project.params import Params

# Shown with a mistake in such an entry.
EXAMPLE = """an entry of your own looks like this:
mechanisms:
  mine: &mine {mechanism: mine, file: mine.py, epsilons: [1, 10]}
cells:
  queries-mine: {dataset: queries, <<: *mine}"""


def check_entries(params: Params) -> None:
    """Raises UserError for an entry that names what does not exist."""
    for name, entry in params.mechanisms.items():
        _check_entry(entry, f"mechanisms.{name}")
    for kind in ("cells", "downstream", "anonymity"):
        for name, cell in getattr(params, kind).items():
            _check_cell(params, cell, kind, name)
            if kind != "cells" and cell.dataset not in params.classification.labels:
                raise UserError(
                    f"{kind}.{name}: say which labels of {cell.dataset} are tasks and which are attributes, under "
                    f"classification.labels.{cell.dataset}"
                )
    for name, labels in params.classification.labels.items():
        _check_labels(params, name, labels, f"classification.labels.{name}")
    for name, one in params.auxiliaries.items():
        _check_labels(params, one.dataset, one, f"auxiliaries.{name}")
        if one.vectors not in params.words.sources:
            raise unknown(f"word vectors in auxiliaries.{name}.vectors", one.vectors, params.words.sources)
    for kind in params.attackers.kinds or ():
        if kind not in params.classification.kinds:
            raise unknown("kind of classifier in attackers.kinds", kind, params.classification.kinds)
    for name, rewriter in params.rewriters.items():
        _check_rewriter(params, rewriter, f"rewriters.{name}")
    for name, cell in params.anonymity.items():
        _check_anonymity(params, cell, f"anonymity.{name}")
    check_epsilons(params.instrument.epsilons, "instrument.epsilons")


def check_variations(params: Params) -> None:
    """Raises UserError for an ablation or a sweep that differs from its cell, or has none."""
    for name, ablation in params.ablations.items():
        _check_varied(params, ablation, "ablations", name)
        check_epsilons([ablation.epsilon], f"ablations.{name}.epsilon")
    for name, sweep in params.sweeps.items():
        _check_varied(params, sweep, "sweeps", name)
        check_epsilons(sweep.vary.get("epsilon", (sweep.epsilon,)), f"sweeps.{name}.vary.epsilon")


def _check_cell(params: Params, cell: Cell, kind: str, name: str) -> None:
    _check_entry(cell, f"{kind}.{name}")
    if cell.dataset not in params.datasets:
        raise unknown(f"data set in {kind}.{name}.dataset", cell.dataset, params.datasets)
    if name != f"{cell.dataset}-{cell.mechanism}":
        raise UserError(f"{kind}.{name} must be named {cell.dataset}-{cell.mechanism}, data set and mechanism")


def _check_entry(entry: MechanismEntry, place: str) -> None:
    """Refuse epsilons out of range, a path for a name, and a name for a path."""
    if entry.epsilons is not None:
        check_epsilons(entry.epsilons, f"{place}.epsilons")
    if not NAME.fullmatch(entry.mechanism) or entry.mechanism.endswith(".py"):
        raise UserError(
            f"{place}.mechanism must be a name for tables and files, got {entry.mechanism!r}; write the path under "
            f"`file`\n{EXAMPLE}"
        )
    if entry.file is None and entry.mechanism not in shipped("mechanisms"):
        message = unknown(f"mechanism in {place}", entry.mechanism, sorted(shipped("mechanisms")))
        raise UserError(f"{message}; one of your own needs `file`\n{EXAMPLE}")
    if entry.file is not None and not entry.file.endswith(".py"):
        raise UserError(f"{place}.file must be the path of a .py file, got {entry.file!r}\n{EXAMPLE}")


def _check_varied(params: Params, entry: Cell, kind: str, name: str) -> None:
    """Refuse an entry that differs from its cell, which it repeats because DVC cannot look it up."""
    if name not in params.cells:
        raise unknown(f"cell in {kind}", name, params.cells)
    if params.cells[name].epsilons is None:
        raise UserError(f"{kind}.{name} varies a cell at one epsilon, but its mechanism has none; leave it out")
    for field in Cell.model_fields:
        here, there = getattr(entry, field), getattr(params.cells[name], field)
        if here != there:
            raise UserError(
                f"{kind}.{name}.{field} must be that of cells.{name}, {there!r}, got {here!r}; an entry begins as "
                "its cell's line does, with the same data set and `<<`"
            )


def _check_anonymity(params: Params, cell: AnonymityCell, place: str) -> None:
    """Refuse a cell without a label to hide, and auxiliaries that were made for labels of another role or data set."""
    labels = params.classification.labels[cell.dataset]
    if not labels.attributes:
        raise UserError(
            f"{place}: {cell.dataset} has no attribute, which is what is hidden; name one under "
            f"classification.labels.{cell.dataset}.attributes"
        )
    resource = PurePath(cell.resource or "")
    if resource.parent != PurePath("data/auxiliaries"):
        return
    if (name := resource.name) not in params.auxiliaries:
        raise unknown(f"auxiliaries in {place}.resource", name, params.auxiliaries)
    entry = params.auxiliaries[name]
    for role in ("attributes", "tasks"):
        strange = sorted({*getattr(entry, role)} - {*getattr(labels, role)})
        if strange:
            raise UserError(
                f"{place}.resource: the auxiliaries {name!r} were made for {role} that {cell.dataset} does not have as "
                f"such ({', '.join(strange)}); name them under classification.labels.{cell.dataset}.{role}, or give "
                "auxiliaries of this data set's labels"
            )


def _check_rewriter(params: Params, entry: RewriterEntry, place: str) -> None:
    """Refuse a rewriter of a label that its data set does not have, without texts of its own, or of another model."""
    if entry.dataset not in params.datasets:
        raise unknown(f"data set in {place}.dataset", entry.dataset, params.datasets)
    if entry.attribute not in params.datasets[entry.dataset].labels:
        raise unknown(f"label in {place}.attribute", entry.attribute, params.datasets[entry.dataset].labels)
    if not any(one.dataset == entry.dataset for one in params.auxiliaries.values()):
        raise UserError(
            f"{place}: a rewriter learns from the auxiliaries' texts of {entry.dataset}, and there are none; give an "
            "entry of this data set under `auxiliaries`"
        )
    _check_entry(entry.round_trip, f"{place}.round_trip")
    for setting, path in (("model", entry.model), ("round_trip.resource", entry.round_trip.resource)):
        if path is not None and PurePath(path).parent != PurePath("data/models"):
            raise UserError(f"{place}.{setting} must be data/models/NAME, with NAME under `models`, got {path!r}")


def _check_labels(params: Params, dataset: str, labels: Labels, setting: str) -> None:
    if dataset not in params.datasets:
        raise unknown(f"data set in {setting}", dataset, params.datasets)
    for label in (every := (*labels.tasks, *labels.attributes)):
        if label not in params.datasets[dataset].labels:
            raise unknown(f"label in {setting}", label, params.datasets[dataset].labels)
        if every.count(label) > 1:
            raise UserError(f"{setting}: {label!r} is named twice; a label is a task or an attribute")
        if label.startswith(".") or {*label} & {*"/\\\0"}:
            raise UserError(f"{setting}: {label!r} cannot name a folder of classifiers; rename the column")
    if not every:
        raise UserError(f"{setting} must name at least one label under tasks or attributes")
