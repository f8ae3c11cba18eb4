"""The sources of an audit's losses: texts, mechanisms, attacks and models. A re-audit looks for their updates."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from epsilometer.cells.params import TextsParams
from epsilometer.core.component import IDENTIFICATION, PACKAGE, shipped
from epsilometer.core.component import file as component_file
from epsilometer.models.locate import ENCODER, hub_id
from epsilometer.project import code
from epsilometer.project.sections import Cell
from epsilometer.reaudit.sources import Record, Source

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(@[\w./-]+)?")


def current(params: TextsParams, folder: Path = Path(".")) -> list[Source]:
    """Return the current sources of the audit in a folder, without asking the hub."""
    project = (folder / params.root).resolve()
    sources = [Source("audit", _said({"seed": params.audit.seed, "trials": params.trials.model_dump()}))]
    for name, dataset in params.datasets.items():
        settings = dataset.model_dump(exclude={"source"})
        sources.append(Source(f"dataset-{name}", _of_data(project, dataset.source, settings)))
    for name in dict.fromkeys(cell.mechanism for cell in params.cells.values()):
        files = {cell.file for cell in params.cells.values() if cell.mechanism == name}
        own = [project / file if file else shipped("mechanisms")[name] for file in sorted(files, key=str)]
        sources.append(Source(f"mechanism-{name}", code.Reading(project).code(own).by_path()))
    for name, cell in params.cells.items():
        sources.append(Source(f"cell-{name}", _of_cell(params, cell, folder)))
    for name, attack in params.attacks.items():
        of = _of_code(project, component_file(IDENTIFICATION, name), attack)
        sources.append(Source(f"attack-{_slug(name)}", of | _of_model(attack.get("model"), folder)))
    encoder = _of_code(project, PACKAGE / "models/encoder.py", params.embedding.model_dump())
    sources.append(Source("embedding", encoder | _of_model(params.embedding.model, folder)))
    for name, path in params.models.items():
        sources.append(Source(f"model-{name}", _of_data(project, path)))
    if params.words.sources:
        sources.append(Source("words", _said({"lists": params.words.lists})))
    for name, path in params.words.sources.items():
        sources.append(Source(f"words-{name}", _of_data(project, path)))
    for place, entry in params.made_of_public():
        settings = entry.model_dump(exclude={"corpus": {"source"}})
        sources.append(Source(f"corpus-{place.partition('.')[2]}", _of_data(project, entry.corpus.source, settings)))
    return sources


def _slug(name: str) -> str:
    """Return a file name for a component's name or path. Paths in different folders get different names."""
    return re.sub(r"\W+", "-", name.removesuffix(".py")).strip("-")


def _of_cell(params: TextsParams, cell: Cell, folder: Path) -> Record:
    """Return the record of a cell: its settings, and a hash of its resource unless a stage makes this resource."""
    settings = {"settings": cell.settings, "epsilons": cell.budgets, "resource": cell.resource}
    if cell.resource is None or any(PurePath(cell.resource).is_relative_to(out) for out in _of_stages(params)):
        return _said(settings)
    return {"files": code.hashes([folder.resolve() / cell.resource], folder.resolve())} | _said(settings)


def _of_stages(params: TextsParams) -> list[str]:
    """Return the paths of the mechanisms' resources that stages make."""
    whole = ["prepared", "auxiliaries", "rewriters", "leaderboard_parts", "lists.npz"]
    named = [f"vectors/{name}.npz" for name in params.words.sources] + [f"models/{name}" for name in params.models]
    public = [place.replace(".", "/", 1) for place, _ in params.made_of_public()]
    return [f"data/{path}" for path in (*whole, *named, *public)]


def _of_code(project: Path, file: str | Path, settings: Mapping[str, Any] | None = None) -> Record:
    """Return the record of a Python file and of everything that its imports reach."""
    return code.Reading(project).code([project / file]).by_path() | _said(settings)


def _of_data(project: Path, path: str, settings: Mapping[str, Any] | None = None) -> Record:
    """Return the record of a data file, of a generator, or of a file that pins a data set or model on the hub."""
    file = project / path
    if file.suffix == ".py":
        return _of_code(project, file, settings)
    record: Record = {"files": code.hashes([file], project)} | _said(settings)
    pin = _pin(file)
    for kind in ("dataset", "model"):
        if pin.keys() >= {kind, "revision"}:
            record["hub"] = _on_hub(kind, pin[kind], pin["revision"])
    return record


def _of_model(name: Any, folder: Path) -> Record:
    """Return the record of a model on the hub; empty for an embedded model, a folder or a stage's output."""
    named = isinstance(name, str) and _HUB_NAME.fullmatch(name)
    if not named or name.endswith(ENCODER) or name.startswith(("data/", ".")) or (folder / name).exists():
        return {}
    return {"hub": _on_hub("model", *hub_id(name))}


def _said(settings: Mapping[str, Any] | None) -> Record:
    """Return a record of settings, as they are after JSON has written and read them."""
    return {"settings": json.loads(json.dumps(settings))} if settings else {}


def _on_hub(kind: str, name: str, revision: str | None) -> Record:
    return {"type": kind, "id": name, "revision": revision}


def _pin(file: Path) -> dict[str, Any]:
    """Return the content of a small file that names a data set or model; empty for other files."""
    try:
        pin = json.loads(file.read_bytes()) if file.suffix == ".json" else {}
    except (OSError, ValueError):
        return {}  # the stage that reads the file reports the error
    return pin if isinstance(pin, dict) else {}
