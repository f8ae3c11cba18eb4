"""The shadow attack: a classifier of models' answers, trained on shadow models.

Source: Shokri, Stronati, Song and Shmatikov, S&P 2017.

Each shadow model is trained like the target, on texts whose membership the adversary knows. A model's answer on a text,
the probabilities of all k classes, is "in" if the model was trained on the text, else "out". For each class c, a
network learns to separate "in" from "out" on texts of class c. It has one hidden layer of 64 units, as in the paper.
The network then classifies the target's answers:

    score(x) = the network's log odds of "in".

The network gets ln(p / (1 - p)) of each class instead of p. A target is confident in nearly all of its training texts,
and a network could not distinguish probabilities between .999 and 1. A class's network learns from equally many answers
"in" and "out", at most `answers` in all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.studies.training.attacks.membership.shared.references import references
from epsilometer.studies.training.membership import Evidence, log_odds

HIDDEN = 64
_FARTHEST = 50.0  # log odds are clipped at this absolute value


@component
class Shadow:
    """The shadow attack. answers: the maximum number of shadow models' answers that a class's network learns from."""

    answers: PositiveInt = 10_000

    def check_references(self, members: NDArray[np.bool_]) -> None:
        """Accept any references: the attack also learns from examples that are not asked about."""

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return scores as `MembershipAttack.score` does. Raises UserError if a class lacks answers "in" or "out"."""
        answers, trained = references(evidence, "shadow")
        scores = np.full((len(evidence.targets), len(evidence.asked)), np.nan)
        rng = evidence.noise.generator(0)
        for c in np.unique(evidence.labels[evidence.asked]):
            rows = np.flatnonzero(evidence.labels == c)
            places = np.flatnonzero(evidence.labels[evidence.asked] == c)
            inside = trained[:, rows].ravel()
            shown = features(answers[:, rows]).reshape(len(inside), -1)
            learn = self._balanced(inside, int(c), rng)
            target = features(evidence.targets[:, evidence.asked[places]])
            scores[:, places] = _classified(shown[learn], inside[learn], target, int(rng.integers(2**31)))
        return scores

    def _balanced(self, inside: NDArray[np.bool_], c: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the indices of sampled answers of class c, half of them "in". inside: whether each answer is "in"."""
        kinds = [np.flatnonzero(inside), np.flatnonzero(~inside)]
        count = min(self.answers // 2, *(len(kind) for kind in kinds))
        if not count:
            missing = "no reference was trained on an" if len(kinds[1]) else "every reference was trained on every"
            raise UserError(
                f"shadow cannot learn class {c}: {missing} example of this class; give "
                "references on overlapping halves",
                "EPS-A016",
            )
        return np.sort(np.concatenate([rng.choice(kind, count, replace=False) for kind in kinds]))


def features(log_probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log odds [..., k] of each class from log probabilities [..., k], clipped at _FARTHEST."""
    classes = range(log_probabilities.shape[-1])
    each = [log_odds(log_probabilities, np.full(log_probabilities.shape[-2], c)) for c in classes]
    return np.clip(np.stack(each, axis=-1), -_FARTHEST, _FARTHEST)


def _classified(
    shown: NDArray[np.float64], inside: NDArray[np.bool_], target: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """Return the log odds [t, q] of "in" for the targets' answers, by a network trained on shadow models' answers.

    shown: [a, k], features of shadow models' answers; inside: [a], whether each is "in"; target: [t, q, k], features of
    the answers of t targets on q examples.
    """
    from sklearn.neural_network import MLPClassifier  # loads slowly
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    network = MLPClassifier((HIDDEN,), alpha=1e-3, max_iter=40, n_iter_no_change=5, random_state=seed)
    model = make_pipeline(StandardScaler(), network)
    model.fit(shown, inside)
    log_p = model.predict_log_proba(target.reshape(-1, target.shape[-1]))
    odds: NDArray[np.float64] = (log_p[:, 1] - log_p[:, 0]).reshape(target.shape[:2])
    return odds
