"""The accepted baseline, with which audits are compared, in readable files that git tracks.

`baseline/estimates.csv` has the numbers. `baseline/hits.csv` has the outcome of each trial of each row, for paired
tests. Outcomes are in base64, with one bit per trial (1 if the adversary was right). If some outcomes lie between 0 and
1, the text begins with `float64:`, and has eight bytes per trial. `baseline/about.json` records the measurement, its
settings and sources, and the SHA-256 of the other two files.
"""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer.auditing.estimation.successes import estimate
from epsilometer.auditing.results.comparison import Outcomes
from epsilometer.core import json_text, tables
from epsilometer.core.errors import UserError
from epsilometer.reaudit.drift import Measured, Row
from epsilometer.reaudit.sources import Record

FOLDER = Path("baseline")
ACCEPT = "`epsilometer results accept`"

_EARLIER = ["dataset", "mechanism", "epsilon", "attack", "trials", "successes", "loss", "point", "upper"]
# Earlier versions wrote fewer columns. `delta` is now always 0. In some earlier files, `delta` is the claim's delta. In
# files without this column, losses are at delta 0. `candidates` was added for attribute losses. `measure` is written
# only if some row is a figure of a question, and is empty in all other rows.
_ESTIMATES = [*_EARLIER, "delta", "candidates", "measure"]
_WRITTEN = [_ESTIMATES[:count] for count in range(len(_EARLIER), len(_ESTIMATES) + 1)]
_DECIMALS = 6  # decimals of written losses, in nats
# Largest difference, in nats, between a written loss and its recomputation, perhaps by other versions of libraries.
_TOLERANCE = 2 * 10**-_DECIMALS
_DAMAGES = (OSError, ValueError, TypeError, KeyError, AttributeError, csv.Error, binascii.Error)
_FLOATS = "float64:"  # prefix of outcomes that are not all 0 or 1
_HITS = ["dataset", "mechanism", "epsilon", "attack", "drawn", "rewrites", "hits"]


@dataclass(frozen=True)
class Baseline:
    """An accepted audit.

    about: the date (`accepted`), `commit`, `round`, `audit` (the settings that must agree), `files` (hashes) and
    `sources` (records of `pipeline.measured.sources`).
    """

    about: dict[str, Any]
    measured: dict[Row, Measured]

    def check(self, now: Mapping[str, Any]) -> None:
        """Raise UserError if an audit and this baseline differ in alpha, k, attacks, encoder or trial settings.

        now: the audit's settings. The number of trials may differ, since Fisher's test compares samples of any sizes.
        The other settings of trials must agree, because they make candidates easier or harder to tell apart, for any
        mechanism. The encoder and splits are not compared if an earlier version wrote a baseline without them.
        """
        before = self.about["audit"]
        for key, rule in (("alpha", "alpha"), ("candidates", "k candidates"), ("attacks", "attacks")):
            if before.get(key) != now[key]:
                raise _unlike(rule, before.get(key), now[key])
        if "embedding" in before and before["embedding"] != now["embedding"]:
            raise _unlike("embedding", before["embedding"], now["embedding"])
        for dataset, trials in _trials(self.about).items():
            for key, value in now["trials"].get(dataset, {}).items():
                if key in trials and trials[key] != value:
                    raise _unlike(f"trials of {dataset} by {key}", trials[key], value)


def accept(
    measured: Mapping[Row, Measured], sources: Mapping[str, Record], about: Mapping[str, Any], folder: Path = Path(".")
) -> Baseline:
    """Make the results of a folder's audit the folder's baseline.

    about: the audit's commit, round and settings, as in `Baseline.about`. Raises UserError, before writing anything,
    for results that `read` would refuse.
    """
    stamp = {"accepted": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    numbers, hits = [], []
    for row, result in sorted(measured.items()):
        e = result.estimate
        losses = [f"{value:.{_DECIMALS}f}" for value in (e.loss, e.point, e.upper)]
        measure = result.measure if result.of_question else ""
        numbers.append([*row, e.trials, e.successes, *losses, f"{e.delta:.12g}", e.candidates, measure])
        hits.append([*row, result.trial_set, result.rewrites, _written(result.hits)])
    columns = _ESTIMATES if any(result.of_question for result in measured.values()) else _ESTIMATES[:-1]
    estimates = _csv(columns, [line[: len(columns)] for line in numbers])
    texts = {"estimates.csv": estimates, "hits.csv": _csv(_HITS, hits)}
    hashes = {name: _hash(text) for name, text in texts.items()}
    new = {**stamp, **about, "files": hashes, "sources": dict(sources)}
    try:
        _parsed(new, texts)
    except _DAMAGES as error:
        raise UserError(
            f"the results of the audit contradict each other ({error}); run the audit again (make audit, or dvc "
            "repro), then accept it",
            "EPS-R001",
        ) from error
    for name, text in texts.items():
        tables.write_text(text, folder / FOLDER / name)
    tables.write_json(new, folder / FOLDER / "about.json")
    return Baseline(new, dict(measured))


def read(folder: Path = Path(".")) -> Baseline:
    """Return the accepted baseline of a folder.

    Raises UserError if there is none, or if its files are damaged or contradict each other.
    """
    place = folder / FOLDER
    if not (place / "about.json").is_file():
        raise UserError(f"{place} has no baseline yet; accept the current audit as one ({ACCEPT})", "EPS-R002")
    try:
        about = json_text.load((place / "about.json").read_bytes())
        texts = {name: (place / name).read_text(encoding="utf-8") for name in ("estimates.csv", "hits.csv")}
        measured = _parsed(about, texts)
    except _DAMAGES as error:
        raise UserError(
            f"the baseline in {place} is damaged ({error}); restore it from git (git checkout -- {place}), or accept "
            f"a new one ({ACCEPT})",
            "EPS-R003",
        ) from error
    return Baseline(about, measured)


def _parsed(about: Mapping[str, Any], texts: Mapping[str, str]) -> dict[Row, Measured]:
    """Parse the texts of the files. Raises one of `_DAMAGES` if the files contradict each other or are from two audits.

    Baselines of earlier versions have no hashes of their files.
    """
    audit, _ = about["audit"], (about["accepted"], about["sources"].items())
    numbers = {_row(row): row for row in _rows("estimates.csv", texts, *_WRITTEN)}
    hits = {_row(row): row for row in _rows("hits.csv", texts, _HITS)}
    if numbers.keys() != hits.keys():
        raise ValueError("estimates.csv and hits.csv do not have the same rows")
    measured = {row: _measured(of, hits[row], audit) for row, of in numbers.items()}
    for name, digest in about.get("files", {}).items():
        if _hash(texts[name]) != digest:
            raise ValueError(f"{name} does not have the SHA-256 that about.json records")
    return measured


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _unlike(rule: str, before: Any, now: Any) -> UserError:
    return UserError(
        f"the baseline has {rule} {_named(before)}, but params.yaml has {_named(now)}; only audits with equal "
        f"settings can be compared: restore the setting, or audit and accept a new baseline ({ACCEPT})",
        "EPS-R004",
    )


def _trials(about: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings of trials by data set; baselines of earlier versions have them only among the sources."""
    if "trials" in about["audit"]:
        return dict(about["audit"]["trials"])
    sources = {name: source.get("settings", {}) for name, source in about["sources"].items()}
    common = sources.get("audit", {}).get("trials")
    return {
        name.removeprefix("dataset-"): {
            "temperature": 0.0 if settings.get("sets") else common["temperature"],
            "match": settings.get("match") or common["match"],
        }
        for name, settings in sources.items()
        if common and name.startswith("dataset-")
    }


def _named(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {setting}" if setting else key for key, setting in value.items()) or "none"
    return str(value)


def _csv(header: list[str], rows: list[list[Any]]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([header, *rows])
    return written.getvalue()


def _rows(name: str, texts: Mapping[str, str], *headers: list[str]) -> list[dict[str, str]]:
    """Return the rows of a file. headers: the columns that each version wrote, the latest version last."""
    first, *lines = csv.reader(io.StringIO(texts[name]), strict=True)
    if first not in headers:
        raise ValueError(f"{name} must have the columns {', '.join(headers[-1])}")
    rows = [dict(zip(first, line, strict=True)) for line in lines]
    if len({_row(row) for row in rows}) < len(rows):
        raise ValueError(f"{name} has a row twice")
    return rows


def _row(row: dict[str, str]) -> Row:
    return Row(row["dataset"], row["mechanism"], float(row["epsilon"]) if row["epsilon"] else None, row["attack"])


def _written(outcomes: Outcomes) -> str:
    """Return the outcomes in base64: a bit each if all are 0 or 1, otherwise eight bytes each."""
    if np.isin(outcomes, (0, 1)).all():
        return base64.b64encode(np.packbits(outcomes == 1).tobytes()).decode()
    return _FLOATS + base64.b64encode(np.asarray(outcomes, "<f8").tobytes()).decode()


def _outcomes(text: str, trials: int) -> Outcomes:
    """Return the outcomes that `_written` wrote. Raises ValueError unless each trial has one outcome in [0, 1]."""
    floats = text.startswith(_FLOATS)
    written = base64.b64decode(text.removeprefix(_FLOATS), validate=True)
    if floats:
        values = np.frombuffer(written, "<f8").astype(np.float64)
        if len(values) != trials or not ((values >= 0) & (values <= 1)).all():
            raise ValueError("hits.csv must have one outcome in [0, 1] for each trial")
        return values
    bits = np.unpackbits(packed := np.frombuffer(written, np.uint8)).astype(bool)
    if len(packed) != -(-trials // 8) or bits[trials:].any():
        raise ValueError("hits.csv must have one bit for each trial")
    return bits[:trials]


def _measured(numbers: dict[str, str], hits: dict[str, str], audit: dict[str, Any]) -> Measured:
    """Return a row, read from both files. Raises ValueError if the files contradict each other."""
    trials, successes = int(numbers["trials"]), int(numbers["successes"])
    outcomes, alpha = _outcomes(hits["hits"], trials), float(audit["alpha"])
    if round(float(outcomes.sum())) != successes:
        raise ValueError(f"hits.csv does not have the {successes} successes of {_row(numbers)}")
    if measure := numbers.get("measure"):
        low, point, high = (float(numbers[name]) for name in ("loss", "point", "upper"))
        return Measured.of_figure(outcomes, hits["drawn"], (low, point, high), measure, alpha=alpha)
    candidates = int(numbers.get("candidates", audit["candidates"]))
    written = estimate(successes, trials, candidates, alpha, delta=float(numbers.get("delta", 0)))
    if not math.isclose(written.loss, float(numbers["loss"]), abs_tol=_TOLERANCE):
        raise ValueError(f"the loss of {_row(numbers)} does not follow from its successes")
    return Measured(outcomes, hits["drawn"], hits["rewrites"], estimate(successes, trials, candidates, alpha))
