"""Broken: 1-Diffractor as published (sjmeis/Diffractor 338d305), with lists of different vocabularies.

List l lacks every fifth word, starting at word l. Candidates come only from lists that contain the word. A word in no
list, as can happen with a single list, passes unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.laws import Laws
from epsilometer.mechanisms.words.diffractor import Diffractor, Geometric


@component
class ReleasedDiffractor(Diffractor):
    def laws(self, texts: Sequence[str]) -> Laws:
        size = len(self.vocabulary)

        def log_probabilities(words: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                total, lists = np.zeros((len(words), size)), np.zeros((len(words), 1))
                for number, order in enumerate(self.lists.order):
                    held = order[order % 5 != number]
                    place = np.full(size, -1)
                    place[held] = np.arange(len(held))
                    here = place[words] >= 0
                    law = Geometric(len(held)).log_law(place[words[here], None], np.arange(len(held)), epsilon)
                    total[np.ix_(here, held)] += np.exp(law)
                    lists[here] += 1
                total /= np.maximum(lists, 1)
                nowhere = np.flatnonzero(lists == 0)
                total[nowhere, words[nowhere]] = 1
                with np.errstate(divide="ignore"):
                    yield np.log(total)

        return Laws(self.vocabulary.encode(texts), size, log_probabilities)
