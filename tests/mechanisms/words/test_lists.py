"""Greedy word lists: exactly greedy, one vocabulary, seeded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epsilometer.mechanisms.words.shared.lists import WordLists, greedy
from epsilometer.text.vectors import WordVectors
from tests.support.refusals import refused
from tests.support.sparing import first


def naive(vectors: np.ndarray, start: int) -> list[int]:
    """Algorithm 1 word by word; of words equally near the first."""
    chain, left = [start], [i for i in range(len(vectors)) if i != start]
    while left:
        chain.append(min(left, key=lambda i: (((vectors[i] - vectors[chain[-1]]) ** 2).sum(), i)))
        left.remove(chain[-1])
    return chain


def clustered(count: int, dimensions: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(8, dimensions))[rng.integers(0, 8, count)]
    return (centres + 0.1 * rng.normal(size=(count, dimensions))).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("neighbours", first(1, [1, 20, 256]))
def test_lists_are_exactly_greedy(neighbours: int) -> None:
    """Few neighbours: nearly every step looks through all that is left; many: nearly none does."""
    vectors = clustered(400, 12, 0)
    starts = np.array([0, 7, 399])
    assert greedy(vectors, starts, neighbours).tolist() == [naive(vectors, int(s)) for s in starts]


def test_ties_go_to_the_first_word() -> None:
    """On a grid most distances tie, and single precision cannot tell them from near ties far from the origin."""
    grid = np.stack(np.meshgrid(np.arange(12), np.arange(12)), -1).reshape(-1, 2).astype(np.float64)
    for vectors in (grid, grid + 1000, np.repeat(grid[:50], 2, axis=0)):
        assert greedy(vectors, np.array([5]), 10).tolist() == [naive(vectors, 5)]


def test_lists_share_the_words_of_all_sources() -> None:
    rng = np.random.default_rng(1)
    names = [f"w{i}" for i in range(40)]
    first = WordVectors([*names, "Capital"], rng.normal(size=(41, 5)))
    second = WordVectors(["other", *names[:3:-1], "Capital"], rng.normal(size=(38, 7)))
    lists = WordLists.build([first, second], lists=2, seed=3)
    assert lists.words == names[4:]
    assert lists.order.shape == (4, 36)
    assert (np.sort(lists.order, axis=1) == np.arange(36)).all()
    assert (np.take_along_axis(lists.place, lists.order, axis=1) == np.arange(36)).all()
    # The lists of the second source follow its own vectors.
    vectors = second.exact[[second.words.index(word) for word in lists.words]]
    assert lists.order[2].tolist() == naive(vectors, int(lists.order[2, 0]))


def test_start_words_follow_the_seed() -> None:
    vectors = WordVectors([f"w{i}" for i in range(100)], clustered(100, 4, 2))
    built = WordLists.build([vectors, vectors], lists=5, seed=0)
    again = WordLists.build([vectors, vectors], lists=5, seed=0)
    np.testing.assert_array_equal(built.order, again.order)
    assert len(set(built.order[:5, 0])) == 5  # the lists of one source have different first words
    assert (built.order[:5, 0] != built.order[5:, 0]).any()
    assert (WordLists.build([vectors], lists=5, seed=1).order[:, 0] != built.order[:5, 0]).any()


def test_saving_and_loading(tmp_path: Path) -> None:
    built = WordLists.build([WordVectors([f"w{i}" for i in range(30)], clustered(30, 4, 2))], lists=2)
    built.save(tmp_path / "a.npz")
    built.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    read = WordLists.load(tmp_path / "a.npz")
    assert read.words == built.words
    np.testing.assert_array_equal(read.order, built.order)
    assert read.order.dtype == np.int32


def test_wrong_input_is_refused(tmp_path: Path) -> None:
    vectors = WordVectors([f"w{i}" for i in range(30)], clustered(30, 4, 2))
    with refused("EPS-M088", "1", "30", "0"):
        WordLists.build([vectors], lists=0)
    with refused("EPS-M089"):
        WordLists.load(tmp_path / "none.npz")
    np.savez(tmp_path / "bad.npz", words=np.array(["a", "b", "c"]), order=np.array([[0, 1, 1]], np.int32))
    with refused("EPS-M090", "3"):
        WordLists.load(tmp_path / "bad.npz")
    vectors.save(tmp_path / "vectors.npz")
    with refused("EPS-D077"):
        WordLists.load(tmp_path / "vectors.npz")


def test_sources_without_a_common_word_are_refused() -> None:
    first, two = (WordVectors([f"{name}{i}" for i in range(3)], np.eye(3)) for name in "ab")
    with refused("EPS-M087", "0"):
        WordLists.build([first, two])


def test_some_of_the_lists_may_be_taken() -> None:
    lists = WordLists([*"abc"], np.array([[0, 1, 2], [1, 0, 2], [2, 1, 0]], np.int32))
    some = lists.take([2, 0])
    assert (some.words, some.order.tolist()) == (lists.words, [[2, 1, 0], [0, 1, 2]])


@pytest.mark.parametrize("numbers", [[], [0, 0], [3]])
def test_lists_that_are_not_there_cannot_be_taken(numbers: list[int]) -> None:
    lists = WordLists([*"abc"], np.array([[0, 1, 2], [1, 0, 2], [2, 1, 0]], np.int32))
    with refused("EPS-M091", "3", "0", "2"):
        lists.take(numbers)
