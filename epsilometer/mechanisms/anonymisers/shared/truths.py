"""True classes of texts, which an anonymiser may be told: else it takes its classifiers' word for them.

Where a classifier misreads an attribute of two classes, an edit against its word is one towards the truth. A text that
is told and already deceives the classifiers is released as it is.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from epsilometer.core.errors import UserError, unknown
from epsilometer.core.mechanism import Truths


class WithTruths(ABC):
    """A mechanism that may be told true classes: `TakesTruths`."""

    truths: ClassVar[Truths] = {}

    @abstractmethod
    def classes_of(self) -> Mapping[str, Sequence[str]]:
        """Returns the classes that the classifiers know, by label."""

    def with_truths(self, truths: Truths) -> Self:
        """Returns the mechanism, told the true classes of texts, by text and label.

        Of texts and labels that are not among them it takes its classifiers' word. Raises UserError for a class that
        these do not know, for a label that they do not know of a text that lacks one of theirs (a stage tells all of a
        data set's), and where a text has no mapping.
        """
        known_classes = self.classes_of()
        for of_text in truths.values():
            if not isinstance(of_text, Mapping):
                raise UserError(
                    f"true classes must be given by text and label, {{text: {{label: class}}}}, got {of_text!r}"
                )
            if (strange := {*of_text} - {*known_classes}) and not {*known_classes} <= {*of_text}:
                raise unknown("label of the auxiliaries", min(strange, key=repr), known_classes)
        pairs = {pair for of_text in truths.values() for pair in of_text.items() if pair[0] in known_classes}
        for label, name in sorted(pairs, key=repr):
            if name not in known_classes[label]:
                raise UserError(
                    f"{name!r} is no class of {label} that the classifiers know, which are "
                    f"{', '.join(map(repr, known_classes[label]))}; correct the label, or train them with it"
                )
        other = copy.copy(self)
        object.__setattr__(other, "truths", truths)
        return other
