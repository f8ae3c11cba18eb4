"""The true positive rate of an attack at a low false positive rate, as in membership inference.

An average hides an attack that is confident about a few texts and at chance for all others. So attacks are also
compared by their true positive rate (TPR) at a small false positive rate (FPR) (Carlini, Chien, Nasr, Song, Terzis and
Tramer, S&P 2022). Here every trial asks whether the candidate in slot 0 is the source, which is the case in about one
of k trials. If the attack guesses slot 0, the score is the margin of that guess over the next best candidate; otherwise
the score is minus the margin of the guess. With k = 2 the score is the difference of the scores of slot 0 and slot 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # loads its parts when they are first used
from numpy.typing import NDArray

from epsilometer.auditing.estimation.counting import counted
from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.core.attack import Guesses


@dataclass(frozen=True)
class Rate:
    """The TPR at the threshold whose FPR in the trials is as requested, and an interval of the true TPR at that FPR."""

    tpr: float
    low: float
    high: float


def rate(guesses: Guesses, target: NDArray[np.integer], fpr: float, alpha: float) -> Rate | None:
    """Return the TPR at this FPR; None for an attack without scores, or if all or none of the trials are positive.

    alpha: the error of the interval. The true threshold at this FPR is unknown. Two order statistics of the negatives
    (trials with another source) bound it, each with an error of at most alpha / 4. These two scores depend on negatives
    alone. So the number of positives beyond each of them is binomial, and is bounded by Clopper and Pearson at error
    alpha / 4. The interval's lower bound is 0 if the negatives are too few to bound the threshold: fewer than 597 for
    an FPR of 1 % and an alpha of .01.
    """
    positive, named = target == 0, guesses.slots == 0
    if guesses.scores is None or positive.all() or not positive.any():
        return None
    flags = (named & positive, named & ~positive, ~named & positive)
    scores, counts, (right, false, missed) = counted(guesses.scores, *flags)
    # The score of slot 0 is the guess's score if the guess is slot 0, and otherwise minus the guess's score.
    _, place = np.unique(np.concatenate([-scores, scores]), return_inverse=True)
    positives = np.bincount(place, np.concatenate([missed, right]))[::-1].cumsum()
    negatives = np.bincount(place, np.concatenate([counts - right - false - missed, false]))[::-1].cumsum()
    sources, others = int(positives[-1]), int(negatives[-1])
    hits = int(positives[negatives / others <= fpr].max(initial=0))
    few, many = scipy.stats.binom.ppf(alpha / 4, others, fpr) - 1, scipy.stats.binom.isf(alpha / 4, others, fpr) + 1
    least, most = (
        int(positives[negatives <= few].max(initial=0)),
        int(positives[negatives >= many].min(initial=sources)),
    )
    low, high = clopper_pearson(least, sources, alpha / 2)[0], clopper_pearson(most, sources, alpha / 2)[1]
    return Rate(hits / sources, low, high)
