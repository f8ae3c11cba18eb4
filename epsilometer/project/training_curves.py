"""Every attack on training against its noise: the curves, and whether they fall as noise grows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing.schemas import CANDIDATES, MEMBERSHIP
from epsilometer.auditing.well_behaved import Moves, by_intervals, paired, verdicts
from epsilometer.core import tables
from epsilometer.core.tables import Schema
from epsilometer.project.params import Params
from epsilometer.project.paths import membership_path, reconstruction_path
from epsilometer.project.training_sections import Noised
from epsilometer.utility.reconstruction import BLIND
from epsilometer.utility.schemas import RECONSTRUCTED

CURVES: Schema = {  # a row an attack, measure and batch size; its levels from the least noise to the most
    "cell": pl.String,  # of membership or reconstruction
    "family": pl.String,  # "membership", "reconstruction" or "candidates"
    "noise": pl.String,
    "attack": pl.String,
    "measure": pl.String,
    "size": pl.Int64,  # of a batch, or of candidate sets; null for membership
    "levels": pl.List(pl.Float64),  # null without noise
    "values": pl.List(pl.Float64),
    "low": pl.List(pl.Float64),
    "high": pl.List(pl.Float64),
    "fall_p": pl.Float64,  # before correction; null of a single level
    "rise_p": pl.Float64,
    "verdict": pl.String,  # `well_behaved.verdicts`, of all curves together; null of a single level
}
SHOWN = ("rouge_l", "jaccard", "meteor", "cosine", "in_place", "exact")
Row = dict[str, Any]


def curves(params: Params) -> pl.DataFrame:
    """All curves of a project (schema `CURVES`), of what its stages have written."""
    rows = [*_membership(params), *_reconstruction(params), *_candidates(params)]
    tested = [row for row in rows if row["moves"] is not None]
    for row, verdict in zip(tested, verdicts([row["moves"] for row in tested], params.audit.alpha), strict=True):
        row |= {"fall_p": row["moves"].fall, "rise_p": row["moves"].rise, "verdict": verdict}
    return pl.DataFrame([{name: row.get(name) for name in CURVES} for row in rows], schema=dict(CURVES))


def ordered(entry: Noised) -> list[float | None]:
    """The levels of a noise from the least to the most; kappa concentrates, so that its largest is the least noise."""
    levels = [level for level in entry.steps if level is not None]
    return [*sorted(levels, reverse=entry.noise.kind == "vmf")] or [None]


def _membership(params: Params) -> Iterator[Row]:
    """Areas under curves, the mean over seeds; its interval is the widest of a seed's."""
    for name, entry in params.membership.items():
        cell = params.private_training[entry.training]
        table = tables.read(membership_path(name), MEMBERSHIP)
        for (attack,), part in table.group_by(["attack"], maintain_order=True):
            of = {"cell": name, "family": "membership", "noise": cell.noise.kind, "attack": attack, "measure": "auc"}
            yield of | _by_intervals(
                [part.filter(pl.col("level").eq_missing(pl.lit(level, pl.Float64))) for level in ordered(cell)],
                ordered(cell),
                ("auc", "auc_low", "auc_high"),
                params.audit.alpha,
            )


def _candidates(params: Params) -> Iterator[Row]:
    """Losses of guessing among candidates."""
    for name, entry in params.reconstruction.items():
        sent = params.sent[entry.sent]
        table = tables.read(reconstruction_path(name, "candidates"), CANDIDATES)
        for (size,), part in table.group_by(["candidates"], maintain_order=True):
            of = {"cell": name, "family": "candidates", "noise": sent.noise.kind, "attack": "candidates", "size": size}
            finite = part.with_columns(pl.min_horizontal("point", "ceiling"), pl.min_horizontal("upper", "ceiling"))
            yield (
                of
                | {"measure": "loss"}
                | _by_intervals(
                    [finite.filter(pl.col("level").eq_missing(pl.lit(level, pl.Float64))) for level in ordered(sent)],
                    ordered(sent),
                    ("point", "loss", "upper"),
                    params.audit.alpha,
                )
            )


def _reconstruction(params: Params) -> Iterator[Row]:
    """Means over texts, each attacked at every level."""
    for name, entry in params.reconstruction.items():
        sent = params.sent[entry.sent]
        table = tables.read(reconstruction_path(name, "texts"), RECONSTRUCTED).filter(pl.col("attack") != BLIND)
        for (attack, size), part in table.group_by(["attack", "size"], maintain_order=True):
            for measure in SHOWN:
                of = {"cell": name, "family": "reconstruction", "noise": sent.noise.kind, "attack": attack}
                yield of | {"size": size, "measure": measure} | _paired(part, measure, ordered(sent))


def _paired(part: pl.DataFrame, measure: str, levels: Sequence[float | None]) -> Row:
    """Texts of a batch were attacked together, so that batches are what is independent."""
    batches = part.group_by("level", "batch").agg(pl.col(measure).mean()).sort("batch")
    values = np.array(
        [batches.filter(pl.col("level").eq_missing(pl.lit(level, pl.Float64)))[measure].to_list() for level in levels]
    )
    means = values.mean(axis=1).tolist()
    moves = paired(values) if len(levels) > 1 and values.shape[1] > 1 else None
    return {"levels": list(levels), "values": means, "low": None, "high": None, "moves": moves}


def _by_intervals(
    parts: Sequence[pl.DataFrame], levels: Sequence[float | None], names: tuple[str, str, str], alpha: float
) -> Row:
    """names: of the columns of the figure and of the ends of its interval."""
    values, low, high = ([float(part[name].mean() or 0.0) for part in parts] for name in names)  # type: ignore[arg-type]
    moves: Moves | None = None
    if len(levels) > 1:
        moves = by_intervals(values, low, high, alpha)
    return {"levels": list(levels), "values": values, "low": low, "high": high, "moves": moves}
