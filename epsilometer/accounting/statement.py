"""Statements on a training's privacy: each is an epsilon with its accountant, neighbours, sampling and delta.

The accountants are `loss distribution` (a bracket of the exact epsilon), `Renyi` (an upper bound) and `pure` (the
epsilon at delta 0). Averages of directional draws also get an `approximation` of their loss (`approximate.py`), which
is neither proved nor claimed.

For comparison, `published` repeats what "Empirical Calibration and Metric Differential Privacy in Language Models"
(IEEE Access 13, 2025) states about the same training:

- Gaussian: the Renyi bound, from the orders 1.1 to 63 that published software uses. It is an upper bound, loose for
  epsilons above 100.
- Directional: 2 kappa for any number of passes (corollary 2). The proof composes disjoint batches, so it holds for one
  pass only. With E passes, each example gets E draws. If two gradients are opposite, and every draw equals the
  direction of the first gradient, the loss is 2 kappa E.
- Directional in m parts: 2 kappa sqrt(m) (corollary 1). Each part is scaled to length 1 and drawn with kappa. So if two
  gradients are opposite in every part, and the draws equal the first gradient's directions, the loss is 2 kappa m.
- By angle: kappa times the angle between gradients (corollary 3), at most pi kappa. The exact loss of one draw is kappa
  times the distance between the gradients' directions, 2 kappa sin(angle / 2). So for one draw the published bound is
  loose by a factor of up to pi / 2. After some number of passes it is false, like the other two directional bounds.

Pure losses and brackets of directional noise are computed for the draws, although a training releases only their
average. The largest loss of the average is that of the draws, since an average of length 1 reveals every draw. At a
delta > 0 the average has no larger loss than the draws. With Poisson sampling the two bounds of the bracket have
different adversaries. For the upper bound, the adversary sees the draws, and whether the example is in the batch (its
coin). For the lower bound, the adversary sees only averages, for one pair of data sets (`hidden.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from epsilometer.accounting.approximate import as_gaussian
from epsilometer.accounting.hidden import lower_end
from epsilometer.accounting.loss_distribution import bracket
from epsilometer.accounting.releases import Gaussian, Release, VonMisesFisher
from epsilometer.accounting.renyi import RELEASED, renyi, renyi_on
from epsilometer.accounting.schedule import Poisson, Schedule, Shuffled
from epsilometer.accounting.steps import steps_of
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.von_mises_fisher import mean_cosine

LOSS_DISTRIBUTION, RENYI, PURE = "loss distribution", "Renyi", "pure"
APPROXIMATION = "approximation"
PUBLISHED, PUBLISHED_BY_ANGLE = "published", "published, by angle"


_SCHEDULED = "the number of examples, from which batches are computed"


@dataclass(frozen=True)
class Statement:
    """One epsilon of a training, in nats, for one example of its training set.

    accountant:    the name of the accountant.
    neighbours:    the kind of neighbouring training sets.
    sampling:      how examples enter steps, `poisson` or `shuffled`.
    delta:         the delta at which the epsilon holds.
    lower, upper:  the bounds of the bracket; lower is None if the accountant has no lower bound. For `approximation`,
                   upper is a value, not a bound.
    """

    accountant: str
    neighbours: Neighbours
    sampling: str
    delta: float
    lower: float | None
    upper: float

    @property
    def guarantee(self) -> Guarantee | None:
        """The claim that the upper bound proves; None for an approximation."""
        if self.accountant == APPROXIMATION:
            return None
        if not self.upper:
            return Guarantee.of_delta(self.delta, Granularity.EXAMPLE, self.neighbours)
        added = self.neighbours is Neighbours.ADDED_OR_REMOVED
        return Guarantee(
            self.upper, Granularity.EXAMPLE, self.neighbours, self.delta, public=_SCHEDULED if added else None
        )

    @property
    def between(self) -> str:
        """The neighbours in words."""
        return between(self.neighbours.value, self.sampling)


def between(neighbours: str, sampling: str) -> str:
    """Return the neighbours in words. In fixed batches a removed example leaves its place empty, since N is public."""
    emptied = (neighbours, sampling) == (Neighbours.ADDED_OR_REMOVED.value, Shuffled.sampling)
    return f"{neighbours} (place left empty)" if emptied else neighbours


def account(
    release: Release, schedule: Schedule, delta: float | None = None, neighbours: Neighbours | None = None
) -> list[Statement]:
    """Return all statements for these neighbours; by default, for every kind of neighbours usual for the release.

    delta: by default 1/N, for N examples. At delta 0 only pure losses of directional noise are returned, and Gaussian
    noise raises UserError.
    """
    delta = checked_delta(release, schedule, delta)
    usual = (Neighbours.ADDED_OR_REMOVED, Neighbours.REPLACED)
    if isinstance(release, VonMisesFisher):
        usual = (Neighbours.REPLACED,)  # type: ignore[assignment]
    said = []
    for relation in usual if neighbours is None else (neighbours,):
        said += _ours(release, schedule, delta, relation)
        said += _published(release, schedule, delta, relation)
    return said


def checked_delta(release: Release, schedule: Schedule, delta: float | None) -> float:
    """Return delta, by default 1/N. Raises UserError for a delta outside [0, 1), and for Gaussian noise at delta 0."""
    if delta is None:
        return 1 / schedule.texts if schedule.texts > 1 else 0.5
    if not 0 <= delta < 1:
        raise UserError(f"delta must be in [0, 1), got {delta}; set it below one over the number of texts", "EPS-L008")
    if delta == 0 and isinstance(release, Gaussian):
        raise UserError(
            "Gaussian noise has no finite epsilon at delta 0; set delta > 0, below one over the number of texts",
            "EPS-L009",
        )
    return delta


def caveat(schedule: Schedule, delta: float) -> str | None:
    """Return a caveat if delta is 1/N (the default) or more; None for a smaller delta."""
    if delta * schedule.texts < 1:
        return None
    return (
        f"delta {delta:g} is at least one over the {schedule.texts} texts. A mechanism that "
        "publishes one random text unchanged satisfies a claim with this delta; set a smaller delta (--delta)"
    )


def effective_noise(release: VonMisesFisher, schedule: Schedule) -> float:
    """Return the sigma of Gaussian noise that moves a step's sum of unit gradients as much as the draws do.

    Let L be the expected batch, and A the mean cosine of a draw and its direction mu. Each of L draws has the mean A mu
    and the tangent variance A / kappa per coordinate. So their sum divided by A has the standard deviation
    sqrt(L / (A kappa)) per coordinate. If a gradient has several parts, the largest sigma of a part is returned. This
    sigma measures the noise of the *average*, not the noise of a single draw.
    """
    examples = float(schedule.expected_batch)
    return max(math.sqrt(examples / (mean_cosine(release.kappa, d) * release.kappa)) for d in release.dimensions)


def _ours(release: Release, schedule: Schedule, delta: float, relation: Neighbours) -> list[Statement]:
    steps, said = steps_of(release, schedule, relation), []
    if delta > 0:
        ends = bracket(steps.directions, steps.count, delta)
        lower: float | None = ends.lower
        if any(step.coin < 1 for step in steps.directions):  # the true coin is hidden, so only the upper bound holds
            lower = _hidden(release, schedule, delta) if relation is Neighbours.REPLACED else None
        said.append(Statement(LOSS_DISTRIBUTION, relation, schedule.sampling, delta, lower=lower, upper=ends.upper))
        upper = renyi(steps.directions, steps.count, delta)
        said.append(Statement(RENYI, relation, schedule.sampling, delta, lower=None, upper=upper))
        if isinstance(release, VonMisesFisher) and schedule.expected_batch > 1:
            alike = steps_of(as_gaussian(release, schedule), schedule, relation)
            upper = min(bracket(alike.directions, alike.count, delta).upper, ends.upper)
            said.append(Statement(APPROXIMATION, relation, schedule.sampling, delta, lower=None, upper=upper))
    largest = max(steps.count * sum(pair.largest for pair in step.pairs) for step in steps.directions)
    if math.isfinite(largest):
        said.append(Statement(PURE, relation, schedule.sampling, 0.0, lower=largest, upper=largest))
    return said


def _hidden(release: Release, schedule: Schedule, delta: float) -> float | None:
    if isinstance(release, VonMisesFisher) and isinstance(schedule, Poisson):
        return lower_end(release, schedule, delta)
    return None


def _published(release: Release, schedule: Schedule, delta: float, relation: Neighbours) -> list[Statement]:
    if isinstance(release, VonMisesFisher):
        if relation is not Neighbours.REPLACED:
            return []
        root = math.sqrt(release.parts)
        claims = {PUBLISHED: 2 * release.kappa * root, PUBLISHED_BY_ANGLE: math.pi * release.kappa * root}
        return [
            Statement(name, relation, schedule.sampling, 0.0, lower=None, upper=claim) for name, claim in claims.items()
        ]
    if relation is not Neighbours.ADDED_OR_REMOVED or not isinstance(schedule, Poisson):
        return []
    steps = steps_of(release, schedule, relation)
    upper = renyi_on(RELEASED, steps.directions, steps.count, delta)
    return [Statement(PUBLISHED, relation, schedule.sampling, delta, lower=None, upper=upper)]
