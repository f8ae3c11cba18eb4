"""The page that people open: its source, and when it is rewritten."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
import yaml

from epsilometer.reaudit import history
from epsilometer.report import origin, page
from epsilometer.report import past_audits as past_audits
from tests.support.dvc_project import git

BODY_OF = (
    "<body><!-- place: header --><!-- end of place -->{}<!-- place: origin --><!-- end of place -->"
    "<!-- place: history --><!-- end of place --></body>"
)


@pytest.fixture
def audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a page's body and a lock, in a git repository."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(origin.RUN, raising=False)
    git(tmp_path, "init", "-q")
    Path("data").mkdir()
    Path("data/report.html").write_text(BODY_OF.format("results"))
    out = {"path": "data/estimates.parquet", "hash": "md5", "md5": "0123abcd"}
    page = {"path": "data/report.html", "hash": "md5", "md5": "ffff"}
    Path("dvc.lock").write_text(yaml.safe_dump({"stages": {"estimate": {"outs": [out]}, "report": {"outs": [page]}}}))
    Path("params.yaml").write_text("one")
    git(tmp_path, "add", "dvc.lock", "params.yaml")
    git(tmp_path, "commit", "-q", "-m", "one")
    Path(".git/info/exclude").write_text("data\n")
    return tmp_path


def test_the_page_names_commit_and_hashes(audited: Path) -> None:
    page.write()
    shown = page.PAGE.read_text()
    head, date = git(audited, "rev-parse", "HEAD"), f"{datetime.now(UTC):%Y-%m-}"
    header, _, rest = shown.partition("results")
    assert date in header
    assert f"profile default · commit {head[:10]} · " in header
    assert head in rest
    assert page.emptied(shown) == page.BODY.read_text()
    assert "uncommitted" not in shown, "the report and dvc.lock are what an audit itself changes"
    assert "data/estimates.parquet" in shown
    assert "0123abcd" in shown
    assert "ffff" not in shown, "no page can hold its own hash"
    assert "dvc repro" in shown


@pytest.mark.parametrize(("folder", "name"), [("runs/words", "words"), (".", "default"), ("elsewhere", "default")])
def test_the_profile_is_the_folder_of_the_run(folder: str, name: str, tmp_path: Path) -> None:
    assert origin.profile(tmp_path / folder) == name


def test_the_page_links_to_the_run_and_the_body_knows_none(audited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = page.BODY.read_bytes()
    run = {"name": "<b>calm-owl</b>", "id": "12-34", "url": "http://127.0.0.1:4200/runs/flow-run/12-34"}
    monkeypatch.setenv(origin.RUN, json.dumps(run))
    page.write()
    shown = page.PAGE.read_text()
    assert '<a href="http://127.0.0.1:4200/runs/flow-run/12-34">&lt;b&gt;calm-owl&lt;/b&gt;</a>' in shown
    monkeypatch.setenv(origin.RUN, json.dumps(run | {"url": "javascript:alert(1)"}))
    page.write()
    assert "javascript" not in page.PAGE.read_text()
    assert page.BODY.read_bytes() == body


def test_a_page_is_kept_until_its_body_changes(audited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(origin.RUN, json.dumps({"name": "first", "id": "1", "url": None}))
    page.refresh()
    monkeypatch.setenv(origin.RUN, json.dumps({"name": "second", "id": "2", "url": None}))
    page.refresh()
    assert "first" in page.PAGE.read_text(), "made by the first run, and only found up to date by the second"
    page.BODY.write_text(BODY_OF.format("other results"))
    page.refresh()
    assert "second" in page.PAGE.read_text()
    assert "other results" in page.PAGE.read_text()


def test_edits_and_a_folder_outside_of_git_are_said(audited: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    Path("mine.py").write_text("a mechanism that git does not know")
    facts = origin.facts(audited)
    assert facts["commit"].endswith(", with uncommitted changes")
    assert facts["brief"].endswith(", with uncommitted changes")
    assert "without a git commit" in origin.header(origin.facts(tmp_path_factory.mktemp("bare")))


def test_the_device_is_that_of_the_records(tmp_path: Path) -> None:
    assert origin.device(tmp_path) == "not recorded"
    for name, record in {"estimate": {}, "embed": {"device": {"kind": "cuda", "name": "A GPU"}}}.items():
        (tmp_path / "data/code" / name).mkdir(parents=True)
        (tmp_path / "data/code" / name / "a.json").write_text(json.dumps({"files": {}, **record}))
    assert origin.device(tmp_path) == "cuda, A GPU"


def test_the_history_is_put_in_once_and_the_origin_stays(audited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(origin.RUN, json.dumps({"name": "first", "id": "1", "url": None}))
    page.write()
    alone = page.PAGE.read_text()
    cells = {"commit": "abc", "round": 0, "dataset": "songs", "mechanism": "mine", "epsilon": 1.0, "trials": 300}
    losses = {"attack": "strongest", "loss": 0.5, "point": 0.7, "upper": 0.9, "ceiling": 4.0}
    rows = [{"date": f"2026-01-{day}T03:00:00Z", **cells, **losses} for day in ("05", "12")]
    history.FILE.parent.mkdir()
    table = pl.DataFrame(rows, schema=dict(history.HISTORY))
    table.head(1).write_csv(history.FILE)
    page.refresh()
    assert page.PAGE.read_text() == alone
    table.write_csv(history.FILE)
    monkeypatch.setenv(origin.RUN, json.dumps({"name": "second", "id": "2", "url": None}))
    page.refresh()
    shown = page.PAGE.read_text()
    assert "2 audits from 2026-01-05 to 2026-01-12" in shown
    assert "first" in shown
    assert "second" not in shown
    assert page.emptied(shown) == page.BODY.read_text()

    def never(past: pl.DataFrame) -> None:
        raise AssertionError("drawn again, though nothing has changed")

    with monkeypatch.context() as patched:
        patched.setattr(past_audits, "section", never)
        page.refresh()
    assert page.PAGE.read_text() == shown
    table.with_columns(loss=0.6).write_csv(history.FILE)
    page.refresh()
    assert page.PAGE.read_text() != shown


def test_a_page_whose_body_is_gone_still_gets_its_history(audited: Path) -> None:
    page.write()
    page.BODY.unlink()
    page.refresh()
    page.PAGE.unlink()
    page.refresh()
    assert not page.PAGE.exists()
