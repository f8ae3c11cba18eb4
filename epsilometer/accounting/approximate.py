"""The approximate loss of an average of directional draws, by Gaussian noise of equal size: an approximation, no proof.

The proved upper bound (`steps.py`) assumes that every draw is seen. An adversary who sees the average sees each draw
among the others. A sum of n draws about known directions has the mean A times the sum of these, and the variance of
every component is n A / kappa orthogonal to all of them; along the common direction of all of them it is n Var W, which
is less: by sqrt(1 + (2 kappa / d)^2), nearly. Taken for a normal law, the sum over A is that of unit gradients with
noise of

    sigma^2 = L A / (kappa A^2)  under coins,        sigma^2 = L Var W / A^2  in fixed batches of L,

and its epsilon is that of Gaussian noise (`dominating_pairs.py`) on the same schedule and for the same neighbours.

- *In fixed batches* the adversary knows who is in the batch, and all gradients of a batch may lie along v, as the two
  of the example in question do: then Var W counts.
- *Under coins* gradients along v come and go, and hide the example's contribution along v more than Var W shows; so u
  of all others is orthogonal to v, as for the proved lower bound (`hidden.py`), which comes within a percent
  where kappa is so small that its cells do not truncate the rare outputs.

In parts, drawn one by one, squared distances add up: 1 / sigma^2 is the sum over parts.

The approximation ignores two effects, both in the adversary's favour: the length of a sum reveals how many draws it
has, to n sqrt(2 / d), where a Gaussian sum does not; and far out a sum of few draws is not normal. So it is not an
upper bound, and nothing here claims it. Compared with the optimal test of whole sums in 100 and 400 dimensions, delta
is right to .02 with 16 and 32 draws, and too low with 8, by .05 at epsilon 3 (`test_approximate.py`). Where a batch is
one text, and the draw itself is seen, the draw's own law counts.
"""

from __future__ import annotations

import math

from epsilometer.accounting.releases import Gaussian, VonMisesFisher
from epsilometer.accounting.schedule import Schedule, Shuffled
from epsilometer.core.von_mises_fisher import mean_cosine, quadrature


def as_gaussian(release: VonMisesFisher, schedule: Schedule) -> Gaussian:
    """Return Gaussian noise on sums of unit gradients that hides an example about as well as an average of draws."""
    size, precision = float(schedule.expected_batch), 0.0
    for dimension in release.dimensions:
        cosine = mean_cosine(release.kappa, dimension)
        variance = cosine / release.kappa
        if isinstance(schedule, Shuffled):
            cosines, weights = quadrature(release.kappa, dimension)
            variance = min(variance, float(weights @ (cosines - cosine) ** 2))
        precision += cosine**2 / (size * variance)
    return Gaussian(1 / math.sqrt(precision))
