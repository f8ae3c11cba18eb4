"""The greedy word search as published: one text and one candidate at a time, with limits checked before questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.models.tagging import words_and_marks


def plain_search(
    text: str,
    ask: Callable[[str], NDArray[np.float64] | None],
    candidates: Callable[[str], Sequence[str]],
    similarity: Callable[[str, str, str], float | None],
    stop_words: frozenset[str] = frozenset(),
) -> str:
    """Return the rewrite of a text whose words are separated by single spaces.

    ask: returns class probabilities, None beyond the budget. candidates: returns replacements for a word. similarity:
    returns that of the text before and after a candidate; None if the candidate breaks a limit.
    """
    words = text.split(" ")
    assert words == words_and_marks(text)
    first = ask(text)
    assert first is not None
    answer, score = int(first.argmax()), 1 - first[first.argmax()]
    importance = {}
    for i, word in enumerate(words):
        if word not in stop_words:
            row = ask(" ".join([*words[:i], "", *words[i + 1 :]]))
            if row is None:
                return text
            importance[i] = 1 - row[answer]
    now = list(words)
    for i in sorted(importance, key=lambda i: -importance[i]):
        tried: list[tuple[str, NDArray[np.float64], float]] = []
        spent = False
        for candidate in candidates(words[i]):
            after = " ".join([*now[:i], candidate, *now[i + 1 :]])
            similar = similarity(text, after, candidate)
            if similar is None or candidate == words[i]:
                continue
            row = ask(after)
            if row is None:
                spent = True
                break
            tried.append((candidate, row, similar))
        flips = [swap for swap in tried if swap[1].argmax() != answer]
        if flips:
            flips.sort(key=lambda swap: swap[1][answer])
            now[i] = max(flips, key=lambda swap: swap[2])[0]
            return " ".join(now)
        if tried:
            best = min(tried, key=lambda swap: swap[1][answer])
            if 1 - best[1][answer] > score:
                now[i], score = best[0], 1 - best[1][answer]
        if spent:
            break
    return " ".join(now)
