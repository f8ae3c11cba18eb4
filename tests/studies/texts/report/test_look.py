"""What is worth a look besides losses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epsilometer.core.errors import UserError
from epsilometer.report.table import NONE
from epsilometer.studies.texts.report import look
from epsilometer.studies.texts.tables import latents_path
from tests.support.audited import HOSTILE, audit, bare, estimates, tables_of_all, text_of


def test_what_was_found_is_said() -> None:
    results = audit()
    sentences = text_of(look.section(results), results)
    assert "mvc on queries at ε = 5: 70.0% of the rewrites are one and the same" in sentences
    assert "dp_bart on queries: no attack does better than chance at the largest budget, ε = 2500" in sentences


def test_the_claim_composed_in_two_ways_stands_beside_the_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of mvc 5 nats for each of 9.1 units a text, of 9 words; the other mechanism has latents, and no claim."""
    monkeypatch.chdir(tmp_path)
    before, after = np.array([[3.0, 4.0], [0.0, 5.0]]), np.array([[3.0, 6.0], [4.0, 5.0]])
    for epsilon, array in ((None, before), (5.0, after)):
        path = latents_path(f"queries-{HOSTILE}", epsilon)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array.astype(np.float32))
    outputs = tables_of_all()["outputs"].with_columns(composed=pl.when(mechanism="mvc").then(45.5))
    shown = look.section(audit(outputs=outputs))
    assert shown is not None
    (table,) = shown.tables
    mvc, inside = sorted(table.rows, key=lambda row: str(row["mechanism"]) != "mvc")
    assert (mvc["composed"], mvc["epsilon × mean words"]) == ("45.5", "45")
    assert mvc["loss"] == "exact, 8.00"
    assert (mvc["norm"], mvc["signal over noise"]) == (NONE, NONE)
    assert (inside["norm"], inside["norm of noise"], inside["signal over noise"]) == ("5", "3", "1.25")
    assert inside["epsilon × mean words"] == NONE
    of_distances = audit(outputs=outputs.with_columns(composed=pl.lit(60.0)))  # of the median trial, not of units
    (table,) = look.section(of_distances).tables  # type: ignore[union-attr]
    assert {row["epsilon × mean words"] for row in table.rows if row["mechanism"] == "mvc"} == {NONE}


def test_texts_and_rewrites_of_private_data_are_refused() -> None:
    """Nothing else hands a section texts that it finds itself."""
    results = audit()
    for read in (lambda: results.texts("letters"), lambda: results.rewrites("letters", "mvc", 5.0)):
        with pytest.raises(UserError, match=r"'letters' must not be shown.*public: true"):
            read()


def test_without_outputs_there_is_no_section() -> None:
    assert look.section(bare(estimates())) is None
