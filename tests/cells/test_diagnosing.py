from __future__ import annotations

from epsilometer.cells.diagnosing import known_losses


def test_randomised_response_is_measured_at_its_epsilon() -> None:
    """Known truth: the loss is epsilon.

    At a fixed seed. By design a loss lies above epsilon with probability at most 0.005 for each epsilon (0.02 in all);
    below 0.85 epsilon at T = 100,000 with probability below 1e-4 (epsilon 0.5 is the hardest: 3.9 standard deviations).
    """
    table = known_losses([0.5, 1, 2, 4], trials=100_000, alpha=0.01, seed=0)
    assert table["epsilon"].to_list() == [0.5, 1, 2, 4]
    for epsilon, loss, upper in table.select("epsilon", "loss", "upper").iter_rows():
        assert 0.85 * epsilon <= loss <= epsilon
        assert upper >= epsilon
