"""Curves of attacks against noise, from tables in the form that the stages write."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import yaml

from epsilometer.core import tables
from epsilometer.pipeline.params import read
from epsilometer.studies.training.curves import curves
from epsilometer.studies.training.results.well_behaved import FALLS, NO_MESSAGE
from epsilometer.studies.training.tables import MEMBERSHIP_AREAS
from tests.support.places import ROOT

SECTIONS = {
    "features": {"reviews": {"dataset": "reviews", "model": "data/models/minilm-mlm"}},
    "private_training": {"cell": {"features": "reviews", "label": "rating", "noise": "vmf", "levels": [10, 1000]}},
    "references": {"others": {"training": "cell", "features": "reviews"}},
    "membership": {
        "cell": {"training": "cell", "features": "reviews", "references": "others", "attacks": {"rmia": None}}
    },
}


@pytest.mark.parametrize(("common", "verdict"), [(0.0009, FALLS), (0.0, NO_MESSAGE)])
def test_areas_are_compared_by_what_they_have_in_common(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, common: float, verdict: str
) -> None:
    """.65 and .58, each with a deviation of .032: a sure fall only where both rise and fall with the examples."""
    monkeypatch.chdir(tmp_path)
    content = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text()) | SECTIONS | {"root": str(ROOT)}
    Path("params.yaml").write_text(yaml.safe_dump(content))
    common_columns = {"attack": "rmia", "models": 1, "pairs": 100}
    rows = [
        common_columns | {"level": 1000.0, "auc": 0.65, "covariance": [0.001, common]},
        common_columns | {"level": 10.0, "auc": 0.58, "covariance": [common, 0.001]},
    ]
    table = pl.DataFrame(rows, schema=dict(MEMBERSHIP_AREAS))
    tables.write(table, "data/membership/cell.areas.parquet", MEMBERSHIP_AREAS)
    (row,) = curves(read()).to_dicts()
    assert row["levels"] == [1000, 10]  # the largest kappa means the least noise
    assert row["values"] == [0.65, 0.58]
    assert row["low"][0] < 0.65 - 0.08 < 0.65 + 0.07 < row["high"][0]
    assert row["verdict"] == verdict
