"""Kills of `anonymize`, of a leaderboard's cell and of a re-audit: the next run gives the bytes of an undisturbed run.

SIGKILL and SIGTERM alternate. A seeded generator samples their moments from the duration of an undisturbed run.
EPSILOMETER_KILLS sets how many each test sends.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import polars as pl
import pytest
import yaml

from epsilometer.core import tables
from epsilometer.pipeline import profiles
from epsilometer.project import origin
from epsilometer.reaudit import history
from epsilometer.studies.leaderboard.tables import ROWS, rows_path
from tests.support.dvc_project import make_project
from tests.support.killing import Job, Results, files
from tests.support.places import ROOT
from tests.support.processes import OUTSIDE
from tests.support.toy import Toy

pytestmark = pytest.mark.slow


def test_anonymize(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also while it trains and writes the auxiliaries."""
    folder = tmp_path / "texts"
    folder.mkdir()
    marks = [("lovely", "F"), ("solid", "M")]
    rows = [(f"a {mark} thing of {i} parts", gender) for i in range(60) for mark, gender in marks]
    pl.DataFrame(rows, schema=["text", "gender"], orient="row").write_csv(folder / "train.csv")
    pl.DataFrame({"text": [text for text, _ in rows]}).write_csv(folder / "texts.csv")
    (folder / "out.csv").write_text("an earlier result\n")
    words = ("anonymize", "texts.csv", "--attribute", "gender", "--labelled", "train.csv", "--mechanism", "idt",
             "--auxiliaries", "auxiliaries", "--out", "out.csv", "--seed", "3")  # fmt: skip
    results = lambda: files(folder / "out.csv", folder / "auxiliaries")  # noqa: E731
    Job(folder, (sys.executable, "-m", "epsilometer.cli", *words), results, OUTSIDE).try_all(capsys)


BOARD = """\
title: A board
audit: {seed: 0, round: 0, alpha: 0.01}
datasets:
  requests:
    source: epsilometer/corpora/synthetic.py
    part: queries
    count: 560
    labels: [intent]
    public: true
    public_part: 0.15
leaderboard:
  losses: [1]
  datasets: {requests: {task: intent, texts: 60, tested: 20, sets: 3}}
  mechanisms:
    exemplars: {resource: public, epsilons: [0.05, 20], settings: {m: 16}}
"""


def cell_results(folder: Path, cell: str) -> Results:
    """All but the measured speed of the mechanism, its hash in dvc.lock, and the date and time of the record."""
    rows, lock = folder / rows_path(cell), yaml.safe_load((folder / "dvc.lock").read_text())
    results = files(folder / "data")
    for record in (folder / origin.FOLDER).rglob("*.json"):
        del results[str(record)]
    if rows.exists():
        results[str(rows)] = tables.read(rows, ROWS).drop("words_a_second").write_ndjson().encode()
    for out in lock["stages"].get(f"leaderboard_cells@{cell}", {}).get("outs", []):
        assert out["md5"] == hashlib.md5((folder / out["path"]).read_bytes()).hexdigest()
        if Path(out["path"]) == rows_path(cell):
            del out["md5"], out["size"]
    return results | {"dvc.lock": yaml.safe_dump(lock).encode()}


def test_a_cell_of_the_leaderboard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, cell = tmp_path / "board", "requests-exemplars-1"
    folder.mkdir()
    make_project(folder)
    (tmp_path / "board.yaml").write_text(BOARD)
    with chdir(ROOT):
        profiles.copy(tmp_path / "board.yaml", folder / "params.yaml")
    run = lambda *words: subprocess.run(words, cwd=folder, env=OUTSIDE, check=True, capture_output=True)  # noqa: E731
    run(sys.executable, "-m", "epsilometer.pipeline.repro", "leaderboard_parts@requests")
    words = ("dvc", "repro", f"leaderboard_cells@{cell}")
    job = Job(folder, words, lambda: cell_results(folder, cell), OUTSIDE, begins="stage leaderboard_cells")
    job.try_all(capsys)


LEAKS = "def rewrite(text, epsilon, rng):\n    return text if rng.random() < {} else 'play'\n"


def test_a_re_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fresh one. Where the killed one has added its line to the history, it is run again for the rest, not fresh."""
    toy = Toy(tmp_path / "toy")
    folder = toy.folder
    (folder / "mine.py").write_text(LEAKS.format(0.5))
    toy.params["cells"] = {"songs-mine": {"dataset": "songs", "mechanism": "mine", "file": "mine.py", "epsilons": [1]}}
    toy.params["attacks"] = {"lexical": {}}
    toy.write_params()
    toy.run(sys.executable, "-m", "epsilometer.pipeline.repro")
    toy.run(sys.executable, "-m", "epsilometer.cli", "results", "accept")
    (folder / "mine.py").write_text(LEAKS.format(0.97))

    def results() -> Results:
        """Of the history all but dates, each audit once."""
        audits = history.read(folder / history.FILE).drop("date").unique(maintain_order=True)
        others = files(folder / "data", folder / "dvc.lock", folder / "params.yaml", folder / "sources")
        return {**others, "history": audits.write_csv().encode()}

    def resumed() -> tuple[str, ...]:
        return words[:3] if 1 in history.read(folder / history.FILE)["round"] else words

    words = (sys.executable, "-m", "flows.reaudit", "--fresh")
    job = Job(folder, words, results, toy.environment, codes=(1,), begins="epsilometer stage")
    assert "round: 1" in (folder / "params.yaml").read_text()
    job.try_all(capsys, resumed)
