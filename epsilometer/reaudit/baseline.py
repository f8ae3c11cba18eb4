"""The accepted baseline: what an audit is compared with, kept in tracked files that people can read.

`baseline/estimates.csv` has the numbers; `baseline/hits.csv` has, for each of its rows, the trials in which the
adversary was right (a bit a trial, in base64: what a paired test needs); `baseline/about.json` says what was measured,
how and from what.
"""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.estimation.successes import Estimate, estimate
from epsilometer.auditing.results.diagnostics import CHOSEN, STRONGEST
from epsilometer.auditing.schemas import ESTIMATES, GUESSES, TRIALS
from epsilometer.core import json_text, tables
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import stored
from epsilometer.corpora.reading import PREPARED
from epsilometer.project.params import Params
from epsilometer.project.paths import anonymity_path, anonymized_path, rewrites_path
from epsilometer.reaudit.drift import Measured, Row
from epsilometer.reaudit.sources import Record
from epsilometer.utility.attackers import AUTHOR, CLEAN
from epsilometer.utility.schemas import ATTACKERS

FOLDER = Path("baseline")
ACCEPT = "`epsilometer accept`"

_EARLIER = ["dataset", "mechanism", "epsilon", "attack", "trials", "successes", "loss", "point", "upper"]
# Files without the last were written without attribute losses. Losses are at delta 0, in files of earlier versions at
# the delta of the claim, which is the column; those without it were written with delta 0.
_ESTIMATES = [*_EARLIER, "delta", "candidates"]
_WRITTEN = [_ESTIMATES[:count] for count in range(len(_EARLIER), len(_ESTIMATES) + 1)]
_DECIMALS = 6  # of a nat: losses as written
_TOLERANCE = 2 * 10**-_DECIMALS  # between a written loss and its recomputation: rounding, and room for other libraries
_DIGITS = 16  # of a hash, in hexadecimal: 64 bits, far from collisions among a project's rows
_HITS = ["dataset", "mechanism", "epsilon", "attack", "drawn", "rewrites", "hits"]


@dataclass(frozen=True)
class Baseline:
    """An accepted audit.

    about: date, commit, round; `audit` (what must agree for a comparison) and `sources` (`sources.current`).
    """

    about: dict[str, Any]
    measured: dict[Row, Measured]

    def check(self, params: Params) -> None:
        """Raise UserError where the audit differs in alpha, the number of candidates, attacks or their settings."""
        before, now = self.about["audit"], _audit(params)
        for key, rule in (("alpha", "alpha"), ("candidates", "k candidates"), ("attacks", "attacks")):
            if before.get(key) != now[key]:
                raise UserError(
                    f"the baseline was accepted with {rule} {_named(before.get(key))}, params.yaml says "
                    f"{_named(now[key])}; verdicts compare like with like: audit, then accept a new baseline ({ACCEPT})"
                )


def measure(params: Params, folder: Path = Path(".")) -> dict[Row, Measured]:
    """The current audit in a folder: every cell, epsilon and attack, without the choice of the strongest."""
    audit: dict[Row, Measured] = {}
    estimates = _estimates(params, folder)
    draws = {dataset: trial_set(params, dataset, folder) for dataset in params.datasets}
    for name, cell in params.cells.items():
        trials, target = draws[cell.dataset]
        guesses = tables.read(folder / f"data/guesses/{name}.parquet", GUESSES)
        stale = UserError(f"the audit of {name} is not that of params.yaml; bring it up to date (dvc repro)")
        if set(guesses["epsilon"].unique()) != {stored(epsilon) for epsilon in cell.budgets}:
            raise stale
        for (epsilon, attack), part in guesses.group_by("epsilon", "attack", maintain_order=True):
            hits = part.sort("trial")["guess"].to_numpy() == target
            number = None if epsilon is None else float(str(epsilon))
            row = Row(cell.dataset, cell.mechanism, number, str(attack))
            if row not in estimates or estimates[row].successes != hits.sum():
                raise stale
            audit[row] = Measured(hits, trials, _hash(folder / rewrites_path(name, number)), estimates[row])
    for name, anonymised in params.anonymity.items():
        if anonymised.part == "test":
            audit |= _attribute_losses(params, name, folder)
    return audit


def _attribute_losses(params: Params, name: str, folder: Path) -> dict[Row, Measured]:
    """Every attacker of a cell under `anonymity` who reads what is released, without the choice of the strongest.

    Trials depend on the prepared texts, the seed and which of them are tested on (`utility.attribute_loss`).
    """
    cell, audit = params.anonymity[name], {}
    attackers = tables.read(folder / anonymity_path(name, "attackers"), ATTACKERS)
    if set(attackers["epsilon"].unique()) != {stored(epsilon) for epsilon in cell.budgets}:
        raise UserError(f"the attackers of {name} are not those of params.yaml; bring them up to date (dvc repro)")
    chosen = [params.audit.seed, params.classification.texts.model_dump()]
    texts = _hash(folder / f"data/prepared/{cell.dataset}.parquet", json.dumps(chosen))
    for one in attackers.filter(~pl.col("attacker").is_in([CLEAN, STRONGEST])).iter_rows(named=True):
        read = f", {one['texts_each']} texts" if one["attacker"] == AUTHOR else ""
        attack = f"{one['label']} {one['attacker']} ({one['kind']} {one['seed']}{read})"
        losses = estimate(one["successes"], one["trials"], one["classes"], params.audit.alpha)
        row = Row(cell.dataset, cell.mechanism, one["epsilon"], attack)
        rewrites = _hash(folder / anonymized_path(name, one["epsilon"]))
        audit[row] = Measured(np.array(one["hits"], bool), texts, rewrites, losses)
    return audit


def _hash(path: Path, more: str = "") -> str:
    return hashlib.sha256(path.read_bytes() + more.encode()).hexdigest()[:_DIGITS]


def _estimates(params: Params, folder: Path) -> dict[Row, Estimate]:
    """The estimates of an audit, by row."""
    names = ["successes", "trials", "candidates", "loss", "point", "upper", "ceiling"]
    table = tables.read(folder / "data/estimates.parquet", ESTIMATES).filter(~pl.col("attack").is_in(CHOSEN))
    return {
        Row(*(row[name] for name in Row._fields)): Estimate(
            alpha=params.audit.alpha, delta=0.0, prior=None, **{n: row[n] for n in names}
        )
        for row in table.iter_rows(named=True)
    }


def accept(params: Params, sources: Mapping[str, Record], commit: str, folder: Path = Path(".")) -> Baseline:
    """Make the current audit in a folder the baseline."""
    about = {
        "accepted": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit,
        "round": params.audit.round,
        "audit": _audit(params),
        "sources": dict(sources),
    }
    new = Baseline(about, measure(params, folder))
    numbers, hits = [], []
    for row, one in sorted(new.measured.items()):
        e = one.estimate
        losses = [f"{value:.{_DECIMALS}f}" for value in (e.loss, e.point, e.upper)]
        numbers.append([*row, e.trials, e.successes, *losses, f"{e.delta:.12g}", e.candidates])
        hits.append([*row, one.trial_set, one.rewrites, base64.b64encode(np.packbits(one.hits).tobytes()).decode()])
    tables.write_text(_csv(_ESTIMATES, numbers), folder / FOLDER / "estimates.csv")
    tables.write_text(_csv(_HITS, hits), folder / FOLDER / "hits.csv")
    tables.write_json(about, folder / FOLDER / "about.json")
    return new


def read(folder: Path = Path(".")) -> Baseline:
    """The accepted baseline of a folder.

    Raises UserError where there is none, and where its files are damaged or contradict each other.
    """
    place = folder / FOLDER
    if not (place / "about.json").is_file():
        raise UserError(f"there is no baseline in {place} yet; accept the current audit as one ({ACCEPT})")
    try:
        about = json_text.load((place / "about.json").read_bytes())
        audit, _ = about["audit"], (about["accepted"], about["sources"].items())
        numbers = {_row(row): row for row in _rows(place / "estimates.csv", *_WRITTEN)}
        hits = {_row(row): row for row in _rows(place / "hits.csv", _HITS)}
        if numbers.keys() != hits.keys():
            raise ValueError("estimates.csv and hits.csv do not have the same rows")
        measured = {row: _measured(of, hits[row], audit) for row, of in numbers.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, csv.Error, binascii.Error) as error:
        raise UserError(
            f"the baseline in {place} is damaged ({error}); restore it from git (git checkout -- {place}), or accept "
            f"a new one ({ACCEPT})"
        ) from error
    return Baseline(about, measured)


def _audit(params: Params) -> dict[str, Any]:
    attacks = {name: json.loads(json.dumps(dict(settings))) for name, settings in params.attacks.items()}
    return {"alpha": params.audit.alpha, "candidates": params.trials.candidates, "attacks": attacks}


def _named(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {given}" if given else key for key, given in value.items()) or "none"
    return str(value)


def trial_set(params: Params, dataset: str, folder: Path = Path(".")) -> tuple[str, NDArray[np.int16]]:
    """The hash of a data set's trials (the texts' ids, which are hashes of their texts, and the targets); targets."""
    texts = tables.read(folder / f"data/prepared/{dataset}.parquet", PREPARED)
    ids = texts.filter(pl.col("split") == params.datasets[dataset].use)["id"]
    trials = tables.read(folder / f"data/trials/{dataset}.parquet", TRIALS)
    digest = hashlib.sha256("\n".join(ids.gather(trials["candidates"].explode())).encode())
    target = trials["target"].to_numpy()
    digest.update(target.tobytes())
    return digest.hexdigest()[:_DIGITS], target


def _csv(header: list[str], rows: list[list[Any]]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([header, *rows])
    return written.getvalue()


def _rows(path: Path, *headers: list[str]) -> list[dict[str, str]]:
    """The rows of a file with columns of one of these versions, the latest last."""
    first, *lines = csv.reader(io.StringIO(path.read_text(encoding="utf-8")), strict=True)
    if first not in headers:
        raise ValueError(f"{path.name} must have the columns {', '.join(headers[-1])}")
    rows = [dict(zip(first, line, strict=True)) for line in lines]
    if len({_row(row) for row in rows}) < len(rows):
        raise ValueError(f"{path.name} has a row twice")
    return rows


def _row(row: dict[str, str]) -> Row:
    return Row(row["dataset"], row["mechanism"], float(row["epsilon"]) if row["epsilon"] else None, row["attack"])


def _measured(numbers: dict[str, str], hits: dict[str, str], audit: dict[str, Any]) -> Measured:
    """A row of both files; ValueError where they contradict each other."""
    trials, successes = int(numbers["trials"]), int(numbers["successes"])
    packed = np.frombuffer(base64.b64decode(hits["hits"], validate=True), np.uint8)
    bits = np.unpackbits(packed).astype(bool)
    candidates, alpha = int(numbers.get("candidates", audit["candidates"])), float(audit["alpha"])
    written = estimate(successes, trials, candidates, alpha, delta=float(numbers.get("delta", 0)))
    if len(packed) != -(-trials // 8) or bits[:trials].sum() != successes or bits[trials:].any():
        raise ValueError(f"hits.csv does not hold the {successes} successes of {_row(numbers)}")
    if not math.isclose(written.loss, float(numbers["loss"]), abs_tol=_TOLERANCE):
        raise ValueError(f"the loss of {_row(numbers)} is not that of its successes")
    return Measured(bits[:trials], hits["drawn"], hits["rewrites"], estimate(successes, trials, candidates, alpha))
