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
    questions: int


def rewrites(releases: Sequence[Release], to_victim: bool = False) -> Rewrites:
    """Returns the releases as rewrites, in their order; to_victim: whether a victim was asked the questions."""
    questions, none = np.array([release.questions for release in releases], np.int64), np.zeros(len(releases), np.int64)
    outcomes = Outcomes(
        [release.status for release in releases],
        changed=np.array([release.changed for release in releases], np.int64),
        words=np.array([release.words for release in releases], np.int64),
        asked=none if to_victim else questions,
        asked_victim=questions if to_victim else none,
    )
    return Rewrites([release.text for release in releases], outcomes=outcomes)
