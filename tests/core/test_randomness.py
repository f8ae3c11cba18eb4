from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from epsilometer.core import system
from epsilometer.core.randomness import Noise, _rounds, open_unit


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # Random123's known-answer vectors for philox4x32-10
        ([0] * 4, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            (0xA4093822, 0x299F31D0),
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_known_answers(counter: list[int], key: tuple[int, int], words: list[int]) -> None:
    work = np.array([*counter, 0], np.uint64)[:, None]
    assert [int(word[0]) for word in _rounds(work, key)] == words


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(1, 3))
def test_a_trial_is_the_same_whoever_runs_beside_it(lengths: list[int], draws: int) -> None:
    noise = Noise.named(len(lengths), 0, "test")
    together = noise.ragged(np.array(lengths), draws)
    starts = np.cumsum([0, *lengths])
    for i in reversed(range(len(lengths))):
        alone = noise[np.array([i])].ragged(np.array([lengths[i]]), draws)
        np.testing.assert_array_equal(together[starts[i] : starts[i + 1]], alone)


def test_numbers_continue_where_they_stopped() -> None:
    noise = Noise.named(5, "x")
    np.testing.assert_array_equal(noise.uniforms(7)[:, 3:], noise.uniforms(4, first=3))


@pytest.mark.parametrize(("draws", "first"), [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 5), (4, 2**33 + 1)])
def test_numbers_do_not_depend_on_how_many_are_asked_for(draws: int, first: int) -> None:
    noise = Noise.named(20_000, "numbers")  # more streams than are computed at a time
    alone = [noise.uniforms(1, first + i)[:, 0] for i in range(draws)]
    np.testing.assert_array_equal(noise.uniforms(draws, first), np.stack(alone, axis=1))
    if not first:
        np.testing.assert_array_equal(noise.uniforms(draws).ravel(), noise.ragged(np.full(20_000, draws))[:, 0])


def test_uniform_and_unlike_under_other_names() -> None:
    """Kolmogorov-Smirnov at 1e-6: false alarm 2e-6 over the two tests, at a fixed seed."""
    first, other = (Noise.named(20_000, 0, name).uniforms(2) for name in ("a", "b"))
    assert kstest(first.ravel(), "uniform").pvalue > 1e-6
    assert kstest((first - other).ravel() % 1, "uniform").pvalue > 1e-6
    assert first.min() > 0
    assert first.max() < 1


def test_names_do_not_run_together() -> None:
    assert Noise.named(1, "ab", "c").key != Noise.named(1, "a", "bc").key
    assert Noise.named(1, 1, 0.5).key != Noise.named(1, 10, 5).key


def test_generators_differ_between_trials_and_repeat() -> None:
    noise = Noise.named(3, "g")
    draws = [noise.generator(i).random(4).tolist() for i in range(3)]
    assert len({tuple(d) for d in draws}) == 3
    assert noise[np.array([2])].generator(0).random(4).tolist() == draws[2]


def test_operating_system_noise_never_repeats() -> None:
    noise = Noise.operating_system(4)
    assert not np.array_equal(noise.uniforms(8), noise.uniforms(8))
    assert system.is_system(noise.generator(2))
    assert not system.is_system(Noise.named(4, "seeded").generator(2))


def test_numbers_of_late_trials_are_those_of_their_counter() -> None:
    """Whole blocks of early trials take a shorter way through the first rounds."""
    trials = np.array([0, 5, 2**32 - 1, 2**32, 2**40 + 3])
    for noise in (Noise.named(trials, "late"), Noise.named(trials[:3], "late")):
        np.testing.assert_array_equal(noise.uniforms(4), noise.ragged(np.full(len(noise), 4)).reshape(-1, 4))


def test_no_uniform_is_an_end_of_the_interval() -> None:
    ends = open_unit(np.array([0, 2**64 - 1], np.uint64))
    assert 0 < ends[0] < ends[1] < 1
