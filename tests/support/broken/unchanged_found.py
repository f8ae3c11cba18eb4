"""Broken: leaves every other text unchanged, and reports that a rewrite was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import FOUND, Outcomes


@dataclass(frozen=True)
class UnchangedFound:
    edit: Callable[[str], str]

    def rewrite(self, texts: Sequence[str]) -> Rewrites:
        ones = np.ones(len(texts), np.int64)
        rewrites = [self.edit(text) if i % 2 else text for i, text in enumerate(texts)]
        return Rewrites(rewrites, outcomes=Outcomes([FOUND] * len(texts), ones, 9 * ones, ones, ones))
