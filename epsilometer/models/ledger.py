"""Ledger of questions to classifiers during rewriting: counts them, and refuses those beyond the budget.

A question is a text that a classifier is asked about, on behalf of a private text that is being rewritten. Each private
text has its own count, in which a repeated question counts once. So a count does not depend on the other texts of the
batch. Answers are cached: a question asked for several private texts is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.models.classifier import Classifier


class Ledger:
    """Classifiers by name, which are asked questions for n private texts.

    budget: most questions per private text, to all classifiers together; None: no limit.
    counts: number of questions so far per private text, int64 [n], by classifier.
    """

    def __init__(self, classifiers: Mapping[str, Classifier], texts: int, budget: int | None = None) -> None:
        self._classifiers, self.budget = classifiers, budget
        self.counts = {name: np.zeros(texts, np.int64) for name in classifiers}
        self.questions: NDArray[np.int64] = np.zeros(texts, np.int64)
        self._seen: dict[str, set[tuple[int, str]]] = {name: set() for name in classifiers}
        self._answers: dict[str, dict[str, NDArray[np.float64]]] = {name: {} for name in classifiers}

    def classes(self, name: str) -> Sequence[str]:
        """Return the sorted classes of a classifier. This does not count as a question."""
        return self._classifiers[name].classes

    def probabilities(
        self, name: str, texts: Sequence[str], owners: Sequence[int] | NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Return [m, c]: a classifier's probabilities for m texts.

        owners: [m], the number of the private text that each question is asked for. Questions are counted in the order
        of `texts`. A question beyond the budget is not asked. Its row is NaN, so every comparison with it is false.
        """
        numbers = np.asarray(owners, np.int64).tolist()
        answered = [self._asks(name, text, owner) for text, owner in zip(texts, numbers, strict=True)]
        answers = self._answers[name]
        new = {
            text: None for text, has_answer in zip(texts, answered, strict=True) if has_answer and text not in answers
        }
        if new:
            answers.update(zip(new, self._classifiers[name].probabilities(list(new)), strict=True))
        rows = np.full((len(numbers), len(self.classes(name))), np.nan)
        for i, has_answer in enumerate(answered):
            if has_answer:
                rows[i] = answers[texts[i]]
        return rows

    def left(self) -> NDArray[np.float64]:
        """Return [n]: the remaining questions for each private text; infinite without a budget."""
        return (np.inf if self.budget is None else float(self.budget)) - self.questions.astype(np.float64)

    def _asks(self, name: str, text: str, owner: int) -> bool:
        """Return True if a question was asked before, or if it is within the budget. New questions are counted."""
        if (owner, text) in self._seen[name]:
            return True
        if self.budget is not None and self.questions[owner] >= self.budget:
            return False
        self._seen[name].add((owner, text))
        self.counts[name][owner] += 1
        self.questions[owner] += 1
        return True
