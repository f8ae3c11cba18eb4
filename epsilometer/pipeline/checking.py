"""Check an audit before it runs: build each component, and read each local file of texts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil

from epsilometer.cells.adversaries import attacks
from epsilometer.core.attack import Checked
from epsilometer.core.component import EMBEDDED
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.file_names import absent
from epsilometer.core.mechanism import Mechanism, build_mechanism
from epsilometer.core.readable import check_readable
from epsilometer.core.study import studies
from epsilometer.corpora import annotated, conversations
from epsilometer.models.devices import resolved
from epsilometer.pipeline.downloads import Download, downloads, packaged
from epsilometer.pipeline.params import Params
from epsilometer.project import cells
from epsilometer.project.corpora import corpus
from epsilometer.project.sections import Cell, Dataset, MechanismEntry
from epsilometer.runtime import checksums

_WHOLE = 1000  # if a generator writes at most this many texts, all are checked
_SAMPLE = 200  # otherwise this number of texts is checked, which takes a tenth of a second
_TEXT = 1000  # minimum bytes of a text and its embedding


class AbsentError(UserError):
    """Raised for missing local files, which cannot be downloaded. downloads: the audit's downloads with their state."""

    def __init__(self, absent: Sequence[str], downloads: Sequence[Download]) -> None:
        super().__init__("\n".join(absent), "EPS-P080")
        self.downloads = downloads


def check(params: Params) -> list[Download]:
    """Check the audit and return its downloads with their local state. Loads only the models of the attack MIA-N.

    Raises UserError for anything that cannot be built or is invalid. If only local files are missing, raises
    AbsentError.
    """
    _check_writable(params)
    _check_memory(params)
    checksums.check(EMBEDDED)
    _check_links(params)
    resolved(params.device)
    for setting, path in params.data_paths():
        check_readable(params.path(path), setting)
    absent = [
        f"{setting}: {path!r} does not exist; put it there, or correct the path"
        for setting, path in params.data_paths()
        if not setting.endswith(".training.model") and not Path(params.path(path)).exists()
    ]
    for name, dataset in params.datasets.items():
        if Path(params.path(dataset.source)).exists():  # sources on the hub are only listed
            _check_dataset(params, name, dataset)
    _check_resources(params)
    for cell in params.cells.values():
        check_mechanism(params, cell, cells.build(params, cell), f"mechanisms.{cell.mechanism}.settings")
    for name, exemplars in params.exemplars.items():
        build_mechanism("exemplars", exemplars.settings, "", f"exemplars.{name}.settings")
    for study in studies():
        study.check(params)
    for name, cell in params.sweeps.items():
        for setting, _, _, settings in params.variations(name):
            place = f"sweeps.{name}.vary.{setting}"
            built = build_mechanism(str(params.code(cell)), settings, cell.resource, place)
            check_mechanism(params, cell, built, place)
    _check_attacks(params)
    if params.questions:
        from epsilometer.pipeline import asking  # its libraries load slowly

        asking.check_questions(params)
    every = downloads(params)
    packaged(params)
    if absent:
        raise AbsentError(absent, every)
    return every


def check_mechanism(params: Params, cell: Cell, mechanism: Mechanism, place: str) -> None:
    """Let each study refuse a mechanism whose settings do not fit the study. place: key of the settings."""
    for study in studies():
        study.check_mechanism(params, cell, mechanism, place)


def _check_attacks(params: Params) -> None:
    """Build each attack, and let it refuse data sets whose texts it must not see."""
    for attack in attacks(params).values():
        if isinstance(attack, Checked):
            for dataset in params.datasets.values():
                attack.check(dataset.public)


def _check_resources(params: Params) -> None:
    """Refuse a resource that does not exist and that no stage makes."""
    outputs = [*params.resources()]
    sections = dict(params.sections_of_cells())
    sections.pop("questions", None)  # the mechanisms of questions are added below
    entries: dict[str, MechanismEntry] = {
        f"{kind}.{name}": cell for kind, cells in sections.items() for name, cell in cells.items()
    }
    entries |= {f"mechanisms.{each.mechanism}": params.mechanisms[each.mechanism] for each in params.questions.values()}
    for place, cell in entries.items():
        resource = cell.resource
        if resource is not None and os.path.normpath(resource) not in outputs and not Path(resource).exists():
            raise UserError(
                f"{unknown(f'resource in {place}.resource', resource, outputs)}; name the output of a stage, or a "
                "file or folder of yours",
                "EPS-P007",
            )


def _check_memory(params: Params) -> None:
    """Refuse numbers of trials and of generated texts that do not fit into the free memory."""
    needs = [("trials.count", params.trials.count, _trial(params.trials.candidates))]
    needs += [
        (f"ablations.{name}.trials", cell.trials, _trial(max((params.trials.candidates, *cell.candidates))))
        for name, cell in params.ablations.items()
    ]
    needs += [(f"sweeps.{n}.trials", s.trials, _trial(params.trials.candidates)) for n, s in params.sweeps.items()]
    needs += [("instrument.trials", params.instrument.trials, _trial(2))]
    needs += [
        (f"datasets.{name}.count", dataset.count, _TEXT)
        for name, dataset in params.datasets.items()
        if dataset.count is not None and dataset.source.endswith(".py")
    ]
    gib, free = 2**30, psutil.virtual_memory().available
    for setting, count, each in needs:
        if count * each > free:
            raise UserError(
                f"{setting}: {count:,} need at least {count * each / gib:,.1f} GiB of memory, but only "
                f"{free / gib:,.1f} GiB are free; give at most {free // each:,}, or free memory",
                "EPS-P008",
            )


def _trial(candidates: int) -> int:
    """Return the fewest bytes of a trial: 4 per candidate, and 20 for its target slot, number, claim and guess."""
    return 4 * candidates + 20


def _check_links(params: Params) -> None:
    """Refuse a relative path that leaves the project through a link; `project.confinement` refuses paths with `..`.

    Data may also lie in a folder of `outside`, or in the package, to which `pipeline.starting` makes links.
    """
    project = Path(params.root).resolve()
    outside = [EMBEDDED.parent.resolve(), *(Path(params.path(folder)).resolve() for folder in params.outside)]
    for paths, folders in ((params.data_paths(), [project, *outside]), (params.code_paths(), [project])):
        for setting, path in paths:
            real = Path(params.path(path)).resolve()
            if not Path(path).is_absolute() and not any(real.is_relative_to(folder) for folder in folders):
                raise UserError(
                    f"{setting}: {path!r} is a link to {str(real)!r}, outside the project; copy the target into the "
                    "project, list its folder under `outside` (data only), or give its absolute path",
                    "EPS-P009",
                )


def _check_writable(params: Params) -> None:
    """Refuse a folder where results, or DVC's record of them, cannot be written."""
    folders = [folder for folder in Path("data").glob("*/") if folder.name != "embedded"]
    for folder in (Path("data"), *folders, Path("reports"), Path(params.root, ".dvc")):
        place = next(part for part in (folder, *folder.parents) if part.exists())
        try:
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError as error:
            raise UserError(
                f"{place.resolve()} must be writable, because the audit writes its results there, but is not "
                f"({error.strerror}); mount it writable, change its permissions, or run in another folder",
                "EPS-P010",
            ) from error


def _check_dataset(params: Params, name: str, dataset: Dataset) -> None:
    """Refuse a source without the required columns or split, or with too few texts. Does not read pinned data sets.

    If the source is a generator of many texts, only a sample is checked.
    """
    source = params.path(dataset.source)
    if source.endswith(".json") and not (annotated.holds(Path(source)) or conversations.holds(Path(source))):
        return
    sampled = source.endswith(".py") and (dataset.count or 0) > _WHOLE and dataset.authors is None
    table = corpus(params, name, _SAMPLE if sampled else None).table
    if sampled and (table["split"] == dataset.use).sum() < params.trials.candidates:  # the full corpus may have enough
        sampled, table = False, corpus(params, name).table
    splits = table["split"]
    if dataset.use not in splits:
        raise absent(f"split in datasets.{name}.use", dataset.use, splits.unique())
    if (texts := (splits == dataset.use).sum()) < params.trials.candidates:
        raise UserError(
            f"trials.candidates (k) must be at most the number of distinct texts, {texts} in the split {dataset.use!r} "
            f"of {name}, got {params.trials.candidates}",
            "EPS-P011",
        )
    if sampled:
        return
    for study in studies():
        study.check_texts(params, name, table)
