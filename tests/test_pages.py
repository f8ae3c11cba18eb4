"""The code on the pages runs, and the statements about the examples are true."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest
import typer
import yaml

import epsilometer
from epsilometer.auditing import text_audit as api
from epsilometer.auditing.claims.verdicts import NOT_CHECKED, NOT_REFUTED, VIOLATED, p_value
from epsilometer.auditing.claims.worst_case import check_claim
from epsilometer.auditing.estimation.successes import success_bound
from epsilometer.auditing.trials.design import Design
from epsilometer.cli import main
from epsilometer.core.randomness import Noise
from epsilometer.corpora.synthetic import generate
from epsilometer.pipeline import params
from tests.support.commands import app, leaves
from tests.support.page_project import write_project
from tests.support.places import ROOT
from tests.support.processes import OUTSIDE
from tests.support.refusals import refused
from tests.support.sparing import first
from tests.support.waiting import LAST_RESORT

DOCS = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "decisions"]
PAGES = {page.stem: page.read_text() for page in [ROOT / "README.md", *DOCS]}
GUIDE, ATTACK, TEXTS = (PAGES[f"your-own-{what}"] for what in ("mechanism", "attack", "texts"))
LAW = PAGES["stated-law"]
CODE = re.compile("`(epsilometer [^`]+)`")
LONGEST = 70_000  # maximum number of words of all pages in git, without CHANGELOG
ELSEWHERE = {"results"}  # reports runs, also at earlier commits


def blocks(text: str, *languages: str) -> list[str]:
    """The blocks of a page in these languages, without the indent of a list that they stand in."""
    pattern = rf"^( *)```(?:{'|'.join(languages)})\n(.*?)^ *```"
    shown = re.findall(pattern, text, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in shown]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples that are files, under the names that they give themselves."""
    place = tmp_path_factory.mktemp("examples")
    for text, name in ((GUIDE, "mine.py"), (GUIDE, "near.py"), (LAW, "response.py"), (ATTACK, "outline.py")):
        (code,) = [block for block in blocks(text, "python") if block.startswith(f"# {name}\n")]
        (place / name).write_text(code)
    return place


def commands(text: str) -> list[str]:
    """What a page has one type, in shell blocks, after a `$` and in tables of commands, without comments."""
    lines = "\n".join(blocks(text, "sh")).splitlines()
    lines += re.findall(r"^\$ (.*)$", text, re.MULTILINE)
    lines += [
        call for table in re.findall(r"^\| command \|(?:.*\n\|)*.*", text, re.MULTILINE) for call in CODE.findall(table)
    ]
    return [part.strip() for line in lines for part in re.split(r";|&&", re.sub(r"(^|\s)#.*", "", line))]


def calls(*pages: str) -> list[str]:
    """Every call of epsilometer on these pages; on all without names."""
    chosen = pages or [name for name in PAGES if name not in ELSEWHERE]
    all_of_them = [call for name in chosen for call in commands(PAGES[name])]
    return list(dict.fromkeys(call for call in all_of_them if call.startswith("epsilometer ")))


def words(text: str) -> int:
    return len(text.split())


def test_a_page_is_short_and_says_for_whom() -> None:
    """At most 1,500 words, and a first sentence that begins with For; in all 70,000 words without CHANGELOG."""
    pages = [*DOCS, ROOT / "docs/decisions/index.md"]
    assert not {page.name: count for page in pages if (count := words(page.read_text())) > 1500}
    assert not [page.name for page in pages if not page.read_text().split("\n\n")[1].startswith("For ")]
    tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    named = [ROOT / name for name in tracked.stdout.split() if name != "CHANGELOG.md"]
    if not named:
        pytest.skip("needs the git repository")
    assert sum(words(page.read_text()) for page in named if page.is_file()) <= LONGEST


def test_decisions_are_numbered_short_and_in_the_index() -> None:
    folder = ROOT / "docs/decisions"
    listed = re.findall(r"^\| (\d+) \| \[(.*)\]\((.*)\) \|$", (folder / "index.md").read_text(), re.MULTILINE)
    assert [int(number) for number, _, _ in listed] == list(range(1, len(listed) + 1))
    assert {file for _, _, file in listed} == {file.name for file in folder.glob("*.md")} - {"index.md"}
    parts = r"\n\n".join(rf"\*\*{part}\.\*\* .+" for part in ("Context", "Decision", "Consequence"))
    for number, title, file in listed:
        text = (folder / file).read_text()
        assert re.fullmatch(rf"# {number}\. {re.escape(title)}\n\n{parts}", text, re.DOTALL)
        assert len(text.split()) <= 160


def queries(count: int = 400) -> list[str]:
    return list(dict.fromkeys(generate("queries", count, 1)["text"]))


@pytest.mark.parametrize("call", calls())
def test_every_command_has_the_options_that_it_is_shown_with(call: str) -> None:
    _, name, *arguments = shlex.split(call)
    command: Any = leaves().get(name)
    if command is None:
        name = f"{name} {arguments.pop(0)}"
        command = leaves()[name]
    with suppress(typer.Exit):  # `--schema` exits
        command.make_context(name, arguments)


def test_every_command_is_in_the_table() -> None:
    shown = [call.split()[1:3] for call in calls("commands")]
    assert {" ".join(words) if " ".join(words) in leaves() else words[0] for words in shown} == set(leaves())


def test_every_target_and_module_that_is_called_exists() -> None:
    """Also those that pages name in passing."""
    targets = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets = {name for names in targets for name in names.split()}
    lines = [line for name in PAGES for line in commands(PAGES[name]) + re.findall("`(make [^`]+)`", PAGES[name])]
    assert {line.split()[1] for line in lines if re.match("make [a-z]", line)} <= targets
    modules = set(re.findall(r"python -m ([\w.]+)", "".join(PAGES.values())))
    assert "flows.alert" in modules
    assert not [name for name in modules if importlib.util.find_spec(name) is None]


def test_the_reference_has_all_that_is_public() -> None:
    named = re.findall(r"^::: ([\w.]+)$", PAGES["python"], re.MULTILINE)
    assert {name.rpartition(".")[2] for name in named} >= set(epsilometer.__all__)
    for name in named:
        module, _, member = name.rpartition(".")
        defined = getattr(importlib.import_module(module), member)
        if module != "epsilometer.pytest_plugin":
            assert inspect.unwrap(getattr(epsilometer, member)) is defined


def write_or_run(code: str, folder: Path, scope: dict[str, Any]) -> None:
    """Write a block that begins with the name of a file to it; execute any other."""
    if name := re.match(r"# (\w+\.py)\n", code):
        (folder / name[1]).write_text(code)
    else:
        exec(compile(code, "page", "exec"), scope)


OTHERWISE = {
    "adapters",  # tests/test_adapters.py, with what it prints
    "tutorial",  # below
    "deployed",  # tests/cli/test_deployed.py
    "your-own-study",  # tests/pipeline/test_own_study.py
    "truth-bench",  # tests/studies/bench/test_bench.py runs its example
    "published-grid",  # tests/mechanisms/latents/test_published_checkpoints.py converts a small checkpoint
}


@pytest.mark.parametrize("page", [name for name in PAGES if blocks(PAGES[name], "python") and name not in OTHERWISE])
def test_the_python_on_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On 60 requests, with 100 trials and no model; the files that pages show are tested one by one below."""
    quick = partial(epsilometer.audit, trials=100, attacks=["lexical"], design=Design(temperature=0))
    monkeypatch.setattr(epsilometer, "audit", quick, raising=False)
    rng = np.random.default_rng(1)
    scores = {"included": rng.normal(1, 1, 300), "excluded": rng.normal(0, 1, 300)}
    scope: dict[str, Any] = {"texts": queries(60), "rewrite": str.upper, **scores}
    for code in blocks(PAGES[page], "python"):
        write_or_run(code, tmp_path, scope)
    for file in tmp_path.glob("*.py"):
        compile(file.read_text(), file.name, "exec")


@pytest.mark.slow
def test_the_tutorial_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers to .05 or a fiftieth: on another processor a distance may differ in its last bit, and so a draw."""
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    codes = []
    with pl.Config(), redirect_stdout(StringIO()) as out:
        for language, code in re.findall(r"^```(\w+)\n(.*?)^```", PAGES["tutorial"], re.MULTILINE | re.DOTALL):
            if language == "text":
                assert_alike(out.getvalue(), code)
                out.seek(0)
                out.truncate()
            elif language == "python":
                write_or_run(code, tmp_path, scope)
            else:
                for line in code.splitlines():
                    if line.startswith("epsilometer "):
                        with pytest.raises(SystemExit) as ended:
                            main(shlex.split(line)[1:])
                        codes.append(ended.value.code)
        assert not out.getvalue()
    assert codes == [0, 0, 1]


def assert_alike(printed: str, shown: str) -> None:
    """The same words, and about the same numbers."""
    number = r"\d[\d,]*(?:\.\d+)?"
    assert re.sub(number, "0", printed) == re.sub(number, "0", shown)
    for a, b in zip(re.findall(number, printed), re.findall(number, shown), strict=True):
        assert float(a.replace(",", "")) == pytest.approx(float(b.replace(",", "")), abs=0.05, rel=0.02)


def script(name: str) -> ModuleType:
    """A script of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_notebook_has_the_code_of_the_tutorial() -> None:
    book = json.loads(script("notebook").notebook(PAGES["tutorial"]))
    code = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    assert len(code) == len(blocks(PAGES["tutorial"], "python", "sh"))
    assert not any(cell["outputs"] for cell in book["cells"] if cell["cell_type"] == "code")


def test_the_page_of_settings_has_every_section() -> None:
    page = script("settings").page()
    schema = params.Params.model_json_schema()
    assert not [key for key in schema["properties"] if f"| `{key}` |" not in page]


def test_every_setting_is_described() -> None:
    """Where its row would be empty, or say no more than its name."""
    schema = params.params_type().model_json_schema()
    sections = {"Params": schema, **schema["$defs"]}
    rows = {(name, key): row for name, part in sections.items() for key, row in part.get("properties", {}).items()}
    described = {
        place: row.get("description") or sections[row["$ref"].rpartition("/")[2]].get("description")
        for place, row in rows.items()
    }
    assert len(described) > 200
    assert not [place for place, words in described.items() if not words or words.strip(".").lower() == place[1]]


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a kernel of its own, the first cell included, which installs nothing where epsilometer is."""
    nbclient = pytest.importorskip("nbclient", reason="needs the extra docs")
    nbformat = pytest.importorskip("nbformat", reason="needs the extra docs")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    book = nbformat.reads(script("notebook").notebook(PAGES["tutorial"]), as_version=4)
    nbformat.validate(book)
    nbclient.NotebookClient(book, timeout=int(LAST_RESORT), resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(out.get("text", "") for cell in book.cells if cell.cell_type == "code" for out in cell.outputs)
    assert "PASSED, not exceeded by these attacks: mine.py" in printed
    assert "BEYOND: mine.py" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("added", "status"),
    [
        ("", 0),
        ("[a page](nowhere.md)", 1),
        ("[a heading](limits.md#nowhere)", 1),
        ("::: epsilometer.nowhere", 1),
    ],
)
def test_the_site_is_built_and_broken_links_fail(tmp_path: Path, added: str, status: int) -> None:
    """Without a network: all that a page loads lies beside it."""
    pytest.importorskip("zensical", reason="needs the extra docs")
    for folder in ("docs", "results", "claims"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "CITATION.cff", "mkdocs.yml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "epsilometer").symlink_to(ROOT / "epsilometer")
    with (tmp_path / "docs/concepts/limits.md").open("a") as page:
        page.write(f"\n{added}\n")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "docs/build.py"], cwd=tmp_path, env=environment, check=False)
    assert bool(done.returncode) == bool(status)
    if not status:
        pages = list((tmp_path / ".site/html").rglob("*.html"))
        assert len(pages) > 40
        loaded = [
            at for page in pages for at in re.findall(r'(?:src|link [^>]*href)="(https?:[^"]*)', page.read_text())
        ]
        assert not loaded


def test_the_data_set_of_a_project_can_be_pasted(tmp_path: Path) -> None:
    (entry,) = blocks(PAGES["data-sets"], "yaml")
    text = (ROOT / "profiles/generated.yaml").read_text().replace("\ndatasets:\n", f"\n{entry}", 1)
    (tmp_path / "params.yaml").write_text(text)
    read = params.read(tmp_path / "params.yaml").datasets["mail"]
    assert (read.source, read.text, read.public) == ("mail.csv", "body", False)


def test_the_workflow_of_the_gate_gives_inputs_that_the_action_has() -> None:
    ((step,),) = [yaml.safe_load(block) for block in blocks(PAGES["gate-workflow"], "yaml")]
    assert set(step["with"]) <= set(yaml.safe_load((ROOT / "action.yml").read_text())["inputs"])


SERVED = {"deployed", "probe"}  # tests/cli/test_deployed.py has a service for them
PASTED = {"leaderboard": "profiles/leaderboard.yaml", "one-run": "profiles/training.yaml", "questions": "params.yaml",
          "scale": "params.yaml", "security": "params.yaml",
          "training-parameters": "profiles/training.yaml"}  # fmt: skip
OF_THEIR_OWN = {"gate-workflow", "your-own-mechanism", "data-sets", "deployed"}  # tests, above and below


def test_every_page_with_settings_has_a_test() -> None:
    assert {name for name in PAGES if blocks(PAGES[name], "yaml")} == {*PASTED, *OF_THEIR_OWN}


@pytest.mark.parametrize(("page", "file"), PASTED.items())
def test_the_settings_on_a_page_can_be_pasted(page: str, file: str, tmp_path: Path) -> None:
    """Entries into sections of this file, which are valid beside what is there."""
    raw = yaml.safe_load((ROOT / file).read_text())
    for block in blocks(PAGES[page], "yaml"):
        for key, value in yaml.safe_load(block).items():
            raw[key] = {**raw[key], **value} if isinstance(value, dict) and raw.get(key) else value
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(raw))
    read = params.read(tmp_path / "params.yaml").model_dump(mode="json")
    for block in blocks(PAGES[page], "yaml"):
        assert_read(yaml.safe_load(block), read)


def assert_read(shown: Any, read: Any) -> None:
    """Each value of a page is what was read, beside defaults; a kind's name alone stands for the kind with its own."""
    if isinstance(shown, dict):
        assert shown.keys() <= read.keys()
        for key, value in shown.items():
            assert_read(value, read[key])
    else:
        assert (read["kind"] if isinstance(read, dict) else read) == shown


def test_mechanisms_and_attacks_are_named_as_shown() -> None:
    (call,) = re.findall(r"`(epsilometer\.audit\(texts, \"tem\", .*?\))`", TEXTS)
    (attacks,) = re.findall(r"`attacks=(\{.*?\})`", TEXTS)
    options = f", attacks={attacks}, design=epsilometer.Design(temperature=0))"
    table = eval(
        call.replace("trials=500", "trials=50")[:-1] + options, {"texts": queries(60), "epsilometer": epsilometer}
    )
    assert table.select("epsilon", "attack").rows() == [(5, "lexical"), (8, "lexical")]


def test_the_exact_loss_is_computed_as_shown() -> None:
    (call,) = re.findall(r"`(epsilometer\.exact_loss\(.*?\))`", TEXTS)
    table = eval(
        f"{call[:-1]}, design=epsilometer.Design(temperature=0))", {"texts": queries(6), "epsilometer": epsilometer}
    )
    assert table["epsilon"].unique().to_list() == [5, 8]
    assert (table["average"] > 0).all()


AUDITS = [
    call for call in calls("README", "your-own-texts") if re.match(r"epsilometer (audit|ask \w+) (?!reviews)", call)
]
REWRITES = [call for call in calls("commands") if call.startswith("epsilometer rewrite")]


@pytest.mark.parametrize("call", [*first(1, AUDITS), *first(1, REWRITES)])
def test_files_of_texts_are_audited_and_rewritten_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], call: str
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [f"the {a} was {b}" for a in ("room", "food", "staff") for b in ("clean", "cold", "kind")]
    Path("texts.txt").write_text("\n".join(texts))
    pl.DataFrame({"id": range(9), "review": texts}).write_csv("texts.csv")
    recorded = pl.DataFrame({"original": texts * 9, "epsilon": 1, "rewrite": texts * 9})
    recorded.write_csv("made-elsewhere.csv")
    Path("anonymise").write_text("#!/bin/sh\nexec cat\n")
    Path("anonymise").chmod(0o755)
    audits = not call.startswith("epsilometer rewrite")
    quick = ["--trials", "20", "--temperature", "0"] if audits else []
    assert not app([*shlex.split(call)[1:], *quick])
    out, err = capsys.readouterr()
    if "ask identifiers" in call:
        assert "phone number" in out
    elif audits:
        assert (" one word " if "ask worst_pair" in call else "strongest: ") in out
        assert "note: skipped (needs a language model): channel, judge" in err
    elif "--out" in call:
        private = pl.read_csv("private.csv")
        assert private["id"].to_list() == list(range(9))
        assert private["review"].to_list() != texts
    else:
        assert len(out.splitlines()) == len(texts)


def test_the_audit_of_the_mechanism_refutes_its_claim_at_both_budgets(folder: Path) -> None:
    """As in the default audit, T = 1,000 and k = 2, at a level of alpha over 1,000 tests."""
    (entry,) = [block for block in blocks(GUIDE, "yaml") if "mine:" in block]
    mechanism = api.mechanism(str(folder / "mine.py"))
    epsilons = yaml.safe_load(entry)["mechanisms"]["mine"]["epsilons"]
    table = epsilometer.audit(queries(), mechanism, epsilons, ["lexical"], trials=1000)
    for epsilon, successes in table.select("epsilon", "successes").iter_rows():
        allowed = 1000 * success_bound(epsilon, 2)
        assert p_value(successes, 1000, allowed) <= 0.01 / 1000
    for epsilon in epsilons:
        assert check_claim(mechanism, epsilon).verdict == NOT_CHECKED


def test_the_entry_of_the_mechanism_can_be_pasted(tmp_path: Path) -> None:
    (entry,) = [block for block in blocks(GUIDE, "yaml") if "mine:" in block]
    mechanisms, cells = re.fullmatch(r"mechanisms:\n(.*)cells:\n(.*)", entry, re.DOTALL).groups()
    text = (ROOT / "profiles/generated.yaml").read_text()
    text = text.replace("\nmechanisms:\n", f"\nmechanisms:\n{mechanisms}").replace("\ncells:\n", f"\ncells:\n{cells}")
    (tmp_path / "params.yaml").write_text(text)
    cell = params.read(tmp_path / "params.yaml").cells["queries-mine"]
    assert (cell.file, cell.epsilons) == ("mine.py", (1, 2))


def test_the_worst_case_of_the_released_custext_is_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = [block for block in blocks(PAGES["epsilons"], "console") if "epsilometer claims" in block]
    assert output(shown, capsys) == (shown.partition("\n")[2], 1)


def test_the_template_holds_its_claim_and_a_forgotten_sensitivity_is_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (shown,) = blocks(LAW, "console")
    assert output(shown, capsys) == (shown.partition("\n")[2], 0)
    code = Path("response.py").read_text()
    for name, old, new, verdict, status in (
        ("double.py", "for epsilon in epsilons:", "for epsilon in 2 * np.array(epsilons):", VIOLATED, 1),
        ("silent.py", "def distance(", "def unnamed(", NOT_CHECKED, 3),
    ):
        assert code.count(old) == 1
        Path(name).write_text(code.replace(old, new))
        printed, ended = output(f"$ epsilometer claims {name} --epsilon 2 --json\n", capsys)
        assert (json.loads(printed)["verdict"], ended) == (verdict, status)
    assert "distance(texts, pairs, epsilon)" in json.loads(printed)["reason"]


def test_the_template_is_audited_by_the_optimal_adversary(folder: Path) -> None:
    mechanism = api.mechanism(str(folder / "response.py"))
    ends = ("london", "paris", "monday", "me", "book")
    texts = [f"show me a flight from {a} to {b}" for a in ends for b in ends]
    table = epsilometer.audit(texts, mechanism, [2.0], ["likelihood"], trials=2000, design=Design(temperature=0))
    assert 0.5 < table["loss"].item() <= 4  # at most two words differ, with epsilon 2 each
    # Its law describes the release, which must be declared; otherwise the attack counts as one on internal latents.
    assert table.select("sees", "released").row(0) == ("units", True)
    silent = folder / "inside.py"
    code, _, rest = (folder / "response.py").read_text().partition("    releases = ")
    silent.write_text(code + rest.partition("\n")[2])
    inside = epsilometer.audit(
        texts, api.mechanism(str(silent)), [2.0], ["likelihood"], trials=50, design=Design(temperature=0)
    )
    assert not inside["released"].item()


def test_the_template_over_word_vectors_holds_its_claim_and_a_forgotten_half_is_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    code = Path("near.py").read_text()
    assert code.count(" / 2") == 1
    Path("far.py").write_text(code.replace(" / 2", ""))
    for name, verdict, status in (("near.py", NOT_REFUTED, 0), ("far.py", VIOLATED, 1)):
        printed, ended = output(f"$ epsilometer claims {name} --vocabulary 200 --json\n", capsys)
        assert (json.loads(printed)["verdict"], ended) == (verdict, status)
    assert output("$ epsilometer check mechanism near.py\n", capsys)[1] == 0
    mechanism = epsilometer.subject(queries()[:60], "near.py", 8.0).mechanism
    assert isinstance(mechanism, epsilometer.KernelMechanism)
    assert mechanism.rewrite(["book a flight"], 1e6, Noise.named(1, 0)).texts == ["book a flight"]


def output(shown: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, int]:
    """What the command after the `$` prints, and how it ends."""
    arguments = shlex.split(shown.partition("\n")[0].removeprefix("$ "))[1:]
    status = app(arguments)
    return capsys.readouterr().out, status or 0


def test_the_example_of_an_attack_sees_what_ours_miss(folder: Path) -> None:
    """Of texts of three masked words: by chance it would be right 450 times of 500 with probability below 1e-75."""
    texts = [" ".join(text.split()[:3]) for text in queries(2000) if len(text.split()) > 2]

    def mask(text: str, epsilon: float, rng: object) -> str:
        return re.sub(r"\S", "*", text)

    table = epsilometer.audit(texts, mask, [1.0], [str(folder / "outline.py"), "lexical"], trials=500)
    right = dict(table.select("attack", "success_rate").iter_rows())
    own = next(rate for name, rate in right.items() if name.endswith("outline.py"))
    assert own >= 0.9
    assert right["lexical"] < 0.6
    assert table.filter(attack="strongest")["best_attack"].item().endswith("outline.py")
    with refused("EPS-C022"):
        epsilometer.audit(texts, mask, [1.0], {str(folder / "outline.py"): {"pwoer": 2.0}}, trials=10)


def test_the_command_of_the_attack_has_the_options_that_it_is_shown_with() -> None:
    (call,) = blocks(ATTACK, "sh")
    test_every_command_has_the_options_that_it_is_shown_with(call.strip())


NOT_RUN = {  # by the beginning of a command: where else it is run, or why it cannot be run
    "EPSILOMETER_WEBHOOK": "changes a Prefect server; tests/reaudit/test_reaudit.py has one",
    "HF_HUB_OFFLINE=1 make audit PROFILE=paper": "days of a large GPU",
    "epsilometer audit texts.txt --mechanism privrewrite --epsilons 20 --set endpoint": "needs an endpoint; "
    "tests/mechanisms/selection/test_privrewrite.py has a server",
    "epsilometer ask identifiers data/prepared": "needs a package's texts; tests/benchmarks/test_maskers.py has others",
    "epsilometer ask authorship data/prepared": "as the last",
    "epsilometer ask linking data/prepared": "as the last",
    "epsilometer ask linking reviews.csv --mechanism": "needs authors; tests/cli/test_ask.py has some",
    "epsilometer ask linking reviews.csv --rewrites": "likewise; tests/auditing/linking has some",
    "epsilometer check estimators": "minutes; tests/studies/bench/test_bench.py has some mechanisms",
    "epsilometer claims": "above, with what it prints",
    "epsilometer release": "needs texts of people; tests/cli/test_release.py has some",
    "epsilometer results dossier": "a finished audit: tests/report/cells/test_dossier.py",
    "epsilometer check params profiles/": "needs a network; tests/pipeline/test_downloads.py has a hub of its own",
    "epsilometer gate reviews.csv --mechanism mine.py --limit attribute": "needs labels of authors; as the next",
    "epsilometer gate reviews.txt --mechanism masker.py": "tests/cli/test_gate.py has the masker",
    "epsilometer ask identifiers reviews.txt --mechanism masker.py": "as the last",
    "epsilometer gate reviews.jsonl": "needs facts about people; tests/cli/test_gate.py has some",
    "epsilometer pipeline repro leaderboard_cells": "minutes; a small one: tests/pipeline/test_leaderboard_stages.py",
    "epsilometer watch": "ends by Ctrl-C alone; tests/pipeline/test_watching.py starts one",
    "epsilometer pipeline why": "after an edit: tests/pipeline/test_code.py",
    "export RAY": "needs several machines; tests/runtime/test_scaling.py has two processes",
    "git ": "changes the repository; tests/pipeline/test_profiles.py keeps results in one of its own",
    "make leaderboard": "hours, as its cells",
    "make profile": "before the cell above; tests/pipeline/test_profiles.py makes folders of runs",
    "make test": "runs this test",
    "pip install": "needs a network; tests/test_wheel.py installs the wheel in an empty environment",
    "ray start": "as its environment",
}
IN_THIS_PROCESS = (
    "anonymity", "anonymity-attackers", "choosing", "epsilons", "gate", "gate-limits", "one-run", "questions",
    "training-epsilons", "training-sigma", "your-own-attack", "your-own-texts",
)  # fmt: skip
BY_A_SHELL = ("your-own-project", "reaudits")
HERE = {"README": "make audit", "scale": "make audit"}  # run in the repository; later commands release its results


def runs(command: str) -> bool:
    return bool(command) and not command.startswith(tuple(NOT_RUN))


def test_every_command_of_a_page_is_run_or_it_is_said_why_not() -> None:
    """A table of commands names what pages show; the tutorial is run above."""
    lines = [(name, line) for name in PAGES for line in commands(PAGES[name]) if runs(line)]
    pages = {*IN_THIS_PROCESS, *BY_A_SHELL, *ELSEWHERE, *SERVED, "commands", "tutorial"}
    assert not [(name, line) for name, line in lines if name not in pages and HERE.get(name) != line]
    assert not [line for name, line in lines if name in IN_THIS_PROCESS and not line.startswith("epsilometer ")]
    every = [line for name in PAGES for line in commands(PAGES[name])]
    assert not [start for start in NOT_RUN if not any(line.startswith(start) for line in every)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("project") / "reviews")


def write_files(page: str) -> None:
    """What the pages' commands read, in the current folder."""
    for name, code in re.findall(r"^```python\n(?=# (\w+\.py)\n)(.*?)^```", page, re.MULTILINE | re.DOTALL):
        Path(name).write_text(code)
    reviews = generate("reviews", 1500, 1).select("text", "rating", "gender", review="text")
    reviews.write_csv("texts.csv")
    reviews.head(400).write_csv("train.csv")
    reviews.head(96).select("text", author=pl.int_range(96) // 8).write_csv("notes.csv")
    Path("reviews.txt").write_text("\n".join(reviews["text"].head(60)))
    generate("reviews", 400, 2).select("text", "rating", "gender").write_csv("others.csv")
    originals = [text for name in ("reviews", "others") for text in pl.read_csv(f"{name}.csv")["text"]]
    rewrites = [re.sub(r"(\w+ \w+) \w+", r"\1", text) for text in originals]  # without every third word
    pl.DataFrame({"original": originals, "rewrite": rewrites}).write_csv("made-elsewhere.csv")
    texts = queries(60)
    Path("texts.txt").write_text("\n".join(texts))
    rng = np.random.default_rng(0)
    words = sorted({word for text in texts for word in text.split()})
    Path("glove.txt").write_text("".join(f"{word} {rng.normal():.4f} {rng.normal():.4f}\n" for word in words))
    Path("anonymise").write_text("#!/bin/sh\nexec cat\n")
    Path("anonymise").chmod(0o755)


def score_canaries() -> None:
    """Somebody's own training, which shows its canaries."""
    key = pl.read_csv("texts.key.csv")
    noise = np.random.default_rng(1).normal(size=len(key))
    score = noise + 3 * key["included"].cast(pl.Float64).to_numpy()
    key.select("canary", score=pl.Series(score)).write_csv("scores.csv")


@pytest.mark.slow
@pytest.mark.parametrize("page", IN_THIS_PROCESS)
def test_the_commands_of_a_page_run_one_after_another(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path, page: str
) -> None:
    """In the folder of a project that was audited, with files of the names that pages give; with fewer trials."""
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for name in ("mine.py", "near.py", "outline.py"):
        shutil.copy(folder / name, name)
    write_files(PAGES[page])
    quick = {
        "anonymize": ["--rows", "20"],
        "ask": ["--trials", "20"],
        "audit": ["--trials", "20"],
        "calibrate": ["--budget", "800"],
        "compare": ["--trials", "20"],
        "decide": ["--trials", "60", "--attacks", "lexical,length"],
        "reaudit": ["--trials", "20", "--attacks", "lexical,length"],
        "gate": ["--budget", "500", "--attacks", "lexical,length"],  # too few trials to decide, as the exit code shows
    }
    for call in filter(runs, commands(PAGES[page])):
        command, *arguments = shlex.split(call)[1:]
        if arguments[0] == "one-run":
            score_canaries()
        of_attribute = (command, arguments[0]) == ("ask", "attribute")  # this command has no trials
        more = ["--with", "kinds=[linear]"] if of_attribute else quick.get(command, [])
        if at_loss := "--at-loss" in arguments:
            more = [*more, "--budget", "800"]
        ended = status([command, *arguments, *more])
        allowed = {"gate": (0, 1, 3), "decide": (0, 1, 3)} if page in ("gate-limits", "questions") else {}
        judging = ("gate", "calibrate", "training", "decide", "reaudit")
        assert ended in allowed.get(command, (0, 3) if at_loss or command in judging else (0,)), call


def status(call: list[str]) -> int:
    try:
        return app(call)
    except SystemExit as ended:
        return int(ended.code or 0)


@pytest.mark.slow
def test_a_project_of_ones_own_is_audited_and_re_audited_as_shown(tmp_path: Path) -> None:
    """The blocks of two pages by one shell, on 60 requests."""
    pl.DataFrame({"body": queries(60)}).write_csv(tmp_path / "mail.csv")
    lines = [line for page in BY_A_SHELL for block in blocks(PAGES[page], "sh") for line in block.splitlines()]
    shown = [line for line in lines if runs(line) or line.startswith("git ")]  # in a repository of its own
    script = "\n".join(["set -e", *shown])
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=OUTSIDE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    mine = tmp_path / "mine"
    assert (mine / "reports/audit.html").is_file()
    assert {"estimates.csv", "history.csv"} <= {path.name for path in (mine / "baseline").iterdir()}
    assert "Baseline" in subprocess.run(["git", "log"], cwd=mine, capture_output=True, text=True, check=True).stdout
    assert "no evidence of change" in done.stdout + done.stderr
