"""Stage prepare@dataset: texts with stable ids, labels and word counts, from wherever they come."""

from __future__ import annotations

from epsilometer.core import tables
from epsilometer.corpora.reading import PREPARED
from epsilometer.pipeline.params import read as read_params
from epsilometer.project.corpora import corpus


def main(name: str) -> None:
    """Write data/prepared/<name>.parquet and, beside it, what was dropped."""
    prepared = corpus(read_params(), name)
    tables.write(prepared.table, f"data/prepared/{name}.parquet", PREPARED)
    tables.write_json(prepared.counts, f"data/prepared/{name}.json")
