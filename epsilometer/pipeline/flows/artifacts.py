"""The artifacts of a finished audit in Prefect's UI: numbers, verdicts, figures and a link to the page, but no text."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_table_artifact,
)
from prefect.settings import PREFECT_HOME

from epsilometer.auditing.attributes.tables import ATTACKERS
from epsilometer.auditing.claims.verdicts import (
    NO_CLAIM,
    NOT_CHECKED,
    NOT_REFUTED,
    NOT_TESTABLE,
    VIOLATED,
    overall,
    with_overall,
)
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.auditing.schemas import ESTIMATES
from epsilometer.core import tables
from epsilometer.pipeline.flows import PROJECT
from epsilometer.pipeline.flows.output import run
from epsilometer.reaudit.drift import Drift, numbers
from epsilometer.report import page
from epsilometer.report.export import read_claims, read_exact
from epsilometer.report.wording import budget

_COLUMNS = [
    "dataset", "mechanism", "control", "epsilon", "attack", "sees", "released", "loss", "point", "upper", "ceiling",
    "claim", "verdict",
]  # fmt: skip
_ANONYMITY = [
    "dataset", "mechanism", "epsilon", "label", "best_attacker", "kind", "balanced_accuracy", "majority", "loss",
    "point", "upper", "ceiling", "claim", "verdict",
]  # fmt: skip
_ORDER = [VIOLATED, NOT_REFUTED, NOT_TESTABLE, NOT_CHECKED]
ROOT = PROJECT
_LARGEST = 1_000_000  # maximum bytes of the figures in one artifact: Prefect refuses events above 1.5 MB


def publish(folder: Path) -> None:
    """Create the artifacts of the results in a folder. Their keys begin with the folder's name."""
    page.refresh(folder, run())
    estimates = folder / "data/estimates.parquet"
    if estimates.is_file():
        table = tables.read(estimates, ESTIMATES)
        judged = overall(table, read_claims(folder), read_exact(folder))
        rows = with_overall(table, judged).with_columns(verdict="overall").to_dicts()
        create_table_artifact(
            key=prefixed(folder, "calibration"),
            table=[{name: _shown(row[name]) for name in _COLUMNS} for row in rows],
            description="Empirical privacy loss and claim, in nats. A loss of 0 is a lack of evidence.",
        )
        create_markdown_artifact(
            key=prefixed(folder, "verdicts"),
            markdown=verdicts(judged),
            description="The verdict on each claim. A claim that is not refuted is not proved.",
        )
    anonymity = [tables.read(path, ATTACKERS) for path in sorted(folder.glob("data/anonymity/*/attackers.parquet"))]
    if anonymity:
        rows = pl.concat(anonymity).filter(pl.col("attacker") == STRONGEST).to_dicts()
        create_table_artifact(
            key=prefixed(folder, "anonymity"),
            table=[{name: _shown(row[name]) for name in _ANONYMITY} for row in rows],
            description="The strongest attacker's inference of each attribute from the release; losses in nats.",
        )
    pictures = sorted(folder.glob("reports/figures/*.svg"))
    if pictures:
        create_markdown_artifact(
            key=prefixed(folder, "figures"),
            markdown="\n\n".join(_figures(pictures)),
            description="The report's figures in this run.",
        )
    _link(folder)


def _link(folder: Path) -> None:
    written = folder / page.PAGE
    if written.is_file():
        create_link_artifact(
            _address(written),
            link_text=str(written.resolve()),
            key=prefixed(folder, "report"),
            description="The report of the latest audit in this folder.",
        )


def publish_drift(folder: Path, drifts: Sequence[Drift], said: str) -> None:
    """Create the artifacts of a re-audit: a row for each loss, before and now, and the message."""
    rows = [
        {**change.row._asdict(), "verdict": change.verdict, "p value": change.p_value, "test": change.test}
        | {
            f"{when} {name}": number
            for when, e in (("before", change.before), ("now", change.now))
            for name, number in numbers(e)
        }
        for change in drifts
    ]
    create_table_artifact(
        key=prefixed(folder, "drift"), table=rows, description="Changes since the accepted baseline; losses in nats"
    )
    create_markdown_artifact(key=prefixed(folder, "drift-message"), markdown=said)
    _link(folder)


def prefixed(folder: Path, key: str) -> str:
    """Return an artifact's key, which begins with the folder, so that other folders' audits have other keys."""
    return re.sub("[^a-z0-9]+", "-", f"{folder.as_posix().lower()}-{key}").lstrip("-")


def verdicts(judged: pl.DataFrame) -> str:
    """Return the verdict on each claim as a Markdown table, violated claims first. judged: from `verdicts.overall`."""
    claimed = judged.filter(pl.col("verdict") != NO_CLAIM)
    order = pl.col("verdict").replace_strict(_ORDER, range(len(_ORDER)), return_dtype=pl.Int64)
    rows = [
        f"| {row['verdict']} | {row['mechanism']} | {budget(row['epsilon'])} | {row['by'] or row['reason'] or ''} |"
        for row in claimed.sort(order, "mechanism", "epsilon").to_dicts()
    ]
    return "\n".join(["| verdict | mechanism | epsilon | decided by, or reason |", "|---|---|---|---|", *rows])


def _figures(pictures: Sequence[Path]) -> Iterator[str]:
    """Yield figures as inline Markdown, because the server cannot read the project's files.

    Figures that do not fit into an artifact become paths. Both of Prefect's UIs render inline figures.
    """
    room = _LARGEST
    for picture in pictures:
        data = base64.b64encode(picture.read_bytes()).decode()
        room -= len(data) if (fits := len(data) <= room) else 0
        shown = f"![{picture.stem}](data:image/svg+xml;base64,{data})" if fits else str(picture.resolve())
        yield f"### {picture.stem}\n\n{shown}"


def _address(page: Path) -> str:
    """Return the address of a page for a browser: at the server of `make ui` if that is running, else of the file."""
    recorded, path = Path(PREFECT_HOME.value(), "ui.json"), page.resolve()
    if recorded.is_file() and path.is_relative_to(ROOT):
        return f"{json.loads(recorded.read_text())['reports']}/{path.relative_to(ROOT).as_posix()}"
    return path.as_uri()


def _shown(value: Any) -> Any:
    """Return a value rounded for display; infinity, which JSON lacks, as text."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.4g}") if math.isfinite(value) else str(value)
