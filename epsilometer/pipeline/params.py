"""The whole of params.yaml: the parts of all studies, combined."""

from __future__ import annotations

from pathlib import Path

from pydantic import model_validator

from epsilometer.pipeline.question_params import QuestionParams
from epsilometer.project import params
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.leaderboard.params import LeaderboardParams
from epsilometer.studies.training.params import TrainingParams


class Params(QuestionParams, AnonymityParams, LeaderboardParams, TrainingParams):
    """The whole file."""

    @model_validator(mode="after")
    def _names_something(self) -> Params:
        studied = (
            self.cells,
            self.downstream,
            self.anonymity,
            self.leaderboard_cells,
            self.private_training,
            self.sent,
            self.questions,
        )
        if not any(studied):
            raise ValueError(
                "must name something to study: cells, downstream, anonymity, leaderboard, private_training, sent or "
                "questions"
            )
        return self


def read(path: Path | str = "params.yaml") -> Params:
    """Read and validate a parameter file, as `project.params.read` does."""
    return params.read(Params, path, whole=True)


__all__ = ["Params", "read"]
