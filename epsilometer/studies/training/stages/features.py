"""Stage features@name: features of a data set's texts for trainings, either states of a frozen model or token ids."""

from __future__ import annotations

import polars as pl

from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.file_names import listed
from epsilometer.corpora.reading import PREPARED
from epsilometer.project.confinement import NAME
from epsilometer.project.paths import prepared
from epsilometer.runtime.resuming import parts
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.runs.features import Frozen, write, write_tokens
from epsilometer.studies.training.runs.tokens import Tokens
from epsilometer.studies.training.tables import featured_path, features_path
from epsilometer.studies.training.trainings import FEATURED


def main(name: str) -> None:
    """Write data/features/<name>: a file per split, the heads' initial weights, and labels (texts.parquet)."""
    params = read_params()
    entry = params.features[name]
    table = prepared(entry.dataset)
    splits = sorted(table["split"].unique())
    for split in splits:
        if not NAME.fullmatch(split):
            raise UserError(
                f"{listed([split], 'split')} of {entry.dataset} cannot be part of a file name; rename the split",
                "EPS-S113",
            )
    by_split = {split: table.filter(split=split) for split in splits}
    texts = {split: part["text"].to_list() for split, part in by_split.items()}
    if entry.what == "tokens":
        write_tokens(Tokens(entry.model, entry.length), texts, features_path(name))
    else:
        with parts() as begun:
            write(Frozen(entry.model, entry.length), texts, features_path(name), begun)
    labels = [column for column in table.columns if column not in PREPARED and table.schema[column] == pl.String]
    tables.write(pl.concat(by_split.values()).select(*FEATURED, *labels), featured_path(name), FEATURED)
