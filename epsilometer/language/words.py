"""The project-wide word tokenizer: what counts as a word wherever words are counted, matched or privatised."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import islice

# Letters and digits of any script, with inner apostrophes ("don't"); punctuation and underscores separate.
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def words(text: str) -> list[str]:
    """The words of a text: lower-cased, punctuation and layout normalised away (before any noise)."""
    return _WORD.findall(_normalised(text).lower())


def lay_out(text: str, words: Iterable[str]) -> str:
    """The text with each of its words replaced by the next of these, in its place and with its capitals.

    words: as many as `words(text)` yields.
    """
    left = iter(words)

    def put(match: re.Match[str]) -> str:
        source = match.group()
        # A capital may fall apart when lowered (the Turkish dotted I), and a word with it.
        word = " ".join(islice(left, len(_WORD.findall(source.lower()))))
        if source.isupper() and len(source) > 1:
            return word.upper()
        return word[:1].upper() + word[1:] if source[:1].isupper() else word

    return _WORD.sub(put, _normalised(text))


def _normalised(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("’", "'")


def stop_words() -> frozenset[str]:
    """The English stop-words of scikit-learn: what mechanisms that spare stop-words leave as they are."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


def write(words: Iterable[str]) -> str:
    """Words as a text."""
    return " ".join(words)
