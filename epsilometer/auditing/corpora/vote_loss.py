"""The exact loss of noisy votes: an adversary sees votes H plus noise Z, and guesses which of k candidates cast H.

The adversary knows all other votes, so only the candidates' votes matter. With Laplace noise of rate r (`noisy_table`),
P(Z = z) = (1 - q) / (1 + q) q^|z| with q = e^-r. In a cell of the table in which candidates cast 0 to s votes, all
outcomes z <= 0 of H + Z have the same likelihood ratios between candidates, and so have all outcomes z >= s. So it is
enough to distinguish s + 1 outcomes. Cells are independent, and a cell in which all candidates cast equally many votes
reveals nothing.

Example: one text is replaced, k candidates are in k cells, and r = epsilon / 2. A cell is up (`one_text`) with
probability p = 1 / (1 + q) if the text votes for it, and otherwise with probability 1 - p. For k = 2 the best adversary
is right with probability p, so the guess loss is epsilon / 2. The loss of an outcome is epsilon with probability p^2, 0
with probability 2 p (1 - p), and -epsilon otherwise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError

Array = NDArray[np.float64]

_MOST = 1 << 22  # largest number of outcomes times candidates


def outcome_laws(votes: NDArray[np.integer], rate: float) -> Array:
    """Return the probabilities [k, outcomes] of the table's outcomes for candidates with these votes [k, cells].

    Raises UserError for more outcomes than memory allows.
    """
    shared = votes.min(0)
    extra = (votes - shared)[:, (votes != shared).any(0)]
    if len(votes) * math.prod(int(top) + 1 for top in extra.max(0)) > _MOST:
        raise UserError(
            "the candidates differ in too many cells for an exact loss; compare fewer candidates or texts", "EPS-A199"
        )
    laws = np.ones((len(votes), 1))
    for cell in extra.T:
        of_cell = np.array([_cell_law(int(own), int(cell.max()), rate) for own in cell])
        laws = (laws[:, :, None] * of_cell[:, None, :]).reshape(len(votes), -1)
    return laws


def _cell_law(own: int, top: int, rate: float) -> Array:
    """Return the probabilities that Z + own is at most 0, equal to 1, ..., top - 1, or at least top."""
    q = math.exp(-rate)
    inside = [(1 - q) / (1 + q) * q ** abs(z - own) for z in range(1, top)]
    return np.array([q**own / (1 + q), *inside, q ** (top - own) / (1 + q)])


def success(votes: NDArray[np.integer], rate: float) -> float:
    """Return the probability that the best adversary guesses right among k equally likely candidates."""
    return float(outcome_laws(votes, rate).max(0).sum() / len(votes))


def guess_loss(votes: NDArray[np.integer], rate: float) -> float:
    """Return ln((k - 1) u / (1 - u)), at least 0, in nats, where u is the success probability of the best adversary."""
    best, k = success(votes, rate), len(votes)
    return max(0.0, math.log((k - 1) * best / (1 - best)))


def delta(votes: NDArray[np.integer], rate: float, level: float) -> float:
    """Return the largest P(S | first) - e^level P(S | second) over sets S, for two candidates with votes [2, cells]."""
    first, second = outcome_laws(votes, rate)
    return float(np.maximum(first - math.exp(level) * second, 0).sum())


def pure_loss(votes: NDArray[np.integer], rate: float) -> float:
    """Return the largest absolute log-ratio of two candidates' laws: the rate times the L1 distance of the votes."""
    first, second = outcome_laws(votes, rate)
    return float(np.abs(np.log(first / second)).max())


def of_pairs(cells: NDArray[np.integer], rate: float) -> tuple[float, float]:
    """Return the guess loss at the mean success over all pairs of texts, and the share of pairs in the same cell.

    For each pair, the adversary guesses which of the two texts has voted. cells: [n], the cell of each text.
    """
    n = len(cells)
    if n < 2:
        raise UserError("an average over pairs needs at least two texts; give more", "EPS-A200")
    counts = np.bincount(cells)
    alike = float((counts * (counts - 1)).sum() / (n * (n - 1)))
    right = alike / 2 + (1 - alike) / (1 + math.exp(-rate))
    return math.log(right / (1 - right)), alike
