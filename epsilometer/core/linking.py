"""The interface of linkage attacks, which score how well facts about a person match a rewrite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Facts = Sequence[str]
"""The adversary's facts about one person: statements about the person, or other texts by the person."""


class LinkingAttack(Protocol):
    """An adversary with side information about a person, who looks for that person's rewrite."""

    def link(self, facts: Sequence[Facts], rewrites: Sequence[str]) -> NDArray[np.floating]:
        """Return scores [m, N] of m people's facts and N rewrites, larger for a better match.

        Each person wrote the source of one of the rewrites. A score depends on the facts of its row and on the
        rewrites, and not on the order of rewrites or rows.
        """
        ...
