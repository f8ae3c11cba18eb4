"""Anonymised texts with what became of each."""

from __future__ import annotations

import pytest

from epsilometer.studies.anonymity import anonymizing


@pytest.mark.parametrize(
    ("text", "rewrite", "parts"),
    [
        ("My wife likes it.", "My spouse likes it.",
         [("same", "My"), ("gone", "wife"), ("new", "spouse"), ("same", "likes it.")]),
        ("one", "", [("gone", "one")]),
    ],
)  # fmt: skip
def test_differences_show_what_was_taken_away_and_put_in(text: str, rewrite: str, parts: list[tuple[str, str]]) -> None:
    assert anonymizing.difference(text, rewrite) == parts
