"""Stage asked@name: the figures of a question about a mechanism on a data set, and the status of the limit."""

from __future__ import annotations

from epsilometer.core import tables
from epsilometer.pipeline.answers import ASKED
from epsilometer.pipeline.asking import answered
from epsilometer.pipeline.question_params import read as read_params
from epsilometer.pipeline.question_params import recorded_path


def main(name: str) -> None:
    """Write data/asked/<name>.parquet: a row per budget and figure, with the outcome of each trial."""
    tables.write(answered(read_params(), name), recorded_path(name), ASKED)
