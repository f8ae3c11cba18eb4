"""The budgets at which a mechanism's loss over pairs of texts meets a target, by its law.
For mechanisms with latents it is the loss of the latents, an upper bound of that of the text; for text that is written
token by token it is an estimate from about a hundred samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from epsilometer.auditing.calibration.computed import meet
from epsilometer.auditing.exact_loss.from_texts import chosen
from epsilometer.auditing.exact_loss.losses import Effort
from epsilometer.auditing.exact_loss.measuring import measure
from epsilometer.core.mechanism import Mechanism

DRAWS = 96
WIDTH = 1.25  # the search stops at this ratio of an interval's ends


class LossByBudget:
    """A mechanism's losses over pairs of texts; those of a budget are computed once."""

    def __init__(self, mechanism: Mechanism, texts: Sequence[str]) -> None:
        self._mechanism, self._texts, self._pairs = mechanism, list(texts), chosen(texts, DRAWS)
        self._rows: dict[float, dict[str, Any]] = {}

    def at(self, epsilon: float) -> dict[str, Any]:
        """Return the row of all pairs, with the columns of `EXACT`."""
        if epsilon not in self._rows:
            effort = Effort(all_pairs=False, draws=DRAWS)
            losses = measure(self._mechanism, self._texts, [epsilon], self._pairs, effort).losses
            self._rows[epsilon] = losses.row(by_predicate=pl.col("pairs") == "all", named=True)
        return self._rows[epsilon]

    def ends(self, epsilon: float) -> tuple[float, float]:
        """Return the ends of the interval of the average loss, in nats."""
        row = self.at(epsilon)
        return row["average_low"], row["average_high"]

    def tail(self, epsilon: float) -> tuple[float, float]:
        """Return the upper end of delta at 4 nats, twice, as the ends of an interval."""
        return (self.at(epsilon)["delta_at_4"],) * 2

    def losing(self, nats: float, least: float, most: float) -> tuple[float, bool]:
        """Return the budget between two with this loss, to three digits, and whether there is one.
        If there is none, return the one of the two with the nearest loss.
        """
        met = meet(self.ends, nats, least, most, width=WIDTH, watch=lambda *_: None)
        epsilon = met.best or (met.high if met.low == 0 else met.low)
        return float(f"{epsilon:.3g}"), met.best is not None

    def within(self, delta: float, least: float, most: float) -> float | None:
        """Return approximately the largest budget between two with at most this delta at 4 nats, or None."""
        met = meet(self.tail, delta, least, most, width=WIDTH, watch=lambda *_: None)
        return float(f"{met.low:.3g}") if met.best is not None else None

    def method(self, epsilon: float) -> str:
        """Return how the loss was computed."""
        row = self.at(epsilon)
        return "estimate" if row["method"] != "exact" else "law of latents" if row["sees"] == "latents" else "law"
