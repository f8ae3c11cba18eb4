"""The benchmark of PrivRewrite's phases: what it measures, and on how many texts."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.privrewrite import EPSILONS, Vectors, built, by_epsilon, expected, variants
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER

TEXTS = ["a parcel came late", "the waiter was kind", "my order is lost"]


def test_only_the_largest_epsilon_is_measured_on_all_texts() -> None:
    assert [(epsilon, len(some)) for epsilon, some in by_epsilon(TEXTS, 2)] == [(EPSILONS[0], 2), (EPSILONS[-1], 3)]


def test_texts_are_encoded_once_and_as_by_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, alone = Vectors(), Encoder(ENCODER).encode(TEXTS)
    assert (vectors.encode([*TEXTS, TEXTS[0]]) == alone[[0, 1, 2, 0]]).all()
    monkeypatch.setattr(vectors._encoder, "encode", lambda texts: pytest.fail("again") if texts else alone[:0])
    assert vectors.cosines(TEXTS, TEXTS) == pytest.approx(np.ones(3), abs=1e-6)


def test_differences_are_of_the_same_texts() -> None:
    vectors = Vectors()
    cells = [cell.split(" ± ")[0].strip() for cell in variants(vectors, TEXTS, 40).split("|")[2:9]]
    full, naive, em, wp, *less = map(float, cells)
    assert less == pytest.approx([full - em, full - naive, wp - em], abs=0.002)
    cosines, left = expected(built(vectors, k=10), vectors, TEXTS, 40)
    assert full == pytest.approx(cosines.mean(), abs=0.001)
    assert (left <= 10).all()
