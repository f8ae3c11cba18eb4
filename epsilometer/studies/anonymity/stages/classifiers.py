"""Stage classifiers: classifiers of every requested label, trained on clean texts, and the majority baseline.

The classifiers are saved. Classifiers of attributes are victims and static attackers; classifiers of tasks measure the
utility of rewrites.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.schemas import DOWNSTREAM
from epsilometer.auditing.worth.scoring import majority
from epsilometer.core import tables
from epsilometer.runtime.progress import track
from epsilometer.studies.anonymity.classification import Tried, kinds, learnt, rows, train_all
from epsilometer.studies.anonymity.labelled import TEST, TRAIN, examples
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.params import read as read_params
from epsilometer.studies.anonymity.victims import NUMBER, check_divided, chosen, roles


def main() -> None:
    """Write data/downstream/clean.parquet and data/classifiers. The table is empty if no label is requested.

    Each data set has the folders data/classifiers/<dataset>/<label>-<kind>-<seed> and the file about.json. The file
    contains the roles, classes and test accuracies of the classifiers, and the ids of all texts on which
    they were trained or an epoch was selected. Regressions of numbers are scored but not saved.
    """
    params = read_params()
    roles_of = [(dataset, *role) for dataset in params.classification.labels for role in roles(params, dataset)]
    chosen_rows = {(dataset, label): chosen(params, dataset, label) for dataset, label, _ in roles_of}
    for (dataset, label), own in chosen_rows.items():  # raises before a model loads
        check_divided(params, label, examples(own, label, TRAIN, sides=params.datasets[dataset].sides))
    scored: list[dict[str, Any]] = []
    about: dict[str, dict[str, Any]] = {dataset: {} for dataset in params.classification.labels}
    for dataset, label, role in track(roles_of, len(roles_of), "classifiers"):
        own = chosen_rows[dataset, label]
        sides = params.datasets[dataset].sides
        training, test = (examples(own, label, split, sides=sides) for split in (TRAIN, TEST))
        tried = train_all(params, dataset, label, role, own=own)
        named = {"dataset": dataset, "label": label, "role": role}
        base = [Tried(majority(training, test), 0)]
        scored += rows({**named, "setting": "majority"}, training, test, base, params=params)
        for kind, guesses in tried.items():
            clean = [Tried(guess, 0) for guess in guesses]
            scored += rows({**named, "setting": "clean", "kind": kind}, training, test, clean, params=params)
        about[dataset][label] = _about(role, own, label, tried)
    for dataset, labels in about.items():
        seen = {row for label in labels for row in _seen(chosen_rows[dataset, label])}
        record = {"dataset": dataset, "kinds": params.classification.kinds, "labels": labels, "texts": sorted(seen)}
        tables.write_json(record, f"data/classifiers/{dataset}/about.json")
    for dataset, labels_of in params.classification.labels.items():
        scored += [row for label in labels_of.numbers for row in _of_number(params, dataset, label)]
    tables.write(pl.DataFrame(scored, schema=dict(DOWNSTREAM)), "data/downstream/clean.parquet", DOWNSTREAM)
    tables.write_json([list(name) for name in roles_of], "data/classifiers/asked.json")


def _of_number(params: AnonymityParams, dataset: str, label: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of regressions of a number, trained and tested on clean texts, one per kind."""
    own, sides = chosen(params, dataset, label), params.datasets[dataset].sides
    training, test = (examples(own, label, split, sides=sides) for split in (TRAIN, TEST))
    for kind in kinds(params, NUMBER):
        named = {"dataset": dataset, "label": label, "role": NUMBER, "setting": "clean", "kind": kind}
        tried = [Tried(learnt(params, named, training, seed=0)(test.texts), 0)]
        yield from rows(named, training, test, tried, params=params)


def _about(role: str, own: pl.DataFrame, label: str, tried: dict[str, list[NDArray[np.int64]]]) -> dict[str, Any]:
    classes = sorted({*own.filter(split=TRAIN)[label]})
    truth = np.array([classes.index(name) for name in own.filter(split=TEST)[label]])
    accuracy = {kind: [float(np.mean(guess == truth)) for guess in guesses] for kind, guesses in tried.items()}
    return {"role": role, "classes": classes, "accuracy": accuracy}


def _seen(own: pl.DataFrame) -> list[str]:
    """Return the ids of the texts on which classifiers were trained or an epoch was selected."""
    ids: list[str] = own.filter(split=TRAIN)["id"].to_list()
    return ids
