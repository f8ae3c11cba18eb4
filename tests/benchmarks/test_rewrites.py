"""TeDA's mechanisms on the same texts: the choice of texts, and the report on first tokens."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.rewrites import LIKELIEST, alike, cell, first_token


class Writer:
    """A mechanism whose first token is known."""

    def __init__(self, *law: tuple[str, float]) -> None:
        self.law = list(law)

    def tokens(self, text: str) -> list[str]:
        return text.split()

    def first_tokens(self, text: str, epsilons: Sequence[float], count: int) -> list[list[tuple[str, float]]]:
        assert count == LIKELIEST
        return [self.law for _ in epsilons]


def test_the_own_first_token_stands_with_its_rank_and_probability() -> None:
    writer = Writer(("the", 0.6), ("listen", 0.3), ("a", 0.1))
    assert first_token(writer, "listen to music", 250.0) == ("the", 0.6, "listen", 2, 0.3)


def test_a_token_that_is_not_among_the_likeliest_has_no_rank_and_a_bound() -> None:
    writer = Writer(("the", 0.6), ("a", 0.1))
    assert first_token(writer, "listen to music", 250.0) == ("the", 0.6, "listen", None, 0.1)


def test_texts_have_as_many_words_as_the_first_and_stand_once() -> None:
    texts = ["play a song", "play", "a new song", "play a song", "one two three"]
    assert alike(texts, 2) == ["play a song", "a new song"]


def test_a_text_stays_within_its_cell() -> None:
    assert cell("a | b\nc") == "a \\| b c"
    assert cell(" ") == "(empty)"
