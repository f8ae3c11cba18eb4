"""Vectors of rewrites that one stage stores for another: the same numbers, looked up by text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epsilometer.cells import encoded
from epsilometer.cells.tables import encoded_path

VECTORS = dict(zip(["a b", "", "\ud800 c", "d"], np.random.default_rng(0).random((4, 3), np.float32), strict=True))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_is_there_is_read_by_its_text() -> None:
    encoded.write("cell", VECTORS)
    there = encoded.read("cell", ["d", "absent", "a b", "d", "\ud800 c"])
    assert list(there) == ["d", "a b", "\ud800 c"]
    for text, vector in there.items():
        np.testing.assert_array_equal(vector, VECTORS[text])


def test_the_file_does_not_depend_on_the_order_in_which_texts_were_encoded() -> None:
    encoded.write("cell", VECTORS)
    encoded.write("other", dict(reversed(VECTORS.items())))
    assert encoded_path("cell").read_bytes() == encoded_path("other").read_bytes()


@pytest.mark.parametrize("most", [0, 3])
def test_many_vectors_are_not_kept(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded, "_MOST", most)
    encoded.write("cell", VECTORS)
    assert encoded.read("cell", VECTORS) == {}


def test_vectors_of_any_cell_are_read() -> None:
    encoded.write("first", {"d": VECTORS["d"]})
    encoded.write("second", VECTORS)
    assert list(encoded.of_cells(["first", "second"], ["d", "absent", "a b"])) == ["d", "a b"]


def test_an_attack_that_encodes_nothing_leaves_none() -> None:
    encoded.write("cell", {})
    assert encoded.read("cell", ["a b"]) == {}
