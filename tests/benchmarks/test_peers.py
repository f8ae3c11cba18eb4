"""The page of the reference code beside ours can be measured again, and says by which commit each row is."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from benchmarks.peers.__main__ import ROWS, ratios, slower

PAGE = Path("docs/results/peers.md").read_text().splitlines()


def test_every_row_of_the_page_can_be_measured_again() -> None:
    printed = ratios(PAGE)
    assert len(printed) == sum(line.startswith("| ") for line in PAGE) - 1
    assert {name for name, _ in printed} == set(ROWS)
    assert all(ratio > 0 for ratio in printed.values())


def test_every_row_says_by_which_commit_it_was_measured() -> None:
    head, *rows = [line for line in PAGE if line.startswith("| ")]
    assert head.endswith("| our commit |")
    assert all(re.search(r"\| [0-9a-f]{7,} \|$", row) for row in rows)


def test_a_row_below_two_thirds_of_what_was_printed_is_named() -> None:
    printed = {("MVC", "warm"): 30.0, ("MVC", "cold"): 30.0, ("TEM", "warm"): 1180.0, ("SanText", "warm"): 4.0}
    now = {("MVC", "warm"): 19.0, ("MVC", "cold"): 21.0, ("TEM", "warm"): math.nan}
    said = slower(printed, now)
    assert [sentence.partition(":")[0] for sentence in said] == ["MVC, warm", "TEM, warm", "SanText, warm"]
    assert "19 times" in said[0]
    assert "not measured" in said[1]


def test_a_page_without_such_a_table_is_refused() -> None:
    with pytest.raises(SystemExit, match="no table"):
        ratios(["| mechanism | pure |", "|---|---|", "| MVC | 3 |"])
    assert ratios(["| mechanism | path | times as fast |", "| MVC | warm | 1.18e+03 |", "| MVC | cold | |"]) == {
        ("MVC", "warm"): 1180.0,
        ("MVC", "cold"): pytest.approx(math.nan, nan_ok=True),
    }
