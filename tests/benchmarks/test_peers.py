"""The table that compares reference code with ours can be measured again, and each row states its commit."""

from __future__ import annotations

import math
import re

import pytest

from benchmarks.peers.__main__ import ROWS, ratios, slower
from epsilometer.report import archive
from tests.support.places import ROOT

HEAD, TABLE = archive.cells(ROOT / "results/peers/the-reference-code-beside-ours.csv")


def test_every_row_of_the_table_can_be_measured_again() -> None:
    printed = ratios(HEAD, TABLE)
    assert len(printed) == len(TABLE)
    assert {name for name, _ in printed} == set(ROWS)
    assert all(ratio > 0 for ratio in printed.values())


def test_every_row_says_by_which_commit_it_was_measured() -> None:
    assert HEAD[-1] == "our commit"
    assert all(re.fullmatch(r"[0-9a-f]{7,}", row[-1]) for row in TABLE)


def test_a_row_below_two_thirds_of_what_was_printed_is_named() -> None:
    printed = {("MVC", "warm"): 30.0, ("MVC", "cold"): 30.0, ("TEM", "warm"): 1180.0, ("SanText", "warm"): 4.0}
    now = {("MVC", "warm"): 19.0, ("MVC", "cold"): 21.0, ("TEM", "warm"): math.nan}
    said = slower(printed, now)
    assert [sentence.partition(":")[0] for sentence in said] == ["MVC, warm", "TEM, warm", "SanText, warm"]
    assert "19 times" in said[0]
    assert "not measured" in said[1]


def test_another_table_is_refused() -> None:
    with pytest.raises(SystemExit, match="mechanism, path and times as fast"):
        ratios(["mechanism", "pure"], [["MVC", "3"]])
    head = ["mechanism", "path", "times as fast"]
    assert ratios(head, [["MVC", "warm", "1.18e+03"], ["MVC", "cold", ""]]) == {
        ("MVC", "warm"): 1180.0,
        ("MVC", "cold"): pytest.approx(math.nan, nan_ok=True),
    }
