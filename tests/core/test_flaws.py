"""Flaws of answers, by what services say of them."""

from __future__ import annotations

import pytest

from epsilometer.core.flaws import Flaw, holds_reasoning, stated, without_reasoning


@pytest.mark.parametrize(
    ("reason", "flaw"),
    [
        ("stop", Flaw.NONE),
        (None, Flaw.NONE),
        ("content_filter", Flaw.WITHHELD),
        ("SAFETY", Flaw.WITHHELD),
        ("length", Flaw.TRUNCATED),
        ("max_tokens", Flaw.TRUNCATED),
    ],
)
def test_why_an_answer_ended(reason: str | None, flaw: Flaw) -> None:
    assert stated(reason) == flaw
    assert stated(reason, refused="no", reasoning="well") == flaw | Flaw.WITHHELD | Flaw.REASONED


def test_an_answer_that_ended_with_an_error_is_none() -> None:
    with pytest.raises(ValueError, match="error"):
        stated("error")


@pytest.mark.parametrize(
    ("text", "rewrite"),
    [
        ("<think>she lives\nin Oslo</think>\n\na city", "a city"),
        ("she lives in Oslo</think> a city", "a city"),  # the first mark was in the prompt
        ("<think>she lives in Os", ""),  # truncated
        ("a city <think>or not</think>", "a city"),
        ("  a city ", "  a city "),
    ],
)
def test_reasoning_is_taken_out(text: str, rewrite: str) -> None:
    assert without_reasoning(text) == rewrite
    assert holds_reasoning(text) == (text != rewrite)
