"""Flaws of a service's answer: withheld, truncated, or mixed with the model's reasoning.

Attacks learn nothing from a flawed answer. Counted as a rewrite, such an answer would look private.
"""

from __future__ import annotations

import re
from enum import IntFlag

_WITHHELD = ("content_filter", "refusal", "safety")
_TRUNCATED = ("length", "max_tokens")
_REASONING = re.compile(r"<think>.*?(</think>|\Z)|\A((?!<think>).)*?</think>", re.DOTALL)


class Flaw(IntFlag):
    """Flaws that a service states about an answer.

    WITHHELD: the answer is a refusal, or a filter stopped it. TRUNCATED: the answer stopped at the length limit.
    REASONED: the model's reasoning came in a separate field, or was removed from the answer.
    """

    NONE = 0
    WITHHELD = 1
    TRUNCATED = 2
    REASONED = 4


def stated(reason: object, refused: object = None, reasoning: object = None) -> Flaw:
    """Return the flaws that a service states about an answer. reason: the service's reason why the answer ended.

    refused, reasoning: the message's fields for a refusal and for reasoning. Raises ValueError for the reason "error".
    """
    named = str(reason or "").casefold()
    if named == "error":
        raise ValueError("the answer ended with an error")
    flaws = Flaw.WITHHELD if refused or named in _WITHHELD else Flaw.NONE
    flaws |= Flaw.TRUNCATED if named in _TRUNCATED else Flaw.NONE
    return flaws | (Flaw.REASONED if reasoning else Flaw.NONE)


def holds_reasoning(text: str) -> bool:
    """Return True if a text contains a mark of reasoning, <think> or </think>; some servers drop one of them."""
    return "<think>" in text or "</think>" in text


def without_reasoning(text: str) -> str:
    """Return a text without marked reasoning and white space at its ends. Unclosed reasoning runs to the text's end."""
    return _REASONING.sub("", text).strip() if holds_reasoning(text) else text
