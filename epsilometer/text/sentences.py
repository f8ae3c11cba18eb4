"""Sentence boundaries: a full stop, question or exclamation mark before white space, or a line break.

The next character need not be a capital, so that lower-case texts are split, too. Titles, initials and common English
abbreviations do not end a sentence. Abbreviations of other languages do, such as "Nr." in the German "Nr. 3". The marks
of Arabic, Urdu and Devanagari also end sentences. So do the full-width marks of Chinese and Japanese, which need no
white space after them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# An end mark and an optional closing quote or bracket before white space; or a full-width mark; or a line break.
_GAP = re.compile(
    r"(?:(?<=[.!?…؟۔।॥])|(?<=[.!?…؟۔।॥][\"'’”»)\]]))\s+"
    r"|(?:(?<=[。！？｡])(?![」』”’）])|(?<=[。！？｡][」』”’）]))\s*(?=\S)|\s*\n\s*"
)
_ABBREVIATED = re.compile(
    r"(?:^|[\s(\"'“‘])(?:[^\W\d_]|mr|mrs|ms|dr|prof|st|jr|sr|no|vs|etc|approx|e\.g|i\.e|a\.m|p\.m)\.$", re.IGNORECASE
)


def sentences(text: str) -> list[tuple[str, str]]:
    """Return the sentences of a text, each with the white space after it. Joined, they equal the text.

    White space at the start of the text belongs to the first sentence.
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
    """Yield passages of at most `longest` characters, each with its start in the text. Joined, they equal the text.

    A passage ends with a sentence if possible, otherwise at a space, otherwise after `longest` characters.
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
