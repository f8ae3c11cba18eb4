"""Write the dossier of a project's cell in three formats, after a check that its audit is finished."""

from __future__ import annotations

import hashlib
from pathlib import Path

from epsilometer.core import tables
from epsilometer.core.atomic import whole
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import budget_name
from epsilometer.core.version import VERSION
from epsilometer.pipeline.params import Params
from epsilometer.pipeline.stages.code import records
from epsilometer.pipeline.why import addresses, reasons
from epsilometer.report import origin, paper, sheet
from epsilometer.report.cells import dossier as page
from epsilometer.report.cells.results import TextResults

FOLDER = Path("reports/dossier")


def write(
    params: Params,
    cell: str,
    epsilon: float | None,
    folder: Path = FOLDER,
    *,
    texts_per_person: int | None = None,
) -> list[Path]:
    """Write the dossier of a cell at a budget as HTML, PDF and JSON, and return their paths.

    texts_per_person: the number that the user has confirmed; None assumes one text. Raises UserError if the audit is
    not finished, because a stage has not run or its inputs have changed since.
    """
    _check_finished(params)
    facts = origin.facts(Path())
    source = {name: facts[name] for name in ("date", "profile", "commit", "device")} | {"epsilometer": VERSION}
    results = TextResults(params)
    of = page.dossier(
        results,
        cell,
        epsilon,
        source=_named(source),
        hashes=_hashes(params, cell),
        texts_per_person=texts_per_person,
    )
    name, parts, heading = f"{cell}-{budget_name(of.release.epsilon)}", page.blocks(of), page.title(of)
    paths = [folder / f"{name}.{suffix}" for suffix in ("html", "pdf", "json")]
    folder.mkdir(parents=True, exist_ok=True)
    tables.write_text(sheet.page(heading, parts), paths[0])
    with whole(paths[1]) as file:
        file.write(paper.pdf(heading, parts))
    tables.write_text(of.model_dump_json(indent=1, by_alias=True) + "\n", paths[2])
    return paths


def _named(source: dict[str, str]) -> dict[str, str]:
    return {name: value if name == "date" else f"{name} {value}" for name, value in source.items()}


def _check_finished(params: Params) -> None:
    now = {path.as_posix(): record for path, record in records(params).items()}
    stale = {name: changes for name in addresses(None) if (changes := reasons(name, now))}
    if stale:
        name, changes = next(iter(stale.items()))
        raise UserError(
            f"this audit is not finished: {len(stale)} of its stages are not up to date ({name}: {changes[0]}). Run "
            "`epsilometer pipeline repro` first; a dossier describes a finished audit.",
            "EPS-P020",
        )


def _hashes(params: Params, cell: str) -> dict[str, str]:
    """Return the SHA-256 of each file that the decision depends on, by the file's description."""
    dataset = params.cells[cell].dataset if cell in params.cells else ""
    files = {
        "texts": f"data/prepared/{dataset}.parquet",
        "code and packages of the mechanism": f"data/code/rewrite/{cell}.json",
        "model and settings of the mechanism": f"data/resources/cells/{cell}.json",
        "settings of the audit": "params.yaml",
        "all inputs and results (dvc.lock)": "dvc.lock",
        "decisions": "data/decisions.parquet",
    }
    there = {name: Path(path) for name, path in files.items() if Path(path).is_file()}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in there.items()}
