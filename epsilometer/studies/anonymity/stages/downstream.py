"""Stage downstream@cell: what classifiers learn and infer from a cell's rewritten texts.

For every label, a classifier (for numbers, a regression) is trained on rewritten texts. The classifier is tested on
clean texts, as in TeDA, and on rewritten texts, as in 1-Diffractor for tasks. A classifier of an attribute is the
adaptive attacker. The static attacker is trained on clean texts (1-Diffractor) and tested on rewritten texts, because
an attacker sees the releases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from epsilometer.auditing.schemas import DOWNSTREAM
from epsilometer.core import tables
from epsilometer.models.classifier import Examples, Text
from epsilometer.models.classifiers.by_kind import load
from epsilometer.models.classifiers.pairs import single
from epsilometer.runtime.progress import track
from epsilometer.studies.anonymity.classification import Tried, guesses, kinds, learnt, rows
from epsilometer.studies.anonymity.labelled import TEST, TRAIN, examples
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.params import read as read_params
from epsilometer.studies.anonymity.tables import PRIVATIZED, classifier_path, privatized_path
from epsilometer.studies.anonymity.victims import ATTRIBUTE, NUMBER, chosen, roles, seeds


def main(name: str) -> None:
    """Write data/downstream/<cell>.parquet."""
    params = read_params()
    cell = params.downstream[name]
    numbers = [(label, NUMBER) for label in params.classification.labels[cell.dataset].numbers]
    named = [
        {"label": label, "role": role, "kind": kind}
        for label, role in (*roles(params, cell.dataset), *numbers)
        for kind in kinds(params, role)
    ]
    runs = [(epsilon, classifier) for epsilon in cell.budgets for classifier in named]
    lines = [line for run in track(runs, len(runs), "downstream") for line in _rows(params, name, *run)]
    table = pl.DataFrame(lines, schema=dict(DOWNSTREAM))
    tables.write(table, f"data/downstream/{name}.parquet", DOWNSTREAM)


def _rows(params: AnonymityParams, name: str, epsilon: float, classifier: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield a row per setting and seed, for one kind of classifier of one label at one epsilon.

    classifier: its label, role and kind.
    """
    cell, label = params.downstream[name], classifier["label"]
    named = {"dataset": cell.dataset, "mechanism": cell.mechanism, "epsilon": epsilon, **classifier}
    rewrites = tables.read(privatized_path(name, epsilon), PRIVATIZED)
    of_label = chosen(params, cell.dataset, label)
    clean = examples(of_label, label, TEST, sides=params.datasets[cell.dataset].sides)
    tried: dict[str, list[Tried]] = {}
    for seed in range(params.classification.training.seeds):
        texts = _texts(rewrites.filter(seed=seed))
        train, test = (examples(of_label, label, split, texts) for split in (TRAIN, TEST))
        guess, empty = learnt(params, named, train, seed), _empty(train) + _empty(test)
        attacks = classifier["role"] == ATTRIBUTE
        tried.setdefault("private", []).append(Tried(guess(clean.texts), _empty(train)))
        tried.setdefault("adaptive" if attacks else "rewritten", []).append(Tried(guess(test.texts), empty))
        if not attacks:
            continue
        victim = min(seed, seeds(params, classifier["kind"]) - 1)
        static = load(classifier_path(cell.dataset, label, classifier["kind"], victim))
        tried.setdefault("static", []).append(Tried(guesses(static, test.texts), _empty(test)))
    for setting, runs in tried.items():
        yield from rows({**named, "setting": setting}, train, clean, runs, params=params)


def _texts(rewrites: pl.DataFrame) -> dict[int, Text]:
    """Return the rewrites of one seed by row number; a pair's rewrite is a tuple of both sides."""
    first, second = (rewrites.filter(side=side).sort("row") for side in (0, 1))
    if second.is_empty():
        return dict(first.select("row", "text").iter_rows())
    return dict(zip(first["row"], zip(first["text"], second["text"], strict=True), strict=True))


def _empty(examples: Examples) -> int:
    return sum(not all(side.strip() for side in single([text])) for text in examples.texts)
