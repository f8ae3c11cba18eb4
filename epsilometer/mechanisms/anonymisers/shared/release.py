"""The released text with its outcome, and the conversion of releases to rewrites with outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import Outcomes


class Release(NamedTuple):
    """A released text and its outcome, without any state of the search, so that memory does not grow."""

    text: str
    status: str
    changed: int
    words: int
    questions: int


def rewrites(releases: Sequence[Release], to_victim: bool = False) -> Rewrites:
    """Return the releases as rewrites, in their order; to_victim: whether a victim was queried."""
    questions, none = np.array([release.questions for release in releases], np.int64), np.zeros(len(releases), np.int64)
    outcomes = Outcomes(
        [release.status for release in releases],
        changed=np.array([release.changed for release in releases], np.int64),
        words=np.array([release.words for release in releases], np.int64),
        asked=none if to_victim else questions,
        asked_victim=questions if to_victim else none,
    )
    return Rewrites([release.text for release in releases], outcomes=outcomes)
