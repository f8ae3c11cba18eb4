"""Stage features@name: what trainings see of the texts of a data set: states of a frozen model, or token ids."""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl

from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.file_names import listed
from epsilometer.corpora.reading import PREPARED
from epsilometer.project.confinement import NAME
from epsilometer.project.paths import prepared
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.tables import featured_path, features_path
from epsilometer.studies.training.trainings import FEATURED
from epsilometer.training.features import Frozen, write, write_tokens
from epsilometer.training.tokens import Tokens

CODE = Path("data/code/features.json")


def main(name: str) -> None:
    """Write data/features/<name>: a file a split, what heads begin with, and texts.parquet, the texts' labels."""
    params = read_params()
    entry = params.features[name]
    table = prepared(entry.dataset)
    splits = sorted(table["split"].unique())
    for split in splits:
        if not NAME.fullmatch(split):
            raise UserError(
                f"files are named after splits, and {listed([split], 'split')} of {entry.dataset} cannot be one; "
                "rename it"
            )
    parts = {split: table.filter(split=split) for split in splits}
    texts = {split: part["text"].to_list() for split, part in parts.items()}
    if entry.what == "tokens":
        write_tokens(Tokens(entry.model, entry.length), texts, features_path(name))
    else:
        # What a killed run has left is of use only as long as the code is the same.
        key = hashlib.sha256(CODE.read_bytes()).hexdigest() if CODE.is_file() else ""
        write(Frozen(entry.model, entry.length), texts, features_path(name), key)
    labels = [column for column in table.columns if column not in PREPARED and table.schema[column] == pl.String]
    tables.write(pl.concat(parts.values()).select(*FEATURED, *labels), featured_path(name), FEATURED)
