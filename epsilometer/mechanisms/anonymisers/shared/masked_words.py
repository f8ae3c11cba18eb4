"""Candidate replacements of a word, predicted by a masked language model at the word's place."""

from __future__ import annotations

from collections.abc import Sequence

from epsilometer.mechanisms.anonymisers.shared.word_edits import Spans, is_word
from epsilometer.models.fill_mask import FillMask, Place

_SPARE = 2  # predictions per candidate, since the word itself and marks are not candidates


def masked_words(
    fill_mask: FillMask, cut: Sequence[Spans], words: Sequence[Sequence[str]], k: int
) -> list[list[list[str]]]:
    """Return at most k candidates for each word of each text: other whole words, likeliest first.

    words: for each text, some of its words in lower case. A word that occurs several times is masked only at its first
    place, since all its occurrences get the same replacement.
    """
    places = [
        Place(i, spans.starts[spans.places[word][0]], spans.ends[spans.places[word][0]])
        for i, (spans, of_text) in enumerate(zip(cut, words, strict=True))
        for word in of_text
    ]
    likeliest, _ = fill_mask.likeliest([spans.text for spans in cut], places, _SPARE * k + 1)
    rows = iter(likeliest.tolist())
    return [[_others(word, [fill_mask.outputs[i] for i in next(rows)], k) for word in of_text] for of_text in words]


def _others(word: str, candidates: Sequence[str], k: int) -> list[str]:
    whole = dict.fromkeys(candidate.lower() for candidate in candidates if is_word(candidate))
    return [candidate for candidate in whole if candidate != word][:k]
