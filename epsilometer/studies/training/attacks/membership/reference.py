"""MIA-R: the rank of the target's loss among the losses of models that never saw the example.

Sources: Ye, Maddi, Murakonda, Bindschaedler and Shokri, CCS 2022; ML Privacy Meter 1.0.1, "reference".

Reference models that were not trained on an example give a sample of its loss as a non-member. At false positive rate
alpha, the example's threshold is the alpha-quantile of this sample. Quantiles are interpolated linearly between the
ends m - 1e-4 and M + 1e-4, where m and M are the smallest and the largest loss of any example. An example is called a
member at alpha if its loss under the target is below its threshold. Its score is

    score(x) = - the smallest alpha at which x is called a member.

ML Privacy Meter sweeps 100 values of alpha from 1e-5 to 1; the score covers all of them. With r references, thresholds
for alpha < 1 / (r + 1) are extrapolated: they lie below the example's smallest reference loss.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from epsilometer.core.component import component
from epsilometer.studies.training.attacks.membership.shared.references import check_outside, references
from epsilometer.studies.training.membership import Evidence, losses

_MARGIN = 1e-4  # quantiles 0 and 1 lie this many nats beyond the smallest and the largest loss


@component
class Reference:
    """The reference attack. models: the number of references per example that were not trained on it (paper: 10)."""

    models: PositiveInt = 10

    def check_references(self, members: NDArray[np.bool_]) -> None:
        """Raise UserError if an example has fewer than `models` references that were not trained on it."""
        check_outside(members, self.models, "reference")

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return the scores as `MembershipAttack.score` does. Raises UserError for too few references."""
        answers, trained = references(evidence, "reference")
        questioned = evidence.asked
        self.check_references(trained[:, questioned])
        all_losses = losses(answers, evidence.labels)
        outside = np.argsort(trained[:, questioned], axis=0, kind="stable")[: self.models]
        sample = np.sort(np.take_along_axis(all_losses[:, questioned], outside, axis=0), axis=0).T  # [q, models]
        own = losses(evidence.targets, evidence.labels)
        low, high = float(all_losses.min()), float(all_losses.max())
        return np.stack(
            [
                _ranks(of_target[questioned], sample, min(low, of_target.min()), max(high, of_target.max()))
                for of_target in own
            ]
        )


def _ranks(own: NDArray[np.float64], sample: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    """Return the scores [q]: minus the alphas whose quantiles equal the examples' losses.

    own: [q], losses under the target; sample: [q, models], ascending losses under references; low, high: m and M.
    """
    alphas = np.linspace(0, 1, sample.shape[1] + 2)
    ends = [low - _MARGIN], [high + _MARGIN]
    quantiles = (np.concatenate([ends[0], row, ends[1]]) for row in sample)
    return -np.array([np.interp(x, row, alphas) for x, row in zip(own, quantiles, strict=True)])
