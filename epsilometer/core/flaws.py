"""Flaws of a service's answer: withheld, truncated, or with reasoning beside it.

Attacks learn nothing from such an answer: taken for a rewrite of the text, it looks private.
"""

from __future__ import annotations

import re
from enum import IntFlag

_WITHHELD = ("content_filter", "refusal", "safety")
_TRUNCATED = ("length", "max_tokens")
_REASONING = re.compile(r"<think>.*?(</think>|\Z)|\A((?!<think>).)*?</think>", re.DOTALL)


class Flaw(IntFlag):
    """Flaws that a service states of an answer.

    WITHHELD: a refusal, or stopped by a filter. TRUNCATED: stopped at the limit of its length. REASONED: the model's
    reasoning came beside the answer, or was taken out of it.
    """

    NONE = 0
    WITHHELD = 1
    TRUNCATED = 2
    REASONED = 4


def stated(reason: object, refused: object = None, reasoning: object = None) -> Flaw:
    """Return the flaws of an answer that ended for this reason.

    refused, reasoning: the message's fields of these names. Raises ValueError where the reason is an error.
    """
    named = str(reason or "").casefold()
    if named == "error":
        raise ValueError("the answer ended with an error")
    flaws = Flaw.WITHHELD if refused or named in _WITHHELD else Flaw.NONE
    flaws |= Flaw.TRUNCATED if named in _TRUNCATED else Flaw.NONE
    return flaws | (Flaw.REASONED if reasoning else Flaw.NONE)


def holds_reasoning(text: str) -> bool:
    """Return whether a text holds marked reasoning, <think>...</think>; some servers drop the first mark."""
    return "<think>" in text or "</think>" in text


def without_reasoning(text: str) -> str:
    """Return a text without marked reasoning and the white space around it; unended reasoning runs to the end."""
    return _REASONING.sub("", text).strip() if holds_reasoning(text) else text
