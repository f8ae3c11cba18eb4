"""Stage claims: every claim against its worst case over a vocabulary, and the plausible deniability of its words.

usage: python -m tasks.claims
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl

from epsilometer import tables
from epsilometer.claims import describe
from epsilometer.deniability import deniability
from epsilometer.language.lists import WordLists
from epsilometer.language.vectors import WordVectors
from epsilometer.mechanism import HasInputs, Mechanism, build_mechanism
from epsilometer.params import Cell, Params, read
from epsilometer.progress import track
from epsilometer.randomness import Noise
from epsilometer.worst_case import check_claim
from tasks.entry import run

WORDS, DRAWS = 100, 100  # of plausible deniability, as in the paper


def main() -> None:
    """Write data/claims.parquet and data/deniability.parquet: a row for each mechanism on words and epsilon."""
    params = read()
    # The data sets do not matter here: one cell stands for all of a mechanism. What reads texts has no words.
    cells = {cell.mechanism: cell for cell in params.cells.values() if not cell.resource.startswith("data/prepared")}
    with (
        tables.Writer("data/claims.parquet", tables.CLAIMS) as claims,
        tables.Writer("data/deniability.parquet", tables.DENIABILITY) as hidden,
        tempfile.TemporaryDirectory() as folder,
    ):
        for name, cell in track(cells.items(), len(cells), "check claims"):
            few = _few(cell.resource, params.claims.vocabulary, Path(folder) / f"{name}.npz")
            claims.write(_claims(params, name, _build(params, cell, few), cell.epsilons))
            whole = _build(params, cell, cell.resource)
            if few != cell.resource and isinstance(whole, HasInputs):
                drawn = Noise.named(len(whole.inputs), "deniability", params.audit.seed).uniforms()[:, 0]
                words = [whole.inputs[i] for i in np.sort(np.argsort(drawn)[:WORDS])]
                table = deniability(whole, words, cell.epsilons, DRAWS, params.audit.seed)
                hidden.write(table.with_columns(pl.lit(name).alias("mechanism")).select(list(tables.DENIABILITY)))


def _build(params: Params, cell: Cell, resource: str) -> Mechanism:
    return build_mechanism(params.path(cell.file), cell.settings, resource, f"mechanisms.{cell.mechanism}.settings")


def _claims(params: Params, name: str, mechanism: Mechanism, epsilons: Sequence[float]) -> pl.DataFrame:
    rows = []
    for epsilon in epsilons:
        found = check_claim(mechanism, epsilon, params.audit.alpha, params.audit.seed)
        row = {"mechanism": name, "claim": describe(mechanism.guarantee(epsilon)), **asdict(found)}
        row["x"], row["other"], row["output"] = row.pop("witness") or (None, None, None)
        rows.append(row)
    return pl.DataFrame(rows, schema=dict(tables.CLAIMS))


def _few(resource: str, count: int, out: Path) -> str:
    """The resource with its first `count` words alone, where it is one of words."""
    if resource == "data/lists.npz":
        WordLists.load(resource).first(count).save(out)
    elif resource.startswith("data/vectors/"):
        WordVectors.load(resource).whole_words().first(count).save(out)
    else:
        return resource
    return str(out)


if __name__ == "__main__":
    run(main)
