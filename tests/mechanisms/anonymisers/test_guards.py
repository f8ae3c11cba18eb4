"""Guards: words that are names, replacements of opposite meaning, and losses of meaning or fluency."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from epsilometer.mechanisms.anonymisers.idt import masked_words
from epsilometer.mechanisms.anonymisers.shared.guards import Antonyms, Fluency, Similarity, names
from epsilometer.mechanisms.anonymisers.shared.word_edits import spans
from epsilometer.models.embedded import masked_lm
from epsilometer.models.fill_mask import FillMask, Place
from epsilometer.models.tagging import Tagger

TEXT = "The camera is great. My husband uses it every day."
WORSE = "The elephant is great. My husband uses it every day."
BETTER = "The camera is nice. My husband uses it every day."


@pytest.fixture(scope="module")
def fill_mask() -> FillMask:
    return FillMask(masked_lm())


def test_names_are_proper_nouns_and_identifiers() -> None:
    """A word with one occurrence that is a name stays at all of them."""
    texts = [
        "My wife Judith bought it in Berlin. I asked judith.",
        "Order FJ-790968: write to joe.bloggs@example.com please!",
        "",
        "It is great.",
    ]
    guarded = names([spans(text) for text in texts], Tagger().upos)
    assert {"judith", "berlin"} <= guarded[0]
    assert not {"wife", "bought", "asked"} & guarded[0]
    assert {"fj", "790968", "joe", "bloggs", "example", "com"} <= guarded[1]
    assert "please" not in guarded[1]
    assert guarded[2:] == [frozenset(), frozenset()]


def test_tags_are_of_whole_sentences() -> None:
    """The tagger sees every word and mark of a sentence, and what it calls a name is taken from the right place."""
    seen: list[Sequence[Sequence[str]]] = []

    def upos(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        seen.append(sentences)
        return [["PROPN" if word in ("June", "b") else "X" for word in sentence] for sentence in sentences]

    assert names([spans("In June, a b. Then c."), spans("june")], upos) == [{"june", "b"}, set()]
    assert seen == [[["In", "June", ",", "a", "b", "."], ["Then", "c", "."], ["june"]]]


def test_opposites_are_refused_either_way() -> None:
    relations = pl.DataFrame(
        {"a": ["cheap", "cheap"], "b": ["Expensive", "inexpensive"], "relation": ["antonym", "synonym"]}
    )
    antonyms = Antonyms.of(relations)
    assert antonyms.refused("Cheap", ["costly", "EXPENSIVE", "inexpensive"]) == ["EXPENSIVE"]
    assert antonyms.refused("expensive", ["cheap"]) == ["cheap"]


def test_similarity_is_of_the_text_and_of_its_changed_sentences() -> None:
    guard = Similarity(0.0)
    changed = [("The camera is great.", "The elephant is great."), ("The camera is great.", "The camera is nice.")]
    whole = guard.cosines([(TEXT, WORSE), (TEXT, BETTER), (TEXT, TEXT)])
    of_sentences = guard.cosines(changed)
    assert whole[2] == pytest.approx(1, abs=1e-6)
    assert of_sentences[0] < whole[0]  # the sentence decides, not the whole text
    for pair, least in zip([(TEXT, WORSE), (TEXT, BETTER)], np.minimum(whole[:2], of_sentences), strict=True):
        assert Similarity(least - 1e-6)([pair]) == [True]
        assert Similarity(least + 1e-6)([pair]) == [False]
    assert guard([]) == []


def test_fluency_is_the_largest_fall_at_a_changed_word(fill_mask: FillMask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fluency, "_fill_mask", fill_mask)

    def fall(text: str, candidate: str, word: str, new: str) -> float:
        before, after = text.index(word), candidate.index(new)
        places = [Place(0, before, before + len(word)), Place(1, after, after + len(new))]
        log_before, other = fill_mask.log_probabilities([text, candidate], places)
        return float(log_before - other)

    both = BETTER.replace("camera", "elephant")
    worse, better = fall(TEXT, WORSE, "camera", "elephant"), fall(TEXT, BETTER, "great", "nice")
    largest = max(fall(TEXT, both, "camera", "elephant"), fall(TEXT, both, "great", "nice"))
    pairs = [(TEXT, WORSE), (TEXT, BETTER), (TEXT, both), (TEXT, TEXT)]
    for limit in (worse, better, largest, worse - 0.01, better - 0.01, largest - 0.01):
        expected = [fall <= limit for fall in (worse, better, largest)]
        assert Fluency(limit)(pairs)[:3] == expected
    assert Fluency(0.0)([(TEXT, TEXT)]) == [True]
    assert Fluency(1e9)([("A 🙂 camera.", "A camera camera.")]) == [True]
    assert Fluency(0.0)([]) == []


def test_candidates_of_the_masked_model_are_other_whole_words(fill_mask: FillMask) -> None:
    """The likeliest at the first occurrence, in its order."""
    text = "My camera is great, and that camera is cheap."
    (of_text,) = masked_words(fill_mask, [spans(text)], [["camera", "great"]], 5)
    for word, candidates in zip(("camera", "great"), of_text, strict=True):
        assert len(candidates) == 5
        assert word not in candidates
        assert all(candidate.isalpha() and candidate == candidate.lower() for candidate in candidates)
        start = text.index(word)
        likely = fill_mask.likeliest([text], [Place(0, start, start + len(word))], 40)[0][0]
        order = [fill_mask.outputs[i].lower() for i in likely]
        assert [order.index(candidate) for candidate in candidates] == sorted(map(order.index, candidates))
    assert masked_words(fill_mask, [spans("")], [[]], 5) == [[]]
