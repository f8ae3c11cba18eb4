"""The tokenizer and the layout: what goes in comes back in its place."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer.text.words import STOP_WORDS, lay_out, words


def test_layout_is_kept() -> None:
    assert lay_out("Dear Ann,\n  don't CALL 555-0199!", ["hi", "bob", "never", "ring", "1", "2"]) == (
        "Hi Bob,\n  never RING 1-2!"
    )
    assert lay_out("İstanbul is far", ["a", "b", "c", "d"]) == "A b c d"  # a capital that falls apart when lowered
    assert lay_out("...", []) == "..."


@given(st.text(max_size=40))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_every_word_has_its_place(text: str) -> None:
    found = words(text)
    numbered = [f"x{i}x" for i in range(len(found))]
    assert words(lay_out(text, numbered)) == numbered


def test_stop_words_are_those_of_the_released_mechanisms() -> None:
    assert len(STOP_WORDS) == 198
    assert {"the", "don't", "ain", "you're", "s"} <= STOP_WORDS
    assert not {"system", "fifty", "cannot", "whereas"} & STOP_WORDS  # of other lists
    assert all(words(word) == [word] for word in STOP_WORDS)
