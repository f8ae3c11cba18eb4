"""Check that an audit's figures are up to date: settings, texts, code and the resources of mechanisms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from epsilometer.core.errors import UserError
from epsilometer.core.study import studies
from epsilometer.pipeline import composing, dvc_files
from epsilometer.pipeline.params import Params
from epsilometer.pipeline.why import addresses, reasons

_SHOWN = 3  # maximum number of reasons in a message; further ones are only counted


def records(params: Params) -> dict[str, Any]:
    """Return the records that stages `code` and `resources` would write now, by file."""
    from epsilometer.pipeline.stages import code, resources

    return {path.as_posix(): record for of in (code, resources) for path, record in of.records(params).items()}


def check(params: Params, *, with_code: bool) -> None:
    """Raise UserError if a stage behind the figures of the current folder must run again.

    with_code: True to check also code, resources of mechanisms, and the stages of dvc.yaml. In a folder without
    dvc.yaml nothing is checked, because stages leave no record there.
    """
    if not composing.FILE.is_file():
        return
    if with_code:
        composing.check(params)
    now = records(params) if with_code else None
    digest = cache(dvc_files.digest)
    for stage in leading_to(measured(params)):
        if changed := reasons(stage, now, digest):
            more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
            raise UserError(
                f"the audit does not match params.yaml and the code: {stage}: {', '.join(changed[:_SHOWN])}{more}; "
                "bring it up to date first (make audit, or dvc repro)",
                "EPS-P019",
            )


def measured(params: Params) -> list[str]:
    """Return the addresses of the stages whose results a baseline contains; empty if params.yaml has none of them."""
    of_studies = (stage for study in studies() for stage in study.accepted(params))
    of_questions = (f"asked@{name}" for name in params.questions)
    return [*(["estimate"] if params.cells else []), *of_studies, *of_questions]


def leading_to(targets: Iterable[str]) -> list[str]:
    """Return the addresses of these stages and of all stages that they depend on, in the order of dvc.yaml.

    Stages that always run are left out.
    """
    settings, stages = dvc_files.settings(), dvc_files.stages()
    every = addresses(None)
    places = {stage: dvc_files.outs(stage, settings) for stage in every}
    needed, left = set[str](), [stage for stage in targets if stage in places]
    while left:
        if (stage := left.pop()) not in needed:
            needed.add(stage)
            deps = dvc_files.listed(stage, settings)[0]
            left += [other for other in every if other not in needed and _meet(deps, places[other])]
    return [stage for stage in every if stage in needed and not _always_runs(stages, stage)]


def _meet(deps: Iterable[str], outs: Iterable[str]) -> bool:
    """Return True if an out and a dependency have the same path, or if one contains the other."""
    pairs = [(PurePosixPath(dep), PurePosixPath(out)) for dep in deps for out in outs]
    return any(dep.is_relative_to(out) or out.is_relative_to(dep) for dep, out in pairs)


def _always_runs(stages: Mapping[str, Any], stage: str) -> bool:
    return bool(stages[stage.partition("@")[0]].get("always_changed"))
