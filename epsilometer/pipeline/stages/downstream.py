"""Stage downstream@cell: what classifiers make of a cell's rewritten texts.

A task's is trained on rewritten texts and tested on clean ones; an attribute's attackers are tested on rewritten texts,
the static one trained on clean texts, the adaptive one on rewritten ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from epsilometer.core import tables
from epsilometer.pipeline.stages.shared.classification import (
    TASK,
    Tried,
    chosen,
    clean_classifier,
    fine_tuning,
    roles,
    rows,
    trained,
)
from epsilometer.project.params import Params
from epsilometer.project.params import read as read_params
from epsilometer.project.paths import privatized_path
from epsilometer.runtime.progress import track
from epsilometer.utility.downstream import Classifier
from epsilometer.utility.labelled import TEST, TRAIN, Examples, examples
from epsilometer.utility.schemas import DOWNSTREAM, PRIVATIZED


def main(name: str) -> None:
    """Write data/downstream/<cell>.parquet."""
    params = read_params()
    cell = params.downstream[name]
    asked = [(epsilon, *role) for epsilon in cell.budgets for role in roles(params, cell.dataset)]
    found = [line for one in track(asked, len(asked), "downstream") for line in _rows(params, name, *one)]
    table = pl.DataFrame(found, schema=dict(DOWNSTREAM))
    tables.write(table, f"data/downstream/{name}.parquet", DOWNSTREAM)


def _rows(params: Params, name: str, epsilon: float, label: str, role: str) -> Iterator[dict[str, Any]]:
    """Of one label at one epsilon, a row a setting and seed."""
    cell = params.downstream[name]
    rewrites = tables.read(privatized_path(name, epsilon), PRIVATIZED)
    found = chosen(params, cell.dataset, label)
    where = {"dataset": cell.dataset, "mechanism": cell.mechanism, "epsilon": epsilon, "label": label, "role": role}
    own, static = [], []
    for seed in range(params.classification.training.seeds):
        texts = dict(rewrites.filter(seed=seed).select("row", "text").iter_rows())
        train = examples(found, label, TRAIN, texts)
        test = examples(found, label, TEST, None if role == TASK else texts)
        clean = sorted({*train.labels})
        empty = _empty(test) if role != TASK else 0
        classifier = trained(params, cell.dataset, label, train, classes=clean, seed=seed)
        own.append(Tried(classifier.predict(test.texts), _empty(train) + empty))
        if role != TASK:
            classifier = Classifier(clean_classifier(cell.dataset, label, seed), clean, fine_tuning(params))
            static.append(Tried(classifier.predict(test.texts), empty))
    yield from rows({**where, "setting": "private" if role == TASK else "adaptive"}, train, test, own, params=params)
    if static:
        yield from rows({**where, "setting": "static"}, train, test, static, params=params)


def _empty(made: Examples) -> int:
    return sum(not text.strip() for text in made.texts)
