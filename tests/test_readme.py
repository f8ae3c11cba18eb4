"""What the README and the guides to one's own mechanism and attack say about their examples."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
import yaml

import epsilometer
from epsilometer.auditing import one_call as api
from epsilometer.auditing.claims import NOT_CHECKED, VIOLATED, p_value
from epsilometer.auditing.design import Design
from epsilometer.auditing.estimation import success_bound
from epsilometer.auditing.worst_case import check_claim
from epsilometer.cli import app as cli
from epsilometer.core.errors import UserError
from epsilometer.corpora.synthetic import generate
from epsilometer.project import params
from tests.support.places import ROOT

README = (ROOT / "README.md").read_text()
GUIDE = (ROOT / "docs/your-own-mechanism.md").read_text()
ATTACK = (ROOT / "docs/your-own-attack.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples that are files, under the names that they give themselves."""
    place = tmp_path_factory.mktemp("examples")
    for text, name in ((README, "mine.py"), (GUIDE, "response.py"), (ATTACK, "outline.py")):
        (code,) = [block for block in blocks(text, "python") if block.startswith(f"# {name}\n")]
        (place / name).write_text(code)
    return place


def commands() -> list[str]:
    """Every call of epsilometer in the README, without what the shell does about it."""
    lines = "\n".join(blocks(README, "sh")).splitlines()
    calls = [part.strip() for line in lines for part in line.partition("#")[0].split(";")]
    return [call for call in calls if call.startswith("epsilometer ")]


def queries(count: int = 400) -> list[str]:
    return list(dict.fromkeys(generate("queries", count, 1)["text"]))


@pytest.mark.parametrize("call", commands())
def test_every_command_has_the_options_that_it_is_shown_with(call: str) -> None:
    _, name, *arguments = shlex.split(call)
    group: Any = typer.main.get_command(cli.app)
    command = group.commands[name]
    command.make_context(name, arguments)


def test_the_function_of_the_notebook_is_audited() -> None:
    (code,) = [block for block in blocks(README, "python") if "epsilometer.audit(" in block]
    *statements, last = code.rstrip().rpartition("\nepsilometer.audit")
    scope: dict[str, Any] = {"texts": queries(60)}
    exec("".join(statements[:1]), scope)
    call = f"epsilometer.audit{last}".partition("  #")[0].replace(")", ", trials=100)")
    table = eval(call, scope | {"epsilometer": epsilometer})
    assert table["epsilon"].unique().to_list() == [1, 5, 9]


def test_mechanisms_and_attacks_are_named_as_shown() -> None:
    call, *_ = re.findall(r"`(epsilometer\.audit\(texts, \"tem\", epsilons=\[5, 8\]\))`", README)
    (attacks,) = re.findall(r"`attacks=(\{.*?\})`", README, re.DOTALL)[:1]
    options = f", attacks={attacks}, trials=50, design=epsilometer.Design(temperature=0))"
    table = eval(call[:-1] + options, {"texts": queries(60), "epsilometer": epsilometer})
    assert table.select("epsilon", "attack").rows() == [(5, "lexical"), (8, "lexical")]


def test_the_exact_loss_is_computed_as_shown() -> None:
    (call,) = re.findall(r"`(epsilometer\.exact_loss\(.*?\))`", README)
    table = eval(
        f"{call[:-1]}, design=epsilometer.Design(temperature=0))", {"texts": queries(6), "epsilometer": epsilometer}
    )
    assert table["epsilon"].unique().to_list() == [5, 8]
    assert (table["average"] > 0).all()


AUDITS = [call for call in commands() if call.startswith("epsilometer audit") and "--attribute" not in call]


@pytest.mark.parametrize("call", [*AUDITS, *(call for call in commands() if call.startswith("epsilometer rewrite"))])
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
    quick = ["--trials", "20", "--temperature", "0"] if " audit " in call else []
    assert not cli.app([*shlex.split(call)[1:], *quick], standalone_mode=False)
    out, err = capsys.readouterr()
    if " audit " in call:
        assert (" one word " if "--worst" in call else "strongest: ") in out
        assert "note: not run: channel, judge" in err
    elif "--out" in call:
        private = pl.read_csv("private.csv")
        assert private["id"].to_list() == list(range(9))
        assert private["review"].to_list() != texts
    else:
        assert len(out.splitlines()) == len(texts)


def test_the_audit_of_the_mechanism_refutes_its_claim_at_both_budgets(folder: Path) -> None:
    """As in the default audit, T = 1,000 and k = 2, at a level of alpha over 1,000 tests."""
    (entry,) = [block for block in blocks(README, "yaml") if "mine:" in block]
    mechanism = api.mechanism(str(folder / "mine.py"))
    epsilons = yaml.safe_load(entry)["mechanisms"]["mine"]["epsilons"]
    table = epsilometer.audit(queries(), mechanism, epsilons, ["lexical"], trials=1000)
    for epsilon, successes in table.select("epsilon", "successes").iter_rows():
        allowed = 1000 * success_bound(epsilon, 2)
        assert p_value(successes, 1000, allowed) <= 0.01 / 1000
    for epsilon in epsilons:
        assert check_claim(mechanism, epsilon).verdict == NOT_CHECKED


def test_the_entry_of_the_mechanism_can_be_pasted(tmp_path: Path) -> None:
    (entry,) = [block for block in blocks(README, "yaml") if "mine:" in block]
    mechanisms, cells = re.fullmatch(r"mechanisms:\n(.*)cells:\n(.*)", entry, re.DOTALL).groups()
    text = (ROOT / "params.yaml").read_text()
    text = text.replace("\nmechanisms:\n", f"\nmechanisms:\n{mechanisms}").replace("\ncells:\n", f"\ncells:\n{cells}")
    (tmp_path / "params.yaml").write_text(text)
    cell = params.read(tmp_path / "params.yaml").cells["queries-mine"]
    assert (cell.file, cell.epsilons) == ("mine.py", (1, 2))


def test_the_worst_case_of_the_released_custext_is_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = [block for block in blocks(README, "console") if "epsilometer claims" in block]
    assert output(shown, capsys) == (shown.partition("\n")[2], 1)


def test_the_template_holds_its_claim_and_a_forgotten_sensitivity_is_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (shown,) = blocks(GUIDE, "console")
    assert output(shown, capsys) == (shown.partition("\n")[2], 0)
    code = Path("response.py").read_text()
    for name, old, new, verdict, status in (
        ("double.py", "= epsilon\n", "= 2 * epsilon\n", VIOLATED, 1),
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
    assert 0.5 < table["loss"].item() <= 4  # two words differ at most, of epsilon 2 each
    # Its law describes what is released, and it must say so: else the attack is one of an adversary inside.
    assert table.select("sees", "released").row(0) == ("units", True)
    silent = folder / "inside.py"
    code, _, rest = (folder / "response.py").read_text().partition("    releases = ")
    silent.write_text(code + rest.partition("\n")[2])
    inside = epsilometer.audit(
        texts, api.mechanism(str(silent)), [2.0], ["likelihood"], trials=50, design=Design(temperature=0)
    )
    assert not inside["released"].item()


def output(shown: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, int]:
    """What the command after the `$` prints, and how it ends."""
    arguments = shlex.split(shown.partition("\n")[0].removeprefix("$ "))[1:]
    status = cli.app(arguments, standalone_mode=False)
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
    with pytest.raises(UserError, match="pwoer"):
        epsilometer.audit(texts, mask, [1.0], {str(folder / "outline.py"): {"pwoer": 2.0}}, trials=10)


def test_the_command_of_the_attack_has_the_options_that_it_is_shown_with() -> None:
    (call,) = blocks(ATTACK, "sh")
    test_every_command_has_the_options_that_it_is_shown_with(call.strip())
