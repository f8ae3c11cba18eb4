"""Stage downstream@cell: what classifiers learn and infer from a cell's rewritten texts.

The classifier of a task is trained on rewritten texts and tested on clean ones. The attackers of an attribute are
tested on rewritten texts: the static one is trained on clean texts, the adaptive one on rewritten texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from epsilometer.auditing.schemas import DOWNSTREAM
from epsilometer.core import tables
from epsilometer.models.classifier import TRANSFORMER, Examples
from epsilometer.models.classifiers.transformer import Transformer
from epsilometer.runtime.progress import track
from epsilometer.studies.anonymity.classification import Tried, rows, trained
from epsilometer.studies.anonymity.labelled import TEST, TRAIN, examples
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.params import read as read_params
from epsilometer.studies.anonymity.tables import PRIVATIZED, classifier_path, privatized_path
from epsilometer.studies.anonymity.victims import TASK, chosen, fine_tuning, roles


def main(name: str) -> None:
    """Write data/downstream/<cell>.parquet."""
    params = read_params()
    cell = params.downstream[name]
    runs = [(epsilon, *role) for epsilon in cell.budgets for role in roles(params, cell.dataset)]
    lines = [line for run in track(runs, len(runs), "downstream") for line in _rows(params, name, *run)]
    table = pl.DataFrame(lines, schema=dict(DOWNSTREAM))
    tables.write(table, f"data/downstream/{name}.parquet", DOWNSTREAM)


def _rows(params: AnonymityParams, name: str, epsilon: float, label: str, role: str) -> Iterator[dict[str, Any]]:
    """The rows of one label at one epsilon, one a setting and seed."""
    cell = params.downstream[name]
    rewrites = tables.read(privatized_path(name, epsilon), PRIVATIZED)
    chosen_rows = chosen(params, cell.dataset, label)
    cell_columns = {
        "dataset": cell.dataset,
        "mechanism": cell.mechanism,
        "epsilon": epsilon,
        "label": label,
        "role": role,
    }
    own, static = [], []
    for seed in range(params.classification.training.seeds):
        texts = dict(rewrites.filter(seed=seed).select("row", "text").iter_rows())
        train = examples(chosen_rows, label, TRAIN, texts)
        test = examples(chosen_rows, label, TEST, None if role == TASK else texts)
        clean = sorted({*train.labels})
        empty = _empty(test) if role != TASK else 0
        classifier = trained(params, cell.dataset, label, train, classes=clean, seed=seed)
        own.append(Tried(classifier.predict(test.texts), _empty(train) + empty))
        if role != TASK:
            folder = classifier_path(cell.dataset, label, TRANSFORMER, seed)
            classifier = Transformer(folder, clean, fine_tuning(params, params.classification.training))
            static.append(Tried(classifier.predict(test.texts), empty))
    yield from rows(
        {**cell_columns, "setting": "private" if role == TASK else "adaptive"}, train, test, own, params=params
    )
    if static:
        yield from rows({**cell_columns, "setting": "static"}, train, test, static, params=params)


def _empty(examples: Examples) -> int:
    return sum(not text.strip() for text in examples.texts)
