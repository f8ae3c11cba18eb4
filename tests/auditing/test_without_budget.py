"""Mechanisms without a privacy budget are audited, rewritten with and shown without an epsilon; all others need one.

Everything here is deterministic, so no test can raise a false alarm.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

import epsilometer
from epsilometer.auditing import text_audit
from epsilometer.auditing.external import CommandMechanism
from epsilometer.auditing.one_claim import check
from epsilometer.auditing.schemas import CLAIMS, ESTIMATES, ESTIMATORS, OUTPUTS, TRIALS
from epsilometer.auditing.subject import subject
from epsilometer.auditing.trials.design import Design
from epsilometer.cells import reading as cells
from epsilometer.cells.calibrating.losses import NOT_SEARCHED
from epsilometer.cells.comparing import compare_cells
from epsilometer.cells.tables import SIMILARITY, latents_path, rewrites_path
from epsilometer.core import tables
from epsilometer.core.guarantees import NO_BUDGET, budget_name, restored, stored
from epsilometer.core.mechanism import FunctionMechanism, budgets, has_budget
from epsilometer.core.randomness import Noise
from epsilometer.corpora.reading import PREPARED
from epsilometer.mechanisms.controls.identity import Identity
from epsilometer.pipeline.calibrating import calibrate_cells
from epsilometer.pipeline.measured import accept
from epsilometer.pipeline.params import read
from epsilometer.pipeline.stages import attack, claims, estimate, rewrite, similarity
from epsilometer.questions.which_unit import audit_units
from epsilometer.questions.worst_pair import audit_worst
from epsilometer.reaudit import baseline, history
from epsilometer.studies.anonymity.tables import privatized_path
from tests.support.commands import call
from tests.support.refusals import refused

ROOT = Path(__file__).parents[2]
TEXTS = [f"{a} song {b}" for a in ("play", "stop", "find") for b in ("now", "later", "tomorrow", "again")]
LEXICAL: dict[str, dict[str, Any]] = {"lexical": {}}


def mask(text: str, rng: np.random.Generator) -> str:
    return " ".join("***" if rng.random() < 0.5 else word for word in text.split())


def test_a_function_that_takes_no_epsilon_is_called_without() -> None:
    with_one = FunctionMechanism(lambda text, epsilon, rng: f"{text} {epsilon:g}")
    without = FunctionMechanism(lambda text, rng: text.upper())
    assert has_budget(with_one)
    assert not has_budget(without)
    assert with_one.rewrite(["a"], 2, Noise.named(1, "x")).texts == ["a 2"]
    assert without.rewrite(["a"], NO_BUDGET, Noise.named(1, "x")).texts == ["A"]


def test_what_stands_for_no_budget() -> None:
    assert (stored(NO_BUDGET), stored(None), stored(2)) == (None, None, 2.0)
    assert math.isnan(restored(None))
    assert restored(2.0) == 2.0
    assert (budget_name(NO_BUDGET), budget_name(0.5)) == ("none", "0.5")
    assert rewrites_path("songs-identity", None) == Path("data/rewrites/songs-identity/none.parquet")
    assert privatized_path("songs-identity", NO_BUDGET).name == "none.parquet"
    assert {latents_path("c", e).name for e in (None, NO_BUDGET, 1.0)} == {"before.npy", "none.npy", "1.npy"}


@pytest.mark.parametrize("mechanism", ["identity", Identity(), mask])
def test_an_audit_needs_no_epsilons(mechanism: text_audit.Named) -> None:
    table = epsilometer.audit(TEXTS, mechanism, attacks=["lexical"], trials=200, design=Design(temperature=0))
    assert table["epsilon"].to_list() == [None, None][: len(table)]
    assert table["loss"].min() > 0.5  # type: ignore[operator]  # `mask` leaves half of the words


def test_who_takes_a_budget_must_be_given_one() -> None:
    with refused("EPS-C049"):
        epsilometer.audit(
            TEXTS, lambda text, epsilon, rng: text, attacks=["lexical"], trials=50, design=Design(temperature=0)
        )
    with refused("EPS-C032"):
        budgets(Identity(), [])


def test_there_is_nothing_to_calibrate() -> None:
    reason = epsilometer.calibrate(TEXTS, "identity", target=1.0)["reason"].item()
    assert "no privacy budget, so there is none to calibrate" in reason


LEFT_OUT = "is 2, but this mechanism takes no privacy budget"


@pytest.mark.parametrize("mechanism", ["identity", mask, CommandMechanism("cat")])
def test_a_budget_that_has_no_effect_is_refused(mechanism: text_audit.Named) -> None:
    for measure in (epsilometer.audit, audit_units, audit_worst, epsilometer.surviving_identifiers):
        with refused("EPS-C048", "epsilons", "2"):
            measure(TEXTS, mechanism, [2.0])
    with refused("EPS-C048", "epsilon", "2"):
        subject(TEXTS, mechanism, 2.0)
    with refused("EPS-C048", "epsilon of", "2"):
        epsilometer.compare(TEXTS, (mechanism, 2.0), "constant", trials=20)


def test_mechanisms_without_a_budget_are_compared_by_themselves() -> None:
    def same(text: str, epsilon: float, rng: np.random.Generator) -> str:
        return text

    options: dict[str, Any] = {"trials": 200, "design": Design(temperature=0)}
    for less, more in (("constant", mask), (lambda text, rng: "", (same, 5))):
        strongest = epsilometer.compare(TEXTS, less, more, **options)["finding"][0]
        assert re.search("leaks less than (mask|same=5) under the attacks on both", strongest)
    with refused("EPS-P016", "tem", "11", "1"):
        epsilometer.compare(TEXTS, ("constant",), mask, **options)  # type: ignore[arg-type]
    with refused("EPS-S069", "same"):
        epsilometer.compare(TEXTS, same, mask, **options)


def test_the_command_line_needs_no_epsilon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS))
    shared = ["--attacks", "lexical", "--trials", 100, "--temperature", 0]
    code, out, _ = call(capsys, "audit", path, "--mechanism", "identity", *shared, "--json")
    assert code == 0
    assert json.loads(out)[0]["epsilon"] is None
    assert call(capsys, "audit", path, "--mechanism", "identity", *shared)[0] == 0
    code, out, _ = call(capsys, "audit", path, "--command", "cat", *shared, "--json")
    assert code == 0
    assert json.loads(out)[0]["epsilon"] is None
    code, out, _ = call(capsys, "calibrate", path, "--mechanism", "identity", "--target", 1)
    assert (code, NOT_SEARCHED in out) == (3, True)
    assert call(capsys, "rewrite", "--mechanism", "identity", path)[:2] == (0, "\n".join(TEXTS) + "\n")
    for command in (["rewrite", path, "--epsilon", 2], ["audit", path, "--epsilons", 2], ["claims", "--epsilon", 2]):
        named = ["--mechanism", "identity"] if command[0] != "claims" else ["identity"]
        code, out, err = call(capsys, *command, *named)
        assert (code, out) == (2, "")
        assert LEFT_OUT in err
    for command in (["rewrite", path], ["audit", path, *shared]):
        code, _, err = call(capsys, *command, "--mechanism", "randomized_response", "--set", 'resource=["a", "b"]')
        assert code == 2
        assert "takes a privacy budget" in err


@pytest.mark.parametrize("name", ["presidio", "identity"])
def test_a_claim_without_a_budget_is_checked_once(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "claims", name)
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert (code, lines["epsilon"], lines["verdict"]) == (3, "-", "no claim")
    assert "budgets" not in lines
    _, out, _ = call(capsys, "claims", name, "--json")
    assert (json.loads(out)["epsilon"], json.loads(out)["budgets"]) == (None, None)
    (finding,) = check(name, {}, None).findings
    assert math.isnan(finding.epsilon)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A prepared data set, its trials, and two cells: one without a budget, one with."""
    monkeypatch.chdir(tmp_path)
    identity = {"mechanism": "identity", "file": str(ROOT / "epsilometer/mechanisms/controls/identity.py")}
    half = {"mechanism": "half", "file": "half.py", "epsilons": [1, 5]}
    (tmp_path / "half.py").write_text("def rewrite(text, epsilon, rng):\n    return text\n")
    params = {
        "audit": {"seed": 0},
        "datasets": {"songs": {"source": "songs.csv", "public": True}},
        "trials": {"count": 100},
        "words": {"sources": {"own": "vectors.txt"}},
        "mechanisms": {"identity": identity, "half": half},
        "cells": {
            f"songs-{entry['mechanism']}": {**entry, "dataset": "songs", "resource": "data/prepared/songs.parquet"}
            for entry in (identity, half)
        },
        "attacks": LEXICAL,
        "utility": {"texts": 5, "metrics": {"changed": {}}},
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    prepared = {"id": TEXTS, "text": TEXTS, "split": ["train"] * len(TEXTS), "words": [3] * len(TEXTS)}
    tables.write(pl.DataFrame(prepared, schema=dict(PREPARED)), "data/prepared/songs.parquet", PREPARED)
    pairs = [[i % len(TEXTS), (i + 1 + i // len(TEXTS)) % len(TEXTS)] for i in range(100)]
    trials = {"trial": range(100), "candidates": pairs, "target": [i % 2 for i in range(100)]}
    tables.write(pl.DataFrame(trials, schema=dict(TRIALS)), "data/trials/songs.parquet", TRIALS)
    tables.write_array(np.zeros((len(TEXTS), 2), np.float32), "data/embeddings/songs.npy")
    return tmp_path


def audited() -> pl.DataFrame:
    for cell in read().cells:
        rewrite.main(cell)
        attack.main(cell)
    estimate.main()
    return tables.read("data/estimates.parquet", ESTIMATES)


def test_the_stages_write_null(project: Path) -> None:
    estimates = audited()
    assert sorted(p.name for p in Path("data/rewrites/songs-identity").iterdir()) == ["none.parquet", "stated.json"]
    assert estimates.filter(attack="lexical").select("mechanism", "epsilon").rows() == [
        ("half", 1.0), ("half", 5.0), ("identity", None),
    ]  # fmt: skip
    claims.main()
    rows = tables.read("data/claims.parquet", CLAIMS).select("mechanism", "epsilon", "audited").rows()
    assert rows == [("half", 1.0, True), ("half", 5.0, True), ("identity", None, True)]
    outputs = tables.read("data/outputs.parquet", OUTPUTS)
    assert outputs["epsilon"].to_list() == [1.0, 5.0, None]
    assert set(tables.read("data/estimators.parquet", ESTIMATORS)["mechanism"]) == {"identity", "half"}


def test_the_baseline_and_the_history_keep_it(project: Path) -> None:
    estimates = audited()
    measured = accept(read()).measured
    assert baseline.read().measured.keys() == measured.keys()
    (of_identity,) = (cell for cell in measured if cell.mechanism == "identity" and cell.attack == "lexical")
    assert of_identity.epsilon is None
    assert str(of_identity) == "identity on songs, attack lexical"
    history.append(estimates, "abc", 0)
    assert history.ends_with(history.read(), estimates, 0)


def test_a_project_says_who_needs_epsilons(project: Path) -> None:
    params = yaml.safe_load(Path("params.yaml").read_text())
    del params["cells"]["songs-half"]["epsilons"]
    Path("params.yaml").write_text(yaml.safe_dump(params))
    with refused("EPS-C049"):
        cells.mechanism(read(), "songs-half")
    params["cells"]["songs-half"]["epsilons"] = [1, 5]
    params["cells"]["songs-identity"]["epsilons"] = [2]
    Path("params.yaml").write_text(yaml.safe_dump(params))
    with refused("EPS-C048", "mechanisms.identity.epsilons", "2"):
        cells.mechanism(read(), "songs-identity")
    del params["cells"]["songs-identity"]["epsilons"]
    entry = {**params["cells"]["songs-identity"], "epsilon": 1}
    Path("params.yaml").write_text(yaml.safe_dump({**params, "ablations": {"songs-identity": entry}}))
    with refused("EPS-P060"):
        read()


def test_a_project_is_not_calibrated_without(project: Path) -> None:
    (row,) = calibrate_cells(read(), 1.0, mechanisms=["identity"])
    assert row["status"] == NOT_SEARCHED
    assert "no privacy budget" in row["reason"]


def test_a_project_compares_it_without_an_epsilon(project: Path) -> None:
    audited()
    rows = compare_cells(read(), ("identity", None), ("half", 1.0), 0.01)
    assert "no evidence that identity and half=1 leak differently" in rows[0]["finding"]
    for side, values in (
        (("identity", 1.0), ("identity", "epsilon 1", "songs", "(none)")),
        (("half", None), ("half", "songs", "(1, 5)")),
    ):
        with refused("EPS-S067", *values):
            compare_cells(read(), side, ("half", 1.0), 0.01)


def test_similarity_of_a_cell_without_a_budget(project: Path) -> None:
    audited()
    similarity.main()
    assert tables.read("data/similarity.parquet", SIMILARITY)["epsilon"].to_list() == [1.0, 5.0, None]
