"""Truncation of texts so that their prompts fit into a model's window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Framed = Callable[[Sequence[str]], list[list[int]]]  # returns the prompt of each text as token ids


def fitted(texts: Sequence[str], framed: Framed, room: int) -> list[list[int]]:
    """Return the prompt of each text. A text is truncated if its prompt would have more than `room` tokens."""
    return [
        prompt if len(prompt) <= room else _of_beginning(text, framed, room)
        for text, prompt in zip(texts, framed(texts), strict=True)
    ]


def _of_beginning(text: str, framed: Framed, room: int) -> list[int]:
    """Return the prompt of the longest prefix of the text that fits, by bisection."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(framed([text[:middle]])[0]) <= room else (low, middle - 1)
    return framed([text[:low]])[0]
