"""The cache that cells at different losses share: a second cell computes nothing that the first has computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.studies.leaderboard.budgets import BY_LAW, Lost
from epsilometer.studies.leaderboard.shared_budgets import SharedCurve, recall


@dataclass(frozen=True)
class Stated:
    """A curve with a given loss, which counts its computations."""

    lost: Lost
    by: str = BY_LAW
    width: float = 1.01
    computed: list[float] = field(default_factory=list)

    def at(self, epsilon: float) -> Lost:
        self.computed.append(epsilon)
        return self.lost


@pytest.mark.parametrize(
    "lost",
    [
        Lost((0.1, 0.2), (1e-17, 1 / 3), 2.0, 3.0),
        Lost((math.inf, math.inf), (1.0, 1.0), math.inf, math.inf),
        Lost((1.0, 1.0), (0.0, 0.0)),
    ],
)
def test_stored_losses_have_the_same_bits(lost: Lost, tmp_path: Path) -> None:
    first, second = Stated(lost), Stated(lost)
    assert SharedCurve(first, tmp_path).at(0.3) == SharedCurve(second, tmp_path).at(0.3) == lost
    assert (first.computed, second.computed) == ([0.3], [])
    assert SharedCurve(second, tmp_path).at(0.1 + 0.2) == lost
    assert second.computed == [0.1 + 0.2]


class Reader:
    """A mechanism with readings; an empty text has none."""

    def __init__(self) -> None:
        self.read_texts: list[str] = []
        self.recalled: NDArray[np.float32] | None = None

    def read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.read_texts += texts
        return np.array([[len(text)] for text in texts if text], np.float32).reshape(-1, 1)

    def recall(self, texts: Sequence[str], readings: NDArray[np.float32]) -> None:
        self.recalled = readings


def test_readings_are_computed_once(tmp_path: Path) -> None:
    first, second = Reader(), Reader()
    recall(tmp_path, first, ["a", "bc"])  # type: ignore[arg-type]
    recall(tmp_path, second, ["a", "bc"])  # type: ignore[arg-type]
    assert (first.read_texts, second.read_texts) == (["a", "bc"], [])
    assert second.recalled is not None
    assert second.recalled.tolist() == [[1.0], [2.0]]


def test_without_a_network_nothing_is_recalled(tmp_path: Path) -> None:
    reader = Reader()
    recall(tmp_path, reader, [""])  # type: ignore[arg-type]
    recall(tmp_path, object(), ["a"])  # type: ignore[arg-type]
    assert reader.recalled is None
