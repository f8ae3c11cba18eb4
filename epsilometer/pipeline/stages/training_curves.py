"""Stage training_curves: every attack on training against its noise, and heads of equally loud noises compared."""

from __future__ import annotations

from epsilometer.core import tables
from epsilometer.project.params import read as read_params
from epsilometer.project.paths import training_curves_path, training_pairs_path
from epsilometer.project.training.curves import CURVES, curves
from epsilometer.project.training.pairs import PAIRS, pairs


def main() -> None:
    """Write data/training_curves.parquet and data/training_pairs.parquet; without rows where there is no training."""
    params = read_params()
    tables.write(curves(params), training_curves_path(), CURVES)
    tables.write(pairs(params), training_pairs_path(), PAIRS)
