"""Stage anonymity@cell: how well a cell's rewrites hide attributes, and what attackers still infer.

A cell of validation texts has only static attackers, because nothing is trained on validation texts.
"""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.attributes.tables import ANONYMITY, ATTACKERS
from epsilometer.core import tables
from epsilometer.core.guarantees import stored
from epsilometer.runtime.progress import track
from epsilometer.studies.anonymity.cells import Rows, check_learned_from_others, measured_rows
from epsilometer.studies.anonymity.labelled import TRAIN
from epsilometer.studies.anonymity.params import read as read_params
from epsilometer.studies.anonymity.parts import parted
from epsilometer.studies.anonymity.tables import (
    ANONYMIZED,
    BY_LENGTH,
    OUTCOMES,
    QUALITY,
    anonymity_path,
    anonymized_path,
)

SCHEMAS = {
    "anonymity": ANONYMITY,
    "by_length": BY_LENGTH,
    "quality": QUALITY,
    "outcomes": OUTCOMES,
    "attackers": ATTACKERS,
}


def main(name: str) -> None:
    """Write the tables of `SCHEMAS` to data/anonymity/<cell>."""
    params = read_params()
    cell = params.anonymity[name]
    table = parted(params, cell.dataset).with_row_index("row")
    measured: Rows = {what: [] for what in SCHEMAS}
    for epsilon in track(cell.budgets, len(cell.budgets), "anonymity"):
        rewrites = tables.read(anonymized_path(name, epsilon), ANONYMIZED)
        test, training = (
            table.with_columns(pl.col("row").cast(pl.Int64)).join(part.rename({"text": "rewrite"}), on="row")
            for part in (rewrites.filter(split=cell.part), rewrites.filter(split=TRAIN))
        )
        check_learned_from_others(cell.dataset, cell.resource, test["id"].to_list())
        named = {"dataset": cell.dataset, "mechanism": cell.mechanism, "epsilon": stored(epsilon)}
        for what, rows in measured_rows(params, name, epsilon, test=test, training=training).items():
            measured[what] += [named | row for row in rows]
    for what, schema in SCHEMAS.items():
        tables.write(pl.DataFrame(measured[what], schema=dict(schema)), anonymity_path(name, what), schema)
