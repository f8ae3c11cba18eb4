"""The re-audit as a Prefect flow: look for updates, audit again, and compare with the accepted baseline.

usage: python -m flows.reaudit [--folder runs/atis] [--fresh]

The flow fails with the event `epsilometer.privacy.worse` if a loss has grown, and with `epsilometer.privacy.unknown` if
a row of the baseline is gone or no row could be tested. `alert.py` sends either event.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.states import Completed, Failed, State

from epsilometer.cells.measured import settings
from epsilometer.core.errors import UserError
from epsilometer.pipeline.current import measured as stages_measured
from epsilometer.pipeline.flows.alert import alert
from epsilometer.pipeline.flows.artifacts import publish_drift
from epsilometer.pipeline.flows.audit import audit
from epsilometer.pipeline.flows.connection import server_or_exit
from epsilometer.pipeline.measured import losses, measure
from epsilometer.pipeline.measured import sources as current
from epsilometer.pipeline.params import Params
from epsilometer.pipeline.params import read as read_params
from epsilometer.pipeline.profiles import next_round
from epsilometer.pipeline.repro import held
from epsilometer.project.commit import commit
from epsilometer.reaudit import baseline, drift, history, sources
from epsilometer.report import page


@flow(persist_result=False)
def reaudit(folder: str = ".", fresh: bool = False) -> State[Any]:
    """Look for updates, audit again, and compare with the accepted baseline.

    Fails if a loss has grown, if a row of the baseline is gone, or if no row could be tested.
    fresh: sample fresh noise, by adding one to `audit.round`; after a re-audit that was killed before its comparison,
    the round stays. Without fresh noise, results differ only if a source has changed. If a source cannot be reached,
    its changes are unknown, and the flow continues.
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
        params = next_round(folder, params)
    recorded = sources.read(folder) or accepted.about["sources"]
    now, unknown = sources.served(current(params, folder), recorded)
    updates = sources.changes(recorded, sources.records(now))
    get_run_logger().info("\n".join(["updates:", *(updates or ["none"]), *sources.newer(now), *unknown]))

    for target in stages_measured(params):
        done: State[Any] = audit(str(folder), target, return_state=True)
        if not done.is_completed():
            return Failed(message=f"nothing was compared, because the audit failed: {done.message}")
    date = history.next_date(past)
    level = drift.level(params.audit.alpha, history.audits_in(past, int(date[:4])))
    measured = measure(params, folder)
    drifts = drift.judge(accepted.measured, measured, level)
    history.append(losses(params, measured, folder), at, params.audit.round, folder / history.FILE, date=date)
    sources.write(now, folder)

    changed = sources.changes(accepted.about["sources"], sources.records(now)) + sources.newer(now)
    said = drift.message(drifts, level, changed, unknown)
    publish_drift(folder, drifts, said)
    alarmed = bool(drift.blind_spots(drifts)) or any(change.verdict == drift.WORSE for change in drifts)
    if alarmed:
        alert(folder, drifts, said, changed)
    whole: State[Any] = audit(str(folder), return_state=True)  # the remaining stages, for figures and the report
    page.refresh(folder)
    if not whole.is_completed():
        said += f"\nthe rest of the audit failed: {whole.message}"
    return Failed(message=said) if alarmed or not whole.is_completed() else Completed(message=said)


def _checked(folder: Path) -> tuple[baseline.Baseline, Params]:
    """Return the baseline and the parameters. Raises UserError if they cannot be compared."""
    params, accepted = read_params(folder / "params.yaml"), baseline.read(folder)
    accepted.check(settings(params))
    return accepted, params


def main() -> None:
    """Run the command line; exit code 1 if the re-audit does not pass or a stage failed, 2 for errors before that."""
    parser = argparse.ArgumentParser(prog="python -m flows.reaudit", description=reaudit.__doc__)
    parser.add_argument("--folder", default=".", help="the folder that contains dvc.yaml")
    parser.add_argument("--fresh", action="store_true", help="audit with fresh noise")
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
