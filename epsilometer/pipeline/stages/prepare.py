"""Stage prepare@dataset: texts from all kinds of sources, with stable ids, labels and word counts."""

from __future__ import annotations

from epsilometer.core import tables
from epsilometer.corpora.reading import PREPARED
from epsilometer.pipeline.params import read as read_params
from epsilometer.project.corpora import corpus


def main(name: str) -> None:
    """Write data/prepared/<name>.parquet, and <name>.json with counts of the texts that were left out."""
    prepared = corpus(read_params(), name)
    tables.write(prepared.table, f"data/prepared/{name}.parquet", PREPARED)
    tables.write_json(prepared.counts, f"data/prepared/{name}.json")
