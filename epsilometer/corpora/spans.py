"""A span of an annotated text: the characters between two positions, checked against the recorded value."""

from __future__ import annotations


class DisagreementError(ValueError):
    """A span whose text differs from the recorded value."""


def value(text: str, start: int, end: int, recorded: object) -> str:
    """Return the text from start to end (exclusive).

    recorded: the span's text in the annotation; None if the annotation does not have it. Raises ValueError for
    positions outside the text. Raises DisagreementError if the span differs from `recorded`. If `recorded` is None,
    raises DisagreementError if the span begins or ends with white space. No error quotes the text.
    """
    if not 0 <= start < end <= len(text):
        raise ValueError(f"positions {start} to {end} are outside the text")
    there = text[start:end]
    if recorded is None and there.strip() != there:
        raise DisagreementError(f"the span from {start} to {end} begins or ends with white space")
    if recorded is not None and there != recorded:
        raise DisagreementError(f"the text from {start} to {end} is not the value recorded for that span")
    return there
