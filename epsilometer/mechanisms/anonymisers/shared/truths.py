"""True classes of texts. An anonymiser to which they are not given uses its classifiers' predictions.

True classes matter for misclassified texts: with two classes, an edit that changes a wrong prediction reveals the true
class. A text is released unchanged if its class is given and the text already deceives the classifiers.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from epsilometer.core.errors import UserError, unknown
from epsilometer.core.mechanism import Truths


class WithTruths(ABC):
    """A mechanism that accepts true classes (`TakesTruths`)."""

    truths: ClassVar[Truths] = {}

    @abstractmethod
    def classes_of(self) -> Mapping[str, Sequence[str]]:
        """Return the classes that the classifiers know, by label."""

    def with_truths(self, truths: Truths) -> Self:
        """Return a copy of the mechanism with true classes, by text and label.

        For other texts and labels the copy uses its classifiers' predictions. Raises UserError for a class unknown to
        the classifiers, for classes that are not given by label, and for a text that has an unknown label and lacks a
        known one. (Stages pass all labels of a data set, so a text with all known labels may have other labels.)
        """
        known_classes = self.classes_of()
        for of_text in truths.values():
            if not isinstance(of_text, Mapping):
                raise UserError(
                    f"true classes must be given by text and label, {{text: {{label: class}}}}, got {of_text!r}",
                    "EPS-M026",
                )
            if (strange := {*of_text} - {*known_classes}) and not {*known_classes} <= {*of_text}:
                raise unknown("label of the auxiliaries", min(strange, key=repr), known_classes)
        pairs = {pair for of_text in truths.values() for pair in of_text.items() if pair[0] in known_classes}
        for label, name in sorted(pairs, key=repr):
            if name not in known_classes[label]:
                raise UserError(
                    f"{name!r} is not a class of {label} that the classifiers were trained on "
                    f"({', '.join(map(repr, known_classes[label]))}); correct the class, or train the classifiers on "
                    "texts of that class",
                    "EPS-M027",
                )
        other = copy.copy(self)
        object.__setattr__(other, "truths", truths)
        return other
