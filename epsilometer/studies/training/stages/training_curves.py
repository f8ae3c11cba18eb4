"""Stage training_curves: claims of trainings, attacks as curves over noise, and heads at equal amounts of noise."""

from __future__ import annotations

from epsilometer.core import tables
from epsilometer.studies.training.budgets import budgets
from epsilometer.studies.training.curves import CURVES, curves
from epsilometer.studies.training.pairs import PAIRS, pairs
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.tables import BUDGETS, budgets_path, training_curves_path, training_pairs_path


def main() -> None:
    """Write data/budgets.parquet, data/training_curves.parquet and data/training_pairs.parquet."""
    params = read_params()
    tables.write(budgets(params), budgets_path(), BUDGETS)
    tables.write(curves(params), training_curves_path(), CURVES)
    tables.write(pairs(params), training_pairs_path(), PAIRS)
