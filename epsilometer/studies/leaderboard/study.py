"""The leaderboard study, registered with the core through `STUDY` (see `core.study`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilometer.core.study import Study

if TYPE_CHECKING:
    from epsilometer.studies.leaderboard.params import LeaderboardParams


class TheLeaderboard(Study):
    """The study behind the sections `leaderboard` and `leaderboard_cells` of params.yaml."""

    sections = ("epsilometer.studies.leaderboard.report.section",)

    def params(self) -> type[LeaderboardParams]:
        """Return the class of the study's settings: data sets, mechanisms and losses."""
        from epsilometer.studies.leaderboard.params import LeaderboardParams

        return LeaderboardParams

    def check(self, params: LeaderboardParams) -> None:
        """Build the mechanism of each cell. Raises UserError as `building.build` does."""
        from epsilometer.studies.leaderboard.building import build

        for name in params.leaderboard_cells:
            build(params, name)


STUDY = TheLeaderboard()
