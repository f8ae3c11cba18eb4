"""The budgets at which a mechanism's loss over pairs of texts meets a target, by its law.

Of mechanisms with latents it is the loss of these, which bounds that of the text; of text that is written token by
token an estimate by about a hundred draws.
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
WIDTH = 1.25  # the ratio of an interval's ends to stop at


class LossByBudget:
    """A mechanism's losses over pairs of texts, each budget's computed once."""

    def __init__(self, mechanism: Mechanism, texts: Sequence[str]) -> None:
        self._mechanism, self._texts, self._pairs = mechanism, list(texts), chosen(texts, DRAWS)
        self._rows: dict[float, dict[str, Any]] = {}

    def at(self, epsilon: float) -> dict[str, Any]:
        """The row of all pairs, with the columns of `EXACT`."""
        if epsilon not in self._rows:
            effort = Effort(all_pairs=False, draws=DRAWS)
            losses = measure(self._mechanism, self._texts, [epsilon], self._pairs, effort).losses
            self._rows[epsilon] = losses.row(by_predicate=pl.col("pairs") == "all", named=True)
        return self._rows[epsilon]

    def ends(self, epsilon: float) -> tuple[float, float]:
        """The average loss, in nats, lies in between."""
        row = self.at(epsilon)
        return row["average_low"], row["average_high"]

    def tail(self, epsilon: float) -> tuple[float, float]:
        """Delta at 4 nats, its upper end, twice."""
        return (self.at(epsilon)["delta_at_4"],) * 2

    def losing(self, nats: float, least: float, most: float) -> tuple[float, bool]:
        """The budget between two at which so much is lost, in three digits, and whether there is one.

        Where there is none, that of the two at which the loss comes nearest.
        """
        met = meet(self.ends, nats, least, most, width=WIDTH, watch=lambda *_: None)
        epsilon = met.best or (met.high if met.low == 0 else met.low)
        return float(f"{epsilon:.3g}"), met.best is not None

    def within(self, delta: float, least: float, most: float) -> float | None:
        """The largest budget between two at which delta at 4 nats is at most this, nearly; None without one."""
        met = meet(self.tail, delta, least, most, width=WIDTH, watch=lambda *_: None)
        return float(f"{met.low:.3g}") if met.best is not None else None

    def method(self, epsilon: float) -> str:
        """How the loss is known."""
        row = self.at(epsilon)
        return "estimate" if row["method"] != "exact" else "law of latents" if row["sees"] == "latents" else "law"
