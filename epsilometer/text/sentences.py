"""Where sentences end: at a full stop, question or exclamation mark before white space, and at a line break.

Lower-case texts have sentences too, so what follows need not be a capital; a title, an initial or another common
abbreviation ends none.
"""

from __future__ import annotations

import re

# The last mark with what closes after it, then white space; or a line break.
_GAP = re.compile(r"(?:(?<=[.!?…])|(?<=[.!?…][\"'’”)\]]))\s+|\s*\n\s*")
_ABBREVIATED = re.compile(
    r"(?:^|[\s(\"'“‘])(?:[^\W\d_]|mr|mrs|ms|dr|prof|st|jr|sr|no|vs|etc|approx|e\.g|i\.e|a\.m|p\.m)\.$", re.IGNORECASE
)


def sentences(text: str) -> list[tuple[str, str]]:
    """The sentences of a text, each with the white space after it; joined they are the text.

    White space that the text begins with is the first sentence's own.
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
