"""Regular expressions as a masker, and the joining and replacing of a text's spans."""

from __future__ import annotations

import numpy as np
import pytest

from epsilometer.auditing.conformance.mechanism import check_mechanism
from epsilometer.auditing.text_audit import mechanism
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.expressions import KINDS, USUAL, Expressions
from epsilometer.mechanisms.anonymisers.shared.spans import Span, merged, replaced
from epsilometer.text.identifiers import LONGEST
from tests.support.refusals import refused

VALUES = {
    "e-mail address": "lee.hewitt@example.com",
    "phone number": "(415) 555-0132",
    "card number": "4111-1111-1111-1111",
    "social security number": "536-90-4399",
    "IP address": "2001:db8::8a2e:370:7334",
    "date": "2024-05-06",
    "order number": "AB-12345-x",
}


def written(masker: Expressions, *texts: str) -> list[str]:
    return list(masker.rewrite(texts, np.nan, Noise.named(len(texts), 0)).texts)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_replaced_and_names_are_not(kind: str) -> None:
    text = f"Lee Hewitt wrote: {VALUES[kind]} (see there)"
    name = kind.upper().replace(" ", "_").replace("-", "")
    expected = text.replace(VALUES[kind], f"<{name}>")
    assert written(Expressions(kinds=[kind]), text) == [expected]
    assert written(Expressions(), text) == [expected if kind in USUAL else text]
    others = [other for other in USUAL if other != kind]
    assert VALUES[kind] in written(Expressions(kinds=others), text)[0]


def test_a_number_without_the_checksum_of_cards_is_none() -> None:
    text = "reference 4111-1111-1111-1112 of them"
    assert written(Expressions(kinds=["card number"]), text) == [text]


def test_long_and_empty_texts() -> None:
    text = "we went there again. " * (LONGEST // 20) + "write to ann@example.org please."
    assert written(Expressions(), text, "") == [text.replace("ann@example.org", "<EMAIL_ADDRESS>"), ""]


def test_it_keeps_the_rules_of_mechanisms() -> None:
    checks = check_mechanism(Expressions(), None, ["mail a.b@example.com to Lee Hewitt", "yes"])
    assert [check.rule for check in checks if check.problem] == []


@pytest.mark.parametrize("kinds", [["name"], []])
def test_an_unknown_kind_is_refused(kinds: list[str]) -> None:
    with refused("EPS-C015", *kinds):
        mechanism("expressions", {"kinds": kinds})


def test_spans_that_overlap_are_joined_under_the_kind_of_the_longest() -> None:
    spans = [Span("b", 4, 9), Span("a", 0, 3), Span("a", 3, 5), Span("c", 8, 9), Span("d", 10, 10), Span("b", 9, 10)]
    assert merged(spans) == [Span("b", 0, 10)]
    assert merged([Span("a", 0, 2), Span("b", 2, 4), Span("b", 4, 5)]) == [Span("a", 0, 2), Span("b", 2, 5)]
    assert merged([Span("long", 0, 9), Span("in it", 2, 4), Span("after", 8, 12)]) == [Span("long", 0, 12)]
    assert replaced("0123456789", [Span("e-mail address", 2, 4), Span("x", 6, 7)]) == "01<EMAIL_ADDRESS>45<X>789"
