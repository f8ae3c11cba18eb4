from __future__ import annotations

from epsilometer.attacks.identification.length import _lengths
from epsilometer.text.words import words, write


def test_lengths_are_counted_by_character() -> None:
    texts = ["", "A b_c, don't\u00a0\x1c stop ", "中文 ก\u0301_", "½ ² \u0301\u200b x", "plain words"]
    counts, bare = _lengths(texts)
    assert bare.tolist() == [text == write(words(text)) for text in texts]
    for text, (_, tokens, characters, spaces, signs) in zip(texts, counts.tolist(), strict=True):
        assert (tokens, characters) == (len(text.split()), len(text))
        assert spaces == sum(map(str.isspace, text))
        assert signs == sum(not character.isspace() and not character.isalnum() for character in text)
