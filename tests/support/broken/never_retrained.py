"""Broken: is assigned rewritten texts and never trained on them (the setting of tau-eval's adaptive attacker)."""

from __future__ import annotations

from collections.abc import Callable

from epsilometer.models.classifier import Classifier, Examples


class NeverRetrained:
    def __init__(self, fit: Callable[[Examples], Classifier], clean: Examples) -> None:
        self.trained = fit(clean)

    def __call__(self, examples: Examples) -> Classifier:
        self.examples = examples
        return self.trained
