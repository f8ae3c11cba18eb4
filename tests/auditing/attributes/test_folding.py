"""Folding undoes each of some known edits, most of TextBugger's character edits, and no exchange of words."""

from __future__ import annotations

import numpy as np
import pytest

from epsilometer.auditing.attributes.folding import Folding
from epsilometer.corpora.synthetic import generate
from epsilometer.mechanisms.anonymisers.textbugger import bugs
from epsilometer.text.words import places

KNOWN = Folding(
    [
        "The room was really lovely, and a way to sleep; we went away.",
        "In Rome, away from work, it was away; you're right, isn't it?",
    ]
)


@pytest.mark.parametrize(
    ("edited", "original"),
    [
        ("The r\u043eom was lovely.", "The room was lovely."),  # a Cyrillic letter
        ("The room was lov ely.", "The room was lovely."),
        ("The room was lvoely.", "The room was lovely."),
        ("The room was Lovly!", "The room was Lovely!"),
        ("ROME, a room", "ROME, a room"),
        ("Yo u\u2019re away, isn\u2019t it", "You\u2019re away, isn\u2019t it"),
        ("It was a way to sleep", "It was away to sleep"),  # a cost: a more frequent word replaces it
        ("went  aw  ay", "went  aw  ay"),  # TextBugger never inserts two spaces
        ("The cat sat.", "The cat sat."),
        ("", ""),
        (" \u00e9t\u00e9 ?", " \u00e9t\u00e9 ?"),
    ],
)
def test_known_edits(edited: str, original: str) -> None:
    assert KNOWN.fold(edited) == original


def test_most_character_edits_of_textbugger_are_undone_and_few_whole_texts_change() -> None:
    texts = generate("reviews", 1_200, seed=0)["text"].to_list()
    folding, others, rng = Folding(texts[:1_000]), texts[1_000:], np.random.default_rng(0)
    undone, changed = [], sum(folding.fold(text) != text for text in others)
    for text in others:
        spots = list(places(text))
        start, stop = spots[rng.integers(len(spots))]
        for bug in bugs(text[start:stop], rng):
            undone.append(folding.fold(text[:start] + bug + text[stop:]) == text)
    assert len(undone) > 1_000
    assert np.mean(undone) > 0.9
    assert changed < 0.02 * len(others)
