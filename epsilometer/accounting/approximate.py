"""An approximate loss of averages of directional draws: the loss of Gaussian noise of equal size. It is not proved.

The proved upper bound (`steps.py`) assumes that the adversary sees every draw. An adversary who sees only the average
sees each draw mixed with the others. A sum of n draws about known directions in d dimensions has a mean of A times the
sum of these directions, with A the mean cosine of a draw and its direction. Each component orthogonal to all these
directions has the variance n A / kappa, with kappa the concentration. Let W be the component of a draw along its
direction. If all directions are equal, the sum's component along them has the variance n Var W, which is smaller by a
factor of nearly sqrt(1 + (2 kappa / d)^2). If the sum is treated as normal and divided by A, it is a sum of unit
gradients with noise of

    sigma^2 = L A / (kappa A^2)  under coins,        sigma^2 = L Var W / A^2  in fixed batches,

with L the (expected) size of a batch. The approximate epsilon is that of such Gaussian noise (`dominating_pairs.py`),
for the same schedule and neighbours.

- *In fixed batches* the adversary knows who is in the batch. In the worst case all gradients of the batch lie along one
  direction v, and so do both versions of the replaced example. Then Var W applies.
- *Under coins* (Poisson sampling) the number of gradients along v is random, which hides the example's contribution
  along v better than Var W does. So in the worst case, the gradients of all other examples have a direction u
  orthogonal to v, as for the proved lower bound (`hidden.py`). Where kappa is so small that this bound loses no rare
  outputs by merging cells, the bound and the approximation agree within one percent.

If a gradient is drawn in parts, squared distances add up: 1 / sigma^2 is the sum of the parts' 1 / sigma^2.

The approximation ignores two effects, both in the adversary's favour. The length of a sum of draws reveals their
number, up to an error of n sqrt(2 / d); the length of a Gaussian sum does not. And the tails of a sum of few draws are
not normal. So the approximation is not an upper bound, and no claim uses it. The approximation was compared with the
optimal test of whole sums in 100 and 400 dimensions (`test_approximate.py`): delta is right to .02 with 16 and 32
draws. With 8 draws it is too low, by .05 at epsilon 3. If a batch is one text, the adversary sees the draw itself, and
its law applies.
"""

from __future__ import annotations

import math

from epsilometer.accounting.releases import Gaussian, VonMisesFisher
from epsilometer.accounting.schedule import Schedule, Shuffled
from epsilometer.core.von_mises_fisher import mean_cosine, quadrature


def as_gaussian(release: VonMisesFisher, schedule: Schedule) -> Gaussian:
    """Return Gaussian noise that, on a sum of unit gradients, hides an example about as well as the draws do."""
    size, precision = float(schedule.expected_batch), 0.0
    for dimension in release.dimensions:
        cosine = mean_cosine(release.kappa, dimension)
        variance = cosine / release.kappa
        if isinstance(schedule, Shuffled):
            cosines, weights = quadrature(release.kappa, dimension)
            variance = min(variance, float(weights @ (cosines - cosine) ** 2))
        precision += cosine**2 / (size * variance)
    return Gaussian(1 / math.sqrt(precision))
