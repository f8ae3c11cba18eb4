"""The typed tables that cross a stage border: columns, validation, and Parquet that is written whole or not at all."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import stored

Schema = Mapping[str, pl.DataType | type[pl.DataType]]

PREPARED: Schema = {"id": pl.String, "text": pl.String, "split": pl.String, "words": pl.Int32}  # and one column a label
TRIALS: Schema = {"trial": pl.Int64, "candidates": pl.List(pl.Int32), "target": pl.Int16}
REWRITES: Schema = {"trial": pl.Int64, "text": pl.String, "units": pl.List(pl.Int32), "claim": pl.Float64}
GUESSES: Schema = {
    "epsilon": pl.Float64,
    "attack": pl.String,
    "sees": pl.String,  # what the attack looks at: text, units, latents, provider
    "trial": pl.Int64,
    "guess": pl.Int16,
}
ESTIMATES: Schema = {  # a row an attack, and the rows `strongest` and `strongest_inside` (`estimates.rows`)
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attack": pl.String,
    "trials": pl.Int64,
    "candidates": pl.Int64,
    "successes": pl.Int64,
    "success_rate": pl.Float64,
    "loss": pl.Float64,  # with delta (TeDA eq. 11), as are point, upper and ceiling
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
    "delta": pl.Float64,  # of the claim; 0 without one
    "loss_at_delta_0": pl.Float64,
    "equal_trials": pl.Int64,  # those whose candidates have equally many words
    "equal_successes": pl.Int64,
    "equal_loss": pl.Float64,  # the loss on these trials, beyond what length gives away; null where there are none
    "claim": pl.String,
    "covered": pl.Int64,  # trials between whose candidates the claim bounds the loss
    "expected": pl.Float64,  # the largest expected number of successes that the claim allows; null without a claim
    "p_value": pl.Float64,
    "verdict": pl.String,
    "refutable": pl.Float64,  # the largest claimed loss that this test could refute if every guess were right
    "trials_needed": pl.Int64,  # from so many trials on the claim could be refuted; null where it never could
    "best_attack": pl.String,  # which attack a row of the strongest is; null in other rows
    "control": pl.Boolean,  # the mechanism checks the audit and is not to be used
    "sees": pl.String,  # what the attack looks at: text, units, latents, provider
    "released": pl.Boolean,  # whether the mechanism gives that out
    "validated": pl.Boolean,  # whether the attack was validated for so many candidates
}

CLAIMS: Schema = {  # what `worst_case` found; the words x, x' and y of the witness are null where inputs are private
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "audited": pl.Boolean,  # false where the check chose this epsilon, one at which sampling can refute a claim
    "claim": pl.String,
    "verdict": pl.String,
    "reason": pl.String,  # why a claim is not testable or not checked
    "method": pl.String,
    "claimed": pl.Float64,
    "worst": pl.Float64,
    "slack": pl.Float64,  # claimed - worst: the least over all that was compared; negative where the claim is violated
    "x": pl.String,
    "other": pl.String,
    "output": pl.String,
    "bound": pl.Float64,
    "inputs": pl.Int64,
    "draws": pl.Int64,
    "testable": pl.Float64,  # the largest claim that so many draws could refute; null where the law is computed
    "noise_p": pl.Float64,  # of continuous noise: how likely noise of the claimed density fits it no better
    "largest": pl.Float64,  # the largest loss of one unit of the mechanism in use, over its whole vocabulary
    "largest_method": pl.String,  # exact, bound (the claim at its largest distance), sampled (a lower bound)
}
DENIABILITY: Schema = {"mechanism": pl.String, "epsilon": pl.Float64, "method": pl.String} | {
    f"{name}{end}": pl.Float64 for name in ("stays", "support") for end in ("", "_low", "_high")
}

SIMILARITY: Schema = {  # over the first `texts` trials: the mean cosine and its interval, and BLEU of all as one corpus
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "texts": pl.Int64,
    "cosine": pl.Float64,
    "cosine_low": pl.Float64,
    "cosine_high": pl.Float64,
    "corpus_bleu": pl.Float64,  # null where `bleu` is not among the metrics
}
SIMILARITIES: Schema = {  # a row a trial and metric
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "trial": pl.Int64,
    "source": pl.Int64,  # the number of the text: rewrites of one are no independent observations
    "metric": pl.String,
    "value": pl.Float64,  # null where the metric has none
}
LEAKAGE: Schema = {  # over all trials, a row a kind of identifier: how many stand in the rewrites as they were
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "kind": pl.String,
    "identifiers": pl.Int64,
    "recorded": pl.Int64,  # by the corpus; the others were found by patterns
    "survived": pl.Int64,
    "share": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}

PRIVATIZED: Schema = {  # a rewrite, with noise of its own for each seed
    "row": pl.Int64,  # the number of its text in the prepared table
    "seed": pl.Int64,
    "text": pl.String,
}
DOWNSTREAM: Schema = {  # how well a classifier tells a label, a row a seed
    "dataset": pl.String,
    "mechanism": pl.String,  # null for the baselines
    "epsilon": pl.Float64,
    "label": pl.String,
    "role": pl.String,  # task or attribute
    "setting": pl.String,  # majority, clean; private, of a task; static, adaptive, of an attribute
    "seed": pl.Int64,
    "macro_f1": pl.Float64,
    "low": pl.Float64,  # of the mean macro F1 of all seeds, over test texts: the same for each seed
    "high": pl.Float64,
    "binary_f1": pl.Float64,  # of the last class by name; null where there are more than two
    "accuracy": pl.Float64,
    "train": pl.Int64,
    "test": pl.Int64,
    "empty": pl.Int64,  # rewrites without a character that were trained or tested on
}

OUTPUTS: Schema = {  # what the rewrites of a cell look like; null where a mechanism has no such thing
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "claim": pl.String,
    "composed": pl.Float64,  # the claim for whole texts, in nats: `diagnostics.composed`
    "words": pl.Float64,
    "units": pl.Float64,
    "units_max": pl.Int64,
    "empty": pl.Float64,
    "unchanged": pl.Float64,
    "commonest": pl.Float64,
    "signal": pl.Float64,
    "unknown_words": pl.Float64,  # of all audited texts, the share outside the vocabulary; null without one
    "cut_texts": pl.Float64,  # the share that is longer than what is read or written; null without a limit
}
ESTIMATORS: Schema = {  # the loss from the first `trials` trials, by the reduced form and by true and false positives
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attack": pl.String,
    "trials": pl.Int64,
    "loss": pl.Float64,
    "by_rates": pl.Float64,
}
DISAGREEMENTS: Schema = {  # trials in which one attack named the source and another did not
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "right": pl.String,
    "wrong": pl.String,
    "trials": pl.Int64,
    "trial": pl.Int64,  # one of them
}
ABLATIONS: Schema = {  # a cell's loss when one factor of the audit is varied
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attack": pl.String,
    "validated": pl.Boolean,  # whether the attack was validated for so many candidates
    "factor": pl.String,
    "value": pl.Float64,
    "trials": pl.Int64,
    "success_rate": pl.Float64,
    "loss": pl.Float64,
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
}
SWEEPS: Schema = {  # a cell's utility and its loss under the embedding attack when one of its settings is varied
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,  # at this value
    "setting": pl.String,
    "value": pl.Float64,
    "trials": pl.Int64,
    "loss": pl.Float64,
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
} | {f"{name}{end}": pl.Float64 for name in ("cosine", "bertscore") for end in ("", "_low", "_high")}
FIRST_TOKENS: Schema = {  # the likeliest first tokens of one public text's rewrite, rank 0 first
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "text": pl.String,
    "rank": pl.Int64,
    "token": pl.String,
    "probability": pl.Float64,
}
TOKENS: Schema = {  # one public text as a mechanism cuts it
    "dataset": pl.String,
    "mechanism": pl.String,
    "text": pl.String,
    "tokens": pl.List(pl.String),
}

_ROWS = 1 << 16  # rows a row group: fixed, so that the bytes do not depend on how the rows arrived


def check(table: pl.DataFrame, schema: Schema, name: str) -> pl.DataFrame:
    """The table, if it has the schema's columns with their types (more columns are allowed); else UserError."""
    for column, dtype in schema.items():
        if column not in table.columns:
            raise UserError(f"{name} has no column {column!r}; columns: {', '.join(table.columns)}")
        if table.schema[column] != dtype:
            raise UserError(f"{name}.{column} must be {dtype}, got {table.schema[column]}")
    return table


def read(path: Path | str, schema: Schema) -> pl.DataFrame:
    """Read a stage's table; a damaged or foreign file is refused by name."""
    try:
        table = pl.read_parquet(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; `dvc repro` makes it") from None
    except Exception as error:  # whatever a Parquet reader raises on damaged bytes
        raise UserError(f"{path} cannot be read ({type(error).__name__}); delete it and run `dvc repro`") from error
    return check(table, schema, str(path))


def at_epsilon(table: pl.DataFrame, epsilon: float | None) -> pl.DataFrame:
    """Returns the rows of a stored table at one budget; those without one for NO_BUDGET or None."""
    return table.filter(pl.col("epsilon").eq_missing(pl.lit(stored(epsilon), pl.Float64)))


class Writer:
    """Write a table piece by piece; the file appears under its name only when everything was written.

    Use as a context manager; an exception inside leaves no file behind.
    """

    def __init__(self, path: Path | str, schema: Schema) -> None:
        self.path, self.schema = Path(path), schema
        self._pending: list[pl.DataFrame] = []
        self._rows = 0
        self._file: pq.ParquetWriter | None = None

    def __enter__(self) -> Writer:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self

    @property
    def _partial(self) -> Path:
        return self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")

    def write(self, table: pl.DataFrame) -> None:
        """Append rows; an epsilon that is no number (`guarantees.NO_BUDGET`) becomes null."""
        if "epsilon" in table.columns:
            table = table.with_columns(pl.col("epsilon").fill_nan(None))
        self._pending.append(check(table, self.schema, self.path.name))
        self._rows += len(table)
        while self._rows >= _ROWS:
            self._flush(_ROWS)

    def _flush(self, rows: int) -> None:
        pending = pl.concat(self._pending) if self._pending else pl.DataFrame(schema=self.schema)
        arrow = pending.head(rows).rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
        if self._file is None:
            self._file = pq.ParquetWriter(self._partial, arrow.schema, compression="zstd")
        self._file.write_table(arrow, row_group_size=_ROWS)
        self._pending, self._rows = [pending.slice(rows)], max(0, self._rows - rows)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and (self._rows or self._file is None):
                self._flush(self._rows)
            if self._file is not None:
                self._file.close()
            if kind is None:
                os.replace(self._partial, self.path)
        finally:
            self._partial.unlink(missing_ok=True)


def write(table: pl.DataFrame, path: Path | str, schema: Schema) -> None:
    """Write a whole table atomically."""
    with Writer(path, schema) as writer:
        writer.write(table)


def write_array(array: NDArray[Any], path: Path | str) -> None:
    """Write an array as .npy atomically."""
    with _whole(path) as partial, partial.open("wb") as file:
        try:
            np.save(file, array, allow_pickle=False)
        except OSError as error:  # numpy says how much was written, and not why no more
            raise OSError(error.errno or errno.ENOSPC, os.strerror(error.errno or errno.ENOSPC), str(path)) from error


class ArrayWriter:
    """Write an array [rows, columns] of float32 as .npy, rows in any order; the file appears when all were written.

    Use as a context manager; an exception inside leaves no file behind. The array lies on disk, not in memory; it is
    made when the first rows tell how many columns there are, and not at all when none come.
    """

    def __init__(self, path: Path | str, rows: int) -> None:
        self.path, self.rows = Path(path), rows
        self._array: NDArray[np.float32] | None = None

    @property
    def _partial(self) -> Path:
        return self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")

    def __enter__(self) -> ArrayWriter:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self

    def write(self, rows: NDArray[np.integer], values: NDArray[np.float32]) -> None:
        """Put these rows in their places."""
        if self._array is None:
            shape = (self.rows, values.shape[1])
            self._array = np.lib.format.open_memmap(self._partial, mode="w+", dtype=np.float32, shape=shape)
            _take_space(self._partial)
        if values.shape[1] != self._array.shape[1]:
            raise UserError(
                f"the mechanism returned latents of {values.shape[1]} numbers after some of {self._array.shape[1]}; "
                "return one vector of the same length for every text"
            )
        self._array[rows] = values

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._array is not None:
                self._array.flush()  # type: ignore[attr-defined]  # a memmap
                self._array = None
                if kind is None:
                    os.replace(self._partial, self.path)
        finally:
            self._partial.unlink(missing_ok=True)


def _take_space(path: Path) -> None:
    """Have the disk set aside a file's whole size: a mapped one that finds it full later ends the process by SIGBUS."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def write_json(value: Any, path: Path | str) -> None:
    """Write JSON atomically."""
    write_text(json.dumps(value, indent=1) + "\n", path)


def read_json(path: Path | str) -> Any:
    """Read a stage's JSON; a damaged file is refused by name."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; `dvc repro` makes it") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read ({type(error).__name__}); delete it and run `dvc repro`") from error


def write_text(text: str, path: Path | str) -> None:
    """Write a text file atomically."""
    with _whole(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def _whole(path: Path | str) -> Iterator[Path]:
    """A hidden file beside `path` that takes its name when all went well, and vanishes otherwise."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
