"""Public exemplars: laws against the naive twin, claims against all pairs, and what may not be public."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import epsilometer
from epsilometer.auditing.conformance.mechanism import check_mechanism
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.corpora.synthetic import generate
from epsilometer.mechanisms.selection.exemplars import Exemplars
from epsilometer.mechanisms.selection.shared.public_exemplars import Exemplars as Chosen
from epsilometer.mechanisms.selection.shared.public_exemplars import choose, embed

PUBLIC = tuple(generate("queries", 60, 1)["text"])
PRIVATE = [text for text in generate("queries", 40, 2)["text"] if text not in PUBLIC]
LAWS = ("randomized_response", "exponential")


@cache
def mechanism(law: str = "randomized_response", m: int = 8) -> Exemplars:
    return Exemplars(resource=PUBLIC, m=m, law=law)


def probabilities(built: Exemplars, texts: list[str], epsilon: float) -> np.ndarray:
    laws = built.laws(texts)
    (log_law,) = laws.log_probabilities(laws.rows.values, [epsilon])
    return np.exp(log_law)


@pytest.mark.parametrize("law", LAWS)
def test_the_law_is_the_one_that_is_written_down(law: str) -> None:
    built, epsilon = mechanism(law), 1.7
    texts = PRIVATE[:10]
    for row, vector in zip(probabilities(built, texts, epsilon), built.chosen.encode(texts), strict=True):
        apart = [math.dist(vector, exemplar) for exemplar in built.chosen.vectors]
        if law == "randomized_response":
            weights = [math.exp(epsilon) if i == apart.index(min(apart)) else 1.0 for i in range(8)]
        else:
            weights = [math.exp(-epsilon * distance / 2) for distance in apart]
        np.testing.assert_allclose(row, np.array(weights) / sum(weights), rtol=1e-6)


def test_of_a_file_with_splits_one_is_public(tmp_path: Path) -> None:
    """As a data set's prepared texts, of which another split is audited; that split would be refused."""
    splits = ["test"] * len(PUBLIC) + ["train"] * len(PRIVATE)
    path = tmp_path / "prepared.parquet"
    pl.DataFrame({"text": [*PUBLIC, *PRIVATE], "split": splits}).write_parquet(path)
    built = Exemplars(resource=path, split="test", m=8)
    assert built.chosen.texts == mechanism().chosen.texts
    assert sorted(built.public_texts) == sorted(PUBLIC)
    with pytest.raises(UserError, match="has no text of the split 'dev'"):
        _ = Exemplars(resource=path, split="dev", m=8).chosen
    with pytest.raises(UserError, match="split is for a file of texts"):
        _ = Exemplars(resource=PUBLIC, split="test", m=8).chosen


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 30.0])
def test_no_pair_of_texts_loses_more_than_is_claimed(law: str, epsilon: float) -> None:
    built = mechanism(law)
    texts = [*PRIVATE, *built.chosen.texts]
    log_law = np.log(probabilities(built, texts, epsilon))
    pairs = np.array([(i, j) for i in range(len(texts)) for j in range(len(texts)) if i != j])
    loss = (log_law[pairs[:, 0]] - log_law[pairs[:, 1]]).max(axis=1)
    claimed = epsilon * built.distance(texts, pairs, epsilon)
    assert (loss <= claimed + 1e-9).all()
    largest = 1.0 if law == "randomized_response" else 2.0  # the diameter of the unit sphere
    assert (claimed <= epsilon * largest + 1e-9).all()
    if law == "randomized_response":
        assert loss.max() == pytest.approx(epsilon)


def test_draws_follow_the_law() -> None:
    """Chi-square of 7 degrees of freedom below 50: a false alarm once in 10^8."""
    built, count = mechanism("exponential"), 20_000
    rewrites = built.rewrite([PRIVATE[0]] * count, 3.0, Noise.named(count, "exemplars"))
    expected = count * probabilities(built, PRIVATE[:1], 3.0)[0]
    assert rewrites.units is not None
    seen = np.bincount(rewrites.units.values, minlength=8)
    assert ((seen - expected) ** 2 / expected).sum() < 50
    assert [built.chosen.texts[i] for i in rewrites.units.values[:50]] == list(rewrites.texts[:50])


@pytest.mark.parametrize("law", LAWS)
def test_it_conforms(law: str) -> None:
    assert [check for check in check_mechanism(mechanism(law), 2.0, PRIVATE[:4]) if check.problem] == []


def test_an_audit_stays_below_the_claim_and_near_the_exact_loss() -> None:
    """The lower bound exceeds the claim with probability at most .005."""
    table = epsilometer.audit(
        PRIVATE, mechanism(), [3.0], ["likelihood"], trials=4000, design=epsilometer.Design(temperature=0)
    )
    (row,) = [row for row in table.iter_rows(named=True) if row["attack"] == "likelihood"]
    assert 0.5 < row["loss"] < 3
    assert row["verdict"] == "not refuted"


def test_audited_texts_are_no_public_ones() -> None:
    with pytest.raises(UserError, match=r"3 of the .* audited texts are among the public texts"):
        epsilometer.audit([*PRIVATE, *PUBLIC[:3]], mechanism(), [1.0], ["lexical"], trials=20)


def test_exemplars_are_public_texts_that_differ_and_do_not_depend_on_what_is_rewritten() -> None:
    chosen = choose(PUBLIC, 10)
    assert len(set(chosen.texts)) == 10
    assert set(chosen.texts) <= set(PUBLIC)
    assert choose(PUBLIC, 10).texts == chosen.texts


def test_they_cover_the_public_texts_better_than_the_first_ones_do() -> None:
    chosen = choose(PUBLIC, 10)
    vectors = chosen.encode(PUBLIC)
    near, first = ((vectors @ part.T).max(1).mean() for part in (chosen.vectors, vectors[:10]))
    assert near > first + 0.02


def test_a_folder_keeps_them(tmp_path: Path) -> None:
    chosen = choose(PUBLIC, 6, seed=3)
    chosen.save(tmp_path)
    stored = Exemplars(resource=tmp_path)
    assert stored.chosen.texts == chosen.texts
    assert list(stored.public_texts) == list(PUBLIC)
    np.testing.assert_array_equal(stored.chosen.vectors, chosen.vectors)
    with pytest.raises(UserError, match=r"m is 5, but .* holds 6 exemplars"):
        _ = Exemplars(resource=tmp_path, m=5).chosen
    (tmp_path / "vectors.npy").write_bytes(b"damaged")
    with pytest.raises(UserError, match="damaged"):
        Chosen.load(tmp_path)


def test_a_file_of_public_texts(tmp_path: Path) -> None:
    (tmp_path / "public.txt").write_text("\n".join(PUBLIC))
    assert Exemplars(resource=tmp_path / "public.txt", m=4).chosen.texts == choose(PUBLIC, 4).texts
    with pytest.raises(UserError, match="100 exemplars are to be chosen among 60 different public texts"):
        _ = Exemplars(resource=tmp_path / "public.txt", m=100).chosen


def test_equal_and_empty_public_texts_count_once_and_not_at_all() -> None:
    with pytest.raises(UserError, match="3 exemplars are to be chosen among 2 different"):
        choose(["a", "a", "  ", "", "b"], 3)
    assert choose(["a", "a", "  ", "", "b"], 2).texts == ["a", "b"]


@pytest.mark.parametrize("m", [0, 1])
def test_fewer_than_two_exemplars_are_refused(m: int) -> None:
    with pytest.raises(ValueError, match=r"m"):
        mechanism(m=m)


def test_a_long_text_is_embedded_in_pieces() -> None:
    """What stands behind the encoder's window counts too."""
    encoder, begin = mechanism().chosen._encoder, "book a table for two " * 60
    texts = [begin, begin + "play some loud rock music in the kitchen " * 60]
    plain, pieces = encoder.encode(texts).astype(float), embed(encoder, texts)
    assert plain[0] @ plain[1] > 0.999
    assert pieces[0] @ pieces[1] < 0.9
    assert np.linalg.norm(pieces, axis=1) == pytest.approx(1)
