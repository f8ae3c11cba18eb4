"""Sentence boundaries: a full stop, question or exclamation mark before white space, and a line break.

Lower-case texts have sentences, too, so the next character need not be a capital; a title, an initial or another common
abbreviation does not end a sentence. The abbreviations are English: "Nr. 3" of a German text ends a sentence. Arabic,
Urdu and Devanagari have marks of their own; after the full-width marks of Chinese and Japanese no white space is
needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# The last mark with closing marks after it, then white space; or a full-width mark; or a line break.
_GAP = re.compile(
    r"(?:(?<=[.!?…؟۔।॥])|(?<=[.!?…؟۔।॥][\"'’”»)\]]))\s+"
    r"|(?:(?<=[。！？｡])(?![」』”’）])|(?<=[。！？｡][」』”’）]))\s*(?=\S)|\s*\n\s*"
)
_ABBREVIATED = re.compile(
    r"(?:^|[\s(\"'“‘])(?:[^\W\d_]|mr|mrs|ms|dr|prof|st|jr|sr|no|vs|etc|approx|e\.g|i\.e|a\.m|p\.m)\.$", re.IGNORECASE
)


def sentences(text: str) -> list[tuple[str, str]]:
    """Return the sentences of a text, each with the white space after it; joined they are the text.

    White space at the beginning of the text belongs to the first sentence.
    """
    parts: list[tuple[str, str]] = []
    start = 0
    for gap in _GAP.finditer(text):
        sentence = text[start : gap.start()]
        if not sentence.strip() or ("\n" not in gap.group() and _ABBREVIATED.search(sentence)):
            continue
        parts.append((sentence, gap.group()))
        start = gap.end()
    return [*parts, (text[start:], "")] if start < len(text) else parts


def passages(text: str, longest: int) -> Iterator[tuple[int, str]]:
    """Yield passages of at most `longest` characters, each with the place of its first character in the text.

    Joined they are the text. They end with a sentence; if that is too long, at white space, else anywhere.
    """
    start = end = 0
    for sentence, gap in sentences(text):
        size = len(sentence) + len(gap)
        if end > start and end + size - start > longest:
            yield start, text[start:end]
            start = end
        end += size
        while end - start > longest:
            piece = text[start : start + longest]
            cut = piece.rfind(" ") + 1 or longest
            yield start, piece[:cut]
            start += cut
    if end > start:
        yield start, text[start:end]
