"""An anonymiser's outcome for a text stays with the text."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import COLUMNS, CUT, FOUND, NOTHING, PART, Outcomes


def outcomes() -> Outcomes:
    count = np.arange(4)
    return Outcomes([FOUND, NOTHING, CUT, PART], count, count + 10, count + 20, count + 30)


def test_they_are_taken_with_their_texts_and_joined() -> None:
    taken = Rewrites(["a", "b", "c", "d"], outcomes=outcomes()).take(np.array([2, 0])).outcomes
    assert taken is not None
    assert list(taken.status) == [CUT, FOUND]
    assert taken.asked_victim.tolist() == [32, 30]
    both = Outcomes.join([taken, outcomes()])
    assert both.table().rows() == [*taken.table().rows(), *outcomes().table().rows()]


def test_a_table_gives_them_back() -> None:
    table = outcomes().table()
    assert dict(table.schema) == COLUMNS
    again = Outcomes.of(table.with_columns(text=pl.lit("t")))
    assert again is not None
    assert again.table().equals(table)
    assert Outcomes.of(pl.DataFrame({"text": ["t"]})) is None


def test_a_status_of_ones_own_and_lengths_that_differ_are_refused() -> None:
    single, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="'fine'"):
        Outcomes(["fine"], single, single, single, single)
    with pytest.raises(ValueError, match="'words': 2"):
        Outcomes([FOUND], single, two, single, single)
