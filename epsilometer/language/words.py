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


def write(words: Iterable[str]) -> str:
    """Words as a text."""
    return " ".join(words)
