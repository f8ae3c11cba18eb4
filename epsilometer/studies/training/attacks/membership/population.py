"""Threshold on the target's loss: members are fitted better (Yeom, Giacomelli, Fredrikson and Jha, CSF 2018).

score(x) = - loss of x under the target. All examples share one threshold, so an easy text looks like a member.
ML Privacy Meter's population attack sweeps the same threshold over quantiles of the losses of non-members; the curve of
true against false positives is the same. Yeom et al. call an example a member if its loss is at most the mean training
loss, which is often published with a model; `thresholds` is that rule.

The attack needs no other model, and cannot tell a hard member from an easy non-member.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.studies.training.membership import Evidence, losses


@component
class Population:
    """The attack by the target's loss. It has no settings."""

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return the scores (`MembershipAttack.score`)."""
        return -losses(evidence.targets, evidence.labels)[:, evidence.asked]

    def thresholds(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return the thresholds [t] of Yeom et al.: a member's loss is below the target's mean training loss."""
        return -evidence.training_losses
