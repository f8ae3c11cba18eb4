"""`--endpoint` and `--probe-failures` on the command line, against a service on this machine."""

from __future__ import annotations

import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import epsilometer
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.corpora.synthetic import generate
from epsilometer.project.paths import inside
from epsilometer.studies.texts.cells import rewrites as read_cell
from epsilometer.studies.texts.stages import rewrite
from tests.support.commands import run
from tests.support.deployed import Deployed, deployed
from tests.support.page_project import write_project
from tests.support.places import ROOT
from tests.support.sparing import first

PAGE = (ROOT / "docs/deployed.md").read_text()
SECRET = "sk-planted-55e1"
ENDPOINT = ("--endpoint", "URL", "--model", "m")
QUICK = ("--attacks", "lexical", "--temperature", "0")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Deployed]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ANONYMISER_TOKEN", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    texts = dict.fromkeys(generate("queries", 200, 1)["text"])
    (tmp_path / "texts.txt").write_text("\n".join([*texts][:60]))
    (template,) = re.findall(r"^```yaml\n# anonymiser.yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "anonymiser.yaml").write_text(template)
    with deployed() as running:
        yield running


def arguments(server: Deployed, *words: str, command: str = "audit") -> list[str]:
    return [command, "texts.txt", "--endpoint", server.url, "--template", "anonymiser.yaml", *words]


@pytest.mark.slow
def test_a_killed_audit_asks_nothing_twice(server: Deployed, tmp_path: Path) -> None:
    """kill -9 half-way: what was under way may be asked again, eight requests at most; what was stored may not."""
    server.delay = 0.02
    words = arguments(server, "--private-texts", "--trials", "120", *QUICK)
    process = subprocess.Popen([sys.executable, "-m", "epsilometer.cli", *words], stderr=subprocess.DEVNULL)
    while sum(server.answered.values()) < 60:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.2)
    before = Counter(server.answered)
    server.delay = 0.0
    assert 60 <= sum(before.values()) < 120
    assert run(*words) == 0
    assert 120 <= sum(server.answered.values()) <= 120 + 8
    requests = len(server.texts)
    assert run(*words) == 0
    assert len(server.texts) == requests
    assert not (before - server.answered)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_it_and_the_next_run_goes_on(server: Deployed) -> None:
    server.delay = 0.05
    words = arguments(server, "--private-texts", "--trials", "60", *QUICK)
    process = subprocess.Popen([sys.executable, "-m", "epsilometer.cli", *words], stderr=subprocess.PIPE, text=True)
    while sum(server.answered.values()) < 20:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    server.delay = 0.0
    assert run(*words) == 0
    assert sum(server.answered.values()) <= 60 + 8


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_a_probe_with_130_and_reports_what_was_sent(server: Deployed) -> None:
    words = ["audit", "--endpoint", server.url, "--template", "anonymiser.yaml", "--probe-failures"]
    words += ["--confirm-host", "127.0.0.1", "--rate", "50"]
    command = [sys.executable, "-m", "epsilometer.cli", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while sum(server.answered.values()) < 20:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    shown, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    rows = {line.split()[0]: line.split() for line in shown.splitlines()}
    assert 20 <= int(rows["reply"][1]) < 500


def test_a_dry_run_of_an_audit_and_of_a_gate(server: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    dry = ("--private-texts", "--dry", "--prices", "1,2,.01")
    assert run(*arguments(server, *dry, "--trials", "50", *QUICK)) == 0
    assert re.match(r"nothing was sent: 50 requests \(0 of 50 answers .* cost 0.50 to 0.60;", capfd.readouterr().out)
    assert run(*arguments(server, *dry, "--max-loss", "1", "--budget", "3000", command="gate")) == 0
    assert "all rounds are at most 3,000 requests" in capfd.readouterr().out
    assert not server.texts


def test_a_gate_judges_a_service(server: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    words = ("--private-texts", "--max-loss", "1", "--attacks", "lexical", "--budget", "600")
    assert run(*arguments(server, *words, command="gate")) == 1
    assert "BEYOND THE LIMIT: 127.0.0.1" in capfd.readouterr().out
    server.rewrite = lambda text: "nothing"
    assert run(*arguments(server, *words, "--set", "revision=2", command="gate")) == 0
    assert "PASSED: 127.0.0.1" in capfd.readouterr().out


def test_identifiers_that_a_service_lets_pass(server: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    server.rewrite = lambda text: re.sub(r"\S+@\S+", "MAIL", text)
    assert run(*arguments(server, "--private-texts", "--identifiers", "name,e-mail address", "--trials", "30")) == 0
    rows = {line.split("  ")[0]: line.split() for line in capfd.readouterr().out.splitlines()}
    assert rows["name"][2:4] == ["30", "30"]
    assert rows["e-mail address"][3:5] == ["30", "0"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["texts.txt", *ENDPOINT], "must not reach an endpoint: say private_texts"),
        (["texts.txt", "--mechanism", "tem", "--dry"], "--dry is for --endpoint; give its URL"),
        (["texts.txt", "--endpoint", "URL", "--command", "cat"], "give one of --mechanism, --command, --endpoint and"),
        (["texts.txt", *ENDPOINT, "--prices", "1"], "--prices must be two or three numbers"),
        (["texts.txt", *ENDPOINT, "--set", "model=n"], "--set model says again what an option"),
        (["texts.txt", "--endpoint", "URL", "--template", "missing.yaml"], "the template 'missing.yaml' cannot"),
        (["texts.txt", *ENDPOINT, "--max-requests", "0"], "--endpoint.max_requests: Input"),
        ([*ENDPOINT, "--probe-failures"], "confirm that it may be tested by its name"),
        (["texts.txt", *ENDPOINT, "--probe-failures"], "leave out FILE and other sources"),
        (["--probe-failures"], "--probe-failures tries a service; give its URL"),
        (["texts.txt", "--mechanism", "tem", "--rate", "2"], "--rate and --sink are for --probe-failures"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused_before_anything_is_sent(
    server: Deployed, capfd: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert run("audit", *(server.url if word == "URL" else word for word in words)) == 2
    said = capfd.readouterr().err
    assert why in said
    assert said.count("\n") <= 2
    assert not server.texts


def test_a_service_that_is_down_is_named_soon(server: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    words = arguments(server, "--private-texts", "--trials", "20", *QUICK)
    words[3] = "http://127.0.0.1:9/anonymise"
    begun = time.monotonic()
    assert run(*words) == 2
    assert (
        "at 127.0.0.1 cannot be reached; check the endpoint's URL, and that the server runs" in capfd.readouterr().err
    )
    assert time.monotonic() - begun < 60


def test_the_python_of_the_page_runs(server: Deployed) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    scope: dict[str, Any] = {"texts": Path("texts.txt").read_text().splitlines(), "epsilometer": epsilometer}
    exec(code.replace("https://anonymiser.example", server.url), scope)
    assert scope["table"]["trials"].to_list() == [300]
    assert len(server.texts) == 300


def test_the_cell_of_the_page_is_rewritten_by_the_service(server: Deployed, tmp_path: Path) -> None:
    """Private texts are refused; public ones are sent, a request a trial, and a second run of the stage sends none."""
    folder = write_project(tmp_path / "project")
    (_, entry) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    raw = yaml.safe_load((folder / "params.yaml").read_text())
    for key, value in yaml.safe_load(entry.replace("https://anonymiser.example", server.url)).items():
        raw[key] |= value
    shutil.copy("anonymiser.yaml", folder)
    with inside(folder):
        for public in (False, True):
            raw["datasets"]["reviews"]["public"] = public
            Path("params.yaml").write_text(yaml.safe_dump(raw))
            if public:
                rewrite.main("reviews-endpoint")
                rewrite.main("reviews-endpoint")
            else:
                with pytest.raises(UserError, match="must not reach an endpoint"):
                    rewrite.main("reviews-endpoint")
                assert not server.texts
        trials = len(read_cell("reviews-endpoint", NO_BUDGET)[0].texts)
    assert len(server.texts) == trials > 0


def examples() -> list[tuple[str, str]]:
    """Each command of the page that shows what comes out, and that."""
    shown = re.findall(r"^```\n\$ (.*?[^\\])\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [(command.replace("\\\n", " "), output) for command, output in shown]


@pytest.mark.parametrize(("command", "output"), first(1, examples()), ids=lambda text: text[:40])
def test_what_the_page_shows_comes_out(
    server: Deployed, capfd: pytest.CaptureFixture[str], command: str, output: str
) -> None:
    """The audited service masks every second word; the probed one lets 3 % of streams pass and quotes 2 % in errors."""
    if "--probe-failures" in command:
        server.rewrite = lambda text: "a message came in"
        chance = {"stream": 0.03, "error": 0.02}
        server.faults = lambda text: {f for f, p in chance.items() if random.Random(f"{f} {text}").random() < p}
        command += " --rate 1000"
    program, *words = shlex.split(command)
    assert program == "epsilometer"
    here = [re.sub(r"^https://[a-z.]+", server.url, word).replace("gateway.example", "127.0.0.1") for word in words]
    assert run(*here) == int("BEYOND THE LIMIT" in output)
    assert capfd.readouterr().out == output.replace("anonymiser.example", "127.0.0.1")
