"""True classes of texts, which may be given to an anonymiser: without them it uses its classifiers' predictions.

If a classifier misclassifies an attribute of two classes, an edit against its prediction is an edit towards the truth.
A text with a given class that already deceives the classifiers is released unchanged.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from epsilometer.core.errors import UserError, unknown
from epsilometer.core.mechanism import Truths


class WithTruths(ABC):
    """A mechanism that takes true classes: `TakesTruths`."""

    truths: ClassVar[Truths] = {}

    @abstractmethod
    def classes_of(self) -> Mapping[str, Sequence[str]]:
        """Returns the classes that the classifiers know, by label."""

    def with_truths(self, truths: Truths) -> Self:
        """Return the mechanism with the true classes of texts, by text and label.

        For other texts and labels it uses its classifiers' predictions. Raises UserError for a class that these do not
        know; for a label that they do not know, if the text lacks one of their labels (a stage passes all labels of a
        data set); and for a text without a mapping.
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
                    f"({', '.join(map(repr, known_classes[label]))}); correct the label, or train the classifiers with "
                    "it",
                    "EPS-M027",
                )
        other = copy.copy(self)
        object.__setattr__(other, "truths", truths)
        return other
