"""Watching audits: progress, and `make ui` with a browser on the real server."""

from __future__ import annotations

import contextlib
import http.client
import io
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property, partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

import epsilometer.pipeline.flows.audit
import epsilometer.pipeline.flows.ui  # sets Prefect's environment: before Prefect is imported
from tests.support.dvc_project import git, make_project
from tests.support.places import ROOT
from tests.support.processes import command, wait_for_end
from tests.support.sparing import first
from tests.support.waiting import LAST_RESORT, wait_for

# isort: split
from prefect.exceptions import ParameterTypeError
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_HOME,
    PREFECT_SERVER_API_AUTH_STRING,
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
    temporary_settings,
)

from epsilometer.cells.calibrating.losses import STANDARD_SEARCH, Search
from epsilometer.pipeline.flows import artifacts, connection, listening, pages, starting
from epsilometer.pipeline.flows.calibrate import calibrate
from epsilometer.report import page
from epsilometer.runtime import progress
from tests.support.refusals import refused

# ------------------------------------------------------------------------------------------------------- progress


def test_the_lines_of_progress_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", said)
    assert list(progress.track(range(3), 3, "encode: texts")) == [0, 1, 2]
    read = [progress.parse(line) for line in said.getvalue().splitlines()]
    assert [(p.label, p.done, p.total) for p in read if p] == [("encode: texts", d, 3) for d in (1, 2, 3)]
    assert str(progress.Progress("rewrite", 30, 40, 12)) == "rewrite: 30 of 40, about 12 s left"


def test_other_lines_are_no_progress() -> None:
    for line in (
        "",
        "30 of 40",
        "rewrite: 30 of 40",
        "rewrite: x of 40, about 1 s left",
        "> epsilometer stage rewrite",
    ):
        assert progress.parse(line) is None


BODY = (
    "<body><!-- place: header --><!-- end of place -->{}<!-- place: origin --><!-- end of place -->"
    "<!-- place: history --><!-- end of place --></body>"
)


# ------------------------------------------------------------------------------------------------- parts of make ui


def test_report_pages_are_served_and_nothing_else(tmp_path: Path) -> None:
    for path in ("reports/audit.html", "runs/atis/reports/audit.html", "data/private.csv", "reports/calibration.csv"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(pages.Pages, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        answers = {}
        for path in (
            "/reports/audit.html",
            "/runs/atis/reports/audit.html",
            "/data/private.csv",
            "/reports/calibration.csv",
            "/reports/",
            "/",
            "/runs/../data/private.csv",
            "/runs/%2e%2e/reports/audit.html",
            "/reports/audit.html/../../data/private.csv",
        ):
            connection = http.client.HTTPConnection(*server.server_address)
            connection.request("GET", path)
            answers[path] = connection.getresponse().status
        for header in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            connection = http.client.HTTPConnection(*server.server_address)
            connection.request("GET", "/reports/audit.html", headers=header)
            assert connection.getresponse().status == 403
        server.shutdown()
    assert [path for path, status in answers.items() if status == 200] == list(answers)[:2]


def test_links_lead_to_the_pages_while_they_are_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "ROOT", tmp_path)
    page = tmp_path / "runs/atis/reports/audit.html"
    with temporary_settings({PREFECT_HOME: tmp_path}):
        assert artifacts._address(page) == page.as_uri()
        (tmp_path / "ui.json").write_text('{"reports": "http://127.0.0.1:4201"}')
        assert artifacts._address(page) == "http://127.0.0.1:4201/runs/atis/reports/audit.html"


@pytest.mark.parametrize(
    ("url", "sent"), [(None, True), ("http://127.0.0.1:4200/api", True), ("https://api.example.org/api", False)]
)
def test_the_secret_is_for_servers_of_this_machine(tmp_path: Path, url: str | None, sent: bool) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    environment |= {"PREFECT_HOME": str(tmp_path / "home")} | ({"PREFECT_API_URL": url} if url else {})
    code = "import epsilometer.pipeline.flows, os; print(os.environ.get('PREFECT_API_AUTH_STRING'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    secret = (tmp_path / "home/secret").read_text()
    assert done.stdout.strip() == (secret if sent else "None"), done.stderr


def test_a_taken_port_is_refused(tmp_path: Path) -> None:
    with socket.socket() as other, temporary_settings({PREFECT_HOME: tmp_path}):
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with refused("EPS-P026", str(port), f"PORT={port + 10}"):
            epsilometer.pipeline.flows.ui.start(port, print)


def test_a_port_is_held_before_it_is_served() -> None:
    """By the first that has the socket and by all that it is handed to; nobody else can take it meanwhile."""
    port = _free_ports()
    with listening.held(port) as socket_:
        wait = [sys.executable, "-c", "input()"]
        worker = subprocess.Popen(wait, stdin=subprocess.PIPE, pass_fds=[socket_.fileno()])
    take = f"import socket; socket.create_server(('127.0.0.1', {port}))"  # with SO_REUSEADDR
    other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    taken = subprocess.run(["python3", "-c", take], cwd="/", capture_output=True, text=True, **other)  # type: ignore[call-overload]
    assert "Address already in use" in taken.stderr
    with refused("EPS-P026", str(port)):
        listening.held(port)
    assert listening.is_own(port)
    worker.communicate()
    assert not listening.is_own(port)
    with listening.held(port):
        pass


@contextlib.contextmanager
def _another_users(port: int) -> Iterator[Path]:
    """A server of another user at that port, and the file to which it writes what it is sent."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        heard = Path(folder, "heard")
        code = (
            f"import socket\none = socket.create_server(('127.0.0.1', {port}))\nopen({str(heard)!r}, 'w').close()\n"
            f"while True:\n    two, _ = one.accept()\n    open({str(heard)!r}, 'ab').write(two.recv(65536))\n"
            "    two.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\ntrue')\n    two.close()\n"
        )
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
        if python is None:
            pytest.skip("needs a Python that another user may run")
        process = subprocess.Popen([python, "-c", code], cwd="/", user=65534, group=65534, extra_groups=[])
        try:
            wait_for("a port that another user listens at", heard.exists, runs=process)
            yield heard
        finally:
            process.kill()
            process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another user")
def test_nothing_is_sent_to_another_users_server() -> None:
    """Where the profile names a server that has died, and somebody has taken its port."""
    port = _free_ports()
    url = {PREFECT_API_URL: f"http://127.0.0.1:{port}/api", PREFECT_API_AUTH_STRING: "epsilometer:planted"}
    with _another_users(port) as heard, temporary_settings(url):
        assert not listening.is_own(port)
        with refused("EPS-P025"):
            connection.server()
        assert heard.read_bytes() == b""


def test_the_secret_is_a_new_one_at_each_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from epsilometer.pipeline import flows

    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    first = flows._secret(tmp_path / "secret")
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", first)
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "of:the user")
    flows.new_secret()
    second = (tmp_path / "secret").read_text()
    assert second != first
    assert os.environ["PREFECT_SERVER_API_AUTH_STRING"] == second
    assert os.environ["PREFECT_API_AUTH_STRING"] == "of:the user"
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("path", first(2, ["docs", "redoc", "openapi.json", "docs/oauth2-redirect"]))
def test_the_description_of_the_api_is_for_who_knows_the_secret(path: str) -> None:
    from starlette.testclient import TestClient

    from epsilometer.pipeline.flows.server import app

    with temporary_settings({PREFECT_SERVER_API_AUTH_STRING: "someone:secret"}):
        client = TestClient(app(80), base_url="http://127.0.0.1")  # services do not start
        assert client.get(f"/{path}").status_code == 401
        assert client.get(f"/{path}", auth=("someone", "other")).status_code == 401
        assert client.get(f"/{path}", auth=("someone", "secret")).status_code == 200
        assert client.get("/api/health").status_code == 200


def test_a_worker_ends_with_its_server(tmp_path: Path) -> None:
    """With its runs, also where they ignore a request to end."""
    server = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    code = (
        "import subprocess, sys, psutil\nfrom epsilometer.pipeline.flows import processes, worker\n"
        "processes._GRACE = 0.5\n"
        "stubborn = 'import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); input()'\n"
        "run = subprocess.Popen([sys.executable, '-c', stubborn], stdin=subprocess.PIPE)\n"
        f"worker.end_with(psutil.Process({server.pid}))\nprint(run.pid, flush=True)\nrun.wait()\ninput()\n"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    run = psutil.Process(max(int(worker.stdout.readline()), int(worker.stdout.readline())))
    server.kill()  # and nothing restarts it yet
    assert worker.wait(LAST_RESORT) == 1
    assert not run.is_running() or run.status() == psutil.STATUS_ZOMBIE
    server.wait()


def test_another_process_of_the_same_number_is_none_of_the_parts(tmp_path: Path) -> None:
    me = psutil.Process()
    with temporary_settings({PREFECT_HOME: tmp_path}):
        (tmp_path / "ui.json").write_text(json.dumps({"port": 1, "server": [me.pid, me.create_time() - 1]}))
        assert epsilometer.pipeline.flows.ui._running() == {}
        (tmp_path / "ui.json").write_text(json.dumps({"port": 1, "server": [me.pid, me.create_time()]}))
        assert epsilometer.pipeline.flows.ui._running() == {"server": me}


# -------------------------------------------------------------------------------------------- without Prefect's server


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A DVC project of one stage."""
    _dvc_project(tmp_path, {"one": {"cmd": "echo hello > one.txt", "outs": ["one.txt"]}})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_flow_says_that_its_server_is_down(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import epsilometer.pipeline.flows.audit

    monkeypatch.setattr(sys, "argv", ["epsilometer.pipeline.flows.audit"])
    down = f"http://127.0.0.1:{_free_ports()}/api"
    with temporary_settings({PREFECT_API_URL: down}), pytest.raises(SystemExit) as ended:
        epsilometer.pipeline.flows.audit.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"answers at {down}" in said
    assert "`make ui`" in said
    assert "`make audit` needs no server" in said
    assert not (small / "one.txt").exists()


def test_a_server_that_does_not_start_is_one_line(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With no time to start in, and hardly any to answer; it is not left behind."""
    monkeypatch.setattr(starting, "_ANSWER", 0.01)  # on a fast machine the first request is answered within 5 seconds
    monkeypatch.setattr(sys, "argv", ["epsilometer.pipeline.flows.audit"])
    before = {*psutil.Process().children()}
    no_time = {PREFECT_API_URL: None, PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: 0}
    with temporary_settings(no_time), pytest.raises(SystemExit) as ended:
        epsilometer.pipeline.flows.audit.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: the server of this run was not ready after 0 s; run again with more time, ")
    assert f"{PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS.name}=600" in said
    assert said.count("\n") == 1
    assert not (small / "one.txt").exists()
    wait_for_end({*psutil.Process().children()} - before)


def test_a_server_whose_first_answer_is_late_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "_ANSWER", 0.2)
    requests = itertools.count()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if next(requests) == 0:
                self.rfile.read(1)  # until the client hangs up
            else:
                self.send_response(200)
                self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        starting.wait(psutil.Process(), "server", lambda: starting.answers(url))
        server.shutdown()
    assert next(requests) >= 2


def test_an_audit_without_flows_never_touches_prefect(small: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    trap = tmp_path_factory.mktemp("trap")
    (trap / "prefect.py").write_text("raise SystemExit('Prefect was imported')")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(trap), str(ROOT)]),
        "PREFECT_API_URL": f"http://127.0.0.1:{_free_ports()}/api",
        "DVC_NO_ANALYTICS": "1",
    }
    recipe = (ROOT / "Makefile").read_text().split("\naudit:")[1].split("\n\n")[0]
    assert "epsilometer pipeline repro" in recipe
    assert "flows" not in recipe
    for words in (
        ["epsilometer.pipeline.repro", "dvc.yaml"],
        ["dvc", "repro"],
        ["epsilometer.cli", "check", "--help"],
    ):
        done = subprocess.run([sys.executable, "-m", *words], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (small / "one.txt").read_text() == "hello\n"


# ---------------------------------------------------------------------------------------- the real server, in a browser

LONG = """
import os, sys, time
from epsilometer.runtime.progress import track
import epsilometer.runtime.progress
epsilometer.runtime.progress._SECONDS = 2
for number in track(range(int(sys.argv[1])), int(sys.argv[1]), "rewrite"):
    time.sleep(0.5)
    while os.path.exists(f"held-{number}"):
        time.sleep(0.05)
print("all texts rewritten")
open("long.txt", "w").write(sys.argv[1])
"""
STAGES: dict[str, Any] = {
    "long": {"cmd": "python long.py 20", "deps": ["long.py"], "outs": ["long.txt"]},
    "short": {"cmd": "cp short_source.txt short.txt", "deps": ["short_source.txt"], "outs": ["short.txt"]},
    "last": {
        "cmd": "python -c \"import sys; t = open('short.txt').read(); sys.exit('no x, please') if t == 'x' else"
        " open('last.txt', 'w').write(t)\"",
        "deps": ["long.txt", "short.txt"],
        "outs": ["last.txt"],
    },
}


@dataclass(frozen=True)
class Watched:
    """A project with its server up."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def make(self, *command: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        environment |= {"PYTHONPATH": str(self.folder), "DVC_NO_ANALYTICS": "1"}
        environment[PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS.name] = str(int(LAST_RESORT))
        command = (sys.executable, "-m", *command)
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def secret(self) -> str:
        return (self.folder / ".prefect/secret").read_text()

    @cached_property
    def client(self) -> httpx.Client:
        """One that knows the secret, and has a token against forged requests."""
        client = httpx.Client(base_url=f"{self.url}/api/", auth=tuple(self.secret.split(":")), timeout=LAST_RESORT)
        token = client.get("csrf-token", params={"client": "tests"}).raise_for_status().json()["token"]
        client.headers.update({"Prefect-Csrf-Token": token, "Prefect-Csrf-Client": "tests"})
        return client

    def ask(self, path: str, **body: Any) -> Any:
        def answered() -> httpx.Response | None:
            answer = self.client.post(path, json=body)
            return (
                None if answer.status_code == 503 else answer
            )  # its database is busy, and Prefect's client asks again

        answer = wait_for(f"the server's answer to {path}", answered)
        return answer.raise_for_status().json()

    def start(self, deployment: str, **parameters: Any) -> str:
        """Ask for a flow run by the worker; its id."""
        return str(self.ask(f"deployments/{self.deployment(deployment)}/create_flow_run", parameters=parameters)["id"])

    def deployment(self, name: str) -> str:
        return str(self.client.get(f"deployments/name/{name}").raise_for_status().json()["id"])

    def wait(self, run: str, *states: str) -> dict[str, Any]:
        wanted = states or ("COMPLETED", "FAILED", "CRASHED")

        def reached() -> dict[str, Any] | None:
            state: dict[str, Any] = self.client.get(f"flow_runs/{run}").json()
            return state if state["state_type"] in wanted else None

        return wait_for(f"{' or '.join(wanted)} of run {run}", reached)

    def artifacts(self, run: str) -> dict[str | None, dict[str, Any]]:
        return {a["key"]: a for a in self.ask("artifacts/filter", artifacts={"flow_run_id": {"any_": [run]}})}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    for name in ("epsilometer", "tasks", "flows"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "prefect.yaml", folder)
    (folder / "long.py").write_text(LONG)
    (folder / "short_source.txt").write_text("short")
    (folder / "reports/figures").mkdir(parents=True)
    square = "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='40'><rect width='40' height='40'/></svg>"
    (folder / "reports/figures/curves.svg").write_text(square)
    (folder / "data").mkdir()
    (folder / page.BODY).write_text("<title>The report</title>" + BODY.format("results"))
    _dvc_project(folder, STAGES)
    server = Watched(folder, _free_ports())
    try:
        assert server.make("epsilometer.pipeline.flows.ui", "start", "--port", str(server.port)).startswith(server.url)
        yield server
    finally:
        server.make("epsilometer.pipeline.flows.ui", "stop")


def _reads(browser: Any, url: str, *texts: str) -> str:
    """What the page says once it says all of these. It is drawn by scripts, and does not ask for late logs again."""
    looks = itertools.count()

    def whole() -> str:
        if next(looks) % 500 == 0:
            browser.get(url)
        with contextlib.suppress(Exception):  # an element that a script has just replaced
            body = str(browser.find_element("tag name", "body").text)
            return body if all(text in body for text in texts) else ""
        return ""

    return wait_for(f"{texts} at {url}", whole)


@pytest.mark.slow
def test_make_ui_brings_everything_up_once(watched: Watched) -> None:
    recorded = json.loads((watched.folder / ".prefect/ui.json").read_text())
    assert watched.make("epsilometer.pipeline.flows.ui", "start", "--port", str(watched.port)).startswith(watched.url)
    assert json.loads((watched.folder / ".prefect/ui.json").read_text()) == recorded, "the same processes"
    first, *steps = watched.make("epsilometer.pipeline.flows.ui", "start").splitlines()
    assert first == f"{watched.url}/deployments asks once for this project's secret. To see it: cat .prefect/secret"
    assert len(steps) >= 3
    assert httpx.get(watched.url, timeout=LAST_RESORT).headers["location"] == "/deployments"
    (trigger,) = watched.ask("automations/filter")
    assert trigger["trigger"]["expect"] == ["epsilometer.source.changed"]
    deployed = {deployment["name"]: deployment for deployment in watched.ask("deployments/filter")}
    assert deployed.keys() == {"audit", "reaudit", "calibrate"}
    (schedule,) = deployed["reaudit"]["schedules"]
    assert schedule["schedule"] == {"cron": "0 3 * * 1", "timezone": "UTC", "day_or": True}
    assert (watched.folder / ".prefect/prefect.db").is_file()
    for part in ("server", "pages"):
        listening = [c.laddr.ip for c in psutil.Process(recorded[part][0]).net_connections() if c.status == "LISTEN"]
        assert set(listening) == {"127.0.0.1"}
    assert (watched.folder / ".prefect").stat().st_mode & 0o777 == 0o700
    assert (watched.folder / ".prefect/secret").stat().st_mode & 0o777 == 0o600


ATTACK = {
    "name": "theirs",
    "trigger": {"type": "event", "posture": "Reactive", "expect": ["prefect.flow-run.Completed"], "threshold": 1},
    "actions": [
        {"type": "run-deployment", "source": "selected", "job_variables": {"command": "sh -c 'id > owned.txt'"}}
    ],
}

FORGED = """<title>waiting</title><script>
const body = JSON.stringify(%s);
const socket = new Promise(done => {
  const one = new WebSocket("ws://127.0.0.1:%d/api/events/in");
  one.onopen = () => done("open"); one.onerror = one.onclose = () => done("closed");
});
const forged = {method: "POST", mode: "no-cors", body, headers: {"content-type": "text/plain"}};
fetch("http://127.0.0.1:%d/api/automations/", forged)
  .finally(async () => { document.title = "sent, socket " + await socket; });
</script>"""


@pytest.mark.slow
def test_nobody_else_has_anything_run(watched: Watched, browser: Any, tmp_path: Path) -> None:
    """An automation may start a deployment with a command of its own; neither a request nor a page can make one."""
    attack = json.loads(json.dumps(ATTACK))
    attack["actions"][0]["deployment_id"] = watched.deployment("audit/audit")
    address, plain = f"{watched.url}/api/automations/", {"Content-Type": "text/plain"}
    assert httpx.post(address, content=json.dumps(attack), headers=plain, timeout=LAST_RESORT).status_code in (401, 403)
    assert httpx.post(f"{address}filter", json={}, timeout=LAST_RESORT).status_code in (401, 403)
    for header in ({"Origin": "http://evil.example"}, {"Host": f"evil.example:{watched.port}"}):
        for url in (f"{watched.url}/api/health", f"http://127.0.0.1:{watched.port + 1}/reports/audit.html"):
            assert httpx.get(url, timeout=LAST_RESORT).status_code in (200, 404), "there may be no report yet"
            forged = httpx.get(url, headers=header, timeout=LAST_RESORT)
            assert forged.status_code in (400, 403), f"{header} at {url}"
    curl = shutil.which("curl")
    if os.geteuid() == 0 and curl:  # another user of this machine, who may not read the secret
        asks = [curl, "-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", address]
        other = subprocess.run(asks, user=65534, cwd="/", capture_output=True, text=True)
        assert other.stdout in ("401", "403")

    (tmp_path / "page.html").write_text(FORGED % (json.dumps(attack), watched.port, watched.port))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.get(f"http://127.0.0.1:{server.server_address[1]}/page.html")
        wait_for("the page's attempts", lambda: browser.title.startswith("sent"))
        server.shutdown()
    assert browser.title == "sent, socket closed"
    assert ATTACK["name"] not in {each["name"] for each in watched.ask("automations/filter")}


@pytest.mark.slow
def test_a_run_in_the_browser(watched: Watched, browser: Any) -> None:
    browser.get(watched.url)  # asks each browser once for the secret
    fields = wait_for("the form for the secret", lambda: browser.find_elements("css selector", "input[type=password]"))
    fields[0].send_keys(watched.secret, "\n")
    _reads(browser, f"{watched.url}/deployments", "audit", "reaudit", "calibrate")
    held = [watched.folder / f"held-{number}" for number in (5, 10)]  # each releases one more line of progress
    for file in held:
        file.touch()
    run = watched.start("audit/audit")
    seen: set[tuple[Any, Any]] = set()

    def more() -> bool:
        before = len(seen)
        seen.update((a["description"], a["data"]) for a in watched.artifacts(run).values() if a["type"] == "progress")
        return len(seen) > before

    for file in held:
        wait_for("progress that is shown while the stage runs", more)
        file.unlink()
    assert watched.wait(run)["state_type"] == "COMPLETED"
    assert all(str(description).startswith("long: rewrite: ") for description, _ in seen)
    name = watched.wait(run)["name"]
    shown = _reads(browser, f"{watched.url}/runs/flow-run/{run}", name, "Completed", "3 Task runs", "Finished in state")
    for text in ("all texts rewritten", "rewrite: 1", "Reproduced(type=COMPLETED)"):
        assert text in shown

    by_key = watched.artifacts(run)
    assert {"figures", "report"} <= by_key.keys()
    _reads(browser, f"{watched.url}/artifacts", "figures", "report")
    _reads(browser, f"{watched.url}/artifacts/artifact/{by_key['figures']['id']}", "curves")
    assert browser.find_element("css selector", "img[src^='data:image/svg+xml']").get_property("naturalWidth") == 40
    _reads(browser, f"{watched.url}/artifacts/artifact/{by_key['report']['id']}", "audit.html")
    link = browser.find_element("css selector", "a[href$='/reports/audit.html']").get_attribute("href")
    page = _reads(browser, link, "results", "profile default")
    assert browser.title == "The report"
    assert "with uncommitted changes" not in page
    assert browser.find_element("link text", name).get_attribute("href") == f"{watched.url}/runs/flow-run/{run}"

    again = watched.start("audit/audit")
    watched.wait(again)
    cached = _reads(browser, f"{watched.url}/runs/flow-run/{again}", "reproduced: nothing, all was up to date")
    assert cached.count("Finished in state Cached") == len(STAGES)


@pytest.mark.slow
def test_no_job_variable_overrides_how_a_run_starts(watched: Watched) -> None:
    witness = watched.folder / "owned.txt"
    variables = {
        "command": f"sh -c 'id > {witness}'",
        "working_dir": "/",
        "env": {"PYTHONPATH": "/nowhere", "PATH": "/nowhere"},
        "env.PREFECT_HOME": "/nowhere",
    }
    path = f"deployments/{watched.deployment('audit/audit')}/create_flow_run"
    run = str(watched.ask(path, parameters={}, job_variables=variables)["id"])
    assert watched.wait(run)["state_type"] == "COMPLETED"
    assert not witness.exists()


@pytest.mark.slow
def test_a_changed_source_starts_the_re_audit(watched: Watched) -> None:
    """By the event that `epsilometer watch` sends, in the folder that it names, without fresh noise."""
    code = (
        "from epsilometer.pipeline.flows.trigger import start\nprint(start(['mine.py has changed (mechanism-mine)']))\n"
    )
    (watched.folder / "begin.py").write_text(code)
    assert "starts the deployment reaudit" in watched.make("begin")

    def begun() -> list[str]:
        runs = watched.ask("flow_runs/filter", deployments={"name": {"any_": ["reaudit"]}})
        return [run["id"] for run in runs if run["parameters"] == {"folder": ".", "fresh": False}]

    (run,) = wait_for("a run of the deployment", begun)
    ended = watched.wait(run)
    assert ended["state_type"] == "FAILED"
    assert "params.yaml" in ended["state"]["message"], "this project has stages alone"


@pytest.mark.slow
def test_a_failed_run_in_the_browser(watched: Watched, browser: Any) -> None:
    (watched.folder / "short_source.txt").write_text("x")
    run = watched.start("audit/audit")
    assert watched.wait(run)["state_type"] == "FAILED"
    shown = _reads(browser, f"{watched.url}/runs/flow-run/{run}", "Failed", "failed: last", "no x, please")
    assert "not run because of that: none" in shown
    assert not watched.artifacts(run), "what is shown as a result is one"
    (watched.folder / "short_source.txt").write_text("short")


@pytest.mark.slow
def test_the_worker_ends_when_the_server_is_killed(watched: Watched) -> None:
    """The next start brings both up, with another secret."""
    recorded, secret = json.loads((watched.folder / ".prefect/ui.json").read_text()), watched.secret
    server, worker = (psutil.Process(recorded[part][0]) for part in ("server", "worker"))
    for process in (server, worker):
        assert any(c.status == "LISTEN" and c.laddr.port == watched.port for c in process.net_connections())
    server.kill()
    worker.wait(LAST_RESORT)
    started = watched.make("epsilometer.pipeline.flows.ui", "start", "--port", str(watched.port))
    assert started.startswith(watched.url)
    assert watched.secret != secret
    address = f"{watched.url}/api/deployments/name/audit/audit"
    assert httpx.get(address, auth=tuple(secret.split(":")), timeout=LAST_RESORT).status_code == 401
    assert httpx.get(address, auth=tuple(watched.secret.split(":")), timeout=LAST_RESORT).status_code == 200
    del watched.__dict__["client"]
    assert watched.ask("deployments/filter")


@pytest.mark.slow
def test_make_ui_stop_leaves_nothing_running(watched: Watched) -> None:
    """Also not the stage of a run that is under way."""
    (watched.folder / "long.py").write_text(LONG + "# changed\n")
    run = watched.start("audit/audit")
    watched.wait(run, "RUNNING")
    recorded = json.loads((watched.folder / ".prefect/ui.json").read_text())

    def at_work() -> list[psutil.Process]:
        parts = [psutil.Process(recorded[part][0]) for part in epsilometer.pipeline.flows.ui.PARTS]
        family = [*parts, *(child for part in parts for child in part.children(recursive=True))]
        return family if any("long.py" in command(process) for process in family) else []

    family = wait_for("the stage of the run", at_work)
    assert "stopped" in watched.make("epsilometer.pipeline.flows.ui", "stop")
    assert not [process for process in family if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    for port in (watched.port, watched.port + 1):
        listening.held(port).close()
    assert "PREFECT_API_URL" not in (watched.folder / ".prefect/profiles.toml").read_text()
    assert "nothing was running" in watched.make("epsilometer.pipeline.flows.ui", "stop")


def _free_ports() -> int:
    """A port that is free, as is the next."""
    while True:
        with socket.socket() as first, socket.socket() as two, contextlib.suppress(OSError, OverflowError):
            first.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", first.getsockname()[1] + 1))
            return int(first.getsockname()[1])


def _dvc_project(folder: Path, stages: dict[str, Any]) -> None:
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}, sort_keys=False))
    (folder / ".gitignore").write_text("/data\n/.prefect\n__pycache__\n*.txt\n")
    make_project(folder)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")


def test_what_is_shown_and_what_is_not_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(epsilometer.pipeline.flows.ui, "start", lambda port, say: say(f"at {port}"))
    monkeypatch.setattr(sys, "argv", ["ui", "start"])
    epsilometer.pipeline.flows.ui.main()
    assert capsys.readouterr().out.splitlines() == [
        "at 4200",
        "ready: the pages show audits that run as flows, but not those of `make audit`",
    ]


def test_scheduled_re_audits_are_fresh() -> None:
    """As docs/how-to/reaudits.md says: without fresh noise only changes are measured."""
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    scheduled = [deployment for deployment in deployments if "schedules" in deployment]
    assert [deployment["name"] for deployment in scheduled] == ["reaudit"]
    assert all(deployment["parameters"]["fresh"] is True for deployment in scheduled)


def test_the_calibration_takes_the_options_of_the_command() -> None:
    """By the same definition, `calibrating.Search`, and refused before a run begins."""
    (deployed,) = (
        deployment
        for deployment in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
        if deployment["name"] == "calibrate"
    )
    parameters = calibrate.validate_parameters(deployed["parameters"])
    assert (parameters["target"], parameters["search"]) == (1.0, STANDARD_SEARCH)
    search = {"sees": "text", "match": "words", "low": 0.5, "high": 9, "width": 1.5, "budget": 300}
    assert calibrate.validate_parameters({"search": search})["search"] == Search(**search)
    shown = calibrate.parameters.model_dump()["definitions"]["Search"]["properties"]
    assert shown.keys() == {field.name for field in fields(Search)}
    with pytest.raises(ParameterTypeError, match=r"search: .*sees .*'all'"):
        calibrate.validate_parameters({"search": {"sees": "all"}})
