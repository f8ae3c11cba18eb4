"""Stage prepare@dataset: texts with stable ids, labels and word counts, from wherever they come."""

from __future__ import annotations

from epsilometer.core import tables
from epsilometer.corpora.reading import PREPARED
from epsilometer.project.corpora import corpus
from epsilometer.project.params import ProjectParams, read


def main(name: str) -> None:
    """Write data/prepared/<name>.parquet and, beside it, what was dropped."""
    prepared = corpus(read(ProjectParams), name)
    tables.write(prepared.table, f"data/prepared/{name}.parquet", PREPARED)
    tables.write_json(prepared.counts, f"data/prepared/{name}.json")
