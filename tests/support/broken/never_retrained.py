"""Broken: an adaptive attacker that gets rewritten texts but is never trained on them (as in tau-eval)."""

from __future__ import annotations

from collections.abc import Callable

from epsilometer.models.classifier import Classifier, Examples


class NeverRetrained:
    def __init__(self, fit: Callable[[Examples], Classifier], clean: Examples) -> None:
        self.trained = fit(clean)

    def __call__(self, examples: Examples) -> Classifier:
        self.examples = examples
        return self.trained
