"""Stage prepare@dataset: texts with stable ids, labels and word counts, from wherever they come."""

from __future__ import annotations

from epsilometer.core import tables
from epsilometer.corpora.files import Layout
from epsilometer.corpora.reading import PREPARED, Asked, prepare, read
from epsilometer.project.params import read as read_params


def main(name: str) -> None:
    """Write data/prepared/<name>.parquet and, beside it, what was dropped."""
    params = read_params()
    dataset = params.datasets[name]
    raw = read(
        params.path(dataset.source),
        text=dataset.text,
        labels=dataset.labels,
        split=dataset.split,
        rows=dataset.rows,
        layout=Layout(**dataset.layout.model_dump()),
        asked=Asked(params.audit.seed, dataset.count, dataset.part),
    )
    corpus = prepare(raw, dataset.labels)
    tables.write(corpus.table, f"data/prepared/{name}.parquet", PREPARED)
    tables.write_json(corpus.counts, f"data/prepared/{name}.json")
