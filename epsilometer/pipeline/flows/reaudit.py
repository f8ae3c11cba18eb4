"""The re-audit as a Prefect flow: the updates, a new audit, and its comparison with the accepted baseline.

usage: python -m flows.reaudit [--folder runs/atis] [--fresh]

Ends failed, with the event `epsilometer.privacy.worse`, if a loss has grown; with `epsilometer.privacy.unknown` if only
a row of the baseline is gone or none could be tested. `alert.py` sends either.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.events import emit_event
from prefect.states import Completed, Failed, State

from epsilometer.auditing.estimation.successes import Estimate
from epsilometer.cells.measured import settings
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.pipeline.current import measured as stages_measured
from epsilometer.pipeline.flows.alert import UNKNOWN, WORSE
from epsilometer.pipeline.flows.artifacts import prefixed
from epsilometer.pipeline.flows.audit import audit, server_or_exit
from epsilometer.pipeline.measured import losses, measure
from epsilometer.pipeline.measured import sources as current
from epsilometer.pipeline.params import Params
from epsilometer.pipeline.params import read as read_params
from epsilometer.pipeline.repro import held
from epsilometer.project.commit import commit
from epsilometer.reaudit import baseline, drift, history, sources
from epsilometer.reaudit.drift import Drift
from epsilometer.report import page

_SENT = 50  # rows of a verdict in one event: the most serious


@flow(persist_result=False)
def reaudit(folder: str = ".", fresh: bool = False) -> State[Any]:
    """Look for updates, audit again, compare with the accepted baseline. Fails if a loss has grown, or if nothing shows
    that it has not: a row of the baseline is gone, or none could be tested.

    fresh: draw fresh noise (`audit.round` goes up by one, unless no audit of this round was compared yet: a re-audit
    that was killed continues with its own). Without fresh noise, results differ only if something was changed. A source
    that cannot be reached counts as unknown, and the flow continues.
    """
    try:
        with held(Path(folder), get_run_logger().warning):
            return _reaudit(Path(folder), fresh)
    except UserError as error:
        return Failed(message=str(error))


def _reaudit(folder: Path, fresh: bool) -> State[Any]:
    accepted, params = _checked(folder)
    past, at = history.read(folder / history.FILE), commit(folder).short
    if fresh and params.audit.round in (accepted.about.get("round"), *past["round"]):
        params = _next_round(folder, params)
    recorded = sources.read(folder) or accepted.about["sources"]
    now, unknown = sources.served(current(params, folder), recorded)
    updates = sources.changes(recorded, sources.records(now))
    get_run_logger().info("\n".join(["updates:", *(updates or ["none"]), *sources.newer(now), *unknown]))

    for target in stages_measured(params):
        done: State[Any] = audit(str(folder), target, return_state=True)
        if not done.is_completed():
            return Failed(message=f"nothing was compared, as the audit failed: {done.message}")
    date = history.next_date(past)
    level = drift.level(params.audit.alpha, history.audits_in(past, int(date[:4])))
    measured = measure(params, folder)
    drifts = drift.judge(accepted.measured, measured, level)
    history.append(losses(params, measured, folder), at, params.audit.round, folder / history.FILE, date=date)
    sources.write(now, folder)

    changed = sources.changes(accepted.about["sources"], sources.records(now)) + sources.newer(now)
    said = drift.message(drifts, level, changed, unknown)
    _publish(folder, drifts, said)
    alarmed = bool(drift.blind_spots(drifts)) or any(change.verdict == drift.WORSE for change in drifts)
    if alarmed:
        _alert(folder, drifts, said, changed)
    whole: State[Any] = audit(str(folder), return_state=True)  # the rest: figures, and the report with this audit in it
    page.refresh(folder)
    if not whole.is_completed():
        said += f"\nthe rest of the audit failed: {whole.message}"
    return Failed(message=said) if alarmed or not whole.is_completed() else Completed(message=said)


def _checked(folder: Path) -> tuple[baseline.Baseline, Params]:
    """The baseline and the parameters, if they can be compared."""
    params, accepted = read_params(folder / "params.yaml"), baseline.read(folder)
    accepted.check(settings(params))
    return accepted, params


def _next_round(folder: Path, params: Params) -> Params:
    """Add one to `audit.round`, in the profile first and then in the run's parameters, which are a copy of it.

    A kill between the two leaves parameters of the former round, to which the next run adds one again.
    """
    files = [folder / "params.yaml"]
    if folder.parent.name == "runs":
        files.insert(0, folder / params.root / "profiles" / f"{folder.name}.yaml")
    for file in filter(Path.is_file, files):
        tables.write_text(with_round(file.read_text(encoding="utf-8"), params.audit.round + 1), file)
    return read_params(folder / "params.yaml")


def with_round(text: str, round: int) -> str:
    """A parameter file with another `audit.round`; every other byte, including comments, stays."""
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)  # it was read before
    (section,) = (value for key, value in root.value if key.value == "audit")
    nodes = {key.value: (key, value) for key, value in section.value}
    if "round" in nodes:
        place = nodes["round"][1]
        return f"{text[: place.start_mark.index]}{round}{text[place.end_mark.index :]}"
    key, value = nodes["seed"]  # a valid file has a seed
    between = ", " if section.flow_style else f"\n{' ' * key.start_mark.column}"
    end = value.end_mark.index
    return f"{text[:end]}{between}round: {round}{text[end:]}"


def _publish(folder: Path, drifts: Sequence[Drift], said: str) -> None:
    rows = [
        {**change.row._asdict(), "verdict": change.verdict, "p value": change.p_value, "test": change.test}
        | {
            f"{when} {name}": number
            for when, e in (("before", change.before), ("now", change.now))
            for name, number in _of(e)
        }
        for change in drifts
    ]
    create_table_artifact(
        key=prefixed(folder, "drift"), table=rows, description="Against the accepted baseline; losses in nats"
    )
    create_markdown_artifact(key=prefixed(folder, "drift-message"), markdown=said)


def _alert(folder: Path, drifts: Sequence[Drift], said: str, changed: Sequence[str]) -> None:
    """Emit the event with numbers, names and the message; never a text."""

    def rows(verdict: str) -> list[dict[str, Any]]:
        return [
            {
                **change.row._asdict(),
                "before": dict(_of(change.before)),
                "now": dict(_of(change.now)),
                "p_value": change.p_value,
            }
            for change in drifts
            if change.verdict == verdict
        ][:_SENT]

    worse = rows(drift.WORSE)
    emit_event(
        WORSE if worse else UNKNOWN,
        resource={"prefect.resource.id": f"epsilometer.audit.{folder.as_posix()}"},
        payload={
            "message": said,
            "worse": worse,
            "gone": rows(drift.GONE),
            "changed": list(changed),
        },
    )


def _of(estimate: Estimate | None) -> list[tuple[str, float | None]]:
    """The numbers of an estimate; None for infinity, which JSON lacks."""
    numbers = (estimate.loss, estimate.point, estimate.upper) if estimate else (None, None, None)
    shown = (None if n is None or not math.isfinite(n) else round(n, 4) for n in numbers)
    return list(zip(("loss", "point", "upper"), shown, strict=True))


def main() -> None:
    """The command line; exit code 1 if a re-audit does not pass or a stage failed, 2 for errors before that."""
    parser = argparse.ArgumentParser(prog="python -m flows.reaudit", description=reaudit.__doc__)
    parser.add_argument("--folder", default=".", help="the folder of its dvc.yaml")
    parser.add_argument("--fresh", action="store_true", help="draw fresh noise")
    options = parser.parse_args()
    try:
        _checked(Path(options.folder))
        history.read(Path(options.folder) / history.FILE)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    _server = server_or_exit()
    state = reaudit(options.folder, options.fresh, return_state=True)
    print(state.message)
    sys.exit(0 if state.is_completed() else 1)


if __name__ == "__main__":
    main()
