"""The mechanism of a cell is told whether it may see the texts of its data set."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from epsilometer.core.errors import UserError
from epsilometer.pipeline.params import Params
from epsilometer.studies.texts import cells
from tests.support.places import ROOT


def test_an_endpoint_is_shown_public_data_sets_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    settings: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text()) | {"root": str(ROOT)}
    entry = {"mechanism": "llm_rewrite", "resource": "nowhere", "settings": {"model": "m", "endpoint": True}}
    settings["cells"]["reviews-llm_rewrite"] = {"dataset": "reviews", **entry}
    public = Params.model_validate(settings)
    assert cells.mechanism(public, "reviews-llm_rewrite").assistant  # type: ignore[attr-defined]
    settings["datasets"]["reviews"]["public"] = False
    with pytest.raises(UserError, match="must not reach an endpoint"):
        cells.mechanism(Params.model_validate(settings), "reviews-llm_rewrite")
