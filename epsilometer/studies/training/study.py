"""The study of private training, registered with the core through `STUDY` (see `core.study`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from epsilometer.core.study import AttackKind, ModelUse, Study

if TYPE_CHECKING:
    import polars as pl

    from epsilometer.auditing.conformance.rules import Check
    from epsilometer.studies.training.params import TrainingParams

TRAINED = 3  # operations of a training pass, relative to a forward pass


class Training(Study):
    """The study behind the sections `private_training`, `one_run`, `membership`, `sent` and `reconstruction`."""

    sections = ("epsilometer.studies.training.report.section",)
    groups = MappingProxyType({"training": "Account for, calibrate and audit a private training."})
    names = ("epsilometer.studies.training.one_run.scores:one_run",)

    def params(self) -> type[TrainingParams]:
        """Return the class of the study's settings: features, trainings, references, and attacks."""
        from epsilometer.studies.training.params import TrainingParams

        return TrainingParams

    def commands(self) -> Mapping[str, Callable[..., None]]:
        """Return the commands of the group `training`."""
        from epsilometer.studies.training.commands.account import account
        from epsilometer.studies.training.commands.calibrate import calibrate_training
        from epsilometer.studies.training.commands.canaries import canaries, one_run

        return {
            "training account": account,
            "training calibrate": calibrate_training,
            "training canaries": canaries,
            "training one-run": one_run,
        }

    def check(self, params: TrainingParams) -> None:
        """Build each attack. Raises UserError for settings, references or models that an attack cannot use."""
        if not (params.membership or params.reconstruction):
            return
        from epsilometer.studies.training import members, sending  # they load the libraries for training, which is slow

        for name, entry in params.membership.items():
            built = members.attacks(entry, f"membership.{name}")
            members.check_references(params.references[entry.references], built, f"membership.{name}")
            members.check_models(entry, built, f"membership.{name}")
        for name in params.searching:
            sending.searching(params, name)
        for name in params.choosing:
            sending.choosing(params, name)

    def check_texts(self, params: TrainingParams, dataset: str, table: pl.DataFrame) -> None:
        """Raise UserError if a data set has too few texts for a training. table: the prepared data set."""
        if not params.private_training:
            return
        from epsilometer.core.file_names import absent
        from epsilometer.studies.training import trainings  # loads the libraries for training

        for name, cell in params.private_training.items():
            if params.features[cell.features].dataset != dataset:
                continue
            place = f"private_training.{name}"
            for split in (trainings.TRAIN, cell.test):
                if split not in table["split"]:
                    raise absent(f"split of {dataset} in {place}", split, table["split"].unique())
            train = table.filter(split=trainings.TRAIN).with_row_index("row")
            trainings.check_training(trainings.chosen(train, cell, params.audit.seed), cell, place)
            tested = table.filter(split=cell.test).drop_nulls(cell.label)
            trainings.check_tested(tested, cell, sorted(train[cell.label].drop_nulls().unique()), place)

    def models(self, params: TrainingParams) -> Iterator[str]:
        """Yield the models that membership attacks use, except models made by a stage, which may not exist yet."""
        if params.membership:
            from epsilometer.studies.training.members import models

            yield from models(params)

    def uses(self, params: TrainingParams) -> Iterator[ModelUse]:
        """Yield the uses of models by features, and by trainings of more than a head.

        Features and trainings of cells without `texts` are left out, because their number of texts is unknown. A
        training counts TRAINED tokens for each token that it reads.
        """
        from epsilometer.studies.training.params import HEAD

        models = {f"data/models/{name}" for name in params.models}
        for name, entry in params.features.items():
            texts = [cell.texts for cell in params.private_training.values() if cell.features == name]
            if entry.what == "states" and entry.model in models and all(texts) and texts:  # ids need no model
                yield ModelUse(f"features {name}", entry.model, max(filter(None, texts)) * entry.length)
        for name, trained in params.private_training.items():
            entry = params.features[trained.features]
            if trained.trains != HEAD and trained.texts and entry.model in models:
                passes = trained.passes * trained.seeds * len(trained.steps)
                yield ModelUse(f"private_training {name}", entry.model, TRAINED * trained.texts * entry.length * passes)

    def components(self, kind: str, params: TrainingParams, entry: Any) -> Iterator[Path]:
        """Yield the files of an entry's code: its attacks, or the measures of reconstruction."""
        from epsilometer.core.component import file
        from epsilometer.studies.training.params import CANDIDATES, MEMBERSHIP, RECONSTRUCTION

        if kind == "membership attacks":
            yield from dict.fromkeys(file(MEMBERSHIP, module) for module, _ in entry.modules.values())
        elif kind == "reconstruction attacks":
            attacks = params.reconstruction[entry.entry].attacks
            yield from (file(RECONSTRUCTION, name) for name in attacks if name != CANDIDATES)
        elif kind == "measures of reconstruction":
            from epsilometer.studies.training.reconstruction import METRICS

            yield from (file("metrics", name) for name in METRICS)

    def attack_kinds(self) -> Sequence[AttackKind]:
        """Return the kinds of attacks of this study: membership attacks and reconstruction attacks."""
        from epsilometer.studies.training.params import MEMBERSHIP, RECONSTRUCTION

        return [
            AttackKind(MEMBERSHIP, "score", _check_membership),
            AttackKind(RECONSTRUCTION, "prepare", _check_reconstruction),
        ]


def _check_membership(attack: Any) -> list[Check]:
    from epsilometer.studies.training.conformance.membership import check_membership  # imports torch

    return check_membership(attack)


def _check_reconstruction(attack: Any) -> list[Check]:
    from epsilometer.models.locate import ENCODER
    from epsilometer.studies.training.conformance.reconstruction import check_reconstruction
    from epsilometer.studies.training.runs.shared_model import SharedModel

    return check_reconstruction(attack, SharedModel(ENCODER, longest=16))


STUDY = Training()
