"""Five folds of a population's texts: F1 of a classifier for each way to get its training texts, with an interval.

The ways are public texts, rewrites, and a released corpus. Intervals have a confidence of 99 %.

A tenth of the texts, in whole groups, is for choosing among mechanisms and budgets. The other texts are in five folds
of whole groups. Each fold is held out once, and tests a classifier that learns from the other four folds.

The interval is for the expectation of the mean F1 over new texts of the same population, new noise and new exemplars.
The numbers of texts and the public texts stay the same. The interval is the wider of two intervals:

1. Student's interval of the five F1. Folds share training texts, so the variance of the mean F1 is s^2 (1 / 5 + r)
   instead of s^2 / 5. Here r is the number of test texts of a fold divided by its number of training texts (Nadeau and
   Bengio 2003). Two folds have about three quarters of their training texts in common. The correlation of their F1 is
   assumed to be at most 3/4, so r is capped at 3. For public texts alone r is 0, since all folds learn from the same
   texts.
2. Clopper and Pearson's interval of a share of independent test texts. It stays wide even if all folds have the same
   F1. Macro F1 counts as a share of n texts. For L labels with n_l test groups each, n is L^2 / sum(1 / n_l), or the
   number of test groups if that is smaller. A macro average has about the variance of such a share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from epsilometer.auditing.corpora.ways import Labelled, Ways
from epsilometer.auditing.estimation.runs import mean_and_reach
from epsilometer.corpora.parts import places

FOLDS = 5
CHOICE = 0.1  # share of the texts for choosing
_MOST = 2000  # largest number of private texts of a fold, and largest number of its test texts
_IN_COMMON = 3 / 4  # share of the training texts that two folds have in common
_ALPHA = 0.01


@dataclass(frozen=True)
class Folds:
    """Texts in five folds. Texts with a label that no public text has are left out.

    public: texts with labels, the same for all folds. groups: the number of each text's group, [n]. seed and name
    determine the order of the groups; fold i has seed + i for its exemplars and noise.
    """

    public: Labelled
    texts: Labelled
    groups: NDArray[np.int64]
    seed: int
    name: str

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The public list of labels."""
        return tuple(sorted(set(self.public.labels)))

    @cached_property
    def _fold(self) -> NDArray[np.int64]:
        """The fold of each text; -1 for a text that is used for choosing, -2 for a text that is left out."""
        at = places(self.groups, self.seed, "ways", self.name)
        fold = np.where(at < CHOICE, -1, (at - CHOICE) / (1 - CHOICE) * FOLDS // 1)
        listed = set(self.labels)
        return np.where([label in listed for label in self.texts.labels], fold, -2).astype(np.int64)

    @cached_property
    def learnt(self) -> Sequence[NDArray[np.int64]]:
        """The rows of the private texts of each fold."""
        return [np.flatnonzero((self._fold >= 0) & (self._fold != number)) for number in range(FOLDS)]

    @cached_property
    def _tests(self) -> Sequence[NDArray[np.int64]]:
        return [np.flatnonzero(self._fold == number)[:_MOST] for number in range(FOLDS)]

    @cached_property
    def ways(self) -> Sequence[Ways]:
        """The public, private and held-out texts of each fold."""
        choice = self.texts.at(np.flatnonzero(self._fold == -1)[:_MOST])
        return [
            Ways(
                self.public,
                self.texts.at(learnt[:_MOST]),
                choice,
                self.texts.at(tests),
                labels=self.labels,
                seed=self.seed + number,
            )
            for number, (learnt, tests) in enumerate(zip(self.learnt, self._tests, strict=True))
        ]

    def by_hand(self) -> dict[str, Any]:
        """Return the number of public texts labelled by hand, the F1 of the folds, and the half-width."""
        counts, f1 = zip(*(ways.by_hand() for ways in self.ways), strict=True)
        return {"texts": counts[0], "f1": f1, "reach": self.reach(f1, None)}

    def rewritten(self, rewrites: Sequence[Labelled]) -> dict[str, Any]:
        """Return the number of rewrites, the mean F1 on the texts for choosing, the F1 of the folds and the half-width.

        rewrites: the rewrites of each fold.
        """
        choice, f1 = zip(*map(Ways.rewritten, self.ways, rewrites), strict=True)
        texts = min(map(len, rewrites))
        return {"texts": texts, "choice": float(np.mean(choice)), "f1": f1, "reach": self.reach(f1, texts)}

    def released(self, epsilon: float) -> dict[str, Any]:
        """Return the number of texts in a release, the F1 of the folds, and the half-width."""
        f1, texts = [ways.released(epsilon) for ways in self.ways], min(len(ways.private) for ways in self.ways)
        return {"texts": texts, "f1": f1, "reach": self.reach(f1, texts)}

    def reach(self, f1: Iterable[float], texts: int | None) -> float:
        """Return the half-width of the interval. texts: a fold's number of private texts; None for public texts."""
        each = list(f1)
        tests = float(np.mean([len(rows) for rows in self._tests]))
        shared = 0.0 if texts is None else min(tests / (tests + texts), _IN_COMMON)
        mean, reach = mean_and_reach(each, shared=shared)
        return max(reach, _reach_of_share(mean, self._cases))

    @cached_property
    def _cases(self) -> float:
        """The number n of independent texts at which a share has about the variance of macro F1."""
        rows = np.concatenate(self._tests).tolist()
        cases = {(self.texts.labels[row], self.groups[row]) for row in rows}
        counts = np.unique([label for label, _ in cases], return_counts=True)[1]
        return min(float(len(counts) ** 2 / (1 / counts).sum()), len({self.groups[row] for row in rows}))


def _reach_of_share(share: float, cases: float) -> float:
    """Return the distance of a share to the farther bound of its interval by Clopper and Pearson."""
    hits = share * cases
    low = float(betaincinv(hits, cases - hits + 1, _ALPHA / 2)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, cases - hits, 1 - _ALPHA / 2)) if hits < cases else 1.0
    return max(share - low, high - share)
