"""Base class of mechanisms in which a language model rewrites a text on request.

An answer must consist of a JSON object with the rewrite. Otherwise the request is sent once more. If the second answer
is invalid, too, an empty text is released (status `unusable`), never the original. An endpoint's provider sees the
texts, so they must be public (`models.assistant.AsksModel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from epsilometer.core.component import component
from epsilometer.core.guarantees import Guarantee
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Auxiliaries
from epsilometer.models.assistant import AsksModel, read_object, read_text

FORM = "Your return is a valid JSON response with a single key called 'text' and the rewritten text as its value."


@component
class LanguageModelMechanism(AsksModel):
    """A mechanism that asks a language model for the rewrite.

    resource: a folder that `Auxiliaries` reads. It states the labels to hide, the labels to preserve, and the classes
    of each label.
    """

    has_budget: ClassVar[bool] = False

    resource: str | Path

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Nothing is claimed."""
        return None

    @cached_property
    def auxiliaries(self) -> Auxiliaries:
        """The auxiliaries in the folder `resource`."""
        return Auxiliaries(Path(self.resource))


def read_rewrite(answer: str) -> str | None:
    """Return the rewrite in an answer; None if the answer is invalid, or the rewrite empty."""
    answered = read_object(answer, "text")
    return None if answered is None else read_text(answered["text"])


def listed(parts: Sequence[str]) -> str:
    """Return the parts as a phrase: "a", "a and b", "a, b and c"."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
