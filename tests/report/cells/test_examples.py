"""Rewrites that are recognised most confidently, the words that revealed them, and the screening of people's texts."""

from __future__ import annotations

import pytest

from epsilometer.auditing.worth.leakage import Identifier
from epsilometer.report.cells import examples
from epsilometer.report.cells.first_screen import chosen, decisions
from tests.support.audited import HOSTILE, audit, settings, text_of

TEXTS = ["rain in boston", "play jazz now", "call 555 0199", "snow"]
REWRITTEN = ["sun in boston", "play rock then", "555-0199 call", ""]


def test_the_most_confident_guesses_of_public_data_are_shown_before_and_after() -> None:
    results = audit(texts=TEXTS, rewrites=REWRITTEN)
    section = examples.section(results)
    assert section is not None
    (table,) = section.tables
    mechanism, epsilon = chosen(decisions(results), results.unread)["queries"]
    assert table.heading == f"queries · {mechanism} at ε = {epsilon:g}"
    assert not table.in_results, "it holds texts"
    assert table.columns == ["before", "after", "given away by"]
    shown = [(row["before"], row["after"]) for row in table.rows]
    pairs = [("snow", "(empty)"), ("call 555 0199", "555-0199 call"), ("play jazz now", "play rock then")]
    assert shown == pairs, "the most confident guess first"
    text = text_of(section, results)
    assert "<b>" not in text
    assert "words play" in text


def test_three_texts_at_most_and_none_twice() -> None:
    results = audit(texts=[f"text {n}" for n in range(9)], rewrites=[f"text {n}" for n in range(9)])
    (table,) = examples.section(results).tables  # type: ignore[union-attr]
    assert len({row["before"] for row in table.rows}) == len(table.rows) == 3


def test_texts_of_private_data_are_left_out() -> None:
    private = {name: dataset.model_copy(update={"public": False}) for name, dataset in settings().datasets.items()}
    assert examples.section(audit(settings(datasets=private))) is None


def test_what_gives_a_rewrite_away_is_shared_with_its_source_alone() -> None:
    others = ["rain on london town"]
    assert (
        examples.gave_away("snow in boston", "snow on boston", others, []) == "words snow and boston; length, 3 words"
    )
    assert examples.gave_away("rain on oslo town", "rain on", others, []) == "only the mechanism's law"
    assert examples.gave_away(
        "call 555 0199", "then 5550199", others, [Identifier("phone number", "555 0199", False)]
    ).startswith("identifier 555 0199")


def test_names_and_texts_are_escaped() -> None:
    results = audit(texts=[HOSTILE, "b c"], rewrites=[HOSTILE, HOSTILE])
    assert HOSTILE in text_of(examples.section(results), results)


SAID = [
    "my friend Daniel lives in Boston",
    "call 555 0199",
    "that was damn good",
    "i like to read books and hike",
    "see a@b.com",
]


def test_of_screened_data_only_harmless_texts_are_shown_and_the_others_are_counted() -> None:
    private = {name: dataset.model_copy(update={"public": False}) for name, dataset in settings().datasets.items()}
    screened = private | {"queries": private["queries"].model_copy(update={"screened": True})}
    results = audit(settings(datasets=screened), texts=SAID, rewrites=[text.lower() for text in SAID])
    (table,) = examples.section(results).tables  # type: ignore[union-attr]
    assert [(row["before"], row["after"]) for row in table.rows] == [
        ("i like to read books and hike", "i like to read books and hike")
    ]
    assert "are withheld" in table.caption


def test_a_harmless_text_is_withheld_where_its_rewrite_is_not() -> None:
    """A mechanism may release the words of another person."""
    rewrites = ["ask Emily Brown", "that sounds like a lot of fun", "i like to read books and hike"]
    named, withheld = examples.screened([0, 1, 2], lambda trial: ("that sounds like a lot of fun", rewrites[trial]))
    assert (named, withheld) == ([1, 2], 1)


def test_where_no_text_is_harmless_none_is_shown() -> None:
    assert examples.screened([0, 1], lambda trial: ("call me at 555 0199", "")) == ([], 2)


@pytest.mark.parametrize(
    "text",
    [
        "my name is Priya Raman and i like tea",
        "ask Michael about the game",
        "write to me at me@example.org please",
        "my number is 801 555 0134",
        "i was born in 1998",
        "look at www.example.com for more",
        "follow @someone there",
        "what the fuck was that",
        "he was KILLED in the movie",
    ],
)
def test_what_could_expose_or_offend_is_withheld(text: str) -> None:
    assert examples.harmless([text]) == [False]


def test_everyday_messages_are_shown_and_each_is_judged_by_itself() -> None:
    plain = ["that sounds like a lot of fun", "i like to read books and hike"]
    assert examples.harmless([plain[0], "call 555 0134", plain[1]]) == [True, False, True]
    assert examples.harmless([]) == []
