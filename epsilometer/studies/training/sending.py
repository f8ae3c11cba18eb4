"""The texts, models, noises and attacks of the entries of `sent` and `reconstruction`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from epsilometer.core import tables
from epsilometer.core.component import build, find
from epsilometer.core.errors import UserError
from epsilometer.core.file_names import listed
from epsilometer.core.randomness import Noise
from epsilometer.project.paths import audited
from epsilometer.studies.training import trainings
from epsilometer.studies.training.attacks.reconstruction.candidates import Candidates
from epsilometer.studies.training.attacks.reconstruction.shared.attack import ReconstructionAttack
from epsilometer.studies.training.params import CANDIDATES, RECONSTRUCTION, SentEntry, SentNoise, TrainingParams
from epsilometer.studies.training.runs.noise import TrainingNoise
from epsilometer.studies.training.runs.sent import OnMean
from epsilometer.studies.training.tables import sent_path

if TYPE_CHECKING:  # the module loads torch, which code that only shows or checks results does not need
    from epsilometer.studies.training.runs.shared_model import SharedModel

ATTACKED, PUBLIC, POOL = "attacked", "public", "pool"
TEXTS: tables.Schema = {  # texts of clients (attacked) and server (public), and the pool, which may repeat them
    "use": pl.String,  # "attacked", "public" or "pool"
    "row": pl.Int64,  # the row number of the text in the audited split
    "text": pl.String,
    "label": pl.Int64,  # the index of its class
    "kinds": pl.List(pl.String),  # the kinds of its identifiers; empty if the text is not attacked
    "identifiers": pl.List(pl.String),  # its identifiers; empty if the text is not attacked
}


def chosen(params: TrainingParams, name: str) -> tuple[pl.DataFrame, list[str]]:
    """Return the texts of an entry in a random order (schema `TEXTS` without identifiers), and the names of classes.

    The attacked texts come first, then the public texts, all distinct. The pool has texts of the most frequent class,
    and may repeat attacked or public texts. Raises UserError for too few texts or a single class.
    """
    entry = params.sent[name]
    table = audited(params, entry.dataset).with_row_index("row").drop_nulls(entry.label).unique("text", keep="first")
    classes = sorted(table[entry.label].unique())
    if len(classes) < 2:
        raise UserError(
            f"sent.{name}.label: the texts of {entry.dataset} must have at least 2 classes of {entry.label!r}, got "
            f"{listed(classes, 'class')}; give another label",
            "EPS-S109",
        )
    order = Noise.named(table.sort("row")["row"].to_numpy(), params.audit.seed, "sent texts").uniforms()[:, 0]
    table = table.sort("row").with_columns(_order=pl.Series(order)).sort("_order")
    numbers = {value: i for i, value in enumerate(classes)}
    table = table.select("row", "text", label=pl.col(entry.label).replace_strict(numbers, return_dtype=pl.Int64))
    if len(table) <= entry.texts:
        raise UserError(
            f"sent.{name}: {entry.dataset} has {len(table)} distinct texts with a label, too few for {entry.texts} "
            "attacked texts and a public one; attack fewer texts",
            "EPS-S110",
        )
    most_frequent = table["label"].value_counts(sort=True)["label"][0]
    pool = table.filter(label=most_frequent).head(entry.pool)
    if len(pool) < entry.pool:
        raise UserError(
            f"sent.{name}.pool must be at most the {len(pool)} distinct texts of "
            f"{listed([classes[most_frequent]], 'class')}, the most frequent class of {entry.dataset}, got "
            f"{entry.pool}; set a smaller pool",
            "EPS-S111",
        )
    parts = {ATTACKED: table.head(entry.texts), PUBLIC: table[entry.texts :].head(entry.public), POOL: pool}
    used = [part.with_columns(use=pl.lit(what), row=pl.col("row").cast(pl.Int64)) for what, part in parts.items()]
    return pl.concat(used), classes


def model(params: TrainingParams, name: str, classes: int) -> SharedModel:
    """Load the model that the server and the clients of an entry share.

    The audit's seed determines the initial weights of the model's head.
    """
    entry = params.sent[name]
    seed = int(Noise.named(1, params.audit.seed, "sent", "head").generator(0).integers(1 << 53))
    from epsilometer.studies.training.runs.shared_model import SharedModel

    return SharedModel(Path(entry.model), classes, tensors=entry.tensors, longest=entry.length, seed=seed)


def noise(entry: SentNoise, level: float | None) -> TrainingNoise:
    """Return the noise of an entry at a level."""
    if entry.kind == "published":
        return OnMean(0.0 if level is None else level, entry.law)
    return trainings.noise(entry, level)


def mechanism(entry: SentEntry) -> str:
    """Return the name of an entry's noisy gradient in tables of losses."""
    return f"gradient_{entry.noise.kind}"


def searching(params: TrainingParams, name: str) -> dict[str, ReconstructionAttack]:
    """Return the attacks of an entry of `reconstruction` that search for texts, in the entry's order.

    Raises UserError for unknown attacks and settings.
    """
    return {
        attack: build(find(RECONSTRUCTION, attack, "prepare"), settings, f"reconstruction.{name}.attacks.{attack}")
        for attack, settings in params.reconstruction[name].attacks.items()
        if attack != CANDIDATES
    }


def choosing(params: TrainingParams, name: str) -> Candidates:
    """Return the attack `candidates` of an entry. Raises UserError for unknown settings, and for a missing pool."""
    entry, place = params.reconstruction[name], f"reconstruction.{name}.attacks.{CANDIDATES}"
    if not params.sent[entry.sent].pool:
        raise UserError(
            f"{place} chooses among texts of a pool, but sent.{entry.sent} has no pool; set sent.{entry.sent}.pool, "
            "for example to 1024",
            "EPS-S112",
        )
    return build(Candidates, entry.attacks[CANDIDATES], place)


def texts(name: str) -> pl.DataFrame:
    """Return the texts that stage `sent` chose for an entry, schema `TEXTS`."""
    return tables.read(sent_path(name) / "texts.parquet", TEXTS)
