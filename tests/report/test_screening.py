"""Texts that people wrote are shown only if they contain no name, number, address or strong word."""

from __future__ import annotations

import pytest

from epsilometer.report.screening import harmless


@pytest.mark.parametrize(
    "text",
    [
        "my name is Priya Raman and i like tea",
        "ask Michael about the game",
        "write to me at me@example.org please",
        "my number is 801 555 0134",
        "i was born in 1998",
        "look at www.example.com for more",
        "follow @someone there",
        "what the fuck was that",
        "he was KILLED in the movie",
    ],
)
def test_what_could_expose_or_offend_is_withheld(text: str) -> None:
    assert harmless([text]) == [False]


def test_everyday_messages_are_shown_and_each_is_judged_by_itself() -> None:
    plain = ["that sounds like a lot of fun", "i like to read books and hike"]
    assert harmless([plain[0], "call 555 0134", plain[1]]) == [True, False, True]
    assert harmless([]) == []
