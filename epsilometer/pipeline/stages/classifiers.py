"""Stage classifiers: classifiers of every label asked for, trained on clean texts, and the majority baseline.

Classifiers of attributes are saved: they are the static attackers.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from epsilometer.core import tables
from epsilometer.pipeline.stages.shared.classification import (
    ATTRIBUTE,
    Tried,
    chosen,
    clean_classifier,
    roles,
    rows,
    trained,
)
from epsilometer.project.params import read
from epsilometer.runtime.progress import track
from epsilometer.utility.downstream import majority
from epsilometer.utility.labelled import TEST, TRAIN, examples
from epsilometer.utility.schemas import DOWNSTREAM


def main() -> None:
    """Write data/downstream/clean.parquet, without rows unless labels are asked for, and data/classifiers."""
    params = read()
    asked = [(dataset, *role) for dataset in params.classification.labels for role in roles(params, dataset)]
    chosen_rows = {
        (dataset, label): chosen(params, dataset, label) for dataset, label, _ in asked
    }  # before a model loads
    scored: list[dict[str, Any]] = []
    for dataset, label, role in track(asked, len(asked), "classifiers"):
        train, test = (examples(chosen_rows[dataset, label], label, split) for split in (TRAIN, TEST))
        named = {"dataset": dataset, "label": label, "role": role}
        scored += rows({**named, "setting": "majority"}, train, test, [Tried(majority(train, test), 0)], params=params)
        tried = []
        for seed in range(params.classification.training.seeds):
            classifier = trained(params, dataset, label, train, classes=sorted({*train.labels}), seed=seed)
            if role == ATTRIBUTE:
                classifier.save(clean_classifier(dataset, label, seed))  # rounds the weights, so before scoring
            tried.append(Tried(classifier.predict(test.texts), 0))
        scored += rows({**named, "setting": "clean"}, train, test, tried, params=params)
    tables.write(pl.DataFrame(scored, schema=dict(DOWNSTREAM)), "data/downstream/clean.parquet", DOWNSTREAM)
    tables.write_json([list(name) for name in asked], "data/classifiers/asked.json")
