"""`--endpoint` and `probe` on the command line, against a service on this machine."""

from __future__ import annotations

import itertools
import json
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import epsilometer
from epsilometer.cells.reading import rewrites as read_cell
from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.corpora.synthetic import generate
from epsilometer.pipeline.stages import rewrite
from epsilometer.project.paths import inside
from tests.support.commands import run
from tests.support.deployed import Deployed, deployed, masked
from tests.support.page_project import write_project
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.sparing import first
from tests.support.waiting import LAST_RESORT, finished, wait_for

PAGE, PROBE = ((ROOT / f"docs/how-to/{name}.md").read_text() for name in ("deployed", "probe"))
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


def held_after(server: Deployed, answers: int) -> threading.Event:
    """Have the service answer this number of texts, and no more until the event."""
    released, rewrite, calls = threading.Event(), server.rewrite, itertools.count()

    def held(text: str) -> str:
        if next(calls) >= answers:
            released.wait(LAST_RESORT)
        return rewrite(text)

    server.rewrite = held
    return released


@pytest.mark.slow
def test_a_killed_audit_asks_nothing_twice(server: Deployed, tmp_path: Path) -> None:
    """kill -9 half-way: what was under way may be asked again, eight requests at most; what was stored may not."""
    released = held_after(server, 60)
    words = arguments(server, "--private-texts", "--trials", "120", *QUICK)
    process = subprocess.Popen([sys.executable, "-m", "epsilometer.cli", *words], stderr=subprocess.DEVNULL)
    wait_for("60 answers, and eight more requests", lambda: len(server.texts) == 68, runs=process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    released.set()
    wait_for("the end of the requests that were under way", lambda: sum(server.answered.values()) == 68)
    before = Counter(server.answered)
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
    released = held_after(server, 20)
    words = arguments(server, "--private-texts", "--trials", "60", *QUICK)
    process = subprocess.Popen([sys.executable, "-m", "epsilometer.cli", *words], stderr=subprocess.PIPE, text=True)
    wait_for("20 answers, and eight more requests", lambda: len(server.texts) == 28, runs=process)
    process.send_signal(signal.SIGINT)
    released.set()
    _, said = finished(process)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert run(*words) == 0
    assert sum(server.answered.values()) <= 60 + 8


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_a_probe_with_130_and_reports_what_was_sent(server: Deployed) -> None:
    words = ["audit", "--endpoint", server.url, "--template", "anonymiser.yaml", "--probe-failures"]
    words += ["--confirm-host", "127.0.0.1", "--rate", "50"]
    command = [sys.executable, "-m", "epsilometer.cli", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for("20 answers", lambda: sum(server.answered.values()) >= 20, runs=process)
    process.send_signal(signal.SIGINT)
    shown, said = finished(process)
    assert process.returncode == 130
    assert "Traceback" not in said
    rows = {line.split()[0]: line.split() for line in shown.splitlines()}
    assert 20 <= int(rows["reply"][1]) < 500


def test_a_dry_run_of_an_audit_and_of_a_gate(server: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    dry = ("--private-texts", "--dry", "--set", "prices=[1, 2, .01]")
    assert run(*arguments(server, *dry, "--trials", "50", *QUICK)) == 0
    assert re.match(r"nothing was sent: 50 requests \(0 of 50 answers .* cost 0.50 to 0.60;", capfd.readouterr().out)
    assert run(*arguments(server, *dry, "--limit", "which_text=1", "--budget", "3000", command="gate")) == 0
    assert forecast_of(capfd.readouterr().out)[1] == 3000 + 4 * 60, "the default attacks have query access"
    assert not server.texts


def forecast_of(said: str) -> list[int]:
    """The numbers of requests that a dry run says: of its first round, and of all rounds where there are several."""
    return [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) requests", said)]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--trials", "50", "--attacks", "lexical,shadow"), id="audit with query access"),
        pytest.param(("--trials", "20", "--attacks", "shadow", "--candidates", "all"), id="among all texts"),
        pytest.param(("--trials", "20", "--attacks", "lexical,shadow", "--units"), id="words"),
        pytest.param(("--trials", "40", "--attacks", "lexical,shadow", "--worst"), id="worst pair"),
        pytest.param(("--trials", "2", "--identifiers", "name"), id="identifiers"),
    ],
)
def test_a_dry_run_of_an_audit_says_how_many_requests_it_sends(
    server: Deployed, capfd: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    some = ("--private-texts", "--temperature", "0", *words)
    assert run(*arguments(server, *some, "--dry")) == 0
    said = forecast_of(capfd.readouterr().out)
    assert not server.texts
    assert run(*arguments(server, *some)) == 0
    assert len(server.texts) == said[-1]
    assert said[-1] > said[0] or len(said) == 1
    stored = len(server.texts)
    assert run(*arguments(server, *some, "--dry")) == 0
    if len(said) == 1:
        assert forecast_of(capfd.readouterr().out) == [0], "all answers are stored"
    assert len(server.texts) == stored


def test_a_dry_run_of_a_gate_counts_query_access(server: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    """60 texts, all of which may become candidates: four rewrites each beside the budget."""
    words = ("--private-texts", "--limit", "which_text=1", "--attacks", "lexical,shadow", "--budget", "600")
    assert run(*arguments(server, *words, "--dry", command="gate")) == 0
    first, most = forecast_of(capfd.readouterr().out)
    assert most == 600 + 4 * 60
    assert run(*arguments(server, *words, command="gate")) == 1
    assert first <= len(server.texts) <= most


def test_a_dry_run_of_what_is_accepted_counts_query_access(server: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    words = ("--private-texts", "--attacks", "lexical,shadow", "--budget", "100", "--baseline", "b.json", "--accept")
    assert run(*arguments(server, *words, "--dry", command="gate")) == 0
    said = forecast_of(capfd.readouterr().out)
    assert run(*arguments(server, *words, command="gate")) == 0
    assert said == [len(server.texts)]


def test_a_gate_judges_a_service(server: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    words = ("--private-texts", "--limit", "which_text=1", "--attacks", "lexical", "--budget", "600")
    assert run(*arguments(server, *words, command="gate")) == 1
    assert "BEYOND: 127.0.0.1" in capfd.readouterr().out
    server.rewrite = lambda text: "nothing"
    assert run(*arguments(server, *words, "--set", "revision=2", command="gate")) == 0
    assert "PASSED, not exceeded by these attacks: 127.0.0.1" in capfd.readouterr().out


def chat(server: Deployed, command: str, *words: str) -> list[str]:
    return [command, "texts.txt", "--endpoint", f"{server.url}/v1", "--model", "m", "--private-texts", *words]


GATE = ("--attacks", "lexical", "--budget", "400", "--report", "json=gate.json")


def test_a_gate_passes_nothing_while_answers_are_missing(
    server: Deployed, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Hidden texts pass; with one text in 60 withheld, truncated or empty they are open, with more an error."""
    server.rewrite = lambda text: "nothing"
    assert run(*chat(server, "gate", *GATE, "--limit", "which_text=3")) == 0
    assert "rewrites are equal" in capfd.readouterr().out
    passed = json.loads((tmp_path / "gate.json").read_text())
    counts = {"withheld": 0, "truncated": 0, "empty": 0, "missing": 0, "reasoning": 0, "apart": 0, "constant": True}
    assert passed["answers"] == counts | {"rewrites": passed["rewrites"]}

    bad = (tmp_path / "texts.txt").read_text().splitlines()[0]
    for revision, (kind, choice) in enumerate({
        "withheld": {"finish_reason": "content_filter", "message": {"content": None}},
        "truncated": {"finish_reason": "length"},
        "empty": {"message": {"content": " "}},
    }.items(), start=2):  # fmt: skip
        server.choice = lambda text, choice=choice: choice if bad in text else {}  # type: ignore[misc]
        words = (*GATE, "--limit", "which_text=3", "--set", f"revision={revision}")
        assert (
            run(
                *chat(
                    server,
                    "gate",
                    *words,
                    "--max-missing",
                    ".2",
                    "--report",
                    "junit=gate.xml",
                    "--report",
                    "html=g.html",
                )
            )
            == 3
        )
        said = capfd.readouterr().out
        decided = json.loads((tmp_path / "gate.json").read_text())
        assert (decided["passed"], decided["status"]) == (False, "open")
        assert 0 < decided["answers"]["missing"] == decided["answers"][kind] < 0.2 * decided["rewrites"]
        assert said.startswith("OPEN")
        assert f"{decided['answers'][kind]} {kind} of" in said
        assert f"{kind} of" in (tmp_path / "g.html").read_text()
        assert 'skipped="1"' in (tmp_path / "gate.xml").read_text()
        if kind == "withheld":  # one withheld text in 60 is more than the limit of 1 in 100
            assert run(*chat(server, "gate", *words, "--max-missing", ".001")) == 2
            assert json.loads((tmp_path / "gate.json").read_text())["status"] is None
            assert bad not in capfd.readouterr().err


def test_a_gate_ends_soon_where_every_answer_is_withheld(server: Deployed) -> None:
    server.choice = lambda text: {"message": {"content": None, "refusal": "I cannot help with that"}}
    assert run(*chat(server, "gate", "--limit", "which_text=1", "--attacks", "lexical")) == 2
    assert len(server.texts) <= 600  # of a budget of 20,000


def test_a_leak_stands_whatever_is_missing(server: Deployed) -> None:
    server.rewrite = lambda text: text
    server.choice = lambda text: {"finish_reason": "length"} if len(text) % 5 == 0 else {}
    assert run(*chat(server, "gate", *GATE, "--limit", "which_text=1")) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_an_audit_counts_answers_that_are_none_and_keeps_the_counts(
    server: Deployed, capfd: pytest.CaptureFixture[str], stream: bool
) -> None:
    ends = ["content_filter", "length", "stop", "stop"]
    server.choice = lambda text: {"finish_reason": ends[len(text) % 4]}
    server.rewrite = lambda text: "" if len(text) % 4 == 2 else masked(text)
    words = (*QUICK, "--trials", "60", "--json", *(["--set", "stream=true"] if stream else []))
    tables = []
    for _ in range(2):
        assert run(*chat(server, "audit", *words)) == 0
        shown = capfd.readouterr()
        tables.append(json.loads(shown.out))
        assert "warning: " in shown.err
    (row,), again = tables
    lengths = Counter(len(text) % 4 for text in server.texts)
    assert (row["withheld"], row["truncated"], row["empty"]) == (lengths[0], lengths[1], lengths[2])
    assert again == [row]
    assert len(server.texts) == 60


def test_reasoning_is_named_and_separated_on_request(server: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    server.rewrite = lambda text: f"<think>the user says {text}</think>a message"
    words = chat(server, "audit", *QUICK, "--trials", "60", "--json")
    assert run(*words) == 0
    (counted,) = json.loads(capfd.readouterr().out)
    assert run(*words, "--set", "separate_reasoning=true") == 0
    shown = capfd.readouterr()
    (separated,) = json.loads(shown.out)
    assert (counted["reasoning"], counted["apart"], counted["constant"]) == (60, 0, False)
    assert (separated["reasoning"], separated["apart"], separated["constant"]) == (0, 60, True)
    assert counted["loss"] > separated["loss"] == 0
    assert len(server.texts) == 60  # the same answers
    server.rewrite = lambda text: "a message"
    server.choice = lambda text: {"message": {"reasoning_content": "the user says"}}
    assert run(*words, "--set", "revision=2") == 0
    (beside,) = json.loads(capfd.readouterr().out)
    assert (beside["reasoning"], beside["apart"]) == (0, 60)


def test_a_template_may_say_why_an_answer_ended(server: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    with Path("anonymiser.yaml").open("a") as template:
        template.write("finish: why\n")
    server.choice = lambda text: {"finish_reason": "max_tokens" if len(text) % 2 else "stop"}
    assert run(*arguments(server, "--private-texts", *QUICK, "--trials", "60", "--json")) == 0
    (row,) = json.loads(capfd.readouterr().out)
    assert row["truncated"] == sum(len(text) % 2 for text in server.texts) > 0


def test_identifiers_that_a_service_lets_pass(server: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    server.rewrite = lambda text: re.sub(r"\S+@\S+", "MAIL", text)
    kinds = ("--identifiers", "name,e-mail address", "--trials", "5", "--json")
    assert run(*arguments(server, "--private-texts", *kinds)) == 0
    rows = json.loads(capfd.readouterr().out)
    survived = {kind: {row["survived"] for row in rows if row["kind"] == kind} for kind in ("name", "e-mail address")}
    assert survived == {"name": {5}, "e-mail address": {0}}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["texts.txt", *ENDPOINT], "must not reach an endpoint; set private_texts"),
        (["texts.txt", "--mechanism", "tem", "--dry"], "--dry is for --endpoint; give its URL"),
        (["texts.txt", "--endpoint", "URL", "--command", "cat"], "give one of --mechanism, --command, --endpoint and"),
        (["texts.txt", *ENDPOINT, "--set", "prices=[1]"], "--endpoint.prices"),
        (["texts.txt", *ENDPOINT, "--set", "model=n"], "--set model repeats another option"),
        (["texts.txt", "--endpoint", "URL", "--template", "missing.yaml"], "the template 'missing.yaml' cannot"),
        (["texts.txt", *ENDPOINT, "--max-requests", "0"], "--endpoint.max_requests: Input"),
        ([*ENDPOINT, "--probe-failures"], "confirm its name to allow the test"),
        (["--probe-failures"], "probe tests a service; give its URL"),
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


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["texts.txt", *ENDPOINT, "--probe-failures"], "Got unexpected extra argument"),
        (["texts.txt", "--mechanism", "tem", "--rate", "2"], "No such option: --rate"),
    ],
)
def test_a_probe_has_options_of_its_own(
    server: Deployed, capfd: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert run("audit", *(server.url if word == "URL" else word for word in words)) == 2
    assert why in capfd.readouterr().err
    assert not server.texts


def test_a_service_that_is_down_is_named_soon(server: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    words = arguments(server, "--private-texts", "--trials", "20", *QUICK)
    words[3] = "http://127.0.0.1:9/anonymise"
    assert run(*words) == 2
    assert (
        "at 127.0.0.1 cannot be reached; check the endpoint's URL, and that the server runs" in capfd.readouterr().err
    )


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
                with refused("EPS-M004"):
                    rewrite.main("reviews-endpoint")
                assert not server.texts
        trials = len(read_cell("reviews-endpoint", NO_BUDGET)[0].texts)
    assert len(server.texts) == trials > 0


def examples() -> list[tuple[str, str]]:
    """Each command of the pages that shows what comes out, and that."""
    shown = re.findall(r"^```\n\$ (.*?[^\\])\n(.*?)^```", PAGE + PROBE, re.MULTILINE | re.DOTALL)
    return [(command.replace("\\\n", " "), output) for command, output in shown]


@pytest.mark.parametrize(("command", "output"), first(1, examples()), ids=lambda text: text[:40])
def test_what_the_page_shows_comes_out(
    server: Deployed, capfd: pytest.CaptureFixture[str], command: str, output: str
) -> None:
    """The audited service masks every second word; the probed one lets 3 % of streams pass and quotes 2 % in errors."""
    if "epsilometer probe" in command:
        server.rewrite = lambda text: "a message came in"
        chance = {"stream": 0.03, "error": 0.02}
        server.faults = lambda text: {f for f, p in chance.items() if random.Random(f"{f} {text}").random() < p}
        command += " --rate 1000"
    program, *words = shlex.split(command)
    assert program == "epsilometer"
    here = [re.sub(r"^https://[a-z.]+", server.url, word).replace("gateway.example", "127.0.0.1") for word in words]
    assert run(*here) == int("BEYOND" in output)
    assert capfd.readouterr().out == output.replace("anonymiser.example", "127.0.0.1")
