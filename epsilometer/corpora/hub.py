"""Data sets of the Hugging Face hub, pinned by revision."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from epsilometer.core import json_text, yaml_text
from epsilometer.core.component import describe
from epsilometer.core.errors import UserError
from epsilometer.core.file_names import listed, quoted_error
from epsilometer.runtime import hub
from epsilometer.runtime.hub import Repository

_COMMIT = re.compile(r"[0-9a-f]{40}")
_CARD = "README.md"
_DATA = re.compile(r".*\.(parquet|arrow|csv|tsv|jsonl?|ndjson|txt)(\.(gz|zst|bz2|xz))?")


class Pin(BaseModel):
    """A small tracked file that identifies a version of a data set; another version needs another pin.

    dataset: the id, owner/name (or a local folder of data files). config: the configuration, if there are several.
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
            raise ValueError("must be a commit hash of 40 hexadecimal digits, since branches and tags can move")
        return value

    @property
    def repository(self) -> Repository:
        """The repository on the hub."""
        return Repository("dataset", self.dataset, self.revision, self.config)


def read_pin(path: Path) -> Pin:
    """Return the pin in a file. Raises UserError for anything but a valid pin."""
    try:
        value = json_text.load(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"file {str(path)!r} not found; check the path", "EPS-D029") from None
    except ValueError as error:  # neither JSON nor UTF-8
        raise UserError(
            f'{path} is not JSON ({error}); write {{"dataset": ..., "revision": ...}}', "EPS-D030"
        ) from error
    others = [key for key in value if key not in Pin.model_fields] if isinstance(value, dict) else None
    if others or others is None:  # the file may contain texts, so no value is quoted
        raise UserError(
            f"{path} does not pin a data set: it contains "
            f"{'no object' if others is None else listed(others, 'other key')}. "
            'Write {"dataset": ..., "revision": ...} with an optional "config", or put texts in a .jsonl file, one '
            "object per line",
            "EPS-D031",
        )
    try:
        return Pin.model_validate(value)
    except ValidationError as error:
        raise UserError(describe(error, str(path)), "EPS-D032") from error


def is_missing(repository: Repository) -> bool:
    """Return True if files of a data set on the hub are missing in the local cache."""
    return _whole(repository) is None


def fetch(repository: Repository) -> Path:
    """Download the missing files of a data set, check them against the commit, and return their folder.

    Raises UserError if the data set is not available, or if it has a program but no data files.
    """

    def wanted(names: Sequence[str], read: Callable[[str], str]) -> list[str]:
        data = [name for name in names if _DATA.fullmatch(name)]
        patterns = _patterns(read(_CARD) if _CARD in names else "", repository.part)
        if patterns is not None:
            data = [name for name in data if any(fnmatch(name, pattern) for pattern in patterns)]
        elif repository.part is not None:
            data = [name for name in data if name.startswith(f"{repository.part}/")]
        if not data:
            part = f" for the configuration {repository.part!r}" if repository.part else ""
            raise UserError(
                f"{repository} contains no data files{part} (Parquet, CSV, JSON lines), and programs are never run; "
                "name another revision or configuration, or give a local file",
                "EPS-D033",
            )
        return [*data, _CARD] if _CARD in names else data

    return hub.fetch(repository, wanted)


def load(dataset: str, config: str | None = None, revision: str | None = None, rows: int | None = None) -> pl.DataFrame:
    """Return all splits of a data set in one table. A missing column `split` is filled with the hub's split names.

    Names replace the numbers of class labels. rows: read only the first `rows` rows of each split; None: all rows. Code
    of the data set is not run. Raises UserError if the data set cannot be fetched or read.
    """
    from datasets import ClassLabel, load_dataset
    from datasets.exceptions import DatasetsError

    repository = Repository("dataset", dataset, revision, config)
    folder = Path(dataset) if Path(dataset).is_dir() else _whole(repository) or fetch(repository)
    try:
        splits = load_dataset(str(folder), config, streaming=rows is not None)
        tables = [
            (str(split), part.features, part.to_polars() if rows is None else _first(part, rows))
            for split, part in splits.items()
        ]
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:  # unknown configuration, or broken files
        raise UserError(
            f"data set {dataset!r} cannot be read from {folder} ({quoted_error(error)}); correct its configuration, "
            "or give a local file of it (Parquet, CSV, JSON lines)",
            "EPS-D034",
        ) from error
    read = []
    for split, features, table in tables:
        for name, feature in features.items():
            if isinstance(feature, ClassLabel):
                names = dict(enumerate(feature.names))  # a missing label is -1 and becomes null
                table = table.with_columns(pl.col(name).replace_strict(names, default=None, return_dtype=pl.String))
        read.append(table if "split" in table.columns else table.with_columns(split=pl.lit(split)))
    return pl.concat(read, how="diagonal_relaxed")


def _first(part: Any, rows: int) -> pl.DataFrame:
    """Return the first `rows` rows of a split that is read as a stream."""
    batches = part.take(rows).with_format("arrow").iter(batch_size=1000)
    return pl.concat([pl.DataFrame(batch) for batch in batches])


def _whole(repository: Repository) -> Path | None:
    """Return the folder of a data set with all its files; None if files are missing."""
    folder = hub.snapshot(repository)
    if folder is None:
        return None
    if hub.recorded(repository) is None:  # another program downloaded the files, and some may be missing
        return folder if any(_DATA.fullmatch(path.name) for path in folder.rglob("*")) else None
    return folder if hub.state(repository).whole else None


def _patterns(card: str, config: str | None) -> list[str] | None:
    """Return the file patterns in a data set's card for a configuration; None if the card has none."""
    head = re.match(r"---\n(.*?\n)---", card, re.DOTALL)
    configs = (yaml_text.load(head[1]) or {}).get("configs") if head else None
    if not configs:
        return None
    named: dict[str, Any] = {entry.get("config_name", "default"): entry for entry in configs}
    chosen = config or next((name for name, entry in named.items() if entry.get("default")), None)
    chosen = chosen or ("default" if "default" in named else next(iter(named)) if len(named) == 1 else None)
    if chosen not in named:
        return None
    files = named[chosen].get("data_files", [])
    paths = [
        file["path"] if isinstance(file, dict) else file for file in (files if isinstance(files, list) else [files])
    ]
    return [pattern for path in paths for pattern in (path if isinstance(path, list) else [path])]
