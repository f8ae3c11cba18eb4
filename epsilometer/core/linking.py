"""What an attack by linking is: what is known of people and rewrites go in, scores of how well they fit out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Facts = Sequence[str]
"""What an adversary knows of one person: claims, or other texts of theirs."""


class LinkingAttack(Protocol):
    """An adversary who looks for the rewrite of a person of whom they know something."""

    def link(self, facts: Sequence[Facts], rewrites: Sequence[str]) -> NDArray[np.floating]:
        """facts: of each of m people; rewrites: N, among which is one of each -> [m, N], larger where they fit better.

        A score goes by the facts of its row and by the rewrites, not by where in their order any of them stands.
        """
        ...
