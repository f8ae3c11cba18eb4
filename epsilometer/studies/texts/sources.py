"""What the losses of an audit come from, which a re-audit asks for updates of: texts, mechanisms, attacks, models."""

from __future__ import annotations

from pathlib import Path

from epsilometer.attacks.identification import KIND
from epsilometer.core.component import PACKAGE, shipped
from epsilometer.core.component import file as component_file
from epsilometer.reaudit.sources import Source, of_code, of_data, of_model, said
from epsilometer.studies.texts.params import TextsParams


def current(params: TextsParams, folder: Path = Path(".")) -> list[Source]:
    """The sources of the audit in a folder as they are now, without asking the hub."""
    project = (folder / params.root).resolve()
    sources = [Source("audit", said({"seed": params.audit.seed, "trials": params.trials.model_dump()}))]
    for name, dataset in params.datasets.items():
        settings = dataset.model_dump(exclude={"source"})
        sources.append(Source(f"dataset-{name}", of_data(project, dataset.source, settings)))
    for name in dict.fromkeys(cell.mechanism for cell in params.cells.values()):
        cell = next(cell for cell in params.cells.values() if cell.mechanism == name)
        own = project / cell.file if cell.file else shipped("mechanisms")[name]
        sources.append(Source(f"mechanism-{name}", of_code(project, own, cell.settings)))
    for name, attack in params.attacks.items():
        record = of_code(project, component_file(KIND, name), attack) | of_model(attack.get("model"), folder)
        sources.append(Source(f"attack-{Path(name).stem}", record))
    encoder = of_code(project, PACKAGE / "models/encoder.py", params.embedding.model_dump())
    sources.append(Source("embedding", encoder | of_model(params.embedding.model, folder)))
    for name, path in params.models.items():
        sources.append(Source(f"model-{name}", of_data(project, path)))
    for name, path in params.words.sources.items():
        sources.append(Source(f"words-{name}", of_data(project, path)))
    for place, entry in params.made_of_public():
        settings = entry.model_dump(exclude={"corpus": {"source"}})
        sources.append(Source(f"corpus-{place.partition('.')[2]}", of_data(project, entry.corpus.source, settings)))
    return sources
