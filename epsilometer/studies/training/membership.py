"""The interface of membership attacks, which turn models' answers into scores that are larger for members.

Models answer with the logarithms of their class probabilities, because a probability may underflow to 0 or round to 1.
A separate array records which model was trained on which example. The RMIA of ML Privacy Meter instead marks training
examples by a probability of 0, so an underflow to 0 counts as "trained on". Log odds are computed without subtraction
from 1.
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

    texts:           [n], the texts of the examples.
    labels:          int [n], the indices of their classes.
    targets:         float64 [t, n, k], the log probabilities of the k classes by the t models under attack.
    training_losses: [t], the published mean loss of each target over its training texts, in nats.
    asked:           int [q], the examples whose membership is in question. An attack may learn from the other examples.
    references:      float64 [m, n, k], the log probabilities by the adversary's own models; None without them.
    members:         bool [m, n], whether each reference was trained on each example; None without references.
    answers:         a function from a list of texts to the targets' log probabilities [t, len, k].
    noise:           the attack's random streams, one per asked example.
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
    """An adversary that scores, for each example, how likely a model was trained on it."""

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return scores [t, q], larger if the target was more likely trained on the asked example.

        Scores may be infinite; the score of an example that the attack skips is NaN. A target's scores must not depend
        on other targets.
        """
        ...


@runtime_checkable
class Decides(Protocol):
    """An attack that sets its own threshold for membership, without other examples."""

    def thresholds(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return the score [t] above which an example counts as a member of each target's training set."""
        ...


@runtime_checkable
class Compares(Protocol):
    """An attack that needs references, and can check from their training sets whether they suffice."""

    def check_references(self, members: NDArray[np.bool_]) -> None:
        """Raise UserError if the references do not suffice.

        members: bool [m, q], whether each reference was trained on each asked example.
        """
        ...


@runtime_checkable
class Loads(Protocol):
    """An attack with its own model, which it can check before anything is trained."""

    def check_model(self) -> None:
        """Raise UserError if the model is unusable. A model that is yet to be downloaded is not checked."""
        ...


def losses(log_probabilities: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the cross-entropies [..., n] in nats from log probabilities [..., n, k] and labels [n]."""
    return -_of_label(log_probabilities, labels)


def log_odds(log_probabilities: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return ln p - ln(1 - p) [..., n] for the probability p of the label, from log probabilities [..., n, k].

    1 - p is the sum of the other classes' probabilities. This sum is accurate for p near 1, too.
    """
    others = np.array(log_probabilities)
    np.put_along_axis(others, _index(others, labels), -np.inf, axis=-1)
    return _of_label(log_probabilities, labels) - np.logaddexp.reduce(others, axis=-1)


def _of_label(values: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    taken: NDArray[np.float64] = np.take_along_axis(values, _index(values, labels), axis=-1)[..., 0]
    return taken


def _index(values: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.integer]:
    return np.broadcast_to(labels, values.shape[:-1])[..., None]
