"""Two sets of word vectors at equal loss, and the meaning of a row of guesses."""

from __future__ import annotations

import numpy as np

from benchmarks.vectors import Guesses, shown
from epsilometer.auditing.results.comparison import compare


def test_p_values_are_corrected_for_all_rows() -> None:
    trials = np.arange(100)
    apart, alike = compare(trials < 60, trials < 50), compare(trials < 50, trials < 50)
    rows = [Guesses((5.2, 0.592), name, (60, 50), each) for name, each in (("judge", apart), ("length", alike))]
    first, second = (line.strip("| ").split(" | ") for line in shown(rows))
    assert first[:6] == [f"{2 * 2 * 0.5**10:.2g}", "5.2", "0.592", "judge", "60", "50"]
    assert second[0] == "1"
