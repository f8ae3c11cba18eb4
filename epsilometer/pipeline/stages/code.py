"""Stage code: which files each component of the audit reaches by its imports, and what is in them.

DVC cannot know beforehand what a user's own mechanism, attack, metric or generator imports, so this stage always runs,
and the stages that use a component depend on its record, which has the same bytes until a file in it changes.

usage: python -m epsilometer.pipeline.stages.code
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from epsilometer.core import tables
from epsilometer.core.component import shipped
from epsilometer.core.imports import reached
from epsilometer.pipeline.guard.entry import run
from epsilometer.project.params import Params
from epsilometer.project.params import read as read_params
from epsilometer.reaudit.sources import hashes


def main() -> None:
    """Write data/code/<section>/<entry>.json for what stands in params.yaml, attacks.json and metrics.json."""
    params = read_params()
    project = Path(params.root).resolve()
    for name, files in _components(params):
        used = {file for path in files for file in reached(Path(path), [project])[0]}
        tables.write_json(hashes(sorted(used), project), f"data/code/{name}.json")


def _components(params: Params) -> Iterator[tuple[str, list[str]]]:
    """The name of each record, and the Python files that it is about."""
    for kind in ("cells", "downstream"):
        for name, cell in getattr(params, kind).items():
            yield f"{kind}/{name}", [params.path(cell.file)]
    for name, dataset in params.datasets.items():
        yield f"datasets/{name}", _generator(params, dataset.source)
    for kind in ("triples", "autoencoders", "noise_aware"):
        for name, entry in getattr(params, kind).items():
            yield f"{kind}/{name}", _generator(params, entry.corpus.source)
    for kind, names in (("attacks", params.attacks), ("metrics", params.utility.metrics)):
        yield kind, [name if name.endswith(".py") else str(shipped(kind)[name]) for name in names]


def _generator(params: Params, source: str) -> list[str]:
    return [params.path(source)] if source.endswith(".py") else []


if __name__ == "__main__":
    run(main)
