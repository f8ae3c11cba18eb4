"""Searches, compared with brute force on classifiers so small that every text can be tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer.mechanisms.anonymisers.shared.in_step import Search, in_step
from epsilometer.mechanisms.anonymisers.shared.judges import Aim, Judges, Panel
from epsilometer.mechanisms.anonymisers.shared.search import TextSearch, Trial
from epsilometer.mechanisms.anonymisers.shared.source import Edit, SourceText
from epsilometer.mechanisms.anonymisers.shared.word_edits import spans
from epsilometer.models.ledger import Ledger
from tests.support.weighted import Weighted

WORDS = ["aa", "bb", "cc", "dd", "ee", "ff"]
MANY = (
    2000  # draws of a size; each of at most 4^6 edits is missed with probability e^(-MANY / 4^6 ...), seeds are fixed
)


@dataclass(frozen=True)
class Toy:
    """A text of a few words with options, two classifiers, and options that change a tag, alone or together."""

    source: SourceText
    attribute: Weighted
    task: Weighted
    strange: frozenset[str]
    clash: frozenset[str]

    def tags(self, sentences: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        return [
            tuple("X" if w in self.strange or (w in self.clash and self.clash <= {*s}) else "N" for w in s)
            for s in sentences
        ]

    @property
    def judges(self) -> Judges:
        ledger = Ledger({"a": self.attribute, "t": self.task}, 1)
        return Judges([Panel(ledger, ["a"])], [Panel(ledger, ["t"])], self.tags)

    def searching(self, seed: int = 0, guards: Sequence[Any] = ()) -> TextSearch:
        aim = Aim(away=int(self.attribute.logits(self.source.spans.text).argmax()))
        return TextSearch(self.source, [aim], replace(self.judges, guards=guards), trial(seed))

    def passes(self, edit: Edit) -> bool:
        """Computed without the search."""
        before, after = self.source.spans.text, self.source.text(edit)
        return bool(
            self.attribute.logits(after).argmax() != self.attribute.logits(before).argmax()
            and self.task.logits(after).argmax() == self.task.logits(before).argmax()
            and self.tags([tuple(after.split())]) == self.tags([tuple(before.split())])
        )

    def confidence(self, edit: Edit) -> float:
        p = self.attribute.probabilities([self.source.text(edit)])[0]
        return float(np.delete(p, self.attribute.logits(self.source.spans.text).argmax()).max())

    def every(self) -> list[Edit]:
        """All edits, by brute force."""
        choices = product(*([None, *range(len(options))] for options in self.source.options))
        return [tuple((w, o) for w, o in enumerate(picked) if o is not None) for picked in choices]


def trial(seed: int = 0) -> Trial:
    return Trial(0, np.random.default_rng(seed))


@st.composite
def toys(draw: st.DrawFn, words: int = 6, options: int = 3) -> Toy:
    count = draw(st.integers(1, words))
    source = SourceText(
        spans(" ".join(WORDS[:count])),
        words=WORDS[:count],
        options=[[f"{word}{letter}" for letter in "xyz"[: draw(st.integers(1, options))]] for word in WORDS[:count]],
        answers=[0],
    )
    tokens = [*source.words, *(option for of_word in source.options for option in of_word)]
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    classes = draw(st.integers(2, 3))

    def classifier(names: str) -> Weighted:
        weights = {token: rng.normal(size=len(names)) for token in tokens}
        pair = rng.choice(tokens, 2)
        return Weighted(list(names), weights, (pair[0], pair[1], rng.normal(size=len(names))))

    attribute, task = classifier("abc"[:classes]), classifier("pq")
    answer = int(task.logits(source.spans.text).argmax())
    source = SourceText(source.spans, source.words, source.options, [answer])
    strange = frozenset(token for token in tokens[count:] if rng.random() < 0.2)
    return Toy(source, attribute, task, strange, frozenset(rng.choice(tokens[count:], 2).tolist()))


def run(search: Search[Any]) -> Any:
    (result,) = in_step([search])
    return result


def begun(search: TextSearch, then: Search[Any]) -> Search[Any]:
    yield from search.begin()
    return (yield from then)


@given(toys())
@settings(max_examples=40, deadline=None)
def test_exhaustive_search_equals_brute_force(toy: Toy) -> None:
    passing = [edit for edit in toy.every() if toy.passes(edit)]
    search = toy.searching()
    edit = run(begun(search, search.search("exhaustive", "fewest", 1, 4**6)))
    assert search.minimal
    if not passing:
        assert edit is None
        return
    least = min(map(len, passing))
    minimal = {edit for edit in passing if len(edit) == least}
    assert edit in minimal
    assert toy.confidence(edit) == pytest.approx(max(map(toy.confidence, minimal)))
    for minimal_edit in sorted(minimal)[:4]:  # each guard allows only one text, so every minimal edit must be found
        text = toy.source.text(minimal_edit)
        search = toy.searching(guards=[lambda pairs, text=text: [after == text for _, after in pairs]])
        assert run(begun(search, search.search("exhaustive", "fewest", 1, 4**6))) == minimal_edit
    surest = run(begun(search := toy.searching(), search.search("exhaustive", "confidence", 1, 4**6)))
    assert toy.confidence(surest) == pytest.approx(max(map(toy.confidence, passing)))


@given(toys(words=4), st.sampled_from(["sampled", "beam"]))
@settings(max_examples=30, deadline=None)
def test_no_search_reports_fewer_edits_than_there_are(toy: Toy, strategy: Any) -> None:
    passing = [len(edit) for edit in toy.every() if toy.passes(edit)]
    few = run(begun(search := toy.searching(), search.search(strategy, "fewest", 3, 0)))
    many = run(begun(search := toy.searching(), search.search(strategy, "fewest", MANY, 0)))
    assert few is None or (toy.passes(few) and len(few) >= min(passing))
    assert many is None or toy.passes(many)
    if strategy == "sampled":  # each edit of a size is sampled with probability 1 / 108 or more
        assert (len(many) if many else None) == min(passing, default=None)


def enumerated(toy: Toy) -> set[Edit]:
    """Line by line what the paper's loop can make of a text: every order of every words, every option."""
    plain = toy.tags([tuple(toy.source.words)])
    result = set()
    for size in range(1, len(toy.source.words) + 1):
        for order in permutations(range(len(toy.source.words)), size):
            for options in product(*(range(len(toy.source.options[word])) for word in order)):
                edit: Edit = ()
                for swap in zip(order, options, strict=True):
                    tried = tuple(sorted((*edit, swap)))
                    if toy.tags([tuple(toy.source.text(tried).split())]) == plain:
                        edit = tried
                        result.add(edit)
    return result


@given(toys(words=3, options=2))
@settings(max_examples=20, deadline=None)
def test_published_candidates_are_the_enumerated_ones_and_the_surest_is_released(toy: Toy) -> None:
    candidates = enumerated(toy)
    search = toy.searching()
    toy.attribute.questions.clear()
    edit = run(begun(search, search.published(MANY)))
    # A chain of 3 words is one of 48. All draws miss it with probability 5e-19.
    assert {*toy.attribute.questions} == {toy.source.text(edit) for edit in (*candidates, ())}
    passing = [candidate for candidate in candidates if toy.passes(candidate)]
    if not passing:
        assert edit is None
        return
    assert toy.passes(edit)
    assert toy.confidence(edit) == pytest.approx(max(map(toy.confidence, passing)))


@given(toys(words=4), st.integers(1, 5))
@settings(max_examples=10, deadline=None)
def test_searches_side_by_side_are_those_alone(toy: Toy, side_by_side: int) -> None:
    def searches() -> Any:
        for seed in range(7):
            search = toy.searching(seed)
            how = search.published(5) if seed % 2 else search.search("sampled", "fewest", 2, 0)
            yield begun(search, how)

    alone = [run(search) for search in searches()]
    assert in_step(searches(), side_by_side) == alone


def test_a_margin_is_kept_by_every_attribute_and_enough_of_the_kinds() -> None:
    source = SourceText(spans("aa bb"), ["aa", "bb"], [["aax", "aay"], ["bbx"]])
    weak = Weighted("mf", {"aax": (0, 0.5), "aay": (0, 3), "aa": (1, 0), "bb": (1, 0), "bbx": (0, 3)})
    sure = Weighted("mf", {"aax": (0, 5), "aay": (0, 1.5), "aa": (1, 0), "bb": (0, 0), "bbx": (0, 0)})
    ledger = Ledger({"weak": weak, "sure": sure}, 1)

    def both(enough: int) -> Judges:
        return Judges([Panel(ledger, ["weak", "sure"], enough)], [])

    def least(judges: Judges, margin: float) -> Edit:
        search = TextSearch(source, [Aim(away=0, margin=margin)], judges, trial())
        edit: Edit = run(begun(search, search.search("exhaustive", "fewest", 1, 100)))
        return edit

    assert least(both(2), 0.5) == ((0, 1),)  # aay: log-odds 2 and 1.5
    assert least(both(2), 1.8) == ((0, 0), (1, 0))  # 3.5 and 5
    assert least(both(1), 4) == ((0, 0),)
    one_each = Judges([Panel(ledger, ["weak"]), Panel(ledger, ["sure"])], [])
    search = TextSearch(source, [Aim(away=0, margin=0.5)] * 2, one_each, trial())
    assert run(begun(search, search.search("beam", "fewest", 2, 0))) == ((0, 1),)


def test_the_prediction_is_the_first_of_equally_likely_classes() -> None:
    """At equal log-odds a classifier of classes (f, m) says f: away from m is reached, away from f is not."""
    even = np.log(np.array([[[0.5, 0.5]]]))
    assert Aim(away=1).judge(even)[0] >= 0
    assert Aim(away=0).judge(even)[0] < 0
    assert Aim(toward=0).judge(even)[0] >= 0
    assert Aim(toward=1).judge(even)[0] < 0


def test_an_asker_gets_what_is_distinct_among_all_searches_at_once() -> None:
    calls = []

    def double(items: Sequence[int]) -> list[int]:
        calls.append(list(items))
        return [2 * item for item in items]

    def search(number: int) -> Search[int]:
        first = yield double, [number, 7]
        second = yield double, first
        return sum(second)

    assert in_step((search(i) for i in range(3)), side_by_side=2) == [28, 32, 36]
    assert calls == [[0, 7, 1], [0, 14, 2], [2, 7], [4, 14]]


def test_a_search_that_asks_nothing_ends_at_once() -> None:
    def search() -> Search[str]:
        return "done"
        yield

    assert in_step([search() for _ in range(5)], side_by_side=1) == ["done"] * 5
    assert in_step([]) == []
