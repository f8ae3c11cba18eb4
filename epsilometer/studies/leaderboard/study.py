"""The parts of this study that the core loads (`core.study`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilometer.core.study import Study

if TYPE_CHECKING:
    from epsilometer.studies.leaderboard.params import LeaderboardParams


class TheLeaderboard(Study):
    """Sections `leaderboard` and `leaderboard_cells` of params.yaml."""

    sections = ("epsilometer.studies.leaderboard.report.section",)

    def params(self) -> type[LeaderboardParams]:
        """The data sets, mechanisms and losses."""
        from epsilometer.studies.leaderboard.params import LeaderboardParams

        return LeaderboardParams

    def check(self, params: LeaderboardParams) -> None:
        """Build the mechanism of each cell."""
        from epsilometer.studies.leaderboard.building import build

        for name in params.leaderboard_cells:
            build(params, name)


STUDY = TheLeaderboard()
