"""Stage training_curves: every attack on training against its noise, and heads of equally loud noises compared."""

from __future__ import annotations

from epsilometer.core import tables
from epsilometer.studies.training.curves import CURVES, curves
from epsilometer.studies.training.pairs import PAIRS, pairs
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.tables import training_curves_path, training_pairs_path


def main() -> None:
    """Write data/training_curves.parquet and data/training_pairs.parquet; without rows where there is no training."""
    params = read_params()
    tables.write(curves(params), training_curves_path(), CURVES)
    tables.write(pairs(params), training_pairs_path(), PAIRS)
