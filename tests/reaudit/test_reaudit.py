"""Re-audits of a project of 20 texts: updates, each verdict, the event, the history, and bad input.

The stages run in this process, without DVC and Prefect, which only `test_with_dvc_and_prefect` uses.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import socket
import sys
import threading
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from huggingface_hub import close_session

import epsilometer.pipeline.flows.reaudit  # sets Prefect's environment: before Prefect is imported
from tests.support.commands import call
from tests.support.places import ROOT
from tests.support.prefect_server import prefect_server
from tests.support.toy import Toy
from tests.support.waiting import wait_for

# isort: split
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, State

import epsilometer.pipeline.stages.attack
import epsilometer.pipeline.stages.estimate
import epsilometer.pipeline.stages.prepare
import epsilometer.pipeline.stages.rewrite
import epsilometer.pipeline.stages.trials
from epsilometer.auditing.attributes.tables import ATTACKERS
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.cells.sources import current
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.pipeline import profiles
from epsilometer.pipeline.flows.alert import UNKNOWN, WORSE, send_to
from epsilometer.pipeline.measured import measure
from epsilometer.pipeline.params import read as read_params
from epsilometer.project import code
from epsilometer.reaudit import baseline, drift, history, sources
from epsilometer.studies.anonymity.tables import anonymity_path, anonymized_path
from tests.support.refusals import refused

LEAKS = "def rewrite(text, epsilon, rng):\n    return text if rng.random() < {} else 'play'\n"
PARAMS = """\
root: .
audit: {seed: 0, round: 0, alpha: 0.01}  # round: fresh noise
datasets:
  songs: {source: songs.txt, use: train, public: true}
embedding: {model: all-MiniLM-L6-v2}
trials: {count: 300, candidates: 2, temperature: 0}
words: {sources: {own: vectors.txt}}
mechanisms: {}
cells:
  songs-mine: {dataset: songs, mechanism: mine, file: mine.py, epsilons: [1, 2]}
attacks: {lexical: {}}
"""
READ = "file: mine.py, epsilons: [1], resource: data/prepared"
POETRY = f"  poems-mine: {{dataset: poems, mechanism: mine, {READ}/poems.parquet}}\n"


class Project:
    """What a re-audit has to do with: files, the stages, and what went out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[dict[str, Any]] = []
        self.shown: dict[str, Any] = {}
        self.leak(0.5)
        (folder / "songs.txt").write_text("\n".join(f"please play song {i} by artist {i}" for i in range(20)))
        (folder / "poems.txt").write_text("\n".join(f"read me poem {i} of poet {i}" for i in range(20)))
        (folder / "vectors.txt").write_text("play 1 2\n")
        (folder / "params.yaml").write_text(PARAMS)

    def leak(self, share: float) -> None:
        (self.folder / "mine.py").write_text(LEAKS.format(share))

    def edit(self, old: str, new: str) -> None:
        path = self.folder / "params.yaml"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    def audit(self, folder: str = ".", target: str | None = None, return_state: bool = True) -> State[Any]:
        """What `epsilometer.pipeline.flows.audit.audit` does, all stages of it."""
        params = read_params()
        for name in params.datasets:
            epsilometer.pipeline.stages.prepare.main(name)
            Path("data/embeddings").mkdir(exist_ok=True)
            np.save(f"data/embeddings/{name}.npy", np.eye(20, dtype=np.float32))
            epsilometer.pipeline.stages.trials.main(name)
        for name in params.cells:
            epsilometer.pipeline.stages.rewrite.main(name)
            epsilometer.pipeline.stages.attack.main(name)
        epsilometer.pipeline.stages.estimate.main()
        return Completed(message="reproduced: all")

    def reaudit(self, fresh: bool = False) -> State[Any]:
        return epsilometer.pipeline.flows.reaudit.reaudit.fn(".", fresh)


class Log:
    def __getattr__(self, level: str) -> Any:
        return lambda *args: None


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    fake = Project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(epsilometer.pipeline.flows.reaudit, "audit", fake.audit)
    monkeypatch.setattr(epsilometer.pipeline.flows.reaudit, "held", lambda folder, say: nullcontext())
    monkeypatch.setattr(epsilometer.pipeline.flows.reaudit, "get_run_logger", Log)
    monkeypatch.setattr(
        epsilometer.pipeline.flows.alert,
        "emit_event",
        lambda event, resource, payload: fake.events.append({"event": event, "resource": resource, "payload": payload}),
    )
    for name, what in (("create_table_artifact", "table"), ("create_markdown_artifact", "markdown")):
        monkeypatch.setattr(
            epsilometer.pipeline.flows.artifacts,
            name,
            lambda key, what=what, **shown: fake.shown.update({key: shown[what]}),
        )
    fake.audit()
    return fake


def check_event_of_worse(event: dict[str, Any], said: str) -> None:
    assert event["event"] == WORSE
    assert event["resource"] == {"prefect.resource.id": "epsilometer.audit.."}
    assert event["payload"]["message"] == said
    assert event["payload"]["changed"] == ["mine.py has changed (mechanism-mine)"]
    for cell in event["payload"]["worse"]:
        assert (cell["dataset"], cell["mechanism"], cell["attack"]) == ("songs", "mine", "lexical")
        assert cell["now"]["loss"] > cell["before"]["upper"]
        assert cell["p_value"] < 1e-9
    json.dumps(event, allow_nan=False)


def check_history_of_six(capsys: pytest.CaptureFixture[str]) -> None:
    rows = history.read()
    assert len(history.audits(rows)) == 6, "one accepted, five re-audits; the last accepted was there already"
    assert rows["round"].unique(maintain_order=True).to_list() == [0, 1, 2]
    code, out, _ = call(capsys, "results", "history", "mine")
    assert code == 0
    assert "6 audits from " in out
    line = next(line for line in out.splitlines() if line.startswith("songs") and " 1 " in line)
    assert line.split()[3] == "6"
    assert line.split()[-1][1] == "█", "the second was the worst"
    code, out, _ = call(capsys, "results", "history", "--json")
    assert len(json.loads(out)) == len(rows)


def test_worse_then_back_then_new_and_gone(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "results", "accept")[0] == 0
    project.leak(0.95)
    state = project.reaudit()
    assert state.is_failed()
    said = str(state.message)
    assert said.startswith("worse: 2 (2 of the baseline's 2 rows tested")
    assert "mine on songs at epsilon 1, attack lexical: worse, loss " in said
    assert "- mine.py has changed (mechanism-mine)" in said
    (event,) = project.events
    check_event_of_worse(event, said)
    json.dumps(project.shown, allow_nan=False)
    assert [row["verdict"] for row in project.shown["drift"]] == ["worse", "worse"]
    assert project.shown["drift-message"] == said
    assert "please play" not in said + json.dumps(project.shown) + json.dumps(event), "no text goes out"

    again = project.reaudit(fresh=True)
    assert again.is_failed(), "still worse than the baseline"
    assert "mine.py has changed" in str(again.message), "what changed is told since the baseline, not since last time"

    project.leak(0.5)
    back = project.reaudit(fresh=True)
    assert back.is_completed()
    assert str(back.message).startswith("no evidence of change: 2 (2 of the baseline's 2 rows tested")
    assert "nothing is known to have changed since the baseline" in str(back.message)
    assert len(project.events) == 2

    project.edit(
        "  songs: {source: songs.txt",
        "  poems: {source: poems.txt, use: train, public: true}\n  songs: {source: songs.txt",
    )
    project.edit("  songs-mine:", POETRY + "  songs-mine:")
    project.edit(
        "attacks:",
        "  songs-other: {dataset: songs, mechanism: other, file: mine.py, epsilons: [1], "
        "resource: data/prepared/songs.parquet}\nattacks:",
    )
    more = project.reaudit()
    assert more.is_completed()
    assert str(more.message).startswith("new: 2, no evidence of change: 2")
    assert "other on songs at epsilon 1, attack lexical: new" in str(more.message)
    assert "- new (dataset-poems, mechanism-other, cell-poems-mine, cell-songs-other)" in str(more.message)

    assert call(capsys, "results", "accept")[0] == 0
    project.edit("  poems: {source: poems.txt, use: train, public: true}\n", "")
    project.edit(POETRY, "")
    less = project.reaudit()
    assert less.is_failed(), "what is gone may have become worse"
    assert str(less.message).startswith("gone: 1, no evidence of change: 3 (3 of the baseline's 4 rows tested")
    assert "accept this audit as the new baseline (`epsilometer results accept`)" in str(less.message)
    event = project.events[-1]
    assert (event["event"], event["payload"]["worse"], event["payload"]["message"]) == (UNKNOWN, [], less.message)
    assert [lost["dataset"] for lost in event["payload"]["gone"]] == ["poems"]
    json.dumps(event, allow_nan=False)
    assert "mine on poems at epsilon 1, attack lexical: gone" in str(less.message)
    assert "- gone (dataset-poems, cell-poems-mine)" in str(less.message)
    assert not Path("sources/dataset-poems.json").exists()

    check_history_of_six(capsys)


OF_ATTRIBUTES = """\
root: .
audit: {seed: 0, alpha: 0.01}
datasets: {songs: {source: songs.csv, labels: [gender]}}
classification: {labels: {songs: {attributes: [gender]}}, kinds: [linear]}
anonymity: {songs-mine: {dataset: songs, mechanism: mine, file: mine.py}}
"""


def infer(folder: str = ".", target: str | None = None, *, right: int = 240) -> State[Any]:
    """What stage `anonymity` leaves of an attacker who is right about so many of 400 texts."""
    row = {"dataset": "songs", "mechanism": "mine", "label": "gender", "attacker": "adaptive", "kind": "linear"}
    hits = [number < right for number in range(400)]
    numbers = {"seed": 0, "texts_each": 1, "classes": 2, "trials": 400, "successes": right, "hits": hits}
    table = pl.DataFrame([row | numbers], schema_overrides=dict(ATTACKERS))
    table = table.with_columns(pl.lit(None, kind).alias(name) for name, kind in ATTACKERS.items() if name not in table)
    tables.write(table.select(*ATTACKERS), anonymity_path("songs-mine", "attackers"), ATTACKERS)
    assert target in (None, "anonymity@songs-mine")
    return Completed(message="reproduced: all")


def test_attributes_alone(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `cells` there are no estimates; each re-audit still takes its own part of the year's level."""
    shutil.rmtree("data")
    Path("params.yaml").write_text(OF_ATTRIBUTES)
    for file in ("data/prepared/songs.parquet", anonymized_path("songs-mine", None)):
        tables.write_text("texts", Path(file))
    monkeypatch.setattr(epsilometer.pipeline.flows.reaudit, "audit", lambda *args, **_: infer(*args))
    infer()
    assert call(capsys, "results", "accept")[:2] == (
        0,
        "baseline holds the baseline, 1 estimates; commit it to git\n",
    )
    assert call(capsys, "results", "accept")[0] == 0
    assert len(history.audits(history.read())) == 1
    state = project.reaudit()
    assert state.is_completed()
    assert str(state.message).startswith(
        "no evidence of change: 1 (1 of the baseline's 1 rows tested, at level 9.6e-05"
    )
    monkeypatch.setattr(epsilometer.pipeline.flows.reaudit, "audit", lambda *args, **_: infer(*args, right=300))
    state = project.reaudit()
    assert state.is_failed()
    assert "mine on songs, attack gender adaptive (linear 0): worse" in str(state.message)
    assert len(history.audits(history.read())) == 3
    code, out, _ = call(capsys, "results", "history")
    assert (code, "gender adaptive (linear 0)" in out, "3 audits from" in out) == (0, True, True)


def test_an_audit_that_no_re_audit_could_compare_is_not_accepted(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("params.yaml").write_text(OF_ATTRIBUTES.replace("file: mine.py", "file: mine.py, part: validation"))
    code, _, said = call(capsys, "results", "accept")
    assert (
        code,
        "params.yaml has none of these; add one" in " ".join(said.split()),
    ) == (
        2,
        True,
    )


def test_unchanged_inputs_cannot_differ(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "results", "accept")
    written = {path: path.read_bytes() for path in Path("baseline").iterdir() if path.name != "history.csv"}
    state = project.reaudit()
    assert state.is_completed()
    assert "2 of 2 have the baseline's rewrites and guesses" in str(state.message)
    first = {path: path.read_bytes() for path in Path("sources").iterdir()}
    project.reaudit()
    assert {path: path.read_bytes() for path in Path("sources").iterdir()} == first
    assert all(path.read_bytes() == content for path, content in written.items()), (
        "a re-audit leaves the baseline alone"
    )
    assert str(project.folder) not in b"".join([*first.values(), *written.values()]).decode(), "no machine paths"
    call(capsys, "results", "accept")
    assert len(history.audits(history.read())) == 3, "what the history ends with is not added again"


def test_fresh_noise_keeps_the_files_comments(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "results", "accept")
    state = project.reaudit(fresh=True)
    assert "audit: {seed: 0, round: 1, alpha: 0.01}  # round: fresh noise\n" in Path("params.yaml").read_text()
    assert state.is_completed()
    assert "nothing can differ" not in str(state.message)
    assert history.read()["round"].unique(maintain_order=True).to_list() == [0, 1]


def test_a_fresh_re_audit_that_was_stopped_goes_on_with_its_round(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it ends as an undisturbed one does, and the next draws fresh noise again."""
    call(capsys, "results", "accept")

    def stopped(*args: Any, **_: Any) -> State[Any]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(epsilometer.pipeline.flows.reaudit, "audit", stopped)
        with pytest.raises(KeyboardInterrupt):
            project.reaudit(fresh=True)
    for expected in (1, 2):
        assert read_params().audit.round == 1
        project.reaudit(fresh=True)
        assert history.read()["round"].unique(maintain_order=True).to_list() == [*range(expected + 1)]


def test_a_kill_between_a_profile_and_its_run_does_not_part_them(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, profile = project.folder / "runs/songs", project.folder / "profiles/songs.yaml"
    run.mkdir(parents=True)
    profile.parent.mkdir()
    for file in (run / "params.yaml", profile):
        file.write_text(PARAMS.replace("root: .", "root: ../.."))
    params, write = read_params(run / "params.yaml"), tables.write_text
    written: list[Path] = []

    def first_alone(text: str, path: Path) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(path)
        write(text, path)

    with monkeypatch.context() as patch:
        patch.setattr(tables, "write_text", first_alone)
        with pytest.raises(KeyboardInterrupt):
            profiles.next_round(run, params)
    profiles.next_round(run, read_params(run / "params.yaml"))
    assert [read_params(file).audit.round for file in (run / "params.yaml", profile)] == [1, 1]


class Clock(datetime):
    """Shows `shown`."""

    shown = datetime(2026, 12, 30, tzinfo=UTC)

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return cls.shown.astimezone(tz)


def test_a_clock_set_back_gives_no_year_its_level_again(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is set back to a year without audits: dates only grow, and the level goes by them."""
    monkeypatch.setattr(history, "datetime", Clock)
    level = drift.level
    levels: list[int] = []

    def noted(alpha: float, number: int) -> float:
        levels.append(number)
        return level(alpha, number)

    monkeypatch.setattr(drift, "level", noted)
    call(capsys, "results", "accept")
    for year in (2026, 2025, 1970, 2026):
        monkeypatch.setattr(Clock, "shown", datetime(year, 1, 1, tzinfo=UTC))
        project.reaudit()
    monkeypatch.setattr(Clock, "shown", datetime(2027, 1, 1, tzinfo=UTC))
    project.reaudit()
    dates = history.audits(history.read())
    assert levels == [1, 2, 3, 4, 0]
    assert dates == [*(f"2026-12-30T00:00:{second:02}Z" for second in range(5)), "2027-01-01T00:00:00Z"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("audit: {seed: 0, round: 7, alpha: 0.01} # c\n", "audit: {seed: 0, round: 8, alpha: 0.01} # c\n"),
        ("audit: {alpha: 0.01, seed: 3}\nx: 1\n", "audit: {alpha: 0.01, seed: 3, round: 8}\nx: 1\n"),
        ("# a\naudit:\n  seed: 3 # s\n  round: 7 # r\nx: 7\n", "# a\naudit:\n  seed: 3 # s\n  round: 8 # r\nx: 7\n"),
        ("audit:\n    seed: 3\n    alpha: 0.1\n", "audit:\n    seed: 3\n    round: 8\n    alpha: 0.1\n"),
    ],
)  # fmt: skip
def test_the_round_is_written_in_place(before: str, after: str) -> None:
    assert profiles.with_round(before, 8) == after


def test_a_packages_new_version_has_a_name(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Path("mine.py")
    mine.write_text("import helper\n\n" + mine.read_text())
    Path("helper.py").write_text("def f():\n    import rapidfuzz.distance\n")
    monkeypatch.syspath_prepend(".")
    project.audit()
    call(capsys, "results", "accept")
    project.reaudit()
    record = json.loads(Path("sources/mechanism-mine.json").read_text())
    assert record["files"].keys() == {"mine.py", "helper.py"}
    assert record["packages"].keys() == {"RapidFuzz"}
    assert "attack-lexical" in sources.read()
    real = code.metadata.version
    monkeypatch.setattr(code.metadata, "version", lambda name: "99" if name == "RapidFuzz" else real(name))
    code._version.cache_clear()  # a new process asks again
    state = project.reaudit()
    assert f"package RapidFuzz: {record['packages']['RapidFuzz']} before, 99 now (" in str(state.message)
    assert json.loads(Path("sources/mechanism-mine.json").read_text())["packages"] == {"RapidFuzz": "99"}


def test_a_source_that_cannot_be_reached_is_unknown_and_stops_nothing(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = "a" * 40, "b" * 40
    Path("pin.json").write_text(json.dumps({"model": "some/model", "revision": old}))
    project.edit("mechanisms:", "models: {some: pin.json}\nmechanisms:")
    call(capsys, "results", "accept")
    state = project.reaudit()  # the hub is offline in tests
    assert state.is_completed()
    assert "their changes are unknown:\n- model-some: model some/model (OfflineModeIsEnabled)" in str(state.message)
    assert sources.read()["model-some"]["hub"] == {"type": "model", "id": "some/model", "revision": old, "latest": None}

    monkeypatch.setattr(sources, "latest_revision", lambda place: new)
    said = str(project.reaudit().message)
    assert "model-some: the hub has revision bbbbbbbbbbbb of some/model, but aaaaaaaaaaaa is in use" in said
    assert "unknown" not in said
    assert json.loads(Path("pin.json").read_text())["revision"] == old, "a pin is its user's"
    monkeypatch.undo()
    monkeypatch.chdir(project.folder)
    now, unknown = sources.served(current(read_params()), sources.read())
    assert len(unknown) == 1
    assert sources.records(now)["model-some"]["hub"]["latest"] == new, "what was known stays"

    Path("pin.json").write_text(json.dumps({"model": "some/model", "revision": new}))
    changed = sources.changes(sources.read(), sources.records(current(read_params())))
    assert changed == [
        "pin.json has changed (model-some)",
        f"revision: some/model@{old} before, some/model@{new} now (model-some)",
    ]


def test_the_hub_is_asked_and_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hub(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind = {"/api/models/a/b": "c" * 40, "/api/datasets/a/b": "d" * 40}[self.path.partition("?")[0]]
            body = json.dumps({"id": "a/b", "sha": kind}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None: ...

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    close_session()  # a session remembers that it was offline
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as hub, socket.create_server(("127.0.0.1", 0)) as deaf:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        here, nowhere = (f"http://127.0.0.1:{port}" for port in (hub.server_port, deaf.getsockname()[1]))
        assert sources.latest_revision({"type": "model", "id": "a/b"}, here) == "c" * 40
        assert sources.latest_revision({"type": "dataset", "id": "a/b"}, here) == "d" * 40
        monkeypatch.setattr(sources, "SECONDS", 0.3)
        with pytest.raises(Exception, match="timed out"):
            sources.latest_revision({"type": "model", "id": "a/b"}, nowhere)
        hub.shutdown()
    close_session()


def test_without_a_baseline(project: Project) -> None:
    state = project.reaudit()
    assert state.is_failed()
    assert (
        state.message == "baseline has no baseline yet; accept the current audit as one (`epsilometer results accept`)"
    )
    assert not Path("sources").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "{lexical: {}}",
            "{lexical: {longest: 2}}",
            "attacks lexical, but params.yaml has lexical {'longest': 2};",
        ),
        ("{lexical: {}}", "{length: {}}", "has attacks lexical, but params.yaml has length;"),
        ("alpha: 0.01", "alpha: 0.05", "has alpha 0.01, but params.yaml has 0.05;"),
        ("candidates: 2", "candidates: 3", "has k candidates 2, but params.yaml has 3;"),
        ("temperature: 0", "temperature: -9", "has trials of songs by temperature 0.0, but params.yaml has -9.0;"),
        ("use: train", "use: test", "has trials of songs by use train, but params.yaml has test;"),
        ("public: true", "public: true, sets: {size: 4}", "has trials of songs by sets None, but params.yaml has 4;"),
        (
            "L6-v2}",
            "L6-v2, precision: bfloat16}",
            "precision float32, but params.yaml has model all-MiniLM-L6-v2",
        ),
        ("public: true", "public: true, match: words", "has trials of songs by match none, but params.yaml has words;"),
    ],
)
def test_the_baseline_of_another_audit(
    project: Project, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    call(capsys, "results", "accept")
    project.edit(old, new)
    state = project.reaudit(fresh=True)
    assert state.is_failed()
    assert said in str(state.message)
    assert "epsilometer results accept" in str(state.message)
    assert "round: 0" in Path("params.yaml").read_text(), "refused before anything was done"


def test_records_are_told_from_a_users_own_files_and_from_each_other(project: Project) -> None:
    Path("sources").mkdir()
    own = Path("sources/mydata.json")
    own.write_text('{"dataset": "org/x", "revision": "abc"}')
    Path("attacks").mkdir()
    Path("attacks/lexical.py").write_text("def posterior(): ...\n")
    project.edit("{lexical: {}}", "{lexical: {}, attacks/lexical.py: {}}")
    now = current(read_params())
    assert {"attack-lexical", "attack-attacks-lexical"} <= sources.records(now).keys()
    sources.write(now)
    assert sources.read() == sources.records(now)
    sources.write([source for source in now if source.name != "embedding"])
    assert own.exists()
    assert not Path("sources/embedding.json").exists()


def test_what_any_cell_says_and_reads_is_a_source(project: Project) -> None:
    """Of a mechanism's second cell too; the resource by content, unless a stage makes it."""
    Path("own.txt").write_text("one")
    project.edit("  songs: {", "  poems: {source: poems.txt, use: train, public: true}\n  songs: {")
    second = "  poems-mine: {dataset: poems, mechanism: mine, file: mine.py, epsilons: [1], resource: own.txt}\n"
    project.edit("attacks:", second + "attacks:")
    before = sources.records(current(read_params()))
    assert sources.changes(before, before) == []
    Path("own.txt").write_text("other")
    project.edit("resource: own.txt", "resource: own.txt, settings: {share: 2}")
    project.edit("epsilons: [1, 2]", "epsilons: [1, 3]")
    project.edit("vectors.txt}", "vectors.txt}, lists: 3")
    now = sources.records(current(read_params()))
    assert set(sources.changes(before, now)) == {
        "setting epsilons: [1.0, 2.0] before, [1.0, 3.0] now (cell-songs-mine)",
        "own.txt has changed (cell-poems-mine)",
        "setting settings: {} before, {'share': 2} now (cell-poems-mine)",
        "setting lists: 1 before, 3 now (words)",
    }
    earlier = {name: record for name, record in before.items() if not name.startswith("cell-") and name != "words"}
    earlier["mechanism-mine"] = earlier["mechanism-mine"] | {"settings": {"share": 1}}
    assert sources.changes(earlier, now) == [
        "unknown, because it was not recorded before (cell-songs-mine, cell-poems-mine, words)"
    ]


def test_a_baseline_of_an_earlier_version_says_by_its_sources_how_trials_were_drawn(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "results", "accept")
    path = Path("baseline/about.json")
    about = json.loads(path.read_text())
    del about["audit"]["embedding"]
    drawn_by = {"temperature": 0.0, "match": "none", "use": "train", "sets": None}
    assert about["audit"].pop("trials") == {"songs": drawn_by}
    path.write_text(json.dumps(about))
    assert project.reaudit().is_completed()
    project.edit("temperature: 0", "temperature: -9")
    assert "has trials of songs by temperature 0.0, but params.yaml has -9.0;" in str(project.reaudit().message)


def test_another_number_of_trials_is_compared_and_too_few_do_not_pass(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "results", "accept")
    project.edit("count: 300", "count: 400")
    state = project.reaudit()
    assert state.is_completed()
    assert str(state.message).startswith("no evidence of change: 2 (2 of the baseline's 2 rows tested")
    project.edit("count: 400", "count: 8")
    project.leak(1)
    state = project.reaudit()
    assert state.is_failed()
    assert str(state.message).startswith("not testable: 2 (0 of the baseline's 2 rows tested")
    assert "(trials.count)" in str(state.message)
    assert [row["verdict"] for row in project.shown["drift"]] == ["not testable", "not testable"]
    assert len(project.events) == 1


APPROXIMATE = """\
from epsilometer.core.component import component
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import Rewrites


@component
class Mine:
    def rewrite(self, texts, epsilon, noise):
        return Rewrites([text if text[-1] in "02468" else "play" for text in texts])

    def guarantee(self, epsilon):
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY, delta=0.1)
"""


def test_the_baseline_has_the_losses_of_the_audit(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of earlier versions have losses at the delta of the claim, no candidates, or neither these nor a delta."""
    Path("mine.py").write_text(APPROXIMATE)
    project.audit()
    call(capsys, "results", "accept")
    rows = pl.read_parquet("data/estimates.parquet").filter(attack="lexical").sort("epsilon").to_dicts()
    assert all(row["delta"] == 0.1 and 0 < row["loss_at_delta"] < row["loss"] for row in rows)
    losses = [measured.estimate.loss for _, measured in sorted(baseline.read().measured.items())]
    assert losses == [row["loss"] for row in rows]

    forget_hashes()
    path = Path("baseline/estimates.csv")
    written = pl.read_csv(path)
    assert written.columns[-2:] == ["delta", "candidates"]
    at_delta = pl.Series([estimate(*row, delta=0.1).loss for row in written["successes", "trials"].iter_rows()])
    written.with_columns(loss=at_delta, delta=pl.lit(0.1)).write_csv(path)
    assert losses == [measured.estimate.loss for _, measured in sorted(baseline.read().measured.items())]
    written.with_columns(loss=at_delta).write_csv(path)
    with refused("EPS-R003"):
        baseline.read()
    written.write_csv(path)
    shorten(path)
    assert losses == [measured.estimate.loss for _, measured in sorted(baseline.read().measured.items())]
    shorten(path)
    assert losses == [measured.estimate.loss for _, measured in sorted(baseline.read().measured.items())]


def forget_hashes() -> None:
    """As in baselines of earlier versions."""
    path = Path("baseline/about.json")
    about = json.loads(path.read_text())
    assert about.pop("files").keys() == {"estimates.csv", "hits.csv"}
    path.write_text(json.dumps(about))


def shorten(path: Path, columns: int = 1) -> None:
    path.write_text("\n".join(line.rsplit(",", columns)[0] for line in path.read_text().splitlines()))


def swap_successes() -> None:
    path = Path("baseline/estimates.csv")
    header, row, *rest = path.read_text().splitlines()
    parts = row.split(",")
    parts[5] = str(int(parts[5]) - 1)
    path.write_text("\n".join([header, ",".join(parts), *rest]) + "\n")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda: Path("baseline/about.json").write_text("{"), "damaged (Expecting"),
        (lambda: Path("baseline/about.json").write_text("[]"), "damaged ("),
        (lambda: Path("baseline/hits.csv").unlink(), "No such file"),
        (lambda: Path("baseline/hits.csv").write_bytes(b"\xff\xfe"), "damaged ("),
        (lambda: Path("baseline/hits.csv").write_text("a,b\n"), "hits.csv must have the columns dataset,"),
        (
            lambda: Path("baseline/hits.csv").write_text(Path("baseline/hits.csv").read_text()[:-60]),
            "damaged (",
        ),
        (
            lambda: Path("baseline/estimates.csv").write_text(
                "\n".join(Path("baseline/estimates.csv").read_text().splitlines()[:-1])
            ),
            "estimates.csv and hits.csv do not have the same rows",
        ),
        (swap_successes, "hits.csv does not have the"),
        (
            lambda: Path("baseline/estimates.csv").write_text(
                Path("baseline/estimates.csv").read_text().replace(",0.", ",9.")
            ),
            "does not follow from its successes",
        ),
    ],
)
def test_a_damaged_baseline(project: Project, capsys: pytest.CaptureFixture[str], damage: Any, said: str) -> None:
    call(capsys, "results", "accept")
    damage()
    with pytest.raises(UserError) as error:
        baseline.read()
    assert said in str(error.value)
    assert "git checkout -- baseline" in str(error.value)


def test_an_audit_that_is_not_that_of_the_parameters_is_not_accepted(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.edit("[1, 2]", "[1, 3]")
    code, _, err = call(capsys, "results", "accept")
    assert code == 2
    assert "does not match params.yaml" in err
    assert not Path("baseline").exists()


@pytest.mark.parametrize("whole", range(4))
def test_a_baseline_that_is_half_replaced_is_damaged(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    """Ended after so many of its three files. Both audits have the same rows; what differs are their hits."""
    call(capsys, "results", "accept")
    first = baseline.read()
    project.leak(0.95)
    project.audit()
    now, about = measure(read_params()), {name: first.about[name] for name in ("commit", "round", "audit")}
    written: list[Path] = []

    def ending(write: Any) -> Any:
        def writing(content: Any, path: Path) -> None:
            if len(written) == whole:
                raise KeyboardInterrupt
            written.append(path)
            write(content, path)

        return writing

    for name in ("write_text", "write_json"):
        monkeypatch.setattr(tables, name, ending(getattr(tables, name)))
    with pytest.raises(KeyboardInterrupt) if whole < 3 else nullcontext():
        baseline.accept(now, {}, about)
    if whole in (0, 3):
        assert baseline.read().about["sources"] == ({} if whole else first.about["sources"])
    else:
        with refused("EPS-R003"):
            baseline.read()


def test_what_could_not_be_read_again_replaces_no_baseline(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "results", "accept")
    before = {path: path.read_bytes() for path in Path("baseline").iterdir()}
    first = baseline.read()
    about = {"commit": "", "round": 0, "audit": first.about["audit"] | {"alpha": 0.02}}
    with refused("EPS-R001", "1"):
        baseline.accept(first.measured, {}, about)
    assert {path: path.read_bytes() for path in Path("baseline").iterdir()} == before


def line(**changed: str) -> str:
    values = {
        "date": "2026-01-05T03:00:00Z", "commit": "abc+", "round": "0", "dataset": "songs", "mechanism": "mine",
        "epsilon": "1.0", "attack": "strongest", "trials": "300", "loss": "0.5", "point": "0.7", "upper": "0.9",
        "ceiling": "4.0",
    } | changed  # fmt: skip
    return ",".join(values.values())


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([line(), line(loss="much")], "line 3: not a line of the history (could not convert string to float: 'much')"),
        ([line()[:-20]], "line 2: not a line of the history"),
        ([line(date="yesterday")], "line 2: not a line"),
        ([line(), line(loss="nan")], "line 3: not a line of the history (a loss must not be NaN)"),
        (["<<<<<<< HEAD"], "line 2: not a line"),
    ],
)
def test_a_malformed_line_of_the_history_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lines: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("baseline").mkdir()
    history.FILE.write_text("\n".join([",".join(history.HISTORY), *lines]) + "\n")
    code, out, err = call(capsys, "results", "history")
    assert (code, out) == (2, "")
    assert f"baseline/history.csv, {said}" in err


def test_history_without_an_audit_and_of_an_unknown_mechanism(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "profiles/generated.yaml", "params.yaml")
    assert "run `epsilometer results accept` or a re-audit first" in call(capsys, "results", "history")[2]
    Path("baseline").mkdir()
    history.FILE.write_text(
        "\n".join([",".join(history.HISTORY), line(), line(upper="inf", date="2027-01-05T03:00:00Z")])
    )
    assert "did you mean 'mine'" in call(capsys, "results", "history", "mime")[2]
    table = history.read()
    assert (history.audits_in(table, 2026), history.audits_in(table, 2027), history.audits_in(table, 2025)) == (1, 1, 0)
    assert table["upper"].to_list() == [0.9, float("inf")]
    assert history.bars([0, 1, 2]) == "▁▅█"
    assert history.bars([0, 0]) == "▁▁"


@pytest.mark.slow
def test_with_dvc_and_prefect(tmp_path: Path) -> None:
    """The command itself, against a server: worse, sent by webhook; then back, with fresh noise."""
    toy, sent = Toy(tmp_path), []
    mine, other = tmp_path / "mine.py", tmp_path / "data/guesses/songs-rr.parquet"
    mine.write_text(LEAKS.format(0.5))
    rr = "epsilometer/mechanisms/controls/randomized_response.py"
    toy.params["cells"] = {
        f"songs-{name}": {"dataset": "songs", "mechanism": name, "file": file, "epsilons": [1]}
        | {"resource": "data/prepared/songs.parquet"}
        for name, file in (("mine", "mine.py"), ("rr", rr))
    }
    toy.params["attacks"] = {"lexical": {}}
    toy.write_params()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    with (
        prefect_server(),
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as receiver,
    ):
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        send_to("http://127.0.0.1:9/nobody")
        send_to(f"http://127.0.0.1:{receiver.server_port}/")  # instead of the other
        toy.environment["PREFECT_API_URL"] = str(PREFECT_API_URL.value())
        toy.environment["PREFECT_API_AUTH_STRING"] = os.environ["PREFECT_API_AUTH_STRING"]  # of this process's server
        assert "has no baseline yet" in toy.run(sys.executable, "-m", "flows.reaudit", code=2)
        toy.run(sys.executable, "-m", "flows.audit")
        toy.run(sys.executable, "-m", "epsilometer.cli", "results", "accept")
        good, modified = mine.read_text(), other.stat().st_mtime_ns

        mine.write_text(good.replace("0.5", "0.97"))
        said = toy.run(sys.executable, "-m", "flows.reaudit", code=1)
        assert "mine on songs at epsilon 1, attack lexical: worse" in said
        assert "- mine.py has changed (mechanism-mine)" in said
        assert other.stat().st_mtime_ns == modified, "what did not change was not made again"
        wait_for("the alert", lambda: sent)
        receiver.shutdown()
    (message,) = sent
    assert message["text"].startswith("worse: 1, no evidence of change: 1 (2 of the baseline's 2 rows tested")
    assert "mine on songs at epsilon 1" in message["text"]

    mine.write_text(good)  # without a server, the flow starts its own
    del toy.environment["PREFECT_API_URL"], toy.environment["PREFECT_API_AUTH_STRING"]
    said = toy.run(sys.executable, "-m", "flows.reaudit", "--fresh")
    assert "no evidence of change: 2 (2 of the baseline's 2 rows tested" in said
    assert "round: 1" in (tmp_path / "params.yaml").read_text()


def test_a_clone_begins_with_no_history_of_others() -> None:
    """The page shows audits from two on: a first report would have shown those of whoever keeps this repository."""
    assert len(history.audits(history.read(ROOT / history.FILE))) <= 1
