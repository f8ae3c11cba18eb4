"""Pairs of texts and labels that are numbers, from the file to the trained classifiers and regressions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from pydantic import ValidationError

from epsilometer.auditing.schemas import DOWNSTREAM
from epsilometer.core import tables
from epsilometer.pipeline.checking import check
from epsilometer.pipeline.params import params_type, read
from epsilometer.pipeline.stages import prepare
from epsilometer.report.results import Results
from epsilometer.studies.anonymity.labelled import TEST, TRAIN, numbered
from epsilometer.studies.anonymity.report.learnt import section
from epsilometer.studies.anonymity.stages import classifiers, downstream, privatize
from epsilometer.studies.anonymity.tables import PRIVATIZED
from tests.support.places import ROOT
from tests.support.refusals import refused

NAMES = ["film", "song", "plot", "river", "stone", "cloud", "bread", "chair"]

MINE = """
def rewrite(text, epsilon, rng):
    return text if epsilon > 5 else "river" if rng.random() < 0.5 else "stone"
"""


def pairs(count: int) -> pl.DataFrame:
    """Two words; the label says whether they are one word, the number how alike they are."""
    generator, rows = np.random.default_rng(0), []
    for i in range(count):
        first, second = generator.choice(NAMES, 2, replace=False)
        same = i % 2 == 0
        tail = f"in scene {i}"  # makes all pairs different
        rows.append(
            (f"{first} {tail}", f"{first if same else second} {tail}", "yes" if same else "no", 4.5 * same + 0.5)
        )
    split = [TRAIN if i % 5 else TEST for i in range(count)]
    return pl.DataFrame(rows, ["asked", "answered", "same", "alike"], orient="row").with_columns(split=pl.Series(split))


def settings(folder: Path) -> dict[str, Any]:
    raw: dict[str, Any] = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    entry = {"mechanism": "mine", "file": "mine.py", "epsilons": [1, 9]}
    raw["datasets"] = {
        "twos": {
            "source": str(folder / "twos.parquet"),
            "text": ["asked", "answered"],
            "pair": True,
            "public": True,
            "labels": ["same", "alike"],
        }
    }
    raw["exemplars"] = raw["decide"] = raw["ablations"] = raw["cells"] = {}
    raw["words"], raw["models"], raw["attacks"] = {"sources": {}}, {}, {"length": {}}
    raw["mechanisms"] = {"mine": entry}
    raw["downstream"] = {"twos-mine": {**entry, "dataset": "twos"}}
    raw["classification"] = {
        "labels": {"twos": {"tasks": ["same"], "numbers": ["alike"]}},
        "kinds": ["linear"],
        "texts": {"train": 320, "test": 80},
        "training": {"seeds": 2, "batch": 8},
    }
    return raw


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    pairs(400).write_parquet("twos.parquet")
    Path("params.yaml").write_text(yaml.safe_dump(settings(tmp_path)))
    return tmp_path


def test_both_sides_are_rewritten_and_read_and_numbers_are_told(project: Path) -> None:
    assert check(read()) == []
    prepare.main("twos")
    classifiers.main()
    privatize.main("twos-mine")
    rewrites = tables.read("data/privatized/twos-mine/1.parquet", PRIVATIZED)
    assert len(rewrites) == 400 * 2 * 2
    each = [rewrites.filter(seed=seed, side=side)["text"].to_list() for seed in (0, 1) for side in (0, 1)]
    # Each side and seed has separate noise. Two lists of 400 coins are equal with probability 2^-400.
    assert len({*map(tuple, each)}) == 4
    same = tables.read("data/privatized/twos-mine/9.parquet", PRIVATIZED).filter(seed=1)
    prepared = pl.read_parquet("data/prepared/twos.parquet")
    for side, column in enumerate(("asked", "answered")):
        assert same.filter(side=side)["text"].to_list() == prepared[column].to_list()
    downstream.main("twos-mine")
    clean = tables.read("data/downstream/clean.parquet", DOWNSTREAM)
    results = tables.read("data/downstream/twos-mine.parquet", DOWNSTREAM)
    assert results.group_by("role", "setting").len().sort("role", "setting").rows() == [
        ("number", "private", 4), ("number", "rewritten", 4), ("task", "private", 4), ("task", "rewritten", 4),
    ]  # fmt: skip
    good = clean.filter(setting="clean", role="task").row(0, named=True)
    assert good["accuracy"] > 0.8
    assert clean.filter(setting="clean", role="number").row(0, named=True)["pearson"] > 0.6
    for measure, role in (("accuracy", "task"), ("pearson", "number")):
        scored = results.filter(role=role)
        unchanged = {*scored.filter(epsilon=9)[measure]}
        assert unchanged == {clean.filter(setting="clean", role=role)[measure].item()}
        noise = scored.filter(epsilon=1, setting="rewritten")[measure]
        # A guess is right with probability 1/2. Correlations of independent numbers are 0 ± 1 / √80. Allows 4 sigma.
        assert abs(noise - (0.5 if role == "task" else 0)).max() < 0.45 + (role == "task") * -0.2
    assert results.filter(role="number")["macro_f1"].null_count() == 8
    shown = section(Results(read()))
    assert shown is not None
    *_, text = shown.tables  # the first side of the only pair that is shown
    first = prepared["asked"][rewrites["row"].min()]
    assert [row["text"] for row in text.rows] == [first, each[0][0], first]
    assert text.texts, "and so in no Markdown file"
    private = yaml.safe_load(Path("params.yaml").read_text())
    private["datasets"]["twos"]["public"] = False
    Path("params.yaml").write_text(yaml.safe_dump(private))
    hidden = section(Results(read()))
    assert hidden is not None
    assert not any(table.texts for table in hidden.tables)


def table(numbers: Sequence[str | None], test: Sequence[str]) -> pl.DataFrame:
    split = [TRAIN] * len(numbers) + [TEST] * len(test)
    texts = [f"text {i}" for i in range(len(split))]
    columns = {"id": texts, "text": texts, "split": split, "words": [2] * len(split), "score": [*numbers, *test]}
    return pl.DataFrame(columns).with_columns(pl.col("words").cast(pl.Int32))


@pytest.mark.parametrize(
    ("numbers", "test", "refusal"),
    [
        (
            ["1.5", "high", "2"] * 4,
            ["1", "2"],
            ("EPS-S011", "14", "high"),
        ),
        (["1.5", "nan", "2"] * 4, ["1", "2"], ("EPS-S011", "'nan'")),
        (["1.5"] * 8, ["1", "2"], ("EPS-S012", "train")),
        (["1.5", "2"] * 8, ["1", "1.0"], ("EPS-S012", "test")),
        (["1.5", None] * 7, ["1", "2"], ("EPS-S015", "7", "8")),
        (["1.5", "2"] * 8, [], ("EPS-S016", "test")),
    ],
)
def test_numbers_that_no_regression_can_learn_are_refused(
    numbers: list[str | None], test: list[str], refusal: tuple[str, ...]
) -> None:
    with refused(*refusal):
        numbered(table(numbers, test), "score", {TRAIN: 100, TEST: 100}, 0, least=8)


@pytest.mark.parametrize(
    ("section", "changes", "named"),
    [
        ("classification", {"kinds": ["transformer"]}, r"classification\.labels\.twos\.numbers: .*transformer"),
        (
            "classification",
            {"labels": {"twos": {"tasks": ["same"], "numbers": ["same"]}}},
            r"classification\.labels\.twos: 'same'",
        ),
        ("classification", {"labels": {"twos": {"numbers": ["a like"]}}}, r"classification\.labels\.twos 'a like'"),
        (
            "anonymity",
            {"twos-mine": {"mechanism": "mine", "file": "mine.py", "epsilons": [1], "dataset": "twos"}},
            r"anonymity\.twos-mine: .*datasets\.twos\.pair",
        ),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(
    section: str, changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    raw = settings(tmp_path)
    raw[section] = {**raw.get(section, {}), **changes}
    with pytest.raises(ValidationError, match=named):
        params_type().model_validate(raw).check()
