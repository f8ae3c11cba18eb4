"""The number of tokens that the models of this study process, for predictions of run time."""

from __future__ import annotations

from collections.abc import Iterator

from epsilometer.core.study import ModelUse
from epsilometer.studies.training.params import HEAD, TrainingParams

TRAINED = 3  # operations of a training pass, relative to a forward pass


def uses(params: TrainingParams) -> Iterator[ModelUse]:
    """Yield the uses of models: for features, and for trainings of more than a head.

    Only cells with a setting `texts` count, because the number of texts of other cells is unknown. A training counts as
    the number of tokens whose forward passes take as long as the training.
    """
    for name, entry in params.features.items():
        texts = [cell.texts for cell in params.private_training.values() if cell.features == name]
        if entry.what == "states" and entry.model in _models(params) and all(texts) and texts:  # ids need no model
            yield ModelUse(f"features {name}", entry.model, max(filter(None, texts)) * entry.length)
    for name, trained in params.private_training.items():
        entry = params.features[trained.features]
        if trained.trains != HEAD and trained.texts and entry.model in _models(params):
            passes = trained.passes * trained.seeds * len(trained.steps)
            yield ModelUse(f"private_training {name}", entry.model, TRAINED * trained.texts * entry.length * passes)


def _models(params: TrainingParams) -> set[str]:
    return {f"data/models/{name}" for name in params.models}
