"""The stage exact: which cells have rows, the losses of trial pairs, and which private data is not shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from epsilometer.auditing.schemas import EXACT, EXACT_CURVES, TRIALS
from epsilometer.cells.tables import curves_path, exact_path
from epsilometer.core import tables
from epsilometer.corpora.reading import PREPARED
from epsilometer.pipeline.stages import exact

TEXTS = ["a b", "b c", "c a", "a", "c"]
DRAWN = [(0, 1), (1, 0), (0, 3), (2, 1), (3, 4)]  # trials' candidates: one pair twice, one of different lengths
# Randomised response on words, in which each word loses at most epsilon; and a mechanism without a law.
OWN = """
import numpy as np
from epsilometer.core.component import component
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws
from epsilometer.core.ragged import Ragged

WORDS = ("a", "b", "c")


@component
class Own:
    inputs = output_texts = WORDS
    releases = frozenset({"text", "units"})

    def laws(self, texts):
        def log_probabilities(words, epsilons):
            for epsilon in epsilons:
                law = np.where(np.arange(3) == words[:, None], epsilon, 0.0)
                yield law - np.log(np.exp(epsilon) + 2)
        return Laws(Ragged.of([[WORDS.index(w) for w in text.split()] for text in texts]), 3, log_probabilities)

    def rewrite(self, texts, epsilon, noise):
        raise NotImplementedError

    def guarantee(self, epsilon):
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)

    def distance(self, texts, pairs, epsilon):
        words = [text.split() for text in texts]
        both = [(words[i], words[j]) for i, j in pairs]
        return np.array([sum(map(str.__ne__, a, b)) if len(a) == len(b) else np.inf for a, b in both], float)
"""
LAWLESS = "def rewrite(text, epsilon, rng):\n    return text\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Five texts with trials, as earlier stages leave them; the parameters are returned."""
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)
    Path("lawless.py").write_text(LAWLESS)
    prepared = {"id": map(str, range(5)), "text": TEXTS, "split": "train", "words": [len(t.split()) for t in TEXTS]}
    tables.write(pl.DataFrame(prepared, schema=dict(PREPARED)), "data/prepared/letters.parquet", PREPARED)
    trials = {"trial": range(len(DRAWN)), "candidates": DRAWN, "target": [0] * len(DRAWN)}
    tables.write(pl.DataFrame(trials, schema=dict(TRIALS)), "data/trials/letters.parquet", TRIALS)
    mechanisms = {name: {"mechanism": name, "file": f"{name}.py", "epsilons": [1, 3]} for name in ("own", "lawless")}
    params: dict[str, Any] = {
        "root": ".",
        "audit": {"seed": 0},
        "datasets": {"letters": {"source": "letters.txt", "use": "train", "public": True}},
        "trials": {"count": 10},
        "words": {"sources": {"own": "vectors.txt"}},
        "mechanisms": mechanisms,
        "cells": {f"letters-{name}": {**entry, "dataset": "letters"} for name, entry in mechanisms.items()},
        "attacks": {"length": {}},
    }
    Path("params.yaml").write_text(yaml.safe_dump(params))
    return params


def losses(cell: str = "letters-own") -> pl.DataFrame:
    exact.main(cell)
    return tables.read(exact_path(cell), EXACT)


def error(epsilon: float, words: int) -> float:
    """Of guessing between two texts that differ in every word, over all outputs: half of the smaller probabilities."""
    stays, other = np.exp(epsilon) / (np.exp(epsilon) + 2), 1 / (np.exp(epsilon) + 2)
    first, second = (np.array(law) for law in ([stays, other, other], [other, stays, other]))
    if words == 2:
        first, second = np.outer(first, first), np.outer(second, second)
    return float(np.minimum(first, second).sum() / 2)


def test_the_pairs_of_trials_against_all_outputs(project: dict[str, Any]) -> None:
    table = losses()
    assert table.select("dataset", "mechanism", "epsilon", "pairs", "compared", "share").rows() == [
        ("letters", "own", 1.0, "all", 4, 1.0),
        ("letters", "own", 1.0, "equal length", 3, pytest.approx(0.8)),
        ("letters", "own", 3.0, "all", 4, 1.0),
        ("letters", "own", 3.0, "equal length", 3, pytest.approx(0.8)),
    ]
    for epsilon in (1.0, 3.0):
        (equal,) = table.filter(epsilon=epsilon, pairs="equal length").to_dicts()
        mean = 0.75 * error(epsilon, 2) + 0.25 * error(epsilon, 1)  # three of four trials have texts of two words
        loss = np.log((1 - mean) / mean)
        assert equal["average_low"] - 1e-11 <= loss <= equal["average_high"] + 1e-11  # tables have only twelve digits
        assert equal["average_high"] - equal["average_low"] <= 0.2
        assert equal["relative_epsilon"] == pytest.approx(2 * epsilon)  # both words differ
        assert (equal["claimed"], equal["verdict"]) == (pytest.approx(2 * epsilon), "not refuted")
        x, other = (TEXTS[equal[f"witness_{text}"]].split() for text in ("x", "other"))
        assert equal["witness"].split() == x
        assert not {*zip(x, x, strict=True)} & {*zip(x, other, strict=True)}
        assert (equal["sees"], equal["released"], equal["seconds"]) == ("units", True, None)
        assert equal["method"] == "exact, 3 of 4 pairs"  # the pairs of ten trials
        assert equal["all_low"] <= equal["average_low"] <= equal["average_high"] <= equal["all_high"]
    assert table.filter(pairs="all")["worst"].to_list() == [np.inf, np.inf]  # pairs of texts of one and two words


def test_a_mechanism_without_a_law_has_empty_tables(project: dict[str, Any]) -> None:
    assert losses("letters-lawless").is_empty()
    assert tables.read(curves_path("letters-lawless"), EXACT_CURVES).is_empty()


def test_private_texts_are_no_witness_and_bytes_do_not_vary(project: dict[str, Any]) -> None:
    public = losses()
    before = exact_path("letters-own").read_bytes(), curves_path("letters-own").read_bytes()
    losses()
    assert before == (exact_path("letters-own").read_bytes(), curves_path("letters-own").read_bytes())
    project["datasets"]["letters"]["public"] = False
    Path("params.yaml").write_text(yaml.safe_dump(project))
    private = losses()
    assert public["witness"].null_count() < len(public)
    assert private["witness"].null_count() == len(private)
    assert private.drop("witness").equals(public.drop("witness"))


@pytest.mark.slow
def test_workers_write_the_same_bytes(project: dict[str, Any]) -> None:
    alone = losses()
    before = exact_path("letters-own").read_bytes(), curves_path("letters-own").read_bytes()
    project["runtime"] = {"workers": 2}
    Path("params.yaml").write_text(yaml.safe_dump(project))
    assert losses().equals(alone)
    assert before == (exact_path("letters-own").read_bytes(), curves_path("letters-own").read_bytes())


def test_the_first_trials_until_so_many_pairs_of_one_length(project: dict[str, Any]) -> None:
    for most, compared in ((1, 2), (2, 3), (3, 4)):
        project["exact"] = {"pairs": most}
        Path("params.yaml").write_text(yaml.safe_dump(project))
        table = losses()
        assert table.filter(pairs="all")["compared"].unique().to_list() == [compared]
        assert table.filter(pairs="equal length")["compared"].unique().to_list() == [most]
