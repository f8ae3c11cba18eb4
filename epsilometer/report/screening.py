"""Screening of people's texts for the report: texts with a name, number, address or offensive word are not shown.

The embedded tagger finds names, as runs of proper nouns. Presidio's recognisers and a wider pattern (any digit, `#`,
`@` or web address) find addresses and numbers. A name that the tagger takes for a common noun is missed, so screened
texts are not anonymous.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from epsilometer.text.words import words

_EXPOSED = re.compile(r"[\d@#]|https?:|www\.|\w\.(com|org|net|edu|gov)\b", re.IGNORECASE)
# Beginnings of swear words, and of words about sex, violence, drugs and self-harm.
_STRONG = (
    *("fuck", "shit", "bitch", "bastard", "asshole", "cunt", "dick", "piss", "slut", "whore", "damn", "crap", "nigg"),
    *("fag", "retard", "sex", "porn", "nude", "naked", "rape", "molest", "abus", "kill", "murder", "suicid", "stab"),
    *("cocaine", "heroin", "meth", "weed", "drunk"),
)


def harmless(texts: Sequence[str]) -> list[bool]:
    """Return, for each text, True if it may be shown. Loads the tagger if a text passes the patterns."""
    plain = [not _EXPOSED.search(text) and not any(word.startswith(_STRONG) for word in words(text)) for text in texts]
    left = [text for text, may in zip(texts, plain, strict=True) if may]
    if not left:
        return plain
    from epsilometer.mechanisms.anonymisers.presidio import Presidio  # its libraries load slowly

    matches = iter(Presidio().matches(left))
    return [may and not next(matches) for may in plain]
