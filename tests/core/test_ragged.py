from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from epsilometer.core.ragged import Ragged

rows = st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6)


@given(rows, st.data())
def test_take_is_row_by_row(content: list[list[int]], data: st.DataObject) -> None:
    ragged = Ragged.of(content)
    picks = data.draw(st.lists(st.integers(0, len(content) - 1), max_size=9)) if content else []
    taken = ragged.take(np.array(picks, int))
    assert [taken.row(i).tolist() for i in range(len(taken))] == [content[p] for p in picks]


@given(rows)
def test_series_positions_and_row_numbers(content: list[list[int]]) -> None:
    ragged = Ragged.of(content)
    assert ragged.to_series().to_list() == content
    assert ragged.row_numbers.tolist() == [i for i, row in enumerate(content) for _ in row]
    assert ragged.positions.tolist() == [j for row in content for j in range(len(row))]


@given(st.lists(rows, min_size=1, max_size=4))
def test_parts_are_joined_in_their_order(parts: list[list[list[int]]]) -> None:
    content = [row for part in parts for row in part]
    joined = Ragged.join([Ragged.of(part) for part in parts])
    assert joined.to_series().to_list() == content
    assert joined.offsets.dtype == np.int64
    assert joined.is_single == all(len(row) == 1 for row in content)


def test_a_value_a_row() -> None:
    assert Ragged.single(np.array([3, 1])).to_series().to_list() == [[3], [1]]
