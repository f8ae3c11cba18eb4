"""Stage downstream@cell: what classifiers make of a cell's rewritten texts.

A task's is trained on rewritten texts and tested on clean ones; an attribute's attackers are tested on rewritten texts,
the static one trained on clean texts, the adaptive one on rewritten ones.

usage: python -m tasks.downstream CELL
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from epsilometer import tables
from epsilometer.params import Params
from epsilometer.params import read as read_params
from epsilometer.progress import track
from epsilometer.utility.downstream import Classifier
from epsilometer.utility.labelled import TEST, TRAIN, Examples, examples
from tasks.classification import TASK, chosen, clean_classifier, fine_tuning, roles, row, trained
from tasks.entry import run
from tasks.files import privatized_path


def main(name: str) -> None:
    """Write data/downstream/<cell>.parquet."""
    params = read_params()
    cell = params.downstream[name]
    asked = [(epsilon, *role) for epsilon in cell.epsilons for role in roles(params, cell.dataset)]
    rows = [line for one in track(asked, len(asked), "downstream") for line in _rows(params, name, *one)]
    table = pl.DataFrame(rows, schema=dict(tables.DOWNSTREAM))
    tables.write(table, f"data/downstream/{name}.parquet", tables.DOWNSTREAM)


def _rows(params: Params, name: str, epsilon: float, label: str, role: str) -> Iterator[dict[str, Any]]:
    """Of one label at one epsilon, a row a setting and seed."""
    cell = params.downstream[name]
    texts = dict(tables.read(privatized_path(name, epsilon), tables.PRIVATIZED).iter_rows())
    found = chosen(params, cell.dataset, label)
    train = examples(found, label, TRAIN, texts)
    test = examples(found, label, TEST, None if role == TASK else texts)
    clean = sorted({*train.labels})
    where = {"dataset": cell.dataset, "mechanism": cell.mechanism, "epsilon": epsilon, "label": label, "role": role}
    for seed in range(params.classification.training.seeds):
        named = {**where, "seed": seed}
        empty = _empty(test) if role != TASK else 0
        own = trained(params, cell.dataset, label, train, clean, seed).scores(test)
        setting = "private" if role == TASK else "adaptive"
        yield row({**named, "setting": setting}, train, test, _empty(train) + empty, own)
        if role != TASK:
            static = Classifier(clean_classifier(cell.dataset, label, seed), clean, fine_tuning(params)).scores(test)
            yield row({**named, "setting": "static"}, train, test, empty, static)


def _empty(made: Examples) -> int:
    return sum(not text.strip() for text in made.texts)


if __name__ == "__main__":
    run(main)
