"""Stage auxiliaries@name: the classifiers that anonymisers query, trained on texts reserved for them."""

from __future__ import annotations

from pathlib import Path

from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Plan, make, read_relations
from epsilometer.project.paths import prepared
from epsilometer.studies.anonymity.params import read as read_params
from epsilometer.studies.anonymity.parts import auxiliary_texts
from epsilometer.studies.anonymity.victims import fine_tuning
from epsilometer.text.vectors import WordVectors


def main(name: str) -> None:
    """Write data/auxiliaries/<name>."""
    params = read_params()
    entry = params.auxiliaries[name]
    texts, held_out = auxiliary_texts(params, name, prepared(entry.dataset))
    make(
        Path(f"data/auxiliaries/{name}"),
        texts,
        Plan(
            entry.dataset,
            entry.attributes,
            entry.tasks,
            entry.kinds,
            training=fine_tuning(params, entry.training),
            seed=params.audit.seed,
        ),
        WordVectors.load(f"data/vectors/{entry.vectors}.npz"),
        held_out=held_out if entry.training.epochs > 1 else None,
        relations=None if entry.relations is None else read_relations(params.path(entry.relations)),
    )
