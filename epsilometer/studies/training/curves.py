"""Curves of every attack on training over noise levels, and tests of whether they fall as noise grows."""

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

CURVES: Schema = {  # a row per attack, measure and batch size
    "cell": pl.String,  # the entry of `membership` or `reconstruction`
    "family": pl.String,  # "membership", "reconstruction" or "candidates"
    "noise": pl.String,  # the kind of noise
    "attack": pl.String,
    "measure": pl.String,
    "size": pl.Int64,  # texts in a batch, or candidates in a set; null for membership
    "levels": pl.List(pl.Float64),  # from the least noise to the most; null for a training without noise
    "values": pl.List(pl.Float64),  # the measure at each level
    "low": pl.List(pl.Float64),  # lower bounds on the values
    "high": pl.List(pl.Float64),  # upper bounds on the values
    "fall_p": pl.Float64,  # p-value of a fall, uncorrected; null if the curve is not tested or has a single level
    "least_p": pl.Float64,  # smallest possible fall_p with this number of batches; 0 for normal approximations
    "rise_p": pl.Float64,  # p-value of a rise
    "verdict": pl.String,  # from `well_behaved.verdicts` over all tested curves; null if fall_p is null
}
PRIMARY = ("auc", "rouge_l", "loss")  # the measures that are tested; "loss" only for the smallest candidate sets
SHOWN = ("rouge_l", "jaccard", "meteor", "cosine", "in_place", "exact")  # the measures of reconstruction attacks
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
    """Yield the curves of membership attacks: areas under ROC curves on the same examples at all levels."""
    for name, entry in params.membership.items():
        table = tables.read(membership_path(name, "areas"), MEMBERSHIP_AREAS)
        for (attack,), part in table.group_by(["attack"], maintain_order=True):
            of = {"cell": name, "family": "membership", "attack": attack, "measure": "auc"}
            noise = params.private_training[entry.training].noise.kind
            yield of | {"noise": noise} | _of_areas(part, params.audit.alpha)


def _candidates(params: TrainingParams) -> Iterator[Row]:
    """Yield the curves of losses that guesses among candidates prove, capped at the ceiling of the trials."""
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
    """Yield the curves of reconstruction attacks: means over texts that are attacked at every level."""
    for name, entry in params.searching.items():
        sent = params.sent[entry.sent]
        table = tables.read(reconstruction_path(name, "texts"), RECONSTRUCTED).filter(pl.col("attack") != BLIND)
        for (attack, size), part in table.group_by(["attack", "size"], maintain_order=True):
            for measure in SHOWN:
                of = {"cell": name, "family": "reconstruction", "noise": sent.noise.kind, "attack": attack}
                yield of | {"size": size, "measure": measure} | _of_texts(part, measure, sent, params.audit.alpha)


def _of_areas(part: pl.DataFrame, alpha: float) -> Row:
    """Return the curve of one membership attack. part: schema `MEMBERSHIP_AREAS`, a row per level."""
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
    """Return a row of `CURVES`. figures: values, lower bounds, upper bounds; moves: the curve's test."""
    values, low, high = map(list, figures)
    return {"levels": list(levels), "values": values, "low": low, "high": high, "moves": moves}
