"""The greedy search by words, compared with its plain loop and with cases worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch
from weakref import WeakSet

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import FOUND, MISSED, NOTHING, PART
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.shared import word_search
from epsilometer.mechanisms.anonymisers.shared.draft import Draft
from epsilometer.mechanisms.anonymisers.shared.in_step import Search, in_step
from epsilometer.mechanisms.anonymisers.shared.limits import EditLimits, Inspector, SimilarityRule
from epsilometer.mechanisms.anonymisers.shared.word_edits import spans
from epsilometer.mechanisms.anonymisers.shared.word_search import WordSearch
from tests.support.plain_search import plain_search
from tests.support.refusals import refused
from tests.support.weighted import Weighted

WORDS = ["aa", "bb", "cc", "dd", "ee"]
OPTIONS = {word: [f"{word}{letter}" for letter in "uvwxyz"] for word in WORDS}
WEIGHTS = st.floats(-3, 3).map(lambda x: round(x, 2))


@component
class Toy(WordSearch):
    """Six options a word, whole texts compared; networks are put in by `toy`."""

    @property
    def limits(self) -> EditLimits:
        return EditLimits("sentence", None if self.similarity == "free" else SimilarityRule(0.5, "cosine"))

    def candidates(self, draft: Draft, position: int) -> Search[list[str]]:
        yield from ()
        return OPTIONS.get(draft.spans.tokens[position], [])


class Networks(Inspector):
    """A tagger by the word's last letter, and vectors of two dimensions by the letters of a text."""

    def tags(self, sentences: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        return [tuple({"u": "ADJ", "v": "NOUN"}.get(word[-1], "VERB") for word in words) for words in sentences]

    def vectors(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        angles = [sum(0.37 * " wxyz".find(letter) for letter in text if letter in "wxyz") for text in texts]
        return [np.array([np.cos(angle), np.sin(angle)], np.float32) for angle in angles]


def toy(victim: Weighted, **chosen: Any) -> Toy:
    mechanism = Toy(resource=Path("nowhere"), **chosen)
    vars(mechanism).update(classifier=victim, _inspector=Networks(mechanism.limits))
    return mechanism


def rewrites(search: WordSearch, texts: Sequence[str]) -> Rewrites:
    return search.rewrite(texts, np.nan, Noise.named(len(texts), "test"))


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, list[float]], list[str]]:
    """Weights of three classes for some of the words and options, and texts."""
    tokens = [*WORDS, *(option for word in WORDS for option in OPTIONS[word])]
    weighted = draw(st.lists(st.sampled_from(tokens), min_size=5, unique=True))
    weights = {token: draw(st.lists(WEIGHTS, min_size=3, max_size=3)) for token in weighted}
    texts = draw(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), min_size=1, max_size=4))
    return weights, [" ".join(text) for text in texts]


@settings(max_examples=150, deadline=None)
@given(cases(), st.sampled_from(["auxiliaries", "victim"]), st.none() | st.integers(1, 25))
def test_it_is_the_plain_loop_and_every_question_counts(
    case: tuple[dict[str, list[float]], list[str]], asks: str, budget: int | None
) -> None:
    weights, texts = case
    networks = Networks(EditLimits("sentence", SimilarityRule(0.5, "cosine")))
    with patch.object(word_search, "_ROUND", 1):
        done = rewrites(toy(Weighted("pqr", weights), asks=asks, query_budget=budget), texts)
    assert done.outcomes is not None
    for i, text in enumerate(texts):
        questions, rewrite = plainly(text, Weighted("pqr", weights), networks, budget)
        assert done.texts[i] == rewrite
        count = (done.outcomes.asked_victim if asks == "victim" else done.outcomes.asked)[i]
        if asks == "victim" or budget is not None:  # candidates are checked before they are asked about
            assert count == questions
            assert budget is None or count <= budget
        else:
            assert count >= questions


def plainly(text: str, victim: Weighted, networks: Networks, budget: int | None) -> tuple[int, str]:
    """How many different questions the plain loop asks, and its rewrite."""
    questions = set[str]()

    def ask(question: str) -> NDArray[np.float64] | None:
        if question not in questions and budget is not None and len(questions) >= budget:
            return None
        questions.add(question)
        return np.asarray(victim.probabilities([question])[0])

    def similarity(before: str, after: str, candidate: str) -> float | None:
        if networks.tags([(candidate,)])[0][0] == "ADJ":
            return None
        first, other = networks.vectors([before, after])
        cosine = min(1.0, float(first.astype(np.float64) @ other.astype(np.float64)))
        return cosine if cosine >= 0.5 else None

    rewrite = plain_search(text, ask, OPTIONS.__getitem__, similarity)
    return len(questions), rewrite


@settings(max_examples=50, deadline=None)
@given(cases(), st.none() | st.integers(1, 25))
def test_the_ledger_agrees_with_a_victim_that_counts_itself(
    case: tuple[dict[str, list[float]], list[str]], budget: int | None
) -> None:
    """And a text is rewritten alone as among others."""
    weights, texts = case
    together = rewrites(toy(Weighted("pqr", weights), asks="victim", query_budget=budget), texts)
    for i, text in enumerate(texts):
        victim = Weighted("pqr", weights)
        alone = rewrites(toy(victim, asks="victim", query_budget=budget), [text])
        assert together.outcomes is not None
        assert alone.outcomes is not None
        assert alone.texts[0] == together.texts[i]
        assert len(victim.questions) == len({*victim.questions}) == alone.outcomes.asked_victim[0]
        assert alone.outcomes.table().equals(together.outcomes.take(np.array([i])).table())


def test_nothing_of_a_search_is_held_once_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft remembers tags and vectors of all that was tried: memory must not grow with the number of texts."""
    drafts, most = WeakSet[Draft](), 0

    class Watched(Draft):
        def __init__(self, *fields: Any) -> None:
            nonlocal most
            super().__init__(*fields)
            drafts.add(self)
            most = max(most, len(drafts))

    monkeypatch.setattr(word_search, "Draft", Watched)
    monkeypatch.setattr(word_search, "in_step", lambda searches: in_step(searches, side_by_side=2))
    texts = [" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))]
    rewrites(toy(Weighted("pq", {"aa": [1.0, 0.0], "bbw": [0.0, 2.0]})), texts)
    assert 1 < most <= 3  # a search may end before the next begins


def test_what_the_outcomes_say() -> None:
    weights = {"aa": [2.0, 0.0], "aaw": [0.0, 2.0], "bb": [3.0, 0.0], "bbw": [2.5, 0.0], "cc": [0.5, 0]}
    texts = ["aa", "bb bb", "cc", "", "of the 42", "aa"]
    done = rewrites(toy(Weighted("pq", weights)), texts)
    assert list(done.texts) == ["aaw", "bbv bbv", "ccv", "", "of the 42", "aaw"]
    assert done.outcomes is not None
    assert list(done.outcomes.status) == [FOUND, PART, PART, NOTHING, NOTHING, FOUND]
    assert done.outcomes.changed.tolist() == [1, 2, 1, 0, 0, 1]
    assert done.outcomes.words.tolist() == [1, 2, 1, 0, 2, 1]
    raised = {**weights, **{f"cc{letter}": [1.0, 0.0] for letter in "uvwxyz"}}
    missed = rewrites(toy(Weighted("pq", raised)), ["cc"])
    assert missed.outcomes is not None
    assert (list(missed.texts), list(missed.outcomes.status)) == (["cc"], [MISSED])


def test_of_several_successes_the_most_similar_is_taken_and_without_similarity_the_surest() -> None:
    weights = {"aa": [1.0, 0.0], "aav": [0.0, 1.0], "aaw": [0.0, 2.0], "aax": [0.0, 3.0], "aau": [0.0, 9.0]}
    victim = Weighted("pq", weights)
    assert rewrites(toy(victim), ["aa bb"]).texts[0] == "aav bb"  # aau has another tag
    assert rewrites(toy(victim, similarity="free"), ["aa bb"]).texts[0] == "aax bb"


@pytest.mark.parametrize("metric", ["angular", "cosine"])
def test_similarities_are_angular_or_cosines(metric: Any) -> None:
    first, other = np.array([1.0, 0.0], np.float32), np.array([np.cos(0.3), np.sin(0.3)], np.float32)
    expected = 1 - 0.3 / np.pi if metric == "angular" else np.cos(0.3)
    assert SimilarityRule(0.5, metric).of(first, other) == pytest.approx(expected, abs=1e-6)
    assert SimilarityRule(0.5, metric).of(first, first) == 1
    assert SimilarityRule(0.5, metric).of(first, -first) == pytest.approx(0 if metric == "angular" else -1)


NUMBERED = " ".join(f"w{i}x," for i in range(20))


def draft(text: str, edits: Mapping[int, str] | None = None) -> Draft:
    return Draft(0, spans(text), np.random.default_rng(0), dict(edits or {}))


def test_windows_are_words_wide_and_stay_in_the_text() -> None:
    """Positions count marks: word i stands at 2 i."""
    at_start = draft(NUMBERED)
    assert at_start.window(20, 15, {}) == ", ".join(f"w{i}x" for i in range(3, 18))
    assert at_start.window(2, 15, {}) == ", ".join(f"w{i}x" for i in range(15))
    assert at_start.window(38, 15, {}) == ", ".join(f"w{i}x" for i in range(5, 20))
    assert at_start.window(20, 3, {18: "new", 20: "er", 0: "far"}) == "new, er, w11x"
    assert draft("one two").window(0, 15, {2: "x"}) == "one two"


def test_windows_of_changed_words_nearby_count_unless_as_published() -> None:
    """The window of the changed word beside the swap is checked as well, and the least similarity counts."""
    seen: list[str] = []

    class Sees(Networks):
        def vectors(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
            seen.extend(texts)
            return super().vectors(texts)

    def compared(published: bool) -> int:
        seen.clear()
        inspector = Sees(EditLimits(None, SimilarityRule(-1.0, "cosine", 3, published=published)))
        search = inspector.similarities(draft(NUMBERED, {18: "z"}), 20, ["new"])
        asker, items = next(search)
        with pytest.raises(StopIteration):
            search.send(asker(items))
        return len(seen)

    assert (compared(True), compared(False)) == (2, 4)


def test_as_published_tags_are_read_at_the_first_of_equal_words() -> None:
    at_start = draft("w0 the bank saw the river bank there today")
    around = ("bank", "saw", "the", "river")
    assert at_start.context(6, "lake") == ((*around, "lake", "there", "today"), 4)
    assert at_start.context(6, "river") == ((*around, "river", "there", "today"), 3)  # the place of another `river`
    assert at_start.context(1, "a") == (("w0", "a", "bank", "saw", "the"), 1)
    assert at_start.sentence(6, {5: "lake"}) == (
        ("w0", "the", "bank", "saw", "the", "lake", "bank", "there", "today"),
        6,
    )


def test_a_victim_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with refused("EPS-M028", "victims"):
        Toy(resource=tmp_path, attribute="gender", asks="victim").classifier  # noqa: B018
    with refused("EPS-M030"):
        Toy(resource=tmp_path, attribute="gender", asks="victim", victims=tmp_path, kind="linear").classifier  # noqa: B018
    with refused("EPS-M019"):
        rewrites(Toy(resource=tmp_path), ["a text"])
