"""The texts, initial heads, schedules and noises of the cells of `private_training`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.accounting.schedule import Poisson, Schedule, Shuffled
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.file_names import absent, listed
from epsilometer.core.randomness import Noise
from epsilometer.studies.training.params import HEAD, Adapters, NoiseEntry, TrainingCell, TrainingParams
from epsilometer.studies.training.runs import features
from epsilometer.studies.training.runs.adapters import adapt
from epsilometer.studies.training.runs.general import network, trainable
from epsilometer.studies.training.runs.heads import Head, load_last_layers
from epsilometer.studies.training.runs.noise import DirectionalNoise, GaussianNoise, NoNoise, ScaledNoise
from epsilometer.studies.training.runs.private import Settings
from epsilometer.studies.training.tables import featured_path, features_path

if TYPE_CHECKING:
    from torch.nn import Module

FEATURED: tables.Schema = {"id": pl.String, "split": pl.String}  # and a column per label; rows ordered as features
TRAIN = "train"


@dataclass(frozen=True)
class LabelledTexts:
    """The texts of one split that have a label.

    rows:   [n], their row numbers in the split.
    states: [n, width], their features.
    labels: [n], the indices of their classes.
    """

    rows: NDArray[np.int64]
    states: NDArray[Any]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)


def classes(params: TrainingParams, name: str) -> list[str]:
    """Return the classes of a cell's label in the train split, sorted."""
    cell = params.private_training[name]
    return sorted(featured(cell.features, TRAIN)[cell.label].drop_nulls().unique())


def training_texts(params: TrainingParams, name: str) -> LabelledTexts:
    """Return the texts that a cell is trained on.

    Raises UserError for fewer texts than a batch, or for a single class.
    """
    return labelled(params, name, TRAIN, _trainingfeatured(params, name))


def training_count(params: TrainingParams, name: str) -> int:
    """Return the number N of texts that a cell is trained on. Raises UserError as `training_texts` does."""
    return len(_trainingfeatured(params, name))


def texts_tested_on(params: TrainingParams, name: str) -> LabelledTexts:
    """Return the texts that a cell is tested on.

    Raises UserError if there are no test texts, or if they have a class that no training text has.
    """
    cell = params.private_training[name]
    table = featured(cell.features, cell.test).drop_nulls(cell.label)
    check_tested(table, cell, classes(params, name), f"private_training.{name}")
    return labelled(params, name, cell.test, table)


def chosen(table: pl.DataFrame, cell: TrainingCell, seed: int) -> pl.DataFrame:
    """Return a random sample of the rows that have the cell's label, in the order of the table.

    The sample has at most `cell.texts` rows; with `cell.balance`, equally many per class.
    """
    order = Noise.named(len(table), seed, "training texts").uniforms()[:, 0]
    rows = table.with_columns(_order=pl.Series(order, dtype=pl.Float64)).drop_nulls(cell.label).sort("_order")
    kinds = rows[cell.label].n_unique()
    most = len(rows) if cell.texts is None else cell.texts
    if cell.balance and kinds:
        least = rows.group_by(cell.label).len()["len"].min()
        assert isinstance(least, int)
        rows = rows.filter(pl.int_range(pl.len()).over(cell.label) < min(least, most // kinds))
    return rows.head(most).sort("row").drop("_order")


def check_training(table: pl.DataFrame, cell: TrainingCell, place: str) -> None:
    """Raise UserError if the training texts have a single class, or if they are fewer than a batch."""
    classes = sorted({*table[cell.label]})
    if len(classes) < 2:
        raise UserError(
            f"{place}: the training texts of {cell.features} must have at least 2 classes of {cell.label!r}, got "
            f"{listed(classes, 'class')}; give another label",
            "EPS-S114",
        )
    if len(table) < cell.batch:
        raise UserError(
            f"{place}.batch must be at most the number of training texts, {len(table)} of {cell.features}, got "
            f"{cell.batch}; set a smaller batch",
            "EPS-S115",
        )


def check_tested(table: pl.DataFrame, cell: TrainingCell, classes_known: Sequence[str], place: str) -> None:
    """Raise UserError if there are no test texts, or if they have a class that no training text has."""
    if table.is_empty():
        raise UserError(
            f"{place}.test: the split {cell.test!r} of {cell.features} has no text with the label {cell.label!r}; give "
            "another split",
            "EPS-S116",
        )
    if strange := sorted({*table[cell.label]} - {*classes_known}):
        raise UserError(
            f"{place}: the split {cell.test!r} has {listed(strange, 'class')} of {cell.label!r} without training "
            "texts; leave these classes out, or merge them (datasets.NAME.merge)",
            "EPS-S117",
        )


def schedule(cell: TrainingCell, texts: int) -> Schedule:
    """Return the schedule of a cell with this number of training texts. Sampler and accountant use it."""
    kind = Poisson if cell.sampling == "poisson" else Shuffled
    return kind(texts=texts, batch=cell.batch, epochs=cell.passes)


def noise(entry: NoiseEntry, level: float | None) -> GaussianNoise | DirectionalNoise | ScaledNoise | NoNoise:
    """Return the noise of an entry at a level."""
    if level is None:
        return NoNoise(entry.clip)
    if entry.kind == "gaussian":
        return GaussianNoise(level, 1.0 if entry.clip is None else entry.clip)
    if entry.kind == "vmf":
        return DirectionalNoise(level, entry.parts)
    return ScaledNoise(level, entry.gamma)


def first_head(params: TrainingParams, name: str, seed: int) -> Head:
    """Return the initial head of training number `seed` of a cell.

    Raises UserError if the network lacks the parameters or layers to train.
    """
    cell = params.private_training[name]
    count, of = len(classes(params, name)), (stream_seed(params, seed), "training")
    stream = Noise.named(1, *of, "head")
    if cell.trains == HEAD:
        return load_last_layers(features_path(cell.features) / features.LAYERS).head(count, stream)
    entry = params.features[cell.features]
    module = network(entry.model, count, stream)
    try:
        names = _parts(cell, module, Noise.named(1, *of, "adapters").generator(0))
        return trainable(module, entry.length, names)
    except UserError as error:
        raise error.at(f"private_training.{name}.trains") from None


def _parts(cell: TrainingCell, module: Module, generator: np.random.Generator) -> Sequence[str]:
    """Return the beginnings of the names of the parameters to train. Adapters, if any, are added to the network."""
    if isinstance(cell.trains, Adapters):
        return adapt(module, cell.trains.lora.rank, cell.trains.lora.targets, generator)
    return cell.trains


def settings(params: TrainingParams, name: str, texts: int, level: float | None, seed: int) -> Settings:
    """Return the settings of training number `seed` of a cell at a level.

    Trainings of one seed have the same batches at all levels and noises. texts: the number of training texts.
    """
    cell = params.private_training[name]
    return Settings(
        schedule=schedule(cell, texts),
        noise=noise(cell.noise, level),
        rate=cell.rate,
        optimizer=cell.optimizer,
        seed=stream_seed(params, seed),
    )


def stream_seed(params: TrainingParams, seed: int, of: str = "training") -> int:
    """Return the seed of all random streams of training number `seed`.

    of: "reference" for a reference model. A reference never shares a stream with a target.
    """
    name = params.audit.seed, params.audit.round, of, seed
    return int(Noise.named(1, *name).generator(0).integers(1 << 53))


def featured(name: str, split: str | None = None) -> pl.DataFrame:
    """Return the texts of an entry of `features`, schema `FEATURED` and labels.

    split: a split; the column `row` has its row numbers. None: all splits, without `row`.
    """
    table = tables.read(featured_path(name), FEATURED)
    if split is None:
        return table
    if split not in table["split"]:
        raise absent(f"split of features {name}", split, table["split"].unique())
    return table.filter(split=split).with_row_index("row")


def _trainingfeatured(params: TrainingParams, name: str) -> pl.DataFrame:
    cell = params.private_training[name]
    table = chosen(featured(cell.features, TRAIN), cell, params.audit.seed)
    check_training(table, cell, f"private_training.{name}")
    return table


def labelled(params: TrainingParams, name: str, split: str, table: pl.DataFrame) -> LabelledTexts:
    """Return the texts of a split with their states and labels. table: rows that `featured` returned."""
    cell = params.private_training[name]
    rows = table["row"].to_numpy().astype(np.int64)
    numbers = {value: i for i, value in enumerate(classes(params, name))}
    labels = table[cell.label].replace_strict(numbers, return_dtype=pl.Int64).to_numpy()
    return LabelledTexts(rows, features.read(features_path(cell.features), split)[rows], labels)
