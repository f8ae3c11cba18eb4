"""Texts with very many units are compared on a grid that fits into memory, and their brackets are still valid."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.auditing.exact_loss import by_laws
from epsilometer.auditing.exact_loss.by_laws import product

NARROW = 1e-6  # an error that takes thousands of grid points


def log_laws(spread: float) -> NDArray[np.float64]:
    scores = spread * np.random.default_rng(0).normal(size=(20, 40))
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def units(count: int) -> NDArray[np.int64]:
    first = np.random.default_rng(1).integers(20, size=count)
    return np.stack([first, (first + 1) % 20], axis=1)


def test_a_coarser_grid_holds_the_same_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    laws, pairs = log_laws(0.1), units(60)
    fine = product(laws, pairs, NARROW)
    monkeypatch.setattr(by_laws, "_ENTRIES", 1 << 11)
    coarse = product(laws, pairs, NARROW)
    assert coarse.units[0].step > 2 * fine.units[0].step
    assert sum(len(unit.places) for unit in coarse.units) <= 60 * 2 * by_laws._POINTS
    wide, narrow = coarse.log_error(), fine.log_error()
    assert max(wide.low, narrow.low) <= min(wide.high, narrow.high)
    assert wide.high - wide.low > narrow.high - narrow.low
    assert coarse.pure_loss == pytest.approx(fine.pure_loss, rel=1e-12)


def test_texts_that_are_told_apart_for_certain_need_no_fine_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    laws, pairs = log_laws(4.0), units(400)
    fine = product(laws, pairs)
    monkeypatch.setattr(by_laws, "_ENTRIES", 1 << 13)
    coarse = product(laws, pairs)
    assert fine.certain
    assert coarse.certain
    assert coarse.units[0].step > fine.units[0].step
    assert coarse.pure_loss == pytest.approx(fine.pure_loss, rel=1e-12)
    assert coarse.log_error().low == pytest.approx(fine.log_error().low, rel=1e-3)
    assert coarse.log_error().low <= fine.log_error().high
