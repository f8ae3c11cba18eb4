"""What the losses of an audit come from, which a re-audit asks for updates of: texts, mechanisms, attacks, models."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epsilometer.core.component import IDENTIFICATION, PACKAGE, shipped
from epsilometer.core.component import file as component_file
from epsilometer.models.locate import ENCODER, hub_id
from epsilometer.project import code
from epsilometer.reaudit.sources import Record, Source
from epsilometer.studies.texts.params import TextsParams

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(@[\w./-]+)?")


def current(params: TextsParams, folder: Path = Path(".")) -> list[Source]:
    """The sources of the audit in a folder as they are now, without asking the hub."""
    project = (folder / params.root).resolve()
    sources = [Source("audit", _said({"seed": params.audit.seed, "trials": params.trials.model_dump()}))]
    for name, dataset in params.datasets.items():
        settings = dataset.model_dump(exclude={"source"})
        sources.append(Source(f"dataset-{name}", _of_data(project, dataset.source, settings)))
    for name in dict.fromkeys(cell.mechanism for cell in params.cells.values()):
        cell = next(cell for cell in params.cells.values() if cell.mechanism == name)
        own = project / cell.file if cell.file else shipped("mechanisms")[name]
        sources.append(Source(f"mechanism-{name}", _of_code(project, own, cell.settings)))
    for name, attack in params.attacks.items():
        of = _of_code(project, component_file(IDENTIFICATION, name), attack)
        sources.append(Source(f"attack-{Path(name).stem}", of | _of_model(attack.get("model"), folder)))
    encoder = _of_code(project, PACKAGE / "models/encoder.py", params.embedding.model_dump())
    sources.append(Source("embedding", encoder | _of_model(params.embedding.model, folder)))
    for name, path in params.models.items():
        sources.append(Source(f"model-{name}", _of_data(project, path)))
    for name, path in params.words.sources.items():
        sources.append(Source(f"words-{name}", _of_data(project, path)))
    for place, entry in params.made_of_public():
        settings = entry.model_dump(exclude={"corpus": {"source"}})
        sources.append(Source(f"corpus-{place.partition('.')[2]}", _of_data(project, entry.corpus.source, settings)))
    return sources


def _of_code(project: Path, file: str | Path, settings: Mapping[str, Any] | None = None) -> Record:
    """The record of a Python file with all that its imports reach."""
    return {**code.record([project / file], project)} | _said(settings)


def _of_data(project: Path, path: str, settings: Mapping[str, Any] | None = None) -> Record:
    """The record of a file of data, a generator or a pin of something on the hub."""
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
    """The place of a model that is named by its id; nothing for an embedded one, a folder or a stage's output."""
    named = isinstance(name, str) and _HUB_NAME.fullmatch(name)
    if not named or name.endswith(ENCODER) or name.startswith(("data/", ".")) or (folder / name).exists():
        return {}
    return {"hub": _on_hub("model", *hub_id(name))}


def _said(settings: Mapping[str, Any] | None) -> Record:
    """A record of settings, as they come back from JSON."""
    return {"settings": json.loads(json.dumps(settings))} if settings else {}


def _on_hub(kind: str, name: str, revision: str | None) -> Record:
    return {"type": kind, "id": name, "revision": revision}


def _pin(file: Path) -> dict[str, Any]:
    """The content of a small file that names a data set or model; empty for other files."""
    try:
        pin = json.loads(file.read_bytes()) if file.suffix == ".json" else {}
    except (OSError, ValueError):
        return {}  # the stage that reads it says what is wrong
    return pin if isinstance(pin, dict) else {}
