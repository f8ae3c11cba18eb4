"""The files that stages pass to each other, relative to the run's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import polars as pl

from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.corpora.reading import PREPARED
from epsilometer.project.params import ProjectParams


@contextmanager
def inside(folder: str | Path) -> Iterator[None]:
    """Make a project's folder the current one. Raises UserError for a folder without params.yaml."""
    if not Path(folder, "params.yaml").is_file():
        raise UserError(
            f"{str(folder)!r} is not a project's folder (it has no params.yaml); give one, or a list of texts",
            "EPS-P061",
        )
    with chdir(folder):
        yield


Reader = Callable[[str, tables.Schema], pl.DataFrame]


def prepared(dataset: str, read: Reader = tables.read) -> pl.DataFrame:
    """Return all prepared texts of a data set, from all splits. read: a function that reads a file with a schema."""
    return read(f"data/prepared/{dataset}.parquet", PREPARED)


def audited(params: ProjectParams, dataset: str, read: Reader = tables.read) -> pl.DataFrame:
    """Return the prepared texts of the audited split. Candidates are numbered by their rows in this table."""
    return prepared(dataset, read).filter(split=params.datasets[dataset].use)


def audited_texts(params: ProjectParams, dataset: str) -> list[str]:
    """Return the texts of `audited`."""
    return audited(params, dataset)["text"].to_list()
