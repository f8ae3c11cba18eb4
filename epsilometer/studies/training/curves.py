"""The result of every attack on training as a curve over noise, and a test of whether it falls as noise grows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from epsilometer.core import tables
from epsilometer.core.tables import Schema
from epsilometer.studies.training.params import Noised, TrainingParams
from epsilometer.studies.training.reconstruction import BLIND, bounded_mean
from epsilometer.studies.training.results.paired_areas import Areas
from epsilometer.studies.training.results.rates import area_of
from epsilometer.studies.training.results.well_behaved import Moves, by_covariance, by_intervals, paired, verdicts
from epsilometer.studies.training.tables import (
    CANDIDATES,
    MEMBERSHIP_AREAS,
    RECONSTRUCTED,
    membership_path,
    reconstruction_path,
)

CURVES: Schema = {  # a row per attack, measure and batch size; its levels from the least noise to the most
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
    "fall_p": pl.Float64,  # before correction; null for a single level, and for figures not in PRIMARY
    "least_p": pl.Float64,  # the smallest fall_p that this number of texts allows; 0 by the normal law
    "rise_p": pl.Float64,
    "verdict": pl.String,  # `well_behaved.verdicts`, of all curves that are tested together; null where fall_p is
}
PRIMARY = ("auc", "rouge_l", "loss")  # the figure that an attack is judged by; for candidates, with their smallest sets
SHOWN = ("rouge_l", "jaccard", "meteor", "cosine", "in_place", "exact")
Row = dict[str, Any]


def curves(params: TrainingParams) -> pl.DataFrame:
    """Return all curves of a project (schema `CURVES`), from the results of its stages."""
    rows = [*_membership(params), *_reconstruction(params), *_candidates(params)]
    tested = [row for row in rows if row["moves"] is not None]
    for row, verdict in zip(tested, verdicts([row["moves"] for row in tested], params.audit.alpha), strict=True):
        moves: Moves = row["moves"]
        row |= {"fall_p": moves.fall, "least_p": moves.least_fall, "rise_p": moves.rise, "verdict": verdict}
    return pl.DataFrame([{name: row.get(name) for name in CURVES} for row in rows], schema=dict(CURVES))


def _membership(params: TrainingParams) -> Iterator[Row]:
    """Areas under ROC curves with their intervals; all levels share the same examples."""
    for name, entry in params.membership.items():
        table = tables.read(membership_path(name, "areas"), MEMBERSHIP_AREAS)
        for (attack,), part in table.group_by(["attack"], maintain_order=True):
            of = {"cell": name, "family": "membership", "attack": attack, "measure": "auc"}
            noise = params.private_training[entry.training].noise.kind
            yield of | {"noise": noise} | _of_areas(part, params.audit.alpha)


def _candidates(params: TrainingParams) -> Iterator[Row]:
    """Losses of guessing among candidates, up to the largest that the number of trials can show."""
    for name, entry in params.choosing.items():
        sent = params.sent[entry.sent]
        table = tables.read(reconstruction_path(name, "candidates"), CANDIDATES).with_columns(
            pl.min_horizontal("point", "ceiling"), pl.min_horizontal("upper", "ceiling")
        )
        for (size,), part in table.group_by(["candidates"], maintain_order=True):
            of = {"cell": name, "family": "candidates", "noise": sent.noise.kind, "attack": "candidates", "size": size}
            levels = sent.from_least_noise
            values, low, high = (
                [_at(part, level)[end].item() for level in levels] for end in ("point", "loss", "upper")
            )
            primary = size == table["candidates"].min()
            moves = by_intervals(values, low, high, params.audit.alpha) if primary and len(levels) > 1 else None
            yield of | {"measure": "loss"} | _curve(levels, (values, low, high), moves)


def _reconstruction(params: TrainingParams) -> Iterator[Row]:
    """Means over texts, each attacked at every level."""
    for name, entry in params.searching.items():
        sent = params.sent[entry.sent]
        table = tables.read(reconstruction_path(name, "texts"), RECONSTRUCTED).filter(pl.col("attack") != BLIND)
        for (attack, size), part in table.group_by(["attack", "size"], maintain_order=True):
            for measure in SHOWN:
                of = {"cell": name, "family": "reconstruction", "noise": sent.noise.kind, "attack": attack}
                yield of | {"size": size, "measure": measure} | _of_texts(part, measure, sent, params.audit.alpha)


def _of_areas(part: pl.DataFrame, alpha: float) -> Row:
    """Return the curve of one attack. part: of schema `MEMBERSHIP_AREAS`, a row per level."""
    areas = Areas(part["auc"].to_numpy(), np.array(part["covariance"].to_list()), part["pairs"][0])
    ends = [
        area_of(*of_level, areas.pairs, alpha) for of_level in zip(areas.values, np.diag(areas.covariance), strict=True)
    ]
    figures = areas.values.tolist(), [end.low for end in ends], [end.high for end in ends]
    return _curve(part["level"].to_list(), figures, by_covariance(areas) if len(part) > 1 else None)


def _of_texts(part: pl.DataFrame, measure: str, sent: Noised, alpha: float) -> Row:
    """Return the curve of one measure. Texts of a batch are attacked together, so the independent units are batches."""
    batches = part.group_by("level", "batch").agg(pl.col(measure).mean()).sort("batch")
    values = np.array([_at(batches, level)[measure].to_list() for level in sent.from_least_noise])
    figures = zip(*(bounded_mean(measure, of_level, alpha) for of_level in values), strict=True)
    moves = paired(values) if measure in PRIMARY and len(values) > 1 else None
    return _curve(sent.from_least_noise, [*figures], moves)


def _at(part: pl.DataFrame, level: float | None) -> pl.DataFrame:
    return part.filter(pl.col("level").eq_missing(pl.lit(level, pl.Float64)))


def _curve(levels: Sequence[float | None], figures: Sequence[Sequence[float]], moves: Moves | None) -> Row:
    """Return a row of `CURVES`. figures: the values, and the lower and upper ends of their intervals."""
    values, low, high = map(list, figures)
    return {"levels": list(levels), "values": values, "low": low, "high": high, "moves": moves}
