"""Growth: exponents are those of the sizes, and each case runs."""

from __future__ import annotations

import pytest

from benchmarks import growth


def test_exponents() -> None:
    assert growth.exponent([10, 100, 1000], [1.0, 2.0, 20.0]) == pytest.approx(1)
    assert growth.exponent([10, 100], [1.0, 100.0]) == pytest.approx(2)
    assert growth.exponent([10, 100], [3.0, 3.0]) == pytest.approx(0)


@pytest.mark.parametrize(("case", "size"), [("texts", 40), ("trials", 40), ("document", 30), ("vocabulary", 200)])
def test_each_case_runs(case: str, size: int) -> None:
    seconds, memory = growth.once(case, size)
    assert seconds > 0
    assert memory > 50


def test_the_largest_sizes_are_those_that_are_promised() -> None:
    assert [sizes[-1] for _, _, sizes in growth.CASES.values()] == [10**6, 10**6, 10_000, 10**5, 100]
