"""The mechanism of a leaderboard's cell."""

from __future__ import annotations

from epsilometer.core.attack import Checked
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import Mechanism, build_mechanism, has_budget
from epsilometer.studies.leaderboard.params import LeaderboardParams


def build(params: LeaderboardParams, name: str) -> Mechanism:
    """Build the mechanism of a cell, by the cell's name.

    Raises UserError if the mechanism has no privacy budget, or if the data set is private and the mechanism may see
    only public texts.
    """
    cell = params.leaderboard_cells[name]
    place = f"leaderboard.mechanisms.{cell.mechanism}"
    built = build_mechanism(str(params.code(cell)), cell.settings, cell.resource, f"{place}.settings")
    if not has_budget(built):
        raise UserError(
            f"{place} takes no privacy budget, so its loss cannot be set to {cell.loss:g} nats; leave it out",
            "EPS-S049",
        )
    if isinstance(built, Checked):
        built.check(params.datasets[cell.dataset].public)
    return built
