"""The mechanism of a cell."""

from __future__ import annotations

from epsilometer.core.attack import Checked
from epsilometer.core.mechanism import Mechanism, budgets, build_mechanism
from epsilometer.project.params import ProjectParams
from epsilometer.project.sections import Cell


def build(params: ProjectParams, entry: Cell) -> Mechanism:
    """Build the mechanism of a cell. The mechanism may refuse a data set that is not public.

    Raises UserError for a missing privacy budget, and for a mechanism that must not read these texts.
    """
    place = f"mechanisms.{entry.mechanism}"
    built = build_mechanism(str(params.code(entry)), entry.settings, entry.resource, f"{place}.settings")
    budgets(built, entry.epsilons, f"{place}.epsilons")
    if isinstance(built, Checked):
        built.check(params.datasets[entry.dataset].public)
    return built
