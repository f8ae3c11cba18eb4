"""What the mechanisms share that have a language model rewrite a text on request.

An answer is the rewrite in a JSON object and nothing else. One that is not is asked for once more; then nothing is
released (an empty text, status `unusable`), and never the original. An endpoint is shown the texts themselves, so that
these must be public (`models.assistant.AsksModel`).
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
    """resource: a folder of auxiliaries, which names the labels to hide and to keep, and their classes."""

    has_budget: ClassVar[bool] = False

    resource: str | Path

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Nothing is claimed."""
        return None

    @cached_property
    def auxiliaries(self) -> Auxiliaries:
        """What is to be hidden and what kept."""
        return Auxiliaries(Path(self.resource))


def read_rewrite(answer: str) -> str | None:
    """The rewrite in an answer; None where it has another form, or holds nothing to read."""
    answered = read_object(answer, "text")
    return None if answered is None else read_text(answered["text"])


def listed(parts: Sequence[str]) -> str:
    """The parts in a sentence: "a", "a and b", "a, b and c"."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
