"""Steps, rates and batches are whole numbers and fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest

from epsilometer.accounting.releases import Gaussian, VonMisesFisher
from epsilometer.accounting.schedule import Poisson, Shuffled
from epsilometer.core.errors import UserError
from tests.support.refusals import refused


def test_steps_and_rate_of_a_published_setting() -> None:
    schedule = Poisson(texts=5_056, batch=128, epochs=10)
    assert (schedule.batches, schedule.steps, schedule.rate) == (40, 400, Fraction(1, 40))
    assert schedule.expected_batch == Fraction(632, 5)


@pytest.mark.parametrize("texts", [93, 99, 105, 117, 123])
def test_no_step_is_lost_by_rounding(texts: int) -> None:
    """For these n, int(1 / (1 / n)) is n - 1."""
    schedule = Poisson(texts, 1, 1)
    assert int(1 / (1 / texts)) == texts - 1
    assert (schedule.steps, schedule.expected_batch) == (texts, 1)


@pytest.mark.parametrize(("texts", "batch"), [(10, 3), (10, 5), (7, 7), (5_056, 128), (1, 1)])
def test_shuffled_batches_hold_every_example_once(texts: int, batch: int) -> None:
    sizes = Shuffled(texts, batch, 3).sizes
    assert sum(sizes) == texts
    assert len(sizes) == Shuffled(texts, batch, 3).batches
    assert max(sizes) <= batch
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ((0, 1, 1), ("EPS-L005", "texts", "0")),
        ((10, 11, 1), ("EPS-L007", "10", "11")),
        ((10, 2, 0), ("EPS-L005", "epochs", "0")),
        ((10, 2.5, 1), ("EPS-L005", "batch", "2.5")),
        ((True, 1, 1), ("EPS-L005", "texts", "True")),
    ],
)
def test_impossible_schedules_are_refused(arguments: tuple, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        Poisson(*arguments)


def test_noise_that_is_none_is_refused() -> None:
    for sigma in (0.0, -1.0, float("nan"), float("inf")):
        with refused("EPS-L002", "0"):
            Gaussian(sigma)
    for kappa, dimensions in ((0.0, (10,)), (1.0, (10, 1)), (1.0, ())):
        with pytest.raises(UserError):
            VonMisesFisher(kappa, dimensions)
    assert VonMisesFisher(10.0, (4, 5)).parts == 2
