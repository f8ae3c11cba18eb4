"""What is released of a text, and what became of it; of many texts as rewrites with outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import Outcomes


class Release(NamedTuple):
    """What is released of a text, and its outcome: nothing of the search for it, so that memory does not grow."""

    text: str
    status: str
    changed: int
    words: int
    asked: int


def rewrites(releases: Sequence[Release], to_victim: bool = False) -> Rewrites:
    """The releases of texts in their order; to_victim: whether the questions were asked of a victim."""
    asked, none = np.array([one.asked for one in releases], np.int64), np.zeros(len(releases), np.int64)
    outcomes = Outcomes(
        [one.status for one in releases],
        changed=np.array([one.changed for one in releases], np.int64),
        words=np.array([one.words for one in releases], np.int64),
        asked=none if to_victim else asked,
        asked_victim=asked if to_victim else none,
    )
    return Rewrites([one.text for one in releases], outcomes=outcomes)
