"""Replacements of a word: nearest neighbours, and vectors in which antonyms are not neighbours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epsilometer.mechanisms.anonymisers.shared.counter_fitting import DELTA, Term, counter_fit, terms
from epsilometer.mechanisms.anonymisers.shared.neighbours import NearestWords
from epsilometer.text.vectors import WordVectors


def words(count: int, rng: np.random.Generator) -> WordVectors:
    return WordVectors([f"w{i}" for i in range(count)], rng.normal(size=(count, 4)))


def test_the_nearest_by_cosine_without_itself() -> None:
    """The same as all cosines sorted; lengths of vectors do not count."""
    vectors = words(40, np.random.default_rng(1))
    units = vectors.normalised().exact
    cosines = units @ units.T
    np.fill_diagonal(cosines, -2)
    neighbours = NearestWords(WordVectors(vectors.words, vectors.vectors * np.arange(1, 41)[:, None]))
    questions = ["w3", "W7", "unknown", "w3"]
    for k in (1, 5, 39, 100):
        exact = [[f"w{j}" for j in np.argsort(-cosines[i])[: min(k, 39)]] for i in (3, 7)]
        assert neighbours.of(questions, k) == [exact[0], exact[1], [], exact[0]]
    near = neighbours.of(["w3"], 39, least=0.5)[0]
    assert near == [f"w{j}" for j in np.argsort(-cosines[3]) if cosines[3, j] >= 0.5]
    assert neighbours.has(questions).tolist() == [True, True, False, True]
    assert neighbours.of([], 3) == []


def test_only_what_a_text_holds_as_one_word() -> None:
    entries = ["good", "fine", "42", "Good", "new york", "co-op", "don't", "…"]
    neighbours = NearestWords(WordVectors(entries, np.eye(8) + 1))
    assert neighbours.of(["good"], 10) == [["fine", "don't"]]


def test_equal_vectors_are_neighbours_and_a_word_is_not_its_own() -> None:
    neighbours = NearestWords(WordVectors(["a", "b", "c"], np.array([[1, 0], [1, 0], [0, 1]])))
    assert neighbours.of(["a", "b", "c"], 1) == [["b"], ["a"], ["a"]]


@pytest.mark.parametrize("number", [0, 1, 2], ids=["antonyms", "synonyms", "space"])
def test_each_gradient_is_that_of_its_cost(number: int) -> None:
    """Against finite differences along directions that keep the length, where the hinge has no kink."""
    rng = np.random.default_rng(2)
    start = words(12, rng).normalised()
    near = [(f"w{i}", f"w{i + 1}") for i in range(0, 10, 2)]
    related = [(a, b, "antonym") for a, b in near] + [("w0", f"w{i}", "synonym") for i in (3, 5, 8)]
    relations = pl.DataFrame(related, schema=["a", "b", "relation"], orient="row")
    term = terms(start, relations)[number]
    moved = start.exact + 0.2 * rng.normal(size=start.exact.shape)  # otherwise distances would already be right
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    gradient, count = term.gradients(moved)
    assert count.any()
    step = 1e-6
    for word, dimension in np.ndindex(*moved.shape):
        ahead, behind = moved.copy(), moved.copy()
        ahead[word, dimension] += step
        behind[word, dimension] -= step
        slope = (term.cost(ahead) - term.cost(behind)) / (2 * step)
        assert gradient[word, dimension] == pytest.approx(slope, abs=1e-7)


def test_a_closed_hinge_moves_nothing() -> None:
    vectors = np.eye(3)
    term = Term(np.array([[0, 1]]), np.array([DELTA]), -1)
    gradient, count = term.gradients(vectors)
    assert term.cost(vectors) == 0
    assert not gradient.any()
    assert not count.any()


def test_antonyms_part_synonyms_meet_and_others_stay() -> None:
    """A pair in both lists counts as antonyms; a word in no relation and near none does not move."""
    vectors = WordVectors(
        ["hot", "cold", "warm", "chilly", "table"],
        np.array([[1, 0.3, 0], [1, 0.2, 0], [0.8, 0.8, 0], [0.7, -0.5, 0.2], [0, 0, 1]]),
    )
    relations = pl.DataFrame(
        {
            "a": ["hot", "cold", "hot", "cold", "hot", "hot"],
            "b": ["cold", "hot", "warm", "chilly", "cold", "elsewhere"],
            "relation": ["antonym", "antonym", "synonym", "synonym", "synonym", "synonym"],
        }
    )
    before, after = vectors.normalised().exact, counter_fit(vectors, relations).exact
    np.testing.assert_allclose(np.linalg.norm(after, axis=1), 1, atol=1e-6)
    assert after[0] @ after[1] < before[0] @ before[1] - 0.3
    assert after[0] @ after[2] > before[0] @ before[2]
    assert after[1] @ after[3] > before[1] @ before[3]
    np.testing.assert_allclose(after[4], before[4], atol=1e-6)


def test_fewer_antonyms_among_the_nearest(shared: Path) -> None:
    """Of words with an antonym among the vectors, the share that has one among its 10 nearest: a fifth at most."""
    files = shared / "data" / "glove_50d.npz", shared / "data" / "word_relations.parquet"
    if not all(file.is_file() for file in files):
        pytest.skip("needs word vectors and relations")
    vectors = WordVectors.load(files[0]).first(4000)
    relations = pl.read_parquet(files[1], columns=["a", "b", "relation"])
    opposed: dict[str, set[str]] = {}
    for a, b, _ in relations.filter(pl.col("relation") == "antonym").iter_rows():
        opposed.setdefault(a, set()).add(b)
        opposed.setdefault(b, set()).add(a)
    vocabulary = {*vectors.words}
    words = sorted(word for word in opposed if word in vocabulary and opposed[word] & vocabulary)

    def share(of: WordVectors) -> float:
        nearest = NearestWords(of).of(words, 10)
        return float(np.mean([bool({*near} & opposed[word]) for word, near in zip(words, nearest, strict=True)]))

    assert len(words) > 300
    assert share(counter_fit(vectors, relations)) < share(vectors) / 5
