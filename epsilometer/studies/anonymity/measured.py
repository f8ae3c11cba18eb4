"""The attackers' results on a cell, as rows that a baseline stores and a re-audit compares."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl

from epsilometer.auditing.attributes.attackers import AUTHOR, CLEAN
from epsilometer.auditing.attributes.tables import ATTACKERS
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import stored
from epsilometer.reaudit.drift import Measured, Row
from epsilometer.reaudit.hashes import short_hash
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.tables import anonymity_path, anonymized_path


def measure(params: AnonymityParams, folder: Path = Path(".")) -> dict[Row, Measured]:
    """Return the results of every attacker on the rewrites of test texts, over all cells under `anonymity`.

    The rows "strongest", which choose among attackers, and the rows on clean texts are left out.
    """
    audit: dict[Row, Measured] = {}
    for name, cell in params.anonymity.items():
        if cell.part == "test":
            audit |= attribute_losses(params, name, folder)
    return audit


def attribute_losses(params: AnonymityParams, name: str, folder: Path) -> dict[Row, Measured]:
    """Return the results of every attacker on the rewrites of a cell under `anonymity`, as in `measure`.

    Two results have the same trials if they have the same prepared texts, seed and numbers of texts.
    Raises UserError if the attackers in `folder` have other epsilons than the cell.
    """
    cell = params.anonymity[name]
    audit: dict[Row, Measured] = {}
    attackers = tables.read(folder / anonymity_path(name, "attackers"), ATTACKERS)
    if set(attackers["epsilon"].unique()) != {stored(epsilon) for epsilon in cell.budgets}:
        raise UserError(
            f"the attackers of {name} have other epsilons than params.yaml; bring them up to date (dvc repro)",
            "EPS-S019",
        )
    chosen = [params.audit.seed, params.classification.texts.model_dump()]
    texts = short_hash(folder / f"data/prepared/{cell.dataset}.parquet", json.dumps(chosen))
    for attacker_row in attackers.filter(~pl.col("attacker").is_in([CLEAN, STRONGEST])).iter_rows(named=True):
        read = f", {attacker_row['texts_each']} texts" if attacker_row["attacker"] == AUTHOR else ""
        attack = (
            f"{attacker_row['label']} {attacker_row['attacker']} ({attacker_row['kind']} {attacker_row['seed']}{read})"
        )
        losses = estimate(
            attacker_row["successes"], attacker_row["trials"], attacker_row["classes"], params.audit.alpha
        )
        row = Row(cell.dataset, cell.mechanism, attacker_row["epsilon"], attack)
        rewrites = short_hash(folder / anonymized_path(name, attacker_row["epsilon"]))
        audit[row] = Measured(np.array(attacker_row["hits"], bool), texts, rewrites, losses)
    return audit
