"""Released texts with their outcomes, and their conversion to `Rewrites`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import Outcomes


class Release(NamedTuple):
    """A released text and its outcome. It has no reference to the search, so that the search's memory is freed."""

    text: str
    status: str
    changed: int
    words: int
    questions: int


def rewrites(releases: Sequence[Release], to_victim: bool = False) -> Rewrites:
    """Return the releases as rewrites, in order. to_victim: True if a victim was asked, not auxiliaries."""
    questions, none = np.array([release.questions for release in releases], np.int64), np.zeros(len(releases), np.int64)
    outcomes = Outcomes(
        [release.status for release in releases],
        changed=np.array([release.changed for release in releases], np.int64),
        words=np.array([release.words for release in releases], np.int64),
        asked=none if to_victim else questions,
        asked_victim=questions if to_victim else none,
    )
    return Rewrites([release.text for release in releases], outcomes=outcomes)
