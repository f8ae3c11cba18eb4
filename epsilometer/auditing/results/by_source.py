"""The loss under the law of a mechanism that gives each text one permanent answer: each text counts once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.successes import loss_at


def loss_of_law(right: NDArray[np.bool_], source: NDArray[np.integer], candidates: int, alpha: float) -> float:
    """Return the lower bound on the loss under the mechanism's law, in nats, at confidence 1 - alpha / 2.

    right: [n], whether the guess was right; source: [n], the text that was rewritten. Trials of one text are not
    independent where each text has one permanent answer, since all show the same draw. The shares of right guesses of
    different texts are, and betting (`betting`) bounds their mean over the population from which texts were drawn.
    """
    _, number = np.unique(source, return_inverse=True)
    share = np.bincount(number, right) / np.bincount(number)
    return loss_at(interval(share, alpha, fixed=True)[0], candidates)
