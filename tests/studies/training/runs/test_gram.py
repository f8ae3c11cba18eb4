"""Inner products between texts' gradients: in closed form for the head, in blocks for more tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epsilometer.studies.training.runs import gram as module
from epsilometer.studies.training.runs.gram import gram, head_of, states
from epsilometer.studies.training.runs.shared_model import SharedModel, Tensors
from tests.support.tiny_models import save_gpt2, save_word_bert

LABELS = [0, 1, 1, 0, 1]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {
        "bert": save_word_bert(tmp_path_factory.mktemp("bert"), ["good", "bad", "food", "the", "was"]),
        "gpt2": save_gpt2(tmp_path_factory.mktemp("gpt2")),
    }


def texts(kind: str) -> list[str]:
    return {"bert": ["the food", "bad food was bad", "good", "good the", "was was"]}.get(
        kind, ["a", "b c", "d", "of", "e f g"]
    )


@pytest.mark.parametrize("tensors", ["head", "without_embeddings"])
@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_they_are_those_of_autograds_gradients(
    folders: dict[str, Path], kind: str, tensors: Tensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head's closed forms, and blocks of two texts, against gradients written out."""
    monkeypatch.setattr(module, "BLOCK", 2)
    model = SharedModel(folders[kind], tensors=tensors)
    ids = model.encode(texts(kind))
    rows = model.gradients(ids, LABELS).astype(np.float64)
    inner = rows @ rows.T
    np.testing.assert_allclose(gram(model, ids, LABELS), inner, atol=2e-5 * inner.max())


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_the_closed_form_has_autograds_numbers_in_its_order(folders: dict[str, Path], kind: str) -> None:
    model = SharedModel(folders[kind], tensors="head")
    ids = model.encode(texts(kind))
    factors = head_of(model).gradients(states(model, ids), np.array(LABELS))
    assert factors.parts == model.parts
    for row, gradient in zip(np.eye(len(ids)), model.gradients(ids, LABELS), strict=True):
        np.testing.assert_allclose(factors.weighted_sum(row), gradient, atol=2e-5 * np.abs(gradient).max())
