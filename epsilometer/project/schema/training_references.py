"""What entries of params.yaml on training name: features, cells and models, all of which must exist."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from epsilometer.core.errors import UserError, unknown
from epsilometer.project.schema.training_sections import HEAD

if TYPE_CHECKING:
    from epsilometer.project.params import Params


def check_trainings(params: Params) -> None:
    """Raises UserError for an entry on training that names what does not exist."""
    for name, entry in params.features.items():
        _check_dataset(params, entry.dataset, f"features.{name}")
        _check_model(params, entry.model, f"features.{name}.model")
    for name, cell in params.private_training.items():
        _check_named(params, "features", cell.features, f"private_training.{name}.features")
        _check_label(params, params.features[cell.features].dataset, cell.label, f"private_training.{name}")
        wanted = "states" if cell.trains == HEAD else "tokens"
        if (what := params.features[cell.features].what) != wanted:
            trained = "a head" if cell.trains == HEAD else "what is no head"
            raise UserError(
                f"private_training.{name}: {trained} is trained on features of {wanted}, and {cell.features!r} has "
                f"{what}; name features with what: {wanted}"
            )
    for name, reference in params.references.items():
        _check_named(params, "private_training", reference.training, f"references.{name}.training")
        _check_head(params, reference.training, f"references.{name}.training")
        levels = params.private_training[reference.training].steps
        if reference.level is not None and reference.level not in levels:
            raise unknown(f"level in references.{name}.level", reference.level, map(str, levels))
        _check_same_features(params, reference.training, reference.features, f"references.{name}")
    for name, membership in params.membership.items():
        _check_named(params, "private_training", membership.training, f"membership.{name}.training")
        _check_head(params, membership.training, f"membership.{name}.training")
        _check_named(params, "references", membership.references, f"membership.{name}.references")
        _check_same_features(params, membership.training, membership.features, f"membership.{name}")
        _check_same_texts(params, membership.training, params.references[membership.references].training, name)
    for name, run in params.one_run.items():
        _check_named(params, "private_training", run.training, f"one_run.{name}.training")
        _check_head(params, run.training, f"one_run.{name}.training")
        if run.features != (own := params.private_training[run.training].features):
            raise UserError(f"one_run.{name}.features must be those of {run.training}, {own!r}, got {run.features!r}")
        if run.noise.parts and run.kind == "gradient":
            raise UserError(
                f"one_run.{name}: gradient canaries lie along axes of one tensor, and the noise draws for each tensor; "
                "take kind: mislabelled"
            )
    for name, sent in params.sent.items():
        _check_dataset(params, sent.dataset, f"sent.{name}")
        _check_label(params, sent.dataset, sent.label, f"sent.{name}")
        _check_model(params, sent.model, f"sent.{name}.model")
    for name, reconstruction in params.reconstruction.items():
        _check_named(params, "sent", reconstruction.sent, f"reconstruction.{name}.sent")


def _check_named(params: Params, section: str, name: str, place: str) -> None:
    if name not in getattr(params, section):
        raise unknown(f"entry of {section} in {place}", name, getattr(params, section))


def _check_head(params: Params, cell: str, place: str) -> None:
    """References are heads, side by side, and canaries go through heads."""
    if params.private_training[cell].trains != HEAD:
        raise UserError(f"{place} must be a cell with trains: head, got {cell!r}, which trains more; name one")


def _check_same_features(params: Params, cell: str, features: str, place: str) -> None:
    """DVC sees that an entry reads features by the entry alone, so it names those of its cell once more."""
    own = params.private_training[cell].features
    if features != own:
        raise UserError(f"{place}.features must be those of {cell}, {own!r}, got {features!r}")


def _check_same_texts(params: Params, target: str, imitated: str, name: str) -> None:
    """References know who is asked about by the training texts of the cell that they imitate."""
    one, other = params.private_training[target], params.private_training[imitated]
    for field in ("features", "label", "texts", "balance"):
        if getattr(one, field) != getattr(other, field):
            raise UserError(
                f"membership.{name}.references: they imitate {imitated}, whose {field} is {getattr(other, field)!r}, "
                f"and {target} has {getattr(one, field)!r}; name references of a cell with the same training texts"
            )


def _check_dataset(params: Params, dataset: str, place: str) -> None:
    if dataset not in params.datasets:
        raise unknown(f"data set in {place}.dataset", dataset, params.datasets)


def _check_label(params: Params, dataset: str, label: str, place: str) -> None:
    if label not in params.datasets[dataset].labels:
        raise unknown(f"label in {place}.label", label, params.datasets[dataset].labels)


def _check_model(params: Params, model: str, place: str) -> None:
    """A stage depends on the model by this path, so that it must be one that stage `model` makes."""
    path = PurePath(model)
    if path.parent != PurePath("data/models"):
        raise UserError(f"{place} must be data/models/NAME, with NAME under `models`, got {model!r}")
    if path.name not in params.models:
        raise unknown(f"model in {place}", path.name, params.models)
