"""Stated limits: the most that a mechanism in use may lose. Losses are in nats.

All limits concern one text. For n texts of a person the loss is at most n times as large, so divide its limit by n: let
a be the mean over pairs of texts of 1 - TV, the chance that two texts cannot be told apart. For two rewrites with
independent noise it is at least a_1 a_2, since min(p p', q q') >= min(p, q) min(p', q'); the loss is ln((2 - a) / a),
and (2 - a_1)(2 - a_2) >= 2 - a_1 a_2, so the loss of both is at most the sum. The other limits do not divide. The
levels of delta add as well: only delta at 4 n of n texts is at most n times as large. And several texts together may
reveal an attribute that no single text reveals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from epsilometer.core.errors import UserError

LOSS, DELTA, IDENTIFIERS, ATTRIBUTE = "loss", "delta_at_4", "identifiers", "attribute"


@dataclass(frozen=True)
class Limits:
    """The largest allowed figures; the settings of `decide` in params.yaml describe them, with reasons.

    Raises UserError for values that nothing could show to be kept, or that allow everything.
    """

    loss: float = 1.0
    delta_at_4: float = 0.01
    identifiers: float = 0.01
    attribute: float = 0.5

    def __post_init__(self) -> None:
        for name in (LOSS, ATTRIBUTE):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise UserError(
                    f"decide.{name}, in nats, must be a finite number > 0, got {value:g}: that nothing at all is lost "
                    "no number of trials could show; 0.1 takes some thousand",
                    "EPS-A059",
                )
        for name in (DELTA, IDENTIFIERS):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise UserError(
                    f"decide.{name}, a share, must be in (0, 1), got {value:g}: that it never happens no number of "
                    f"texts could show; 0.01 takes some {530 if name == IDENTIFIERS else 830}, 0.001 ten times as many",
                    "EPS-A060",
                )
