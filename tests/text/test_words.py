"""The tokenizer and the layout: what goes in comes back in its place."""

from __future__ import annotations

from hashlib import sha256

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
    places = words(text)
    numbered = [f"x{i}x" for i in range(len(places))]
    assert words(lay_out(text, numbered)) == numbered


def test_stop_words_are_those_of_the_released_mechanisms() -> None:
    """The checksum is that of the 179 words that NLTK's data held at commit 5db857e (2023), sorted, one a line."""
    added = {"i'd", "i'll", "i'm", "i've", "he'd", "he'll", "he's", "she'd", "she'll", "it'd", "it'll"}
    added |= {"we'd", "we'll", "we're", "we've", "they'd", "they'll", "they're", "they've"}
    assert added <= STOP_WORDS
    earlier = "\n".join(sorted(STOP_WORDS - added))
    assert sha256(earlier.encode()).hexdigest() == "63c081f949766b37ecdc95ac5b55639990d34295166996357ff47df805fda211"
    assert all(words(word) == [word] for word in STOP_WORDS)
