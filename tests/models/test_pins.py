"""Which model a small file names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epsilometer.core.errors import UserError
from epsilometer.models.locate import ENCODER, locate
from tests.support.places import ROOT


def test_the_embedded_encoder_is_named_without_a_revision(tmp_path: Path) -> None:
    assert locate(ROOT / "data/embedded/all-MiniLM-L6-v2.json") == locate(ENCODER)
    other = tmp_path / "pin.json"
    other.write_text(json.dumps({"model": "google-bert/bert-base-uncased"}))
    with pytest.raises(UserError, match="the pin of a model of the hub"):
        locate(other)
