"""The stage claims: which mechanisms it checks, at which level and budgets, and its output."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_CHECKED, NOT_REFUTED, NOT_TESTABLE, VIOLATED
from epsilometer.auditing.schemas import CLAIMS
from epsilometer.core.component import shipped
from epsilometer.core.tables import read
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.pipeline.stages import claims
from epsilometer.text.vectors import WordVectors

WORDS = 60
# Randomised response on words whose claim is wrong by a factor of 2; it reads nothing.
OWN = """
import numpy as np
from epsilometer.core.component import component
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged

WORDS = ("a", "b", "c")


@component
class Own:
    inputs = output_texts = WORDS

    def laws(self, texts):
        def log_probabilities(words, epsilons):
            for epsilon in epsilons:
                law = np.where(np.arange(3) == words[:, None], 2 * epsilon, 0.0)
                yield law - np.logaddexp(2 * epsilon, np.log(2))
        return Laws(Ragged.of([[WORDS.index(w) for w in text.split()] for text in texts]), 3, log_probabilities)

    def rewrite(self, texts, epsilon, noise):
        (units,) = sample(self.laws(texts), np.arange(len(texts)), [epsilon], [noise])
        return Rewrites([" ".join(WORDS[u] for u in units.row(i)) for i in range(len(texts))], units)

    def guarantee(self, epsilon):
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)

    def distance(self, texts, pairs, epsilon):
        return np.array([float(texts[i] != texts[j]) for i, j in pairs])
"""
MINE = """
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import Rewrites

class Mine:
    def rewrite(self, texts, epsilon, noise):
        return Rewrites(["" for _ in texts])

    def guarantee(self, epsilon):
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_words.py").write_text(OWN)
    (tmp_path / "writes_nothing.py").write_text(MINE)
    (tmp_path / "data/prepared").mkdir(parents=True)
    pl.DataFrame({"text": [f"private letter {i}" for i in range(30)]}).write_parquet("data/prepared/letters.parquet")
    vectors = WordVectors([f"w{i}" for i in range(WORDS)], np.random.default_rng(1).normal(size=(WORDS, 4)))
    (tmp_path / "data/vectors").mkdir()
    vectors.save("data/vectors/own.npz")
    WordLists.build([vectors], 2).save("data/lists.npz")
    return tmp_path


def checked(public: bool = False) -> pl.DataFrame:
    """What the stage writes."""

    def entry(name: str, epsilons: list[float], resource: str, file: str | None = None) -> dict[str, Any]:
        path = file or str(shipped("mechanisms")[name])
        return {"mechanism": name, "file": path, "resource": resource, "epsilons": epsilons}

    texts = "data/prepared/letters.parquet"
    mechanisms = {
        broken["mechanism"]: broken
        for broken in (
            entry("identity", [1], texts),
            entry("randomized_response", [2], texts),
            entry("own_words", [1, 3], texts, str(Path("own_words.py").resolve())),
            entry("writes_nothing", [1], texts, str(Path("writes_nothing.py").resolve())),
            entry("mvc", [40, 90], "data/vectors/own.npz"),
            entry("diffractor", [0.4], "data/lists.npz"),
        )
    }
    params = {
        "audit": {"seed": 0, "alpha": 0.01},
        "datasets": {"letters": {"source": "letters.txt", "public": public}},
        "trials": {"count": 100},
        "words": {"sources": {"own": "own.txt"}},
        "mechanisms": mechanisms,
        "cells": {f"letters-{name}": settings | {"dataset": "letters"} for name, settings in mechanisms.items()},
        "attacks": {"lexical": {}},
        "claims": {"vocabulary": 20},
    }
    Path("params.yaml").write_text(yaml.safe_dump(params))
    claims.main()
    return read("data/claims.parquet", CLAIMS)


@pytest.mark.usefixtures("project")
def test_every_mechanism_is_checked_whatever_its_resource() -> None:
    table = checked()
    claim = pl.concat_str("mechanism", "epsilon", separator=" ")
    verdicts = dict(table.filter("audited").select(claim, "verdict").rows())
    assert verdicts == {
        "identity 1.0": NO_CLAIM,
        "randomized_response 2.0": NOT_REFUTED,
        "own_words 1.0": VIOLATED,
        "own_words 3.0": VIOLATED,
        "writes_nothing 1.0": NOT_CHECKED,
        "mvc 40.0": NOT_TESTABLE,
        "mvc 90.0": NOT_TESTABLE,
        "diffractor 0.4": NOT_REFUTED,
    }
    assert table.filter(mechanism="own_words")["slack"].to_list() == pytest.approx([-1, -3])
    assert "does not list its inputs" in table.filter(mechanism="writes_nothing")["reason"].item()
    assert (table["worst"].drop_nulls() >= 0).all()
    low = table.filter(~pl.col("audited"))
    assert set(low["mechanism"]) == {"mvc"}
    assert set(low["verdict"]) == {NOT_REFUTED}
    assert (low["claimed"] < 3.2).all()
    assert (low["noise_p"] > 0.01 / 4).all()


@pytest.mark.usefixtures("project")
def test_the_largest_loss_is_that_of_the_whole_lists() -> None:
    """Twenty words are compared; the two lists in use hold sixty, 59 steps of 0.4 nats from end to end."""
    (row,) = checked().filter(mechanism="diffractor").to_dicts()
    assert row["inputs"] == 20
    assert row["worst"] < 0.4 * 19
    assert row["largest_method"] == "exact"
    assert 0.4 * 19 < row["largest"] <= 0.4 * 59


@pytest.mark.usefixtures("project")
def test_private_texts_are_no_witness() -> None:
    for public in (False, True):
        (row,) = checked(public).filter(mechanism="randomized_response").to_dicts()
        assert (row["x"] is not None) == public
        assert row["worst"] == pytest.approx(2)


@pytest.mark.usefixtures("project")
def test_checks_that_may_err_share_alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    """MVC is sampled at two audited and two added budgets; what is computed cannot err."""
    levels: dict[float, float] = {}

    def record(mechanism: Any, epsilon: float, alpha: float, *rest: Any, **options: Any) -> Any:
        levels[epsilon] = alpha
        return original(mechanism, epsilon, alpha, *rest, **options)

    original = claims.check_claim
    monkeypatch.setattr(claims, "check_claim", record)
    checked()
    assert all(math.isclose(level, 0.01 / 4) for level in levels.values())
