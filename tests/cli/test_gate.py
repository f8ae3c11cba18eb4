"""`epsilometer gate`, its formats, and the pytest fixture."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from epsilometer.cli import main
from epsilometer.pipeline import params
from epsilometer.pipeline.measured import accept
from epsilometer.pipeline.stages import prepare
from epsilometer.report.gate import Result, schema
from tests.support.small_audit import audited, leaks

pytest_plugins = ["pytester"]

MECHANISM = """
import numpy as np
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites

@component
class Tells:
    has_budget = False
    share: float = 1.0

    def rewrite(self, texts, epsilon, noise):
        tells = noise.uniforms()[:, 0] < self.share
        return Rewrites([text if told else "nothing at all" for text, told in zip(texts, tells)])

    def guarantee(self, epsilon):
        return None
"""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tells.py").write_text(MECHANISM)
    texts = [f"{who} wants {what} at {when}" for who in "abcd" for what in ("tea", "milk", "rum") for when in "12345"]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    return tmp_path


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    return int(stopped.value.code or 0)


def gate(*words: str) -> int:
    return run("gate", "texts.txt", "--mechanism", "tells.py", "--attacks", "lexical", *words)


def test_it_passes_accuses_or_leaves_it_open(project, capsys) -> None:
    assert gate("--set", "share=0.1", "--max-loss", "1.0") == 0
    three = capsys.readouterr().out.splitlines()
    assert len(three) == 3
    assert three[0].startswith("PASSED: tells.py")
    assert gate("--set", "share=0.95", "--max-loss", "1.0") == 1
    assert "LEAKS MORE" in capsys.readouterr().out
    assert gate("--set", "share=0.46", "--max-loss", "1.0", "--budget", "300") == 3  # half of .54 and .46 right: 1 nat
    assert "UNDECIDED" in capsys.readouterr().out


def test_a_mechanism_that_publishes_a_tenth_passes_by_its_loss_and_not_by_its_tail(project, capsys) -> None:
    """A tenth of the texts verbatim: .2 nats on average, and nobody's output but the source's. Errors: .001 and .05."""
    tenth = ("--set", "share=0.1", "--max-delta-at-4", "0.01", "--json", "g.json")
    assert gate(*tenth, "--max-loss", "1.0") == 1
    assert "a delta at 4 nats of 0." in capsys.readouterr().out
    rows = {row.attack: row for row in Result.model_validate_json(Path("g.json").read_text()).attacks}
    assert (rows["lexical"].status, rows["lexical"].measure, rows["lexical"].misses) == ("passed", "loss", None)
    tail = rows["lexical, tail"]
    assert (tail.status, tail.measure, tail.misses, tail.limit) == ("leaks more", "delta_at_4", 0, 0.01)
    assert gate("--set", "share=0.0", "--max-delta-at-4", "0.01") == 0, "the tail alone may be limited"
    assert gate("--max-delta-at-4", "0") == 2
    assert "max_delta_at_4, a probability, must be in (0, 1)" in capsys.readouterr().err


def test_against_what_was_accepted(project, capsys) -> None:
    accepted = ["--baseline", "accepted.json"]
    assert gate("--set", "share=0.4", *accepted, "--accept", "--budget", "2000") == 0
    assert gate("--set", "share=0.4", *accepted) == 0
    assert gate("--set", "share=0.9", *accepted) == 1
    assert "baseline" in capsys.readouterr().out
    (project / "texts.txt").write_text("one\ntwo\nthree")
    assert gate("--set", "share=0.4", *accepted) == 2
    assert "accepted.json was accepted with other texts" in capsys.readouterr().err
    content = json.loads(Path("accepted.json").read_text())
    Path("accepted.json").write_text(json.dumps(content | {"schema": "epsilometer/accepted/9"}))
    assert gate("--set", "share=0.4", *accepted) == 2
    assert "--accept" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("accepted", "named", "said"),
    [
        ("length", "length,lexical", "(run but not accepted: lexical)"),
        ("length,lexical", "length", "(accepted but not run: lexical)"),
    ],
)
def test_a_baseline_of_other_attacks_is_refused(project, capsys, accepted: str, named: str, said: str) -> None:
    """Else a leak that the missing attack alone sees would pass: here the rewriter returns its input."""
    command = ("gate", "texts.txt", "--mechanism", "tells.py", "--baseline", "accepted.json")
    assert run(*command, "--attacks", accepted, "--set", "share=0", "--accept", "--budget", "300") == 0
    assert run(*command, "--attacks", named) == 2
    assert said in capsys.readouterr().err


def test_an_attack_without_a_limit_leaves_it_open(project, capsys) -> None:
    """The baseline was right every time, so its interval has no upper end, and no increase can be told."""
    command = ("--baseline", "accepted.json", "--json", "g.json")
    assert gate(*command, "--accept", "--budget", "300") == 0
    assert gate(*command) == 3
    assert "lexical" in capsys.readouterr().out
    result = Result.model_validate_json(Path("g.json").read_text())
    assert [(row.attack, row.status, row.limit) for row in result.attacks] == [("lexical", "undecided", None)]
    assert gate(*command, "--max-loss", "1") == 1, "another limit counts"


def test_attacks_beside_a_cell_are_refused(project, capsys) -> None:
    """They would not be run, for a cell has those of its project."""
    assert run("gate", "--cell", "a", "--attacks", "lexical", "--max-loss", "1") == 2
    assert "leave out FILE, --attacks, --set, --public" in capsys.readouterr().err


def test_public_texts_are_for_a_mechanism_that_chooses_among_them(project, capsys) -> None:
    public = [f"{who} sells {what} at {when}" for who in "efgh" for what in ("tea", "milk", "rum") for when in "678"]
    Path("public.txt").write_text("\n".join(public))
    command = ("gate", "texts.txt", "--mechanism", "exemplars", "--epsilon", "1", "--set", "m=4", "--max-loss", "1.5")
    assert run(*command, "--attacks", "likelihood", "--public", "public.txt") == 0
    Path("public.txt").write_text("\n".join([*public, "a wants tea at 1", "b wants rum at 2"]))
    assert run(*command, "--public", "public.txt") == 2
    assert "2 of the 60 texts are among the public texts" in capsys.readouterr().err
    for of in (["--command", "cat"], ["--mechanism", "tells.py"], ["--cell", "a"]):
        texts = [] if of[0] == "--cell" else ["texts.txt"]
        assert run("gate", *texts, *of, "--max-loss", "1", "--public", "public.txt") == 2
        assert "--public" in capsys.readouterr().err


def test_an_attack_that_cannot_judge_is_refused(project, capsys) -> None:
    assert run("gate", "texts.txt", "--mechanism", "tells.py", "--attacks", "length,likelihood", "--max-loss", "1") == 2
    assert "likelihood cannot attack tells.py" in capsys.readouterr().err


def test_every_format_says_the_same(project, capsys) -> None:
    files = {"--json": "g.json", "--markdown": "g.md", "--junit": "g.xml", "--sarif": "g.sarif"}
    assert gate("--set", "share=1.0", "--max-loss", "1", *(word for pair in files.items() for word in pair)) == 1
    result = Result.model_validate_json(Path("g.json").read_text())
    assert result.status == result.attacks[0].status == "leaks more"
    assert result.attacks[0].point is None  # every guess was right
    assert "| lexical |" in Path("g.md").read_text()
    assert "inf" not in Path("g.md").read_text() + Path("g.xml").read_text() + capsys.readouterr().out
    suite = ElementTree.fromstring(Path("g.xml").read_text())
    assert suite.get("failures") == "1"
    assert suite.find("testcase/failure") is not None
    (finding,) = json.loads(Path("g.sarif").read_text())["runs"][0]["results"]
    assert (finding["kind"], finding["level"]) == ("fail", "error")
    capsys.readouterr()
    assert run("schema") == 0
    assert json.loads(capsys.readouterr().out) == schema()
    assert set(schema()["properties"]) == set(json.loads(Path("g.json").read_text()))


def test_a_cell_against_the_baseline_of_its_project(tmp_path, monkeypatch, capsys) -> None:
    """Half of the texts shown: 1.1 nats, accepted; all: right every time. Errors: .001 and .05 of the gate."""
    folder = audited(tmp_path / "project", 0.5)
    monkeypatch.chdir(folder)
    cell = ("gate", "--cell", "songs-mine", "--baseline", "baseline", "--max-increase", "2")
    assert run(*cell) == 2
    assert "there is no baseline in baseline yet" in capsys.readouterr().err
    accept(params.read())
    assert run(*cell) == 0
    assert "PASSED: mine, " in capsys.readouterr().out
    leaks(folder, "mine", 1.0)
    assert run(*cell) == 1
    assert "LEAKS MORE: mine, " in capsys.readouterr().out
    (folder / "songs.txt").write_text("\n".join(f"rather sing song {i} of artist {i}" for i in range(20)))
    prepare.main("songs")
    assert run(*cell) == 2
    assert "about other texts or trials of songs; audit, then accept" in capsys.readouterr().err
    text = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(text.replace("{lexical: {}}", "{length: {}}"))
    assert run(*cell) == 2
    assert "accepted with attacks lexical, params.yaml says length" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing is limited"),
        (("--max-loss", "0"), "max_loss"),
        (("--baseline", "absent.json"), "does not exist"),
        (("--cell", "a"), "give one of"),
        (("--max-loss", "900"), "no success rate exceeds"),
    ],
)
def test_bad_input(project, capsys, words: tuple[str, ...], said: str) -> None:
    assert gate(*words) == 2
    assert said in capsys.readouterr().err


def test_the_fixture_fails_a_rewriter_that_leaks(pytester) -> None:
    pytester.makepyfile(
        """
        TEXTS = [f"{who} wants {what} at {when}" for who in "abcd" for what in ("tea", "milk") for when in "12345"]

        def test_it_hides(assert_leaks_at_most):
            assert_leaks_at_most(lambda text, rng: "nothing", TEXTS, loss=1.0)

        def test_it_leaks(assert_leaks_at_most):
            assert_leaks_at_most(lambda text, rng: text, TEXTS, loss=1.0)

        def test_its_tail_leaks(assert_leaks_at_most):
            coin = lambda text, rng: text if rng.random() < 0.1 else "nothing"
            assert_leaks_at_most(coin, TEXTS, loss=1.0)
            assert_leaks_at_most(coin, TEXTS, loss=1.0, delta_at_4=0.01)
        """
    )
    outcome = pytester.runpytest_inprocess()
    outcome.assert_outcomes(passed=1, failed=2)
    outcome.stdout.fnmatch_lines(["*LEAKS MORE*", "*a delta at 4 nats of*"])
