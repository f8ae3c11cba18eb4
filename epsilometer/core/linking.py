"""The interface of linkage attacks: facts about people and rewrites go in, scores of their match come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Facts = Sequence[str]
"""The adversary's facts about one person: claims, or other texts by that person."""


class LinkingAttack(Protocol):
    """An adversary with side information about a person, who looks for that person's rewrite."""

    def link(self, facts: Sequence[Facts], rewrites: Sequence[str]) -> NDArray[np.floating]:
        """Return scores [m, N] of m people's facts and N rewrites, larger for a better match.

        Each person wrote the source of one of the rewrites. A score depends on the facts of its row and on the
        rewrites, not on their positions.
        """
        ...
