"""Stated limits: the largest allowed figures of a mechanism. Losses are in nats.

All limits concern one text. If a person has n texts, divide the limit on the loss by n. The overlap of two output laws
is 1 minus their total variation, and the loss is ln((2 - a) / a), where a is the mean overlap over pairs of texts. Each
of the person's texts forms a pair with a text that it could be confused with. If the n pairs are drawn independently,
or the n rewrites are of one text, the joint loss of the n rewrites is at most the sum of their losses. Proof for two:
let a_1 and a_2 be the mean overlaps of a first and a second rewrite. The noise of the rewrites is independent, and
min(p p', q q') >= min(p, q) min(p', q'). So for each two pairs, the overlap of both rewrites together is at least the
product of their overlaps. The mean of this product is a_1 a_2 for independent pairs, and at least a_1 a_2 for one text,
by Jensen's inequality. Since (2 - a_1)(2 - a_2) >= 2 - a_1 a_2, the loss of both rewrites is at most the sum of their
losses. If a pair that is easy to tell apart tends to come with one that is hard to tell apart, the mean product can be
smaller, and the joint loss larger.

The other limits cannot be divided in this way. For n texts, delta is bounded only at 4 n nats, by n times the delta of
one text at 4 nats. And several texts together may reveal an attribute that no single text reveals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from epsilometer.core.errors import UserError

LOSS, DELTA, IDENTIFIERS, ATTRIBUTE = "loss", "delta_at_4", "identifiers", "attribute"


@dataclass(frozen=True)
class Limits:
    """The largest allowed figures. The settings of `decide` in params.yaml describe these limits, with reasons.

    Raises UserError for a limit that no data can show to be kept, and for a limit that allows everything.
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
                    f"decide.{name}, in nats, must be a finite number > 0, got {value:g}: no number of trials can "
                    "show a loss of 0; a limit of 0.1 takes a few thousand trials",
                    "EPS-A059",
                )
        for name in (DELTA, IDENTIFIERS):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise UserError(
                    f"decide.{name}, a share, must be in (0, 1), got {value:g}: no number of texts can show a share "
                    f"of 0; a limit of 0.01 takes about {530 if name == IDENTIFIERS else 830}, one of 0.001 ten "
                    "times as many",
                    "EPS-A060",
                )
