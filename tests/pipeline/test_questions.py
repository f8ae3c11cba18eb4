"""The section `questions` of params.yaml: the stage asked, its section of the report, and re-audits."""

from __future__ import annotations

import base64
import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

import epsilometer.pipeline.stages.asked
import epsilometer.pipeline.stages.prepare
import epsilometer.pipeline.stages.report
from epsilometer.auditing.evidence.status import Change, Status
from epsilometer.auditing.question import question
from epsilometer.auditing.subject import subject
from epsilometer.auditing.trials.design import Design
from epsilometer.cells.calibrating.losses import NOT_SEARCHED, Search
from epsilometer.core import tables
from epsilometer.core.component import PACKAGE
from epsilometer.doors import compare as door
from epsilometer.doors.ask import ANSWERS, ask
from epsilometer.doors.calibrate import calibrate
from epsilometer.doors.decide import decide
from epsilometer.pipeline import asking, composing, dvc_files, measured, reporting
from epsilometer.pipeline.answers import ASKED
from epsilometer.pipeline.calibrating import calibrate_cells
from epsilometer.pipeline.checking import check
from epsilometer.pipeline.comparing import compare
from epsilometer.pipeline.measured import accept, measure
from epsilometer.pipeline.params import params_type, read
from epsilometer.pipeline.question_params import recorded_path
from epsilometer.pipeline.stages import code, resources
from epsilometer.project.paths import audited as audited_texts
from epsilometer.reaudit import baseline, drift, sources
from epsilometer.report.export import read_table
from tests.support.commands import call
from tests.support.places import ROOT
from tests.support.refusals import refused

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
COMMAND = ("compare", "--question", "linking")
LINKING = {"author": "author", "among": 4, "attacks": ["bm25"]}
PARAMS: dict[str, Any] = {
    "root": ".",
    "audit": {"seed": SEED, "alpha": ALPHA},
    "datasets": {"reviews": {"source": "reviews.csv", "labels": ["author"], "use": "train", "public": True}},
    "trials": {"temperature": 0},
    "attacks": {"lexical": {}},
    "mechanisms": {
        "keeps": {"mechanism": "keeps", "file": "mine.py", "epsilons": [4, 1]},
        "same": {"mechanism": "identity"},
    },
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
    sys.modules.pop("epsilometer_user_mine", None)  # loaded from another folder
    with chdir(folder):
        yield folder


def table(name: str) -> pl.DataFrame:
    return tables.read(recorded_path(name), ASKED)


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
    now = changed(use={"settings": {"metric": "levenshtein"}}, authors={"epsilons": [2]})
    old, new = (resources.records(params_type().model_validate(of)) for of in (PARAMS, now))
    assert {path.stem for path in old if old[path] != new[path]} == {"authors"}


def test_the_code_of_an_entry_is_that_of_its_question_mechanism_attacks_and_metric(project: Path) -> None:
    shutil.copy(ROOT / "epsilometer/questions/similarity.py", "closeness.py")
    metric = PACKAGE / "metrics/levenshtein.py"
    params = params_type().model_validate(
        changed(use={"question": "closeness.py", "settings": {"metric": "levenshtein"}}, authors={"trials": 2})
    )
    assert {Path("closeness.py"), Path("mine.py"), metric} < {*asking.code(params, "use")}
    assert PACKAGE / "attacks/linking/bm25.py" in {*asking.code(params, "authors")}
    body = composing.stages(params)["asked"]
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": {"asked": body}}))
    before = code.records(params)
    Path("closeness.py").write_text(Path("closeness.py").read_text() + "\nmore = 1\n")
    after = code.records(params)
    assert [path.stem for path, record in before.items() if record != after[path]] == ["use", "paths"]


@pytest.mark.parametrize(
    ("entry", "refusal"),
    [
        ({"question": "linkin"}, ("EPS-P060", "questions.authors.question", "linkin")),
        ({"dataset": "review"}, ("EPS-P060", "questions.authors.dataset", "review")),
        ({"mechanism": "tem"}, ("EPS-P060", "questions.authors", "'tem'")),
        ({"epsilon": 1, "epsilons": [2]}, ("EPS-P060", "questions.authors: epsilon", "epsilons")),
        ({"epsilons": [0]}, ("EPS-P060", "questions.authors.epsilons", "0.0")),
        ({"settings": {"author": "writer"}}, ("EPS-C022", "questions.authors", "writer")),
        ({"settings": {"authr": "author"}}, ("EPS-C022", "questions.authors.settings", "authr")),
        ({"limit": -1}, ("EPS-Q032", "questions.authors.limit", "-1")),
        ({"question": "../linking.py"}, ("EPS-P060", "questions.authors.question", "../linking.py")),
        ({"trials": 10**12}, ("EPS-A179", "trials")),
    ],
)
def test_a_wrong_entry_is_refused_before_anything_runs(
    project: Path, entry: dict[str, Any], refusal: tuple[str, ...]
) -> None:
    write(project, changed(authors=entry))
    with refused(*refusal):
        check(read())


def test_a_budget_of_a_mechanism_that_takes_none_is_refused(project: Path) -> None:
    params = changed() | {"mechanisms": {"keeps": {"mechanism": "identity"}}}
    write(project, params)
    with refused("EPS-C048", "4"):
        check(read())


def test_the_report_has_a_row_for_each_budget_of_each_question(project: Path) -> None:
    (shown,) = reporting.sections(read())
    short, *whole = shown.tables
    rows = [(row["name"], row["epsilon"], row["status"], row["limit"]) for row in short.rows]
    assert rows == [
        ("authors", "1", Status.NOT_EXCEEDED, "≤ 1"),
        ("authors", "4", Status.OPEN, "≤ 1"),
        ("names", "4", Status.WITHIN, "≤ 0.9"),
        ("use", "1", Status.WITHIN, "≥ 0.05"),
    ]
    assert [table.folded for table in whole] == [True] * 3
    assert shown.first_screen == [("Questions", "Limits: 1 open, 1 not exceeded by these attacks, 2 within.")]
    assert reporting.studied(read()) == ["reviews"]
    assert [*(reporting.first_tables(read()) or {})] == ["Questions"]


def test_the_figures_are_exported_with_the_names_of_their_entries(project: Path) -> None:
    every = read_table(Path(), "asked")
    assert every.select("name", "dataset", "mechanism").unique().sort("name").rows() == [
        (name, "reviews", "keeps") for name in PARAMS["questions"]
    ]


def test_check_lists_the_questions(project: Path, capsys: Any) -> None:
    composing.write(read())
    status, printed, _ = call(capsys, "check", "params", "--json")
    assert status == 0
    assert json.loads(printed)["questions"] == [
        {"name": name, "question": entry["question"], "mechanism": "keeps", "dataset": "reviews"}
        for name, entry in PARAMS["questions"].items()
    ]


def test_the_report_is_built_of_questions_alone(project: Path) -> None:
    epsilometer.pipeline.stages.report.main()
    assert "What other questions show" in Path("reports/audit.html").read_text()


def test_a_re_audit_shows_a_planted_change_and_no_other(project: Path) -> None:
    """With the same noise nothing differs without a change; a share of .5 instead of .9 is missed rarely (< 1e-6)."""
    write(project, changed(names={"trials": 200}, use={"epsilons": [4], "trials": 200}))
    keeps(0.9)
    accepted = accept(read())
    assert {row.attack.partition(":")[0] for row in accepted.measured} == {"authors", "names", "use"}
    again = baseline.read()
    assert again.measured.keys() == accepted.measured.keys()
    for row, before in accepted.measured.items():
        np.testing.assert_array_equal(again.measured[row].hits, before.hits)
    level = drift.level(ALPHA, 0)
    assert {each.verdict for each in drift.judge(again.measured, measure(read()), level)} <= {
        Change.UNCHANGED,
        Change.NOT_TESTABLE,
    }
    keeps(0.5)
    changes = {str(each.row.attack): each.verdict for each in drift.judge(again.measured, measure(read()), level)}
    assert changes["use: similarity: jaccard"] is Change.WORSE, "it keeps less"
    assert changes["names: identifiers: name, title"] is Change.BETTER
    assert sources.changes(again.about["sources"], sources.records(measured.sources(read())))


def test_a_baseline_with_other_outcomes_than_its_trials_is_refused(project: Path) -> None:
    accept(read())
    place = Path("baseline/hits.csv")
    before = place.read_text()
    cut = base64.b64encode(np.ones(29).tobytes()).decode()
    above = base64.b64encode(np.full(30, 1.5).tobytes()).decode()
    line = next(line for line in before.splitlines() if "float64:" in line)
    assert ",authors: linking" in line
    for wrong in (cut, above):
        place.write_text(before.replace(line, f"{line[: line.index('float64:')]}float64:{wrong}"))
        with refused("EPS-R003"):
            baseline.read()


def test_other_trials_are_compared_by_a_test_of_two_samples(project: Path) -> None:
    before = measure(read())
    write(project, changed(use={"trials": 50}))
    epsilometer.pipeline.stages.asked.main("use")
    (row,) = (row for row in before if row.attack.startswith("use"))
    (change,) = (each for each in drift.judge(before, measure(read()), ALPHA) if each.row == row)
    assert change.test == drift.TWO_SAMPLES
    assert change.verdict in (Change.UNCHANGED, Change.NOT_TESTABLE)


def keeps(share: float) -> None:
    """Ask again of a mechanism that keeps this share of texts at epsilon 4."""
    Path("mine.py").write_text(MINE.replace("0.5", str(share)))
    sys.modules.pop("epsilometer_user_mine", None)
    for name in PARAMS["questions"]:
        epsilometer.pipeline.stages.asked.main(name)


def test_two_entries_are_compared_as_their_mechanisms_are_on_texts(project: Path, capsys: Any) -> None:
    same = {name: value for name, value in PARAMS["questions"]["authors"].items() if name != "limit"}
    write(project, PARAMS | {"questions": PARAMS["questions"] | {"others": same | {"mechanism": "same"}}})
    epsilometer.pipeline.stages.asked.main("others")
    design, texts = Design(2, 0, ALPHA, SEED), audited_texts(read(), "reviews")
    expected = door.compare(
        question("linking", LINKING),
        replace(subject(texts, project / "mine.py", 4, ["lexical"], design=design), name="keeps"),
        replace(subject(texts, "identity", None, ["lexical"], design=design), name="same"),
        30,
    ).to_dicts()
    (row,) = compare(".", ("keeps", 4), "same", question="linking").to_dicts()
    assert {name: row[name] for name in expected[0]} == expected[0]
    assert (row["dataset"], row["entries"]) == ("reviews", "authors; others")
    assert row["first more"] < row["second more"]
    status, printed, _ = call(capsys, *COMMAND, "keeps=4", "same", "--with", "linking.among=4", "--json")
    assert status == 0
    assert json.loads(printed)[0]["finding"] == row["finding"]
    for sides, message in (
        (("keeps=2", "same"), r"authors was not measured at epsilon 2; .*\(1, 4\)"),
        (("keeps=4", "keep"), "no two entries of questions ask linking about keeps and keep"),
        (("keeps=4", "same", "--with", "linking.among=5"), "no two entries"),
    ):
        status, _, said = call(capsys, *COMMAND, *sides)
        assert status == 2
        assert re.search(message, " ".join(said.split()))


def test_two_budgets_of_one_entry_are_compared(project: Path) -> None:
    (row,) = compare(".", ("keeps", 1), ("keeps", 4), question=question("linking", LINKING)).to_dicts()
    assert row["entries"] == "authors"
    assert row["p value"] < ALPHA


def test_a_question_is_calibrated_on_a_prepared_data_set(project: Path, capsys: Any) -> None:
    """A mechanism that keeps .125 of the texts for each epsilon up to 4 keeps half of them at 4; 0.3 lies between."""
    search = Search(question=question("similarity"), budget=4000)
    (row,) = calibrate_cells(read(), 0.3, search, ["keeps"], ["reviews"])
    of = subject(
        audited_texts(read(), "reviews"), project / "mine.py", 1, ["lexical"], design=Design(2, 0, ALPHA, SEED)
    )
    ends = replace(search, low=1.0, high=4.0)
    expected = calibrate(question("similarity"), of, 0.3, ends).row
    assert {name: row[name] for name in expected} == expected
    assert row["low"] <= 2.4 <= row["high"]
    every = {row["mechanism"]: row["status"] for row in calibrate_cells(read(), 0.3, search)}
    assert every == {"keeps": row["status"], "same": NOT_SEARCHED}
    options = ("--question", "linking", "--with", "linking.author=author", "--mechanism", "same", "--json")
    status, printed, _ = call(capsys, "calibrate", "--target", "1", *options)
    assert (status, json.loads(printed)[0]["status"]) == (3, NOT_SEARCHED)
