"""The judge by likelihood, compared with the strongest other attack, and what the page reports about it."""

from __future__ import annotations

import numpy as np

from benchmarks.judges import LIKELIHOOD, OTHERS, Row, page
from benchmarks.shared.pages import parsed


def _row(**right: int) -> Row:
    return Row("tem", 2.0, {name: np.arange(100) < right.get(name, 50) for name in (LIKELIHOOD, *OTHERS)})


def test_the_strongest_other_attack_is_compared_and_its_choice_paid_for() -> None:
    row = _row(paraphrase=60, lexical=90, judge=70)
    assert row.rival() == "lexical"
    compared = row.compared()
    assert (compared.first_only, compared.second_only) == (0, 30)
    assert np.isclose(compared.p_value, 2 * 4 * 0.5**30)  # a two-sided test, corrected for the best of four attacks


def test_a_judge_that_beats_every_other_attack_has_the_p_value_of_the_nearest() -> None:
    assert np.isclose(_row(paraphrase=60, shadow=55).compared().p_value, 2 * 0.5**5)


def test_the_page_has_a_row_for_each_mechanism_and_budget_in_both_tables() -> None:
    run = parsed("\n".join(page([_row(paraphrase=99), _row(shadow=99)], [_row()])))
    beside, _, each = run.tables
    assert [row[3:6] for row in beside.rows] == [["99", "judge", "50"], ["50", "shadow", "99"]]
    assert each.rows[1] == ["tem", "2", "50", "50", "50", "50", "99"]
