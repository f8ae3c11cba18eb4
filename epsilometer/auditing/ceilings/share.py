"""The share of the possible worth that a mechanism reaches, on trials of sets (`set_trials`): rows of `POSSIBLE`.

Worth U is the mean cosine of text and rewrite over the trials; l is the loss of the same trials. F(l) is the largest
worth that any mechanism can have at that loss (`frontier.py`), and c is the worth of the best public text given to
everybody. The share of the possible is (U - c) / (F(l) - c). A loss computed from a mechanism's law gives the exact
share. A law of latents, or draws of a law, give an upper bound of the loss, and so of F(l); then the true share is at
least the computed figure. Attacks give a lower bound of the loss; then the true share is at most the computed figure,
which may exceed 1. If U is below c, "at least" and "at most" are exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.ceilings.ceiling import share_of_possible
from epsilometer.auditing.ceilings.certificate import proved_loss
from epsilometer.auditing.ceilings.frontier import Frontier, TextSet, frontiers, mean, success_of, under_pure_epsilon
from epsilometer.auditing.exact_loss.importance import AT_LEAST as SAMPLED_AT_LEAST
from epsilometer.auditing.exact_loss.importance import IMPORTANCE
from epsilometer.auditing.exact_loss.rows import ALL
from epsilometer.auditing.results.diagnostics import STRONGEST

BY_LAW, BY_LATENTS, BY_DRAWS, BY_ATTACKS = "law", "latents", "draws", "attacks"
EXACTLY, AT_LEAST, AT_MOST = "=", "≥", "≤"
NATS = np.concatenate([np.arange(40) / 20, np.arange(8, 33) / 4])  # losses at which a curve is evaluated: 0 to 8 nats

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Lost:
    """A loss in nats and its evidence.

    nats: the loss itself (BY_LAW), an upper bound (BY_LATENTS, BY_DRAWS) or a lower bound (BY_ATTACKS).
    """

    nats: float
    by: str


@dataclass(frozen=True)
class Sets:
    """The sets of an audit and the ceilings on them.

    served: the sets of texts; all pairs within a set are audited. one_text: c, None without public texts.
    """

    served: Sequence[TextSet]
    one_text: float | None

    @cached_property
    def frontiers(self) -> list[Frontier]:
        """F of each set."""
        return frontiers(self.served)

    @cached_property
    def whole(self) -> Frontier:
        """F of all sets together."""
        return mean(self.frontiers)

    def curve(self) -> Iterator[dict[str, float]]:
        """Yield rows of `CEILINGS`: the ceiling at each loss in NATS."""
        for nats, worth in zip(NATS.tolist(), self.whole.ceiling(success_of(NATS)).tolist(), strict=True):
            yield {"nats": nats, "ceiling": worth}

    def under(self, epsilon: float) -> float:
        """Return the ceiling under this pure epsilon between every two texts of a set."""
        return float(under_pure_epsilon(self.served, epsilon).mean())


def best_text(public: Array, sets: Sequence[TextSet]) -> float | None:
    """Return c: the mean cosine of the best public text with the texts of all sets; None without public texts.

    public: unit embeddings [n, d].
    """
    if not len(public):
        return None
    return float((public @ np.concatenate([texts.vectors for texts in sets]).mean(axis=0)).max())


def lost(exact: pl.DataFrame, estimates: pl.DataFrame) -> Lost | None:
    """Return the loss of a cell at one budget: from its law if that is known, else from attacks.

    exact: the cell's rows of schema `EXACT`; estimates: its rows of schema `ESTIMATES`. Returns None if neither table
    has a loss.
    """
    for law in exact.filter(pairs=ALL).to_dicts():
        if not law["released"]:
            return Lost(law["average_high"], BY_LATENTS)
        if law["method"] == SAMPLED_AT_LEAST:  # a lower bound, like that of attacks
            return Lost(law["average_low"], BY_ATTACKS)
        if law["method"] == IMPORTANCE:
            return Lost(law["average_high"], BY_DRAWS)
        return Lost(law["average"], BY_LAW)
    for best in estimates.filter(attack=STRONGEST).to_dicts():
        return Lost(best["loss"], BY_ATTACKS)
    return None


def pure_claim(claims: Array, estimates: pl.DataFrame) -> float | None:
    """Return the pure epsilon claimed for all trials; None if claims differ, are missing or have a delta.

    claims: [trials], the claimed losses; estimates: rows of `ESTIMATES` of the cell at that budget.
    """
    alike = bool(np.isfinite(claims).all() and np.ptp(claims) == 0)
    return float(claims[0]) if alike and not (estimates["delta"] > 0).any() else None


def row(sets: Sets, worths: Array, lost: Lost, pure_epsilon: float | None, alpha: float) -> dict[str, Any]:
    """Return the columns of `POSSIBLE` from `worth` on, except the bounds of worth.

    worths: [sets], the cosine in each set's trial. pure_epsilon: the claim between every two texts of a set, or
    None. alpha: the probability that `proved`, the loss proved by worth, is too large.
    """
    worth = float(worths.mean())
    share = None if sets.one_text is None else share_of_possible(worth, lost.nats, sets.whole, sets.one_text)
    turned = sets.one_text is not None and worth < sets.one_text
    least, most = (AT_MOST, AT_LEAST) if turned else (AT_LEAST, AT_MOST)
    how = {BY_LAW: EXACTLY, BY_LATENTS: least, BY_DRAWS: least, BY_ATTACKS: most}
    return {
        "worth": worth,
        "loss": lost.nats,
        "by": lost.by,
        "ceiling": float(sets.whole.ceiling(success_of(lost.nats))),
        "pure_epsilon": pure_epsilon,
        "pure_ceiling": None if pure_epsilon is None else sets.under(pure_epsilon),
        "one_text": sets.one_text,
        "share": None if share is None or math.isnan(share) else share,
        "share_is": how[lost.by],
        "proved": proved_loss(sets.frontiers, worths, alpha),
    }
