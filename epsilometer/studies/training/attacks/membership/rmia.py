"""RMIA in its offline form (Zarifzadeh, Liu and Shokri, ICML 2024, arXiv:2312.03262).

The attack compares the target's confidence in x with its confidence in other examples. Each confidence is divided by an
estimate of the confidence of other models. With p(x) the target's probability of the label of x, and z any other
example,

    ratio(x) = p(x) / [(1 + a) / 2 mean(x) + (1 - a) / 2],
    score(x) = share of the z with ratio(x) / ratio(z) >= gamma,

where mean(x) is the mean probability under the references that were not trained on x. The denominator estimates the
mean probability under all models, trained on x or not. a is 1 if training on x does not change p(x), and below 1 if
training raises p(x). The z are the other asked examples; the adversary does not know which of them are members.

a is chosen from 0, .1, ..., 1 on the references alone. Each reference serves as the target once, because its members
are known. The a with the largest mean area under the ROC curves is used.

All computations use logarithms. ML Privacy Meter instead multiplies probabilities by the indicator "was not trained on
x", and averages the products that are not 0. In that code, a reference whose probability underflows to 0 counts as
trained on x.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.stats import rankdata

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.studies.training.attacks.membership.shared.references import check_outside, references
from epsilometer.studies.training.membership import Evidence, losses

CHOICES = tuple(i / 10 for i in range(11))


@component
class RMIA:
    """The RMIA attack. gamma: the minimum of ratio(x) / ratio(z); a: as above, or None to choose it on references."""

    gamma: Annotated[float, Field(gt=0)] = 1.0
    a: Annotated[float, Field(ge=0, le=1)] | None = None

    def check_references(self, members: NDArray[np.bool_]) -> None:
        """Raise UserError if some example is in the training sets of all references. members: [m, n]."""
        check_outside(members, 1, "rmia")

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return the scores as `MembershipAttack.score` does. Raises UserError for too few references or examples."""
        answers, trained = references(evidence, "rmia")
        questioned = evidence.asked
        if len(questioned) < 2:
            raise UserError(
                f"rmia compares examples with each other and needs at least 2, got {len(questioned)}; give more "
                "examples",
                "EPS-A014",
            )
        self.check_references(trained[:, questioned])
        log_p = -losses(answers, evidence.labels)
        a = tuned(log_p, trained) if self.a is None else self.a
        outside = log_mean(log_p[:, questioned], ~trained[:, questioned])
        ratios = -losses(evidence.targets, evidence.labels)[:, questioned] - expected(outside, a)
        return np.stack([shares(ratio, self.gamma) for ratio in ratios])


def shares(ratios: NDArray[np.float64], gamma: float) -> NDArray[np.float64]:
    """Return, for each example, the share [q] of other examples whose log ratio is lower by at least ln gamma.

    ratios: [q], the log ratios of the examples.
    """
    bar = ratios - math.log(gamma)
    below = np.searchsorted(np.sort(ratios), bar, side="right")
    return (below - (ratios <= bar)) / (len(ratios) - 1)


def expected(outside: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    """Return the logarithm [n] of the denominator of ratio(x). outside: [n], ln mean(x); a: as in the formula."""
    share = np.array([(1 + a) / 2, (1 - a) / 2])
    with np.errstate(divide="ignore"):
        of_outside, of_rest = np.log(share)
    return np.logaddexp(of_outside + outside, of_rest)


def log_mean(log_p: NDArray[np.float64], which: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the logarithm [n] of the mean probability over models.

    log_p: [m, n], log probabilities; which: [m, n], the models that count.
    """
    total: NDArray[np.float64] = np.logaddexp.reduce(np.where(which, log_p, -np.inf), axis=0)
    return total - np.log(which.sum(axis=0))


def tuned(log_p: NDArray[np.float64], trained: NDArray[np.bool_]) -> float:
    """Return the a that separates members best when each reference serves as the target.

    If several a are equally good, the largest is returned.

    log_p: [m, n], the references' log probabilities; trained: [m, n], whether each was trained on each example.
    A reference is tested on the examples that some other reference was not trained on. It can serve as the target if
    these examples include members and non-members of its training set. Raises UserError if no reference can serve as
    the target.
    """
    areas = []
    for model in range(len(log_p)):
        others = np.arange(len(log_p)) != model
        seen = ~trained[others]
        covered = seen.any(axis=0)
        inside = trained[model, covered]
        if not covered.any() or inside.all() or not inside.any():
            continue
        outside = log_mean(log_p[others][:, covered], seen[:, covered])
        areas.append([_area(log_p[model, covered] - expected(outside, a), inside) for a in CHOICES])
    if not areas:
        raise UserError(
            "rmia needs references with different training sets to choose a; train more references, or set a",
            "EPS-A015",
        )
    means = np.mean(areas, axis=0)
    return CHOICES[int(np.flatnonzero(means >= means.max() - 1e-12)[-1])]


def _area(scores: NDArray[np.float64], inside: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve: how often a member scores above a non-member, with ties counting half."""
    count = int(inside.sum())
    ranks = rankdata(scores)[inside].sum() - count * (count + 1) / 2
    return float(ranks / (count * (len(scores) - count)))
