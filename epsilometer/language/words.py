"""The project-wide word tokenizer: what counts as a word wherever words are counted, matched or privatised."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# Letters and digits of any script, with inner apostrophes ("don't"); punctuation and underscores separate.
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def words(text: str) -> list[str]:
    """The words of a text: lower-cased, punctuation and layout normalised away (before any noise)."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).replace("’", "'").lower())


def stop_words() -> frozenset[str]:
    """The English stop-words of scikit-learn: what mechanisms that spare stop-words leave as they are."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


def write(words: Iterable[str]) -> str:
    """Words as a text."""
    return " ".join(words)
