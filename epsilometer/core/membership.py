"""What a membership attack is: what models say of examples in, scores out, larger for those trained on.

Models answer with the logarithms of their class probabilities. A probability itself may underflow to 0, or round to 1;
reference code that then takes "not 0" for "not trained on", as ml_privacy_meter's RMIA does, counts a model that is
sure of the wrong class as one that saw the example. Here a separate array says which model saw which example, and
log-odds are computed without a subtraction from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.randomness import Noise


@dataclass(frozen=True)
class Evidence:
    """What the adversary has: n examples that it knows, and what models say of them.

    texts, labels:   [n] and int [n], the numbers of classes.
    targets:         float64 [t, n, k], log-probabilities of the k classes by the t models under attack.
    training_losses: [t], the mean loss over its training texts that each of these was published with, in nats.
    asked:           int [q], the examples whose membership is asked. Others may serve to learn from references.
    references:      float64 [m, n, k], the same by the adversary's own models; None without any.
    members:         bool [m, n], which of them was trained on which example.
    answers:         what the targets say of other texts, log-probabilities [t, len, k] of a list of texts.
    noise:           the attack's own stream, one for each asked example.
    """

    texts: Sequence[str]
    labels: NDArray[np.integer]
    targets: NDArray[np.float64]
    training_losses: NDArray[np.float64]
    asked: NDArray[np.integer]
    references: NDArray[np.float64] | None
    members: NDArray[np.bool_] | None
    answers: Callable[[Sequence[str]], NDArray[np.float64]]
    noise: Noise


class MembershipAttack(Protocol):
    """An adversary that says of each example how surely a model was trained on it."""

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        """Returns [t, q], for each target and asked example, larger where it was rather trained on.

        Infinite scores are allowed; NaN means that the attack does not look at this example. A target's scores depend
        on no other target.
        """
        ...


@runtime_checkable
class Decides(Protocol):
    """An attack that sets its own threshold for membership, without other examples."""

    def thresholds(self, evidence: Evidence) -> NDArray[np.float64]:
        """Returns [t]: the score above which an example counts as a member of that target's training set."""
        ...


@runtime_checkable
class Compares(Protocol):
    """An attack that needs references, and can tell from their training sets whether they suffice."""

    def check_references(self, members: NDArray[np.bool_]) -> None:
        """Raise UserError where it needs other ones; members: bool [m, q], which trained on which asked example."""
        ...


@runtime_checkable
class Loads(Protocol):
    """An attack with a model of its own, which it can try before anything is trained."""

    def check_model(self) -> None:
        """Raise UserError where the model will not do; one of the hub that is not here yet is passed over."""
        ...


def losses(log_probabilities: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """The cross-entropies [..., n] in nats, of log-probabilities [..., n, k]."""
    return -_of_label(log_probabilities, labels)


def log_odds(log_probabilities: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """ln p - ln(1 - p) [..., n] for the probability p of the label, of log-probabilities [..., n, k].

    1 - p is the sum of the other classes' probabilities, so that neither end is lost to rounding.
    """
    others = np.array(log_probabilities)
    np.put_along_axis(others, _index(others, labels), -np.inf, axis=-1)
    return _of_label(log_probabilities, labels) - np.logaddexp.reduce(others, axis=-1)


def _of_label(values: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    taken: NDArray[np.float64] = np.take_along_axis(values, _index(values, labels), axis=-1)[..., 0]
    return taken


def _index(values: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.integer]:
    return np.broadcast_to(labels, values.shape[:-1])[..., None]
