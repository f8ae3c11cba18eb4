"""Data sets of the Hugging Face hub, pinned by revision."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from epsilometer.core.component import describe
from epsilometer.core.errors import UserError

_COMMIT = re.compile(r"[0-9a-f]{40}")


class Pin(BaseModel):
    """A small tracked file that says which data set is meant, so that "updated upstream" is a change of that file.

    dataset: the id, owner/name (or a local folder of data files); config: the configuration, where it has several;
    revision: the commit on the hub.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    config: str | None = None
    revision: str

    @field_validator("revision")
    @classmethod
    def _commit(cls, value: str) -> str:
        if not _COMMIT.fullmatch(value):
            raise ValueError("must be a commit hash of 40 hexadecimal digits, since branches and tags move")
        return value


def read_pin(path: Path) -> Pin:
    """The pin in a file; raises UserError for anything but a valid pin."""
    try:
        return Pin.model_validate(json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise UserError(f"there is no file {str(path)!r}; check the path") from None
    except ValidationError as error:
        raise UserError(describe(error, str(path))) from error
    except ValueError as error:  # neither JSON nor UTF-8
        raise UserError(f'{path} is not JSON ({error}); write {{"dataset": ..., "revision": ...}}') from error


def would_download(pin: Pin) -> bool:
    """Whether `load` would have to fetch this data set: nothing of its revision is in the local cache."""
    if Path(pin.dataset).is_dir():
        return False
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(pin.dataset, repo_type="dataset", revision=pin.revision, local_files_only=True)
    except (OSError, ValueError):
        return True
    return False


def load(dataset: str, config: str | None = None, revision: str | None = None) -> pl.DataFrame:
    """All splits of a data set in one table; the hub's split names become the column `split` where it has none.

    Class labels become their names. Runs no code of the data set. Raises UserError when it cannot be fetched.
    """
    from datasets import ClassLabel, load_dataset
    from datasets.exceptions import DatasetsError

    try:
        splits = load_dataset(dataset, config, revision=revision)
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        # No network, no such id, configuration or revision, broken files, or a data set that is a script.
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        at = f" --revision {revision}" if revision else ""
        raise UserError(
            f"data set {dataset!r} cannot be had from the Hugging Face hub ({reason}); fetch it "
            f"beforehand where there is a network (`hf download --repo-type dataset {dataset}{at}`), or give a local "
            "file of it (Parquet, CSV, JSON lines)"
        ) from error
    tables = []
    for split, rows in splits.items():
        table = rows.to_polars()
        for name, feature in rows.features.items():
            if isinstance(feature, ClassLabel):
                names = dict(enumerate(feature.names))  # a missing label is -1 and becomes null
                table = table.with_columns(pl.col(name).replace_strict(names, default=None, return_dtype=pl.String))
        tables.append(table if "split" in table.columns else table.with_columns(split=pl.lit(str(split))))
    return pl.concat(tables, how="diagonal_relaxed")
