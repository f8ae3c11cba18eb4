"""Sentences: no character is lost, and a mark within a sentence does not end it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsilometer.text.sentences import passages, sentences

ANY = st.text(st.one_of(st.sampled_from("aB.!?…\"') \n\t"), st.characters()), max_size=40)


@given(ANY)
def test_joined_they_are_the_text(text: str) -> None:
    parts = sentences(text)
    assert "".join(sentence + gap for sentence, gap in parts) == text
    assert all(not gap.strip() for _, gap in parts)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Good. Bad!  worse?", ["Good.", "Bad!", "worse?"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("Dr. Who met J. Smith, e.g. in St. Ives. Well...", ["Dr. Who met J. Smith, e.g. in St. Ives.", "Well..."]),
        ("It cost 3.50 there.Fine", ["It cost 3.50 there.Fine"]),
        ("我来了。你呢？“好！”他说。", ["我来了。", "你呢？", "“好！”", "他说。"]),
        ("هل جئت؟ نعم.", ["هل جئت؟", "نعم."]),
        ("वह आया। फिर गया।", ["वह आया।", "फिर गया।"]),
        ("a list\n- one\n\n- two", ["a list", "- one", "- two"]),
        ("", []),
        (" .", [" ."]),
    ],
)
def test_where_they_end(text: str, parts: list[str]) -> None:
    assert [sentence for sentence, _ in sentences(text)] == parts


@given(ANY, st.integers(1, 12))
def test_passages_are_the_text_in_pieces_that_are_short_enough(text: str, longest: int) -> None:
    parts = list(passages(text, longest))
    assert "".join(passage for _, passage in parts) == text
    assert all(0 < len(passage) <= longest for _, passage in parts)
    assert all(text.startswith(passage, start) for start, passage in parts)


def test_passages_end_with_sentences_where_they_can() -> None:
    assert [passage for _, passage in passages("One two. Three four. Five six seven eight.", 22)] == [
        "One two. Three four. ",
        "Five six seven eight.",
    ]
    assert [passage for _, passage in passages("one two three", 9)] == ["one two ", "three"]
