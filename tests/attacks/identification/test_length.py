from __future__ import annotations

from epsilometer.attacks.identification.length import _lengths


def test_lengths_are_counted_by_character() -> None:
    texts = ["", "A b_c, don't\u00a0\x1c stop ", "中文 ก\u0301_", "½ ² \u0301\u200b x"]
    for text, (_, tokens, characters, spaces, signs) in zip(texts, _lengths(texts).tolist(), strict=True):
        assert (tokens, characters) == (len(text.split()), len(text))
        assert spaces == sum(map(str.isspace, text))
        assert signs == sum(not character.isspace() and not character.isalnum() for character in text)
