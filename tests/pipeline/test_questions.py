"""The section `questions` of params.yaml: stage asked, its section of the report, re-audits."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

import epsilometer.pipeline.stages.asked
import epsilometer.pipeline.stages.prepare
from epsilometer.auditing.question import question
from epsilometer.auditing.subject import subject
from epsilometer.auditing.trials.design import Design
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.doors.ask import ANSWERS, ask
from epsilometer.doors.decide import decide
from epsilometer.doors.record import RECORD
from epsilometer.pipeline import composing, dvc_files, reporting
from epsilometer.pipeline.checking import check
from epsilometer.pipeline.params import Params, read
from epsilometer.pipeline.question_params import recorded_path
from epsilometer.pipeline.stages import code, resources
from epsilometer.project.paths import audited as audited_texts
from tests.support.places import ROOT

MINE = """
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites

@component
class Keeps:
    share: float = 0.5

    def rewrite(self, texts, epsilon, noise):
        keep = noise.uniforms()[:, 0] < self.share * min(1, epsilon / 4)
        return Rewrites([text if k else "nothing" for text, k in zip(texts, keep)])

    def guarantee(self, epsilon):
        return None
"""
WHO = [f"author{i}" for i in range(12)]
TEXTS = [
    {"text": f"the {what} of {author} is {how} and {author} likes it", "author": author, "split": "train"}
    for author in WHO
    for what, how in (("tea", "hot"), ("milk", "cold"), ("rum", "strong"), ("beer", "flat"))
]
SEED, ALPHA = 3, 0.05
LINKING = {"author": "author", "among": 4, "attacks": ["bm25"]}
PARAMS: dict[str, Any] = {
    "root": ".",
    "audit": {"seed": SEED, "alpha": ALPHA},
    "datasets": {"reviews": {"source": "reviews.csv", "labels": ["author"], "use": "train", "public": True}},
    "trials": {"temperature": 0},
    "attacks": {"lexical": {}},
    "mechanisms": {"keeps": {"mechanism": "keeps", "file": "mine.py", "epsilons": [4, 1]}},
    "questions": {
        "authors": {
            "question": "linking",
            "settings": LINKING,
            "dataset": "reviews",
            "mechanism": "keeps",
            "trials": 30,
            "limit": 1.0,
        },
        "names": {
            "question": "identifiers",
            "settings": {"kinds": ["name"]},
            "dataset": "reviews",
            "mechanism": "keeps",
            "epsilon": 4,
            "trials": 40,
            "limit": 0.9,
        },
        "use": {
            "question": "similarity",
            "dataset": "reviews",
            "mechanism": "keeps",
            "epsilons": [1],
            "trials": 60,
            "limit": 0.05,
        },
    },
}


def write(folder: Path, params: dict[str, Any]) -> None:
    (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))


def changed(**entries: dict[str, Any]) -> dict[str, Any]:
    """The parameters with other settings of these questions."""
    return PARAMS | {"questions": {name: of | entries.get(name, {}) for name, of in PARAMS["questions"].items()}}


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project's folder after its stages."""
    folder = tmp_path_factory.mktemp("asked")
    (folder / "mine.py").write_text(MINE)
    pl.DataFrame(TEXTS).write_csv(folder / "reviews.csv")
    write(folder, PARAMS)
    with chdir(folder):
        check(read())
        epsilometer.pipeline.stages.prepare.main("reviews")
        for name in PARAMS["questions"]:
            epsilometer.pipeline.stages.asked.main(name)
    return folder


@pytest.fixture
def project(audited: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of it, the current folder."""
    folder = tmp_path / "project"
    shutil.copytree(audited, folder)
    sys.modules.pop("epsilometer_user_mine", None)  # of another folder
    with chdir(folder):
        yield folder


def table(name: str) -> pl.DataFrame:
    return tables.read(recorded_path(name), RECORD)


def test_the_figures_and_statuses_are_those_of_the_doors(project: Path) -> None:
    texts = audited_texts(read(), "reviews")
    design = Design(2, 0, ALPHA, SEED)
    for name, entry in PARAMS["questions"].items():
        epsilons = [entry["epsilon"]] if "epsilon" in entry else entry.get("epsilons", [4, 1])
        of = subject(texts, project / "mine.py", epsilons[0], ["lexical"], design=design)
        asked_for = question(entry["question"], entry.get("settings"))
        figures = table(name).filter(pl.col("figure") != "all")
        expected = ask(asked_for, of, sorted(epsilons), entry["trials"])
        assert figures.select(*ANSWERS).equals(expected)
        decided = decide([(asked_for, entry["limit"])], of, epsilons, entry["trials"])
        assert len(figures)
        shown = table(name).filter(pl.col("status").is_not_null()).select("epsilon", "figure", "status", "needed")
        assert shown.rows() == decided.select("epsilon", "figure", "decision", "needed").rows()
        assert figures["outcomes"].list.len().to_list() == [entry["trials"]] * len(figures)


def test_an_entry_depends_on_what_it_reads_and_on_no_other(project: Path) -> None:
    composing.write(read())
    before = {name: dvc_files.listed(f"asked@{name}", dvc_files.settings()) for name in PARAMS["questions"]}
    for name, (deps, params) in before.items():
        others = PARAMS["questions"].keys() - {name}
        assert f"questions.{name}" in params
        assert {f"data/code/asked/{name}.json", "data/prepared/reviews.parquet"} <= {*deps}
        assert not [each for each in (*deps, *params) if any(other in each for other in others)]
    write(project, changed(use={"settings": {"metric": "levenshtein"}}, authors={"epsilons": [2]}))
    assert composing.write(read()) is False
    old, new = (resources.records(Params.model_validate(of)) for of in (PARAMS, yaml.safe_load(open("params.yaml"))))
    assert {path.stem for path in old if old[path] != new[path]} == {"authors"}
    code_of = [code.records(Params.model_validate(of)) for of in (PARAMS, yaml.safe_load(open("params.yaml")))]
    assert {path.stem for path, record in code_of[0].items() if record != code_of[1][path]} == {"use"}
