"""A threshold on the target's loss: members have smaller losses (Yeom, Giacomelli, Fredrikson and Jha, CSF 2018).

score(x) = - loss of x under the target. The attack needs no other model. All examples share one threshold, so the
attack cannot distinguish a hard member from an easy non-member.

The population attack of ML Privacy Meter sets this threshold at quantiles of non-members' losses, so its ROC curve is
the same. Yeom et al. call an example a member if its loss is at most the mean training loss, which is often published
with a model. `thresholds` implements this rule.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.studies.training.membership import Evidence, losses


@component
class Population:
    """The membership attack by the target's loss. It has no settings."""

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return the scores as `MembershipAttack.score` does."""
        return -losses(evidence.targets, evidence.labels)[:, evidence.asked]

    def thresholds(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return, for each target, the score above which an example is a member: minus the mean training loss."""
        return -evidence.training_losses
