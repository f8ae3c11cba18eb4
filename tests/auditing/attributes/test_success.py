"""The effects of rewrites on a victim: the published counts, and measures that are broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from epsilometer.auditing.attributes.released import Released
from epsilometer.auditing.attributes.success import (
    Read,
    Reading,
    by_length,
    changes,
    edits,
    read,
    rewritten,
    shares,
    statuses,
)
from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.core.outcomes import FOUND, UTILITY_LOST, Outcomes
from tests.support import marked
from tests.support.broken import rs_for_all
from tests.support.broken.unchanged_found import UnchangedFound
from tests.support.marked import ByLetter, constant, swapped, texts
from tests.support.refusals import refused

ALPHA = 0.05


VICTIMS = {label: marked.fit(texts(400, 10_000).clean(label)) for label in ("gender", "rating")}


def published(right: int = 508, rewritten: int = 180, fooled: int = 111, exposed: int = 69, wrong: int = 492) -> Read:
    """The counts behind a row of the paper's table: IDT on Trustpilot, location."""
    n = right + wrong
    truth, clean = np.zeros(n, int), np.r_[np.zeros(right, int), np.ones(wrong, int)]
    released = np.r_[np.ones(fooled, int), np.zeros(n - fooled, int)]
    attribute, task = Reading(truth, clean, released), Reading(truth, truth, truth)
    return Read([attribute], task, np.arange(n) < rewritten, np.arange(n))


def test_the_published_shares_and_those_of_all_texts() -> None:
    row = shares(published(), ALPHA)
    counts = [row[name] for name in ("both_right", "rewritten", "fooled", "same_task", "exposed")]
    assert counts == [508, 180, 111, 180, 69]
    names = ("rs", "ur", "pa", "coverage", "rs_all")
    assert [round(row[name], 4) for name in names] == [0.6167, 1.0, 0.3833, 0.3543, 0.2185]
    for name, hits, of in (("rs", 111, 180), ("rs_all", 111, 508), ("coverage", 180, 508)):
        assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx(clopper_pearson(hits, of, ALPHA))


def test_several_attributes_at_once_succeed_where_all_are_wrong() -> None:
    right, n = np.zeros(5, int), 5
    gender = Reading(right, np.array([0, 0, 0, 0, 1]), np.array([1, 1, 0, 0, 1]))
    age = Reading(right, right, np.array([1, 0, 1, 0, 1]))
    seen = Read([gender, age], Reading(right, right, right), np.ones(n, bool), np.arange(n))
    row = shares(seen, ALPHA)
    assert (row["both_right"], row["fooled"], row["exposed"]) == (4, 1, 3)  # one text of C is misread
    assert (row["rs_all"], row["pa"], row["attribute_accuracy"], row["pa_released"]) == (0.25, 0.75, 0.8, 0.6)


def test_without_a_task_to_keep_success_is_that_of_the_attribute() -> None:
    counted = published()
    row = shares(Read(counted.attributes, None, counted.rewritten, counted.groups), ALPHA)
    with_task = shares(counted, ALPHA)  # the task is always classified right
    assert row["rs_all"] == with_task["rs_all"]
    assert not {"ur", "task_f1", "same_task", "ur_released"} & {*row}
    seen = read(marked.rewritten(texts(100, 0), swapped), ["gender"], None, VICTIMS)
    assert (seen.task, shares(seen, ALPHA)["rs_all"]) == (None, 1)


def test_shares_over_authors_have_wider_intervals() -> None:
    alone, of_authors = published(), published()
    of_authors = Read(of_authors.attributes, of_authors.task, of_authors.rewritten, np.arange(1000) // 20)
    wide, narrow = (
        (row["rs_all_low"], row["rs_all_high"]) for row in (shares(of_authors, ALPHA), shares(alone, ALPHA))
    )
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_f1_over_authors_has_an_interval_over_them() -> None:
    """Of two of 10 authors the task is misread in all 40 texts: 10 observations, not 400."""
    draw, author = np.random.default_rng(1), np.repeat(np.arange(10), 40)
    truth = draw.integers(2, size=400)
    task = Reading(truth, truth, np.where(author < 2, 1 - truth, truth))
    widths = []
    for groups in (author, np.arange(400)):
        row = shares(Read([task], task, np.ones(400, bool), groups), ALPHA)
        widths.append(row["task_f1_high"] - row["task_f1_low"])
    assert widths[0] > 4 * widths[1]


def test_identity_succeeds_nowhere() -> None:
    row = shares(read(texts(100, 0), ["gender"], "rating", VICTIMS), ALPHA)
    assert (row["both_right"], row["rewritten"], row["coverage"], row["rs_all"]) == (100, 0, 0, 0)
    assert row["rs"] is row["ur"] is row["pa_low"] is None
    assert row["pa_released"] == row["ur_released"] == 1


def test_a_swapped_marker_word_succeeds_everywhere() -> None:
    test = marked.rewritten(texts(100, 0), swapped)
    seen = read(test, ["gender"], "rating", VICTIMS)
    row = shares(seen, ALPHA)
    assert (row["rs_all"], row["rs"], row["ur"], row["pa"], row["coverage"]) == (1, 1, 1, 0, 1)
    edited = changes(test, seen, edits(test))
    assert edited["words_changed"] == edited["words_changed_rewritten"] == pytest.approx(1 / 9)
    assert (edited["unchanged"], edited["tags_equal"], edited["asked"]) == (0, None, None)


def test_a_constant_text_succeeds_only_where_the_victim_guesses_so() -> None:
    row = shares(read(marked.rewritten(texts(100, 0), constant), ["gender"], "rating", VICTIMS), ALPHA)
    assert row["coverage"] == 1
    assert row["pa_released"] == row["ur_released"] == 0.5


def outcomes(status: list[str]) -> Outcomes:
    ones = np.ones(len(status), np.int64)
    return Outcomes(status, ones, 8 * ones, 3 * ones, ones)


def test_a_rewrite_that_was_not_found_is_not_counted() -> None:
    test = marked.rewritten(texts(4, 0), swapped)
    released = Released(
        test.originals, test.rewrites, test.labels, outcomes=outcomes([FOUND, FOUND, UTILITY_LOST, FOUND])
    )
    assert rewritten(released).tolist() == [True, True, False, True]
    seen = read(released, ["gender"], "rating", VICTIMS)
    assert changes(released, seen, edits(released, ByLetter()))["asked"] == 12  # type: ignore[arg-type]
    assert not changes(released, seen, edits(released, ByLetter()))["tags_equal"]  # type: ignore[arg-type]
    assert list(statuses(released)) == [
        {"status": FOUND, "texts": 3, "unchanged": 0},
        {"status": UTILITY_LOST, "texts": 1, "unchanged": 0},
    ]
    silent = Outcomes(released.outcomes.status, *[np.zeros(4, np.int64)] * 4) if released.outcomes else None
    assert rewritten(Released(test.originals, test.rewrites, test.labels, outcomes=silent)).all()  # asks nobody


def test_rs_all_by_length_adds_up() -> None:
    test = marked.rewritten(texts(100, 0), lambda text: swapped(text) if "awful" in text else text)
    words = np.arange(100) // 3
    of = read(test, ["gender"], "rating", VICTIMS)
    rows = list(by_length(of, words, ALPHA))
    assert sum(row["both_right"] for row in rows) == 100
    assert sum(row["fooled"] for row in rows) == shares(of, ALPHA)["fooled"] == 50
    assert [row["longest"] < later["shortest"] for row, later in pairwise(rows)] == [True] * 3
    assert all(row["coverage"] == pytest.approx(0.5, abs=0.1) for row in rows)


@pytest.mark.parametrize(
    ("attribute", "task", "refusal"),
    [("gender", "gender", ("EPS-S045", "gender")), ("gender", "one", ("EPS-S041", "'one'", "good"))],
)
def test_labels_that_cannot_be_measured(attribute: str, task: str, refusal: tuple[str, ...]) -> None:
    test = texts(20, 0)
    test = Released(test.originals, test.rewrites, {**test.labels, "one": ["bad"] * 20})
    with refused(*refusal):
        read(test, [attribute], task, {**VICTIMS, "one": VICTIMS["rating"]})


def test_a_victim_at_chance_is_told_with_its_accuracy() -> None:
    test = texts(20, 0)
    wrong = Released(test.originals, test.rewrites, {**test.labels, "gender": [*"mf" * 10]})
    with refused("EPS-S046", "gender", "0.00", "0.50"):
        read(wrong, ["gender"], "rating", VICTIMS)


def dilutes(measure: Callable[[Read, float], dict[str, Any]]) -> bool:
    """Texts that the victim reads right and that get no rewrite lower RS_all in proportion, and leave RS."""
    few, many = (measure(published(right=right), ALPHA) for right in (200, 400))
    return bool(few["rs_all"] == pytest.approx(2 * many["rs_all"]) and few["rs"] == many["rs"])


def test_rs_under_the_name_of_rs_all_is_caught() -> None:
    assert dilutes(shares)
    assert not dilutes(rs_for_all.shares)


def test_an_unchanged_text_counted_as_a_success_is_caught() -> None:
    test = texts(4, 0)
    rewrites = UnchangedFound(swapped).rewrite(test.originals)
    with refused("EPS-S047", "1", "3", "4", "found"):
        rewritten(Released(test.originals, rewrites.texts, test.labels, outcomes=rewrites.outcomes))


def test_tags_are_compared_sentence_by_sentence_in_changed_texts_alone() -> None:
    before = ["a bed. it is dark", "a bed", "a bed", "a bed"]
    test = Released(before, ["a bath. it is damp", "a bed", "a room", "a. bed"], {})
    edited = edits(test, ByLetter())  # type: ignore[arg-type]
    assert edited.same_tags is not None
    assert edited.same_tags.tolist() == [True, True, False, False]
