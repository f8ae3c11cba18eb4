"""Stage training_curves: every attack on training against its noise, and whether it falls as noise grows."""

from __future__ import annotations

from epsilometer.core import tables
from epsilometer.project.params import read as read_params
from epsilometer.project.paths import training_curves_path
from epsilometer.project.training_curves import CURVES, curves


def main() -> None:
    """Write data/training_curves.parquet; without rows where nothing attacks a training."""
    tables.write(curves(read_params()), training_curves_path(), CURVES)
