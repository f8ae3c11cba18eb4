"""The interface of membership attacks: models' answers on examples in, scores out, larger for training examples.

Models answer with the logarithms of their class probabilities. A probability itself may underflow to 0, or round to 1;
reference code that treats "not 0" as "not trained on", as ml_privacy_meter's RMIA does, counts a model that is certain
of the wrong class as one that saw the example. Here a separate array records which model saw which example, and
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
    """The adversary's evidence: n examples that it knows, and models' answers on them.

    texts, labels:   [n] and int [n], the numbers of classes.
    targets:         float64 [t, n, k], log-probabilities of the k classes by the t models under attack.
    training_losses: [t], the published mean loss of each target over its training texts, in nats.
    asked:           int [q], the examples whose membership is in question. Others may serve to learn from references.
    references:      float64 [m, n, k], the same by the adversary's own models; None without any.
    members:         bool [m, n], whether each reference was trained on each example.
    answers:         function of a list of texts: the targets' log-probabilities [t, len, k].
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
    """An adversary that scores how likely a model was trained on each example."""

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return scores [t, q] of each target and asked example, larger if it was more likely trained on.

        Infinite scores are allowed; NaN means that the attack ignores this example. A target's scores depend on no
        other target.
        """
        ...


@runtime_checkable
class Decides(Protocol):
    """An attack that sets its own threshold for membership, without other examples."""

    def thresholds(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return [t]: the score above which an example counts as a member of that target's training set."""
        ...


@runtime_checkable
class Compares(Protocol):
    """An attack that needs references, and can tell from their training sets whether they suffice."""

    def check_references(self, members: NDArray[np.bool_]) -> None:
        """Raise UserError if it needs other references; members: bool [m, q], which saw which asked example."""
        ...


@runtime_checkable
class Loads(Protocol):
    """An attack with a model of its own, which it can try before anything is trained."""

    def check_model(self) -> None:
        """Raise UserError if the model is unusable; a model of the hub that is not downloaded yet is skipped."""
        ...


def losses(log_probabilities: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the cross-entropies [..., n] in nats, of log-probabilities [..., n, k]."""
    return -_of_label(log_probabilities, labels)


def log_odds(log_probabilities: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return ln p - ln(1 - p) [..., n] for the probability p of the label, of log-probabilities [..., n, k].

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
