"""Verbatim leakage: which strings count as identifiers, and which of them survived."""

from __future__ import annotations

import html
import json
import socket
import unicodedata
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest

from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.auditing.worth import leakage
from epsilometer.auditing.worth.intervals import share_interval
from epsilometer.auditing.worth.leakage import ALL, Identifier, identifiers
from epsilometer.corpora.synthetic import generate
from epsilometer.text.identifiers import recognisers
from tests.support.refusals import refused


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("reached for the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    recognisers.cache_clear()


def test_patterns_find_addresses_and_numbers_without_a_network(no_network: None) -> None:
    texts = [
        "Write to joe.bloggs@example.co.uk or call (774) 799-7687, order FJ-790968!",
        "booking e4ur5q needs to be canceled today",
        "my number is +44 20 7946 0507, file 826-5535083",
        "on 2024-12-24 and 24/12/2024 I paid $1000000 for 24 euros in the 1990s",
        "the boeing 747 at 10:30, see a@b and seventeen-year-olds",
        "",
    ]
    spans = [[(span.kind, span.text) for span in row] for row in identifiers(pl.DataFrame({"text": texts}))]
    assert spans == [
        [
            ("e-mail address", "joe.bloggs@example.co.uk"),
            ("phone number", "(774) 799-7687"),
            ("order number", "FJ-790968"),
        ],
        [("order number", "e4ur5q")],
        [("phone number", "+44 20 7946 0507"), ("phone number", "826-5535083")],  # digits alone do not reveal the kind
        [],
        [],
        [],
    ]


def test_patterns_and_the_generated_corpora_agree() -> None:
    """Deterministic. The grammar plants next to nothing that patterns miss, and they find nothing else."""
    for part in ("queries", "reviews"):
        table = generate(part, 1600, seed=5).filter(pl.col("text").str.contains(r"\d.*\d|@"))
        recorded, both = identifiers(table), identifiers(table.drop("identifiers", "identifier_kinds"))
        assert all(span.recorded for row in recorded for span in row)
        planted = {(span.kind, span.text) for row in recorded for span in row if span.kind != "name"}
        spans = {(span.kind, span.text) for row in both for span in row}
        assert len(spans & planted) > 0.75 * len(planted) > 5
        # An invalid phone number may count as an order number, or the other way around.
        assert len(spans - planted) < 0.15 * len(planted)


def test_a_record_stands_for_what_is_found_in_it() -> None:
    table = pl.DataFrame(
        {
            "text": ["Ann, ann@example.com, order 7071406", "no record of 7071406", "nothing"],
            "identifiers": [["Ann", "ann@example.com"], None, []],
            "identifier_kinds": [["name", "e-mail address"], None, []],
        },
        schema_overrides={"identifiers": pl.List(pl.String), "identifier_kinds": pl.List(pl.String)},
    )
    order = Identifier("order number", "7071406", False)
    assert identifiers(table) == [
        [Identifier("name", "Ann", True), Identifier("e-mail address", "ann@example.com", True), order],
        [order],
        [],
    ]
    assert identifiers(table.drop("identifier_kinds"))[0][0].kind == "other"
    with refused("EPS-A192"):
        identifiers(table.with_columns(identifier_kinds=pl.lit(["name"])))


def test_counts_are_by_kind_with_their_intervals() -> None:
    recorded = [
        [Identifier("name", "Ann", True), Identifier("order number", "7071406", False)],
        [Identifier("name", "Lee Hewitt", True)],
        [],
    ]
    table = leakage.leakage(recorded, ["ann 1406", "someone", "x"], [4, 7, 8], 0.05)
    assert table.rows() == [
        ("name", 2, 2, 1, 0, 0.5, *clopper_pearson(1, 2, 0.05)),
        ("order number", 1, 0, 0, 1, 0.0, *clopper_pearson(0, 1, 0.05)),
        (ALL, 3, 2, 1, 1, *share_interval([1, 0, 0], [4, 4, 7], 0.05)),
    ]
    assert leakage.leakage([[]], ["x"], [0], 0.05).is_empty()


CODES: dict[str, Callable[[str], str]] = {
    "as they are": str,
    "HTML": html.escape,
    "percent": quote,
    "JSON": json.dumps,
    "NFD": lambda text: unicodedata.normalize("NFD", text),
    "upper case": str.upper,
}


@pytest.mark.parametrize("code", ["as they are", "HTML", "percent", "JSON", "NFD", "upper case"])
@pytest.mark.parametrize("part", ["queries", "reviews", "judgements"])
def test_identity_and_every_encoding_of_it_score_all_of_a_generated_corpus(part: str, code: str) -> None:
    """Deterministic, over all identifiers of the corpus, recorded or found."""
    table = generate(part, 800, seed=7)
    texts = table["text"].to_list()
    table = leakage.leakage(identifiers(table), [CODES[code](text) for text in texts], range(len(texts)), 0.05)
    assert table["survived"].to_list() == table["identifiers"].to_list()
    assert (table["partly"] == 0).all()
    assert part == "judgements" or table.filter(kind=ALL)["identifiers"].item() > 10


def test_every_possessive_survives() -> None:
    rows = identifiers(generate("reviews", 800, seed=7))
    names = [each for row in rows for each in row if each.kind == "name"]
    assert len(names) > 20
    for ending in ("'s", "’s", "'", "12", "'nin"):
        assert all(name.survives(f"it was {name.text}{ending} own") for name in names)


@pytest.mark.slow
def test_a_text_of_a_megabyte_is_searched_to_its_end() -> None:
    """By passages, since recognisers take time by the square of a token: what stood beyond the first was not found."""
    texts = ["7" * 1_000_000, "a@" * 500_000, "x" * 999_990 + " FJ-790968"]
    recognised = identifiers(pl.DataFrame({"text": texts}))
    assert [[identifier.text for identifier in some] for some in recognised] == [[], [], ["FJ-790968"]]
