"""Detection of English texts by their function words, without a model; other languages are not identified.

In English texts a quarter or more of the words are function words (`words.STOP_WORDS`): 29 to 52 % in thirteen real
data sets, 0 to 7 % in thirteen other languages (docs/how-to/languages.md). Texts below LEAST are in another
language, or are not sentences (keywords, codes). Italian, with 15 %, passes: it has "a", "i" and "in", too.
"""

from __future__ import annotations

from collections.abc import Iterable

from epsilometer.text.words import STOP_WORDS, words

LEAST = 0.12  # share of function words from which texts count as English
_FEW = 50  # with fewer words a share is unreliable


def function_words(texts: Iterable[str]) -> float | None:
    """Return the share of English function words among all words of the texts; None if there are too few words."""
    total = english = 0
    for text in texts:
        some = words(text)
        total += len(some)
        english += sum(map(STOP_WORDS.__contains__, some))
    return english / total if total >= _FEW else None
