"""Threshold on the target's loss: members are fitted better (Yeom, Giacomelli, Fredrikson and Jha, CSF 2018).

score(x) = - loss of x under the target. One threshold for all examples, so an easy text looks like a member to it.
ML Privacy Meter's population attack sweeps the same threshold over quantiles of the losses of non-members; the curve of
true against false positives is the same. Yeom et al. call a member whose loss is at most the mean loss in training,
which a model is often published with; `thresholds` is that rule.

Needs no other model, and cannot tell a hard member from an easy non-member.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.membership import Evidence, losses


@component
class Population:
    """Has no settings."""

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        """As `MembershipAttack.score`."""
        return -losses(evidence.targets, evidence.labels)[:, evidence.asked]

    def thresholds(self, evidence: Evidence) -> NDArray[np.float64]:
        """The mean training losses, below which Yeom et al. call a member."""
        return -evidence.training_losses
