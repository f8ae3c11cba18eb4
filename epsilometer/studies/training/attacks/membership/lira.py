"""LiRA: the likelihood ratio of the target's answer, under models trained and not trained on the example.

Source: Carlini, Chien, Nasr, Song, Terzis and Tramer, S&P 2022, arXiv:2112.03570.

phi = ln(p / (1 - p)), where p is the probability of the label, is nearly normal over models. For each example, the mean
and variance of phi are estimated from the shadow models that were trained on it (m_in, v_in), and from the other shadow
models (m_out, v_out):

    online:  score = ln N(phi; m_in, v_in) - ln N(phi; m_out, v_out)
    offline: score = (phi - m_out) / sqrt(v_out), monotone in P(N(m_out, v_out) < phi).

With 64 shadow models or more, each example has its own variances. With fewer models, such estimates are too rough, so
all examples share one v_in and one v_out. A shared variance is the sum of squared deviations from each example's mean,
divided by the degrees of freedom. The authors' code instead uses the standard deviation of all values, which also
contains the differences between the examples' means.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.studies.training.attacks.membership.shared.references import check_outside, references
from epsilometer.studies.training.membership import Evidence, log_odds

OWN_VARIANCES = 64  # minimum number of shadow models for estimating variances for each example
_LEAST = 1e-30  # minimum variance


@component
class LiRA:
    """The LiRA attack.

    online: whether the online score is used. It needs shadow models that were trained on each example.
    """

    online: bool = True

    def check_references(self, members: NDArray[np.bool_]) -> None:
        """Raise UserError unless each example has at least 2 shadow models that were trained without it.

        With `online`, each example also needs 2 shadow models that were trained with it.
        members: [m, n], whether each shadow model was trained on each example.
        """
        check_outside(members, 2, "lira")
        if self.online and int(members.sum(axis=0).min()) < 2:
            raise UserError(
                "lira needs 2 references trained on each example, but an example has fewer; train more references "
                "(count), or set online: false",
                "EPS-A012",
            )

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return the scores as `MembershipAttack.score` does. Raises UserError for too few shadow models."""
        answers, trained = references(evidence, "lira")
        questioned = evidence.asked
        inside = trained[:, questioned]
        self.check_references(inside)
        phi = log_odds(answers, evidence.labels)[:, questioned]
        own = log_odds(evidence.targets, evidence.labels)[:, questioned]
        single = len(phi) < OWN_VARIANCES
        mean, variance = moments(phi, ~inside, single)
        if not self.online:
            return (own - mean) / np.sqrt(variance)
        return _log_density(own, *moments(phi, inside, single)) - _log_density(own, mean, variance)


def moments(
    phi: NDArray[np.float64], which: NDArray[np.bool_], single: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the means and variances [q] of phi over models.

    phi: [m, q], a value per model and example; which: [m, q], the models that count, at least 2 for each example;
    single: whether all examples share one variance.
    """
    counts = which.sum(axis=0)
    mean = np.where(which, phi, 0).sum(axis=0) / counts
    squares = np.where(which, phi - mean, 0) ** 2
    own = squares.sum(axis=0) / (counts - 1)
    variance = np.full(len(mean), squares.sum() / (counts - 1).sum()) if single else own
    return mean, np.maximum(variance, _LEAST)


def _log_density(
    values: NDArray[np.float64], mean: NDArray[np.float64], variance: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log densities of normal distributions at the values, without the constant term."""
    return -((values - mean) ** 2) / (2 * variance) - np.log(variance) / 2
