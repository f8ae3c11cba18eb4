"""The leaderboard's part of params.yaml: data sets, mechanisms and losses. Each combination of them is a cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, PositiveInt, model_validator

from epsilometer.core.errors import UserError
from epsilometer.project import params
from epsilometer.project.params import ProjectParams
from epsilometer.project.references import check_dataset, check_entry, check_label
from epsilometer.project.sections import Cell, MechanismEntry, Number, Section
from epsilometer.studies.leaderboard.tables import SPLITS, TEST, TRAIN, public_path, texts_path

_PLACES = {"public": public_path, "texts": texts_path}  # resources that belong to each data set

Loss = Annotated[float, Field(gt=0, le=20)]


class LeaderboardDataset(Section):
    """The labels of a data set, and the division of its texts outside the public part."""

    task: str = Field(description="The label that a classifier learns.")
    attribute: str | None = Field(None, description="The private label that an attacker infers.")
    texts: Annotated[int, Field(ge=20)] = Field(
        1000, description="Number of texts of each split that are rewritten, and that classifiers learn from."
    )
    tested: PositiveInt = Field(500, description="Number of clean texts of each split that classifiers are tested on.")
    sets: PositiveInt = Field(40, description="Number of sets of ten texts that are sampled from each split.")


class LeaderboardMechanism(Section):
    """A mechanism of the leaderboard. Its key in params.yaml is its name."""

    file: str | None = Field(
        None, description="The Python file of your own mechanism, relative to the project's folder."
    )
    resource: str | None = Field(
        None,
        description="The file or folder that the mechanism reads. `public` is a data set's public part, `texts` are "
        "the texts to rewrite.",
    )
    epsilons: Annotated[tuple[Number, ...], Field(min_length=2, max_length=2)] = Field(
        description="The smallest and the largest budget to search."
    )
    settings: Mapping[str, Any] = Field({}, description="Settings of the mechanism, by name.")


class LeaderboardCell(Cell):
    """A mechanism on a data set at a loss. `epsilons` are the smallest and the largest budget to search."""

    loss: Loss = Field(description="The average loss in nats for which budgets are searched.")


class Leaderboard(Section):
    """The settings of the comparison. Every combination of loss, data set and mechanism is a cell."""

    losses: tuple[Loss, ...] = Field((1.0, 0.5, 2.0, 4.0), description="Average losses in nats, in the order of runs.")
    datasets: Mapping[str, LeaderboardDataset] = Field({}, description="The data sets, by their names in `datasets`.")
    mechanisms: Mapping[str, LeaderboardMechanism] = Field({}, description="The mechanisms, by name.")

    @model_validator(mode="after")
    def _whole(self) -> Leaderboard:
        if bool(self.datasets) != bool(self.mechanisms):
            raise ValueError("data sets or mechanisms are missing; name both, or leave out the leaderboard")
        if self.datasets and not self.losses:
            raise ValueError("losses must contain at least one loss in nats")
        if len({*self.losses}) < len(self.losses):
            raise ValueError("losses contains a loss twice; name each loss once")
        return self


def cell_name(dataset: str, mechanism: str, loss: float) -> str:
    """Return the name of a cell, such as `snips-tem-0_5`. Points become underscores: DVC would split a key at them."""
    return f"{dataset}-{mechanism}-{loss:g}".replace(".", "_")


def spelled_out(board: Leaderboard) -> dict[str, LeaderboardCell]:
    """Return the cells by name, in the order in which they run: by data set, then by loss."""
    return {
        cell_name(dataset, name, loss): LeaderboardCell(
            dataset=dataset,
            mechanism=name,
            file=entry.file,
            resource=_PLACES[entry.resource](dataset) if entry.resource in _PLACES else entry.resource,
            epsilons=entry.epsilons,
            settings=entry.settings,
            loss=loss,
        )
        for dataset in board.datasets
        for loss in board.losses
        for name, entry in board.mechanisms.items()
    }


class LeaderboardParams(ProjectParams):
    """The params.yaml of the leaderboard."""

    leaderboard: Leaderboard = Field(Leaderboard(), description="The worth of mechanisms at equal loss.")
    leaderboard_cells: Mapping[str, LeaderboardCell] = Field(
        default_factory=lambda data: spelled_out(data.get("leaderboard", Leaderboard())),
        description="The cells of `leaderboard`. Leave them out: they are derived from it.",
    )

    def check(self) -> None:
        """Check the settings as `ProjectParams.check` does, then the leaderboard's data sets, labels and budgets."""
        super().check()
        for dataset, entry in self.leaderboard.datasets.items():
            place = f"leaderboard.datasets.{dataset}"
            check_dataset(self.datasets, dataset, place)
            if self.datasets[dataset].public_part is None:
                raise UserError(
                    f"{place}: the data set has no public part, which mechanisms and learners need; set "
                    f"datasets.{dataset}.public_part",
                    "EPS-S050",
                )
            check_label(self.datasets, dataset, entry.task, f"{place}.task")
            if entry.attribute is not None:
                check_label(self.datasets, dataset, entry.attribute, f"{place}.attribute")
        for name, mechanism in self.leaderboard.mechanisms.items():
            low, high = mechanism.epsilons
            place = f"leaderboard.mechanisms.{name}"
            if not low < high:
                raise UserError(
                    f"{place}.epsilons must be the smallest and the largest budget to search, got {low}, {high}",
                    "EPS-S051",
                )
            check_entry(MechanismEntry(mechanism=name, file=mechanism.file, epsilons=mechanism.epsilons), place)

    def studied(self) -> Iterator[tuple[str, bool]]:
        """Yield the sections as `ProjectParams.studied` does, with `leaderboard` first."""
        yield "leaderboard", bool(self.leaderboard_cells)
        yield from super().studied()

    def mechanisms_shown(self) -> Iterator[str]:
        """Yield the mechanisms of `ProjectParams.mechanisms_shown`, then those of the leaderboard."""
        yield from super().mechanisms_shown()
        yield from (cell.mechanism for cell in self.leaderboard_cells.values())

    def resources(self) -> Iterator[str]:
        """Yield the paths of `ProjectParams.resources`, then the public parts and texts of the leaderboard."""
        yield from super().resources()
        yield from (place(dataset) for place in _PLACES.values() for dataset in self.leaderboard.datasets)

    def datasets_studied(self) -> Iterator[str]:
        """Yield the data sets of `ProjectParams.datasets_studied`, then those of the leaderboard."""
        yield from super().datasets_studied()
        yield from self.leaderboard.datasets

    def parts(self, dataset: str) -> dict[str, int]:
        """Return the numbers of texts of a data set in the parts TRAIN and TEST, over all splits."""
        entry = self.leaderboard.datasets[dataset]
        return {TRAIN: SPLITS * entry.texts, TEST: SPLITS * entry.tested}


def read(path: str = "params.yaml") -> LeaderboardParams:
    """Read the parameters of this study from a file with `project.params.read`."""
    return params.read(LeaderboardParams, path)
