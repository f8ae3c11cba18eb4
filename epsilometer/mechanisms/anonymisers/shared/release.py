"""What is released of a text, with its outcome; and how many of these become rewrites with outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import Outcomes


class Release(NamedTuple):
    """What is released of a text, and its outcome. Nothing of the search is kept, so that memory does not grow."""

    text: str
    status: str
    changed: int
    words: int
    asked: int


def rewrites(releases: Sequence[Release], to_victim: bool = False) -> Rewrites:
    """Returns the releases as rewrites, in their order; to_victim: whether a victim was asked the questions."""
    asked, none = np.array([one.asked for one in releases], np.int64), np.zeros(len(releases), np.int64)
    outcomes = Outcomes(
        [one.status for one in releases],
        changed=np.array([one.changed for one in releases], np.int64),
        words=np.array([one.words for one in releases], np.int64),
        asked=none if to_victim else asked,
        asked_victim=asked if to_victim else none,
    )
    return Rewrites([one.text for one in releases], outcomes=outcomes)
