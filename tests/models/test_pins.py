"""Which model a small file names."""

from __future__ import annotations

import json
from pathlib import Path

from epsilometer.models.locate import ENCODER, locate
from tests.support.places import ROOT
from tests.support.refusals import refused


def test_the_embedded_encoder_is_named_without_a_revision(tmp_path: Path) -> None:
    assert locate(ROOT / "data/embedded/all-MiniLM-L6-v2.json") == locate(ENCODER)
    other = tmp_path / "pin.json"
    other.write_text(json.dumps({"model": "google-bert/bert-base-uncased"}))
    with refused("EPS-N046"):
        locate(other)
