"""An unproved approximation for averages of directional draws: the loss of Gaussian noise of the same size.

The proved upper bound (`steps.py`) assumes that the adversary sees every draw. An adversary who sees only the average
sees each draw mixed with the other draws. Take a sum of n draws about known directions in d dimensions. Let A be the
mean cosine of a draw and its direction, and kappa the concentration. The sum's mean is A times the sum of the
directions. Each component of the sum orthogonal to all directions has the variance n A / kappa. Let W be the component
of a draw along its direction. If all directions are equal, the sum's component along them has the variance n Var W.
This variance is smaller than n A / kappa by a factor of nearly sqrt(1 + (2 kappa / d)^2). Treat the sum as normal, and
divide it by A. The result is a sum of unit gradients with Gaussian noise of

    sigma^2 = L A / (kappa A^2)  with Poisson sampling,        sigma^2 = L Var W / A^2  in fixed batches,

with L the (expected) size of a batch. The approximate epsilon is that of Gaussian noise with this sigma
(`dominating_pairs.py`), for the same schedule and neighbours.

- *In fixed batches* the adversary knows which examples are in the batch. In the worst case all gradients of the batch
  lie along one direction v. The gradients of both versions of the replaced example lie along v too. Then the noise has
  the variance Var W per draw.
- *With Poisson sampling*, suppose that other examples had gradients along v. Their number in a batch would be random,
  and this randomness would hide the example's contribution along v better than Var W does. So in the worst case, the
  gradients of all other examples have a direction u orthogonal to v, as for the proved lower bound (`hidden.py`). The
  computation of that bound merges grid cells, which may lose the rare outputs that decide the loss. If kappa is so
  small that no such output is lost, the lower bound and the approximation agree within one percent.

If a gradient is drawn in parts, 1 / sigma^2 is the sum of the parts' 1 / sigma^2, because squared distances add up.

The approximation ignores two effects, and both help the adversary. First, the length of a sum of draws reveals the
number of draws, up to an error of n sqrt(2 / d). The length of a Gaussian sum does not. Second, the tails of a sum of
few draws are not normal. So the approximation is not an upper bound, and no claim uses it. The approximation was
compared with the optimal test of whole sums in 100 and 400 dimensions (`test_approximate.py`). With 16 and 32 draws,
the error of delta is at most .02. With 8 draws, delta is too low by .05 at epsilon 3. If a batch is one text, the
adversary sees the draw itself, and the exact law of the draw applies instead.
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
