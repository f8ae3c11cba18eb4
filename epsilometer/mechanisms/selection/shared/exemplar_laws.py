"""Output distributions (laws) of exemplars, or of sets of exemplars, for a text.

Let e(x) be the embedding of a text x, and n(x) the nearest of m exemplars. Outputs are fixed sets S_1..S_N of
exemplars. Except under subset selection, each set is a single exemplar c_i. P(S_i | x) is proportional to

    randomized response, subset selection:  e^(epsilon [n(x) in S_i])
    exponential:                            e^(-epsilon ||e(x) - e(c_i)|| / 2)
    two levels:                             the product of two normalised factors:
                                            e^(epsilon/2 [n(x) is in the group of c_i]) over groups, and
                                            e^(epsilon/2 [c_i is nearest to x in this group]) within the group.

Subset selection (Ye and Barg 2018) releases a set of w exemplars. Each exemplar is in the same number of sets. So all
texts have the same normaliser, as the claim requires. Usually all sets of size w are used. If there are too many, the
rotations of some fixed random sets are used instead. All pairs of exemplars occur in these sets about equally often. If
pairs occurred exactly equally often, the sets would be a block design, and have the same utility as all sets (Park, Nam
and Lee 2023).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.laws import log_softmax
from epsilometer.core.randomness import Noise

Array = NDArray[np.float64]
Kind = Literal["randomized_response", "subset_selection", "exponential"]
_SETS = 4096  # most outputs, unless the rotations of a single set are more


class ExemplarLaw(Protocol):
    """A law of outputs.

    shown: bool [outputs, m], the exemplars in each output. by_nearest: True if the law depends only on n(x).
    """

    @property
    def shown(self) -> NDArray[np.bool_]: ...
    @property
    def by_nearest(self) -> bool: ...
    def log_law(self, nearness: Array, epsilon: float) -> Array:
        """Return ln P [n, outputs] for n texts. nearness: [n, m], inner products of texts and exemplars."""
        ...


@dataclass(frozen=True)
class InSets:
    """Randomised response on sets. Sets with the nearest exemplar are e^epsilon times as likely as other sets."""

    shown: NDArray[np.bool_]
    by_nearest: bool = True

    def log_law(self, nearness: Array, epsilon: float) -> Array:
        """Return ln P as in `ExemplarLaw`."""
        law: Array = log_softmax(epsilon * self.shown[:, nearness.argmax(1)].T.astype(np.float64))
        return law


@dataclass(frozen=True)
class ByDistance:
    """The exponential mechanism on Euclidean distances."""

    shown: NDArray[np.bool_]
    by_nearest: bool = False

    def log_law(self, nearness: Array, epsilon: float) -> Array:
        """Return ln P as in `ExemplarLaw`."""
        law: Array = log_softmax(-epsilon / 2 * np.sqrt(np.maximum(2 - 2 * nearness, 0)))
        return law


@dataclass(frozen=True)
class TwoLevels:
    """Randomised response on groups of exemplars, then on the exemplars of the released group.

    Each of the two steps spends half of epsilon.

    group: [m], the index of each exemplar's group.
    """

    group: NDArray[np.integer]
    by_nearest: bool = False

    @property
    def shown(self) -> NDArray[np.bool_]:
        """The exemplars in each output; here each output is one exemplar."""
        return np.eye(len(self.group), dtype=bool)

    def log_law(self, nearness: Array, epsilon: float) -> Array:
        """Return ln P as in `ExemplarLaw`."""
        count, own = int(self.group.max()) + 1, self.group[nearness.argmax(1)]
        first = log_softmax(epsilon / 2 * (own[:, None] == np.arange(count)))
        law = np.empty(nearness.shape)
        for number in range(count):
            members = np.flatnonzero(self.group == number)
            nearest = nearness[:, members].argmax(1)
            second = log_softmax(epsilon / 2 * (nearest[:, None] == np.arange(len(members))))
            law[:, members] = first[:, [number]] + second
        return law


def law_of(kind: Kind, size: int | None, levels: int) -> Callable[[Array], ExemplarLaw]:
    """Return a function that builds the law from the exemplars' unit vectors [m, d].

    size: w, for subset selection; None for other laws.
    """

    def make(vectors: Array) -> ExemplarLaw:
        m = len(vectors)
        if levels == 2:
            return TwoLevels(groups(vectors))
        if kind == "exponential":
            return ByDistance(np.eye(m, dtype=bool))
        return InSets(np.eye(m, dtype=bool) if size is None else sets(m, size))

    return make


def groups(vectors: Array) -> NDArray[np.int64]:
    """Divide m exemplars into about sqrt(m) groups, at least two, by k-means; return each exemplar's group, [m]."""
    from sklearn.cluster import KMeans

    count = max(2, round(len(vectors) ** 0.5))
    number = KMeans(count, n_init=4, random_state=0).fit(vectors).labels_
    return np.unique(number, return_inverse=True)[1].astype(np.int64)


def sets(m: int, size: int) -> NDArray[np.bool_]:
    """Return N sets of `size` exemplars, bool [N, m]. Each exemplar is in the same number of sets."""
    if comb(m, size) <= _SETS:
        held = np.array(list(combinations(range(m), size)))
    else:
        count = max(1, _SETS // m)
        order = Noise.named(count, "sets of exemplars", m, size).ragged(np.full(count, m))[:, 0].reshape(count, m)
        first = np.argsort(order, axis=1)[:, :size]
        held = np.sort((first[:, None] + np.arange(m)[:, None]) % m, axis=2).reshape(-1, size)
        held = np.unique(held, axis=0)  # keeps whole orbits of rotations, so exemplars stay balanced
    shown = np.zeros((len(held), m), bool)
    shown[np.arange(len(held))[:, None], held] = True
    return shown
