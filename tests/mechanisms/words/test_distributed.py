"""A budget distributed over a text's words: shares by the equations, the law, and a claim for each form."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from epsilometer.auditing.claims.verdicts import NOT_REFUTED, VIOLATED, pair_claims
from epsilometer.auditing.claims.worst_case import check_claim
from epsilometer.core.component import build, find
from epsilometer.core.guarantees import Granularity, Neighbours
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.distributed import Distributed
from epsilometer.text.vectors import WordVectors

ALPHA = 1e-9
WORDS = ["cat", "of", "two", "dog", "unknown", "far"]
PARTS = {"cat": 14.0, "two": 2.0, "dog": 14.0}  # the code's weights of nouns and numbers; others have `of`'s


def make(resource: Path, **settings: Any) -> Distributed:
    mechanism: Distributed = build(
        find("mechanisms", "distributed", "rewrite"), {"resource": resource, **settings}, "distributed"
    )
    return mechanism


@pytest.fixture(scope="module")
def resource(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six words in three dimensions, `of` and `two` almost equal."""
    path = tmp_path_factory.mktemp("distributed") / "few.npz"
    vectors = [(1, 0, 0), (0, 1, 0.02), (0, 1, 0), (0.8, 0.3, 0.2), (0.1, 0.2, 1), (-1, -0.2, 0)]
    WordVectors(WORDS, np.array(vectors, float)).save(path)
    return path


def law(mechanism: Distributed, text: str, epsilon: float) -> NDArray[np.float64]:
    """The log-law of each word of a text."""
    laws = mechanism.laws([text])
    (log_p,) = laws.log_probabilities(laws.rows.values, [epsilon])
    return log_p


def by_equations(mechanism: Distributed, text: str, epsilon: float) -> NDArray[np.float64]:
    """The same, a word at a time."""
    place = mechanism.vocabulary.index
    unit = mechanism.vectors.exact / np.linalg.norm(mechanism.vectors.exact, axis=1, keepdims=True)
    words = text.split()
    total = sum(unit[place[word]] for word in words)

    def cosine(left: Any, right: Any) -> float:
        size = np.linalg.norm(left) * np.linalg.norm(right)
        return float(left @ right / size) if size > 1e-12 else 0.0

    kinds = [[abs(1 - cosine(total, total - unit[place[w]])) for w in words]]
    kinds += [[abs(cosine(total, unit[place[w]])) for w in words]]
    kinds += [] if mechanism.scores is None else [[mechanism.scores.get(w, 0.1) for w in words]]
    inverse = [1 / np.mean([kind[i] / sum(kind) for kind in kinds]) for i in range(len(words))]
    rows = []
    for word, part in zip(words, inverse, strict=True):
        own = unit[place[word]]
        score = [-np.linalg.norm(own - v) if mechanism.as_published else max(0.0, own @ v) for v in unit]
        weight = epsilon / 2 * part / sum(inverse) * np.array(score)
        rows.append(weight - np.logaddexp.reduce(weight))
    return np.array(rows)


@pytest.mark.parametrize("scores", [None, PARTS])
@pytest.mark.parametrize("as_published", [True, False])
def test_the_law_is_that_of_the_equations(resource: Path, scores: Any, as_published: bool) -> None:
    mechanism = make(resource, as_published=as_published, scores=scores)
    for text in ("cat", "cat of", "two cat dog far", "of of two"):
        np.testing.assert_allclose(law(mechanism, text, 7.0), by_equations(mechanism, text, 7.0), atol=1e-5)
        shares = mechanism.shares(mechanism.vocabulary.encode([text]))
        assert shares.sum() == pytest.approx(1)
        assert shares.min() > 0


def test_claims_are_of_whole_texts(resource: Path) -> None:
    texts, pairs = ["cat of", "cat two", "cat", "Cat  of."], np.array([[0, 1], [0, 2], [0, 3]])
    claim = make(resource).guarantee(5.0)
    assert claim is not None
    assert (claim.epsilon, claim.granularity, claim.neighbours) == (5, Granularity.DOCUMENT, Neighbours.SAME_LENGTH)
    assert pair_claims(make(resource), 5.0, texts, pairs).tolist() == [5, np.inf, 0]
    published = make(resource, as_published=True)
    left, right = (published.shares(published.vocabulary.encode([text])) for text in texts[:2])
    apart = published.vectors.between(np.array([1]), np.array([2]))[0]
    claims = pair_claims(published, 5.0, texts, pairs)
    assert claims == pytest.approx([5 * max(left[1], right[1]) * apart, np.inf, 0])
    assert make(resource, layout="kept").guarantee(5.0) is None


@pytest.mark.parametrize("scores", [None, PARTS])
@pytest.mark.parametrize("epsilon", [0.1, 4.0, 60.0])
def test_the_corrected_form_keeps_epsilon_between_all_texts_of_three_words(
    resource: Path, epsilon: float, scores: Any
) -> None:
    """All 216 texts of three words, in any order: the largest loss over all outputs is that of each word, added up."""
    mechanism = make(resource, scores=scores)
    tables = [law(mechanism, " ".join(words), epsilon) for words in product(WORDS, repeat=3)]
    largest = max(float((a - b).max(axis=1).sum()) for a in tables for b in tables)
    assert 0.2 * epsilon < largest <= epsilon + 1e-9
    assert check_claim(mechanism, epsilon).verdict == NOT_REFUTED


def test_budgets_that_move_with_another_word_exceed_the_published_claim(resource: Path) -> None:
    """`of` and `two` are almost equal vectors and other parts of speech: the budget of `cat` moves."""
    mechanism = make(resource, as_published=True, scores=PARTS)
    claimed = pair_claims(mechanism, 20.0, ["cat of", "cat two"], np.array([[0, 1]]))[0]
    here, there = law(mechanism, "cat of", 20.0), law(mechanism, "cat two", 20.0)
    attained = max(float((a - b).max(axis=1).sum()) for a, b in ((here, there), (there, here)))
    assert claimed < 0.5
    assert attained > 3 * claimed
    finding = check_claim(mechanism, 20.0)
    assert finding.verdict == VIOLATED
    assert finding.worst is not None
    assert finding.claimed is not None
    assert finding.worst > finding.claimed + 0.1


@pytest.mark.parametrize("as_published", [True, False])
def test_the_sampler_follows_the_law(resource: Path, as_published: bool) -> None:
    """Chi-square of 20,000 draws of both words of a text at 10^-9; the law of another epsilon is told apart."""
    mechanism, count = make(resource, as_published=as_published), 20_000
    units = mechanism.rewrite(["cat of"] * count, 6.0, Noise.named(count, 0, "distributed")).units
    assert units is not None
    seen = units.values.reshape(count, 2)
    for epsilon, fits in ((6.0, True), (12.0, False)):
        p_values = [
            stats.chisquare(np.bincount(seen[:, i], minlength=6), np.exp(row) * count, sum_check=False).pvalue
            for i, row in enumerate(law(mechanism, "cat of", epsilon))
        ]
        assert (min(p_values) > ALPHA) == fits


def test_a_publication_draws_from_the_same_law(resource: Path) -> None:
    mechanism = make(resource)
    units = mechanism.rewrite(["cat of"] * 2000, 30.0, Noise.operating_system(2000)).units
    assert units is not None
    first = np.bincount(units.values[::2], minlength=6)
    expected = np.exp(law(mechanism, "cat of", 30.0)[0]) * 2000
    assert stats.chisquare(first, expected, sum_check=False).pvalue > ALPHA


def test_texts_without_words_and_unknown_words(resource: Path) -> None:
    mechanism = make(resource)
    assert mechanism.rewrite(["", "!"], 1.0, Noise.named(2, "d")).texts == ["", ""]
    assert all(
        np.array_equal(law(mechanism, a, 3.0), law(mechanism, b, 3.0))
        for a, b in combinations(["cat zyzzyva", "cat unknown"], 2)
    )
