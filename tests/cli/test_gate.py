"""`epsilometer gate`, its formats, and the pytest fixture."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from epsilometer.corpora.synthetic import generate
from epsilometer.pipeline import params
from epsilometer.pipeline.measured import accept
from epsilometer.pipeline.stages import prepare
from epsilometer.report.gate import Result, schema
from tests.support.commands import run
from tests.support.places import ROOT
from tests.support.small_audit import audited, leaks

pytestmark = pytest.mark.usefixtures("_embedded_once")

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


def gate(*words: str) -> int:
    return run("gate", "texts.txt", "--mechanism", "tells.py", "--attacks", "lexical", *words)


def test_it_passes_accuses_or_leaves_it_open(project, capsys) -> None:
    assert gate("--set", "share=0.1", "--limit", "which_text=1.0") == 0
    verdict, _, errors, codes, unseen = capsys.readouterr().out.splitlines()
    assert verdict.startswith("PASSED, not exceeded by these attacks: tells.py")
    assert errors.startswith("a mechanism that exceeds the limit passes with probability 0.05 at most; ")
    assert "shadow" in codes, "no adversary with query access was asked for"
    assert "black box" in unseen
    assert gate("--set", "share=0.95", "--limit", "which_text=1.0") == 1
    assert "BEYOND" in capsys.readouterr().out
    assert (
        gate("--set", "share=0.46", "--limit", "which_text=1.0", "--budget", "300") == 3
    )  # success rates for a loss of 1 nat
    assert "OPEN" in capsys.readouterr().out
    assert gate("--set", "share=0", "--limit", "which_text=0.001", "--budget", "300") == 3
    out = capsys.readouterr().out
    assert "at most 50.02 of 100 are allowed, and 50 are chance (0.001 nats: " in out
    assert re.search(r"to show fewer than 50.02 of 100 guesses \(0.001 nats\) takes at least [\d,]{9,} rewrites", out)


def test_a_mechanism_that_publishes_a_tenth_passes_by_its_loss_and_not_by_its_tail(project, capsys) -> None:
    """A tenth of the texts verbatim: .2 nats on average, and nobody's output but the source's. Errors: .001 and .05."""
    tenth = ("--set", "share=0.1", "--limit", "tail=0.01", "--report", "json=g.json")
    assert gate(*tenth, "--limit", "which_text=1.0") == 1
    out = capsys.readouterr().out
    assert "a delta at 4 nats of 0." in out
    assert re.search(
        r"would have been found with probability 0.95 if confident guesses are wrong in at most [\d.]+ %", out
    )
    rows = {row.attack: row for row in Result.model_validate_json(Path("g.json").read_text()).attacks}
    assert (rows["lexical"].status, rows["lexical"].measure, rows["lexical"].misses) == (
        "not exceeded by these attacks",
        "loss",
        None,
    )
    tail = rows["lexical, tail"]
    assert (tail.status, tail.measure, tail.misses, tail.limit) == ("beyond", "delta_at_4", 0, 0.01)
    assert gate("--set", "share=0.0", "--limit", "tail=0.01") == 0, "the tail alone may be limited"
    assert "no delta at 4 nats would have been found" in capsys.readouterr().out, "half of the guesses are wrong"
    assert gate("--limit", "tail=0") == 2
    assert "the limit of tail, a probability, must be in (0, 1)" in capsys.readouterr().err


def test_against_what_was_accepted(project, capsys) -> None:
    accepted = ["--baseline", "accepted.json"]
    assert gate("--set", "share=0.4", *accepted, "--accept", "--budget", "2000") == 0
    assert gate("--set", "share=0.4", *accepted) == 0
    assert gate("--set", "share=0.9", *accepted, "--report", "json=g.json") == 1
    assert "BEYOND: tells.py" in capsys.readouterr().out
    assert json.loads(Path("g.json").read_text())["attacks"][0]["of_baseline"]
    assert gate("--set", "share=0.9", *accepted, "--limit", "which_text=0.1", "--report", "json=g.json") == 1
    assert not json.loads(Path("g.json").read_text())["attacks"][0]["of_baseline"], "the lower of two limits counts"
    capsys.readouterr()
    (project / "texts.txt").write_text("one\ntwo\nthree")
    assert gate("--set", "share=0.4", *accepted) == 2
    assert "accepted.json was accepted for texts" in capsys.readouterr().err
    content = json.loads(Path("accepted.json").read_text())
    Path("accepted.json").write_text(json.dumps(content | {"schema": "epsilometer/accepted/9"}))
    assert gate("--set", "share=0.4", *accepted) == 2
    assert "--accept" in capsys.readouterr().err


def test_a_gate_follows_the_design_of_its_baseline(project, monkeypatch, capsys) -> None:
    """Its default would be temperature 0, since `lexical` embeds nothing."""
    accepted = ["--baseline", "accepted.json", "--set", "share=0.4"]
    assert gate(*accepted, "--accept", "--budget", "800", "--temperature", "-10000") == 0
    content = json.loads(Path("accepted.json").read_text())
    assert content["schema"] == "epsilometer/accepted/2"
    assert {name: content[name] for name in ("candidates", "temperature", "alpha", "seed")} == {
        "candidates": 2,
        "temperature": -10_000,
        "alpha": 0.01,
        "seed": 0,
    }
    assert content["attacks"]["lexical"]["settings"] == {}
    command = ("gate", "texts.txt", "--mechanism", "tells.py", *accepted, "--report", "json=g.json")
    assert run(*command, "--seed", "1") == 0, "attacks are those of the baseline, too"
    assert [row.attack for row in Result.model_validate_json(Path("g.json").read_text()).attacks] == ["lexical"]
    assert run(*command, "--temperature", "0") == 2
    assert "leave out --temperature" in capsys.readouterr().err
    old = {name: value for name, value in content.items() if name not in ("alpha", "seed")}
    old["attacks"] = {"lexical": {name: content["attacks"]["lexical"][name] for name in ("trials", "successes")}}
    Path("accepted.json").write_text(json.dumps(old | {"schema": "epsilometer/accepted/1"}))
    assert run(*command) == 0
    monkeypatch.setattr("epsilometer.auditing.limits.accepted.installed", lambda extra: False)
    assert run(*command) == 2
    said = capsys.readouterr().err
    assert "pip install 'epsilometer[models]'" in said
    assert "--accept" not in said


def test_with_attacks_that_embed_nothing_nothing_is_embedded(project, monkeypatch) -> None:
    def embed(texts: list[str]) -> None:
        raise AssertionError("a sentence encoder was loaded")

    monkeypatch.setattr("epsilometer.auditing.calibration.search.embed", embed)
    assert gate("--set", "share=0.1", "--limit", "which_text=1.0") == 0
    assert run("gate", "--cell", "a", "--limit", "which_text=1", "--temperature", "0") == 2


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--limit", "which_text=3", "--max-increase", "0.5"),
            "--max-increase needs a baseline; give --baseline",
        ),
        (("--accept", "--baseline", "a.json", "--limit", "which_text=1"), "does not judge; leave out --limit"),
        (
            ("--accept", "--baseline", "a.json", "--max-increase", "1", "--facts", "claims"),
            "does not judge; leave out --max-increase, --with",
        ),
        (
            ("--limit", "which_text=1", "--layout", "separator=;"),
            "--layout separator is for .csv and .tsv files; leave it out",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused(project, capsys, words: tuple[str, ...], said: str) -> None:
    assert gate(*words) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not Path("a.json").exists()


def test_an_attack_without_a_limit_leaves_it_open(project, capsys) -> None:
    """The baseline was right every time, so its interval has no upper end, and no increase can be told."""
    command = ("--baseline", "accepted.json", "--report", "json=g.json")
    assert gate(*command, "--accept", "--budget", "300") == 0
    assert gate(*command) == 3
    assert "lexical" in capsys.readouterr().out
    result = Result.model_validate_json(Path("g.json").read_text())
    assert [(row.attack, row.status, row.limit) for row in result.attacks] == [("lexical", "open", None)]
    assert gate(*command, "--limit", "which_text=1") == 1, "another limit counts"


def test_attacks_beside_a_cell_are_refused(project, capsys) -> None:
    """They would not be run, for a cell has those of its project."""
    assert run("gate", "--cell", "a", "--attacks", "lexical", "--limit", "which_text=1") == 2
    assert "leave out FILE, --attacks, --set, --public" in capsys.readouterr().err


def test_public_texts_are_for_a_mechanism_that_chooses_among_them(project, capsys) -> None:
    public = [f"{who} sells {what} at {when}" for who in "efgh" for what in ("tea", "milk", "rum") for when in "678"]
    Path("public.txt").write_text("\n".join(public))
    command = (
        "gate",
        "texts.txt",
        "--mechanism",
        "exemplars",
        "--epsilon",
        "1",
        "--set",
        "m=4",
        "--limit",
        "which_text=1.5",
    )
    assert run(*command, "--attacks", "likelihood", "--public", "public.txt") == 0
    Path("public.txt").write_text("\n".join([*public, "a wants tea at 1", "b wants rum at 2"]))
    assert run(*command, "--public", "public.txt") == 2
    assert "2 of the 60 texts are also among the mechanism's public texts" in capsys.readouterr().err
    for of in (["--command", "cat"], ["--mechanism", "tells.py"], ["--cell", "a"]):
        texts = [] if of[0] == "--cell" else ["texts.txt"]
        assert run("gate", *texts, *of, "--limit", "which_text=1", "--public", "public.txt") == 2
        assert "--public" in capsys.readouterr().err


def test_an_attack_that_cannot_judge_is_refused(project, capsys) -> None:
    assert (
        run("gate", "texts.txt", "--mechanism", "tells.py", "--attacks", "length,likelihood", "--limit", "which_text=1")
        == 2
    )
    assert "likelihood cannot attack tells.py" in capsys.readouterr().err


def test_every_format_says_the_same(project, capsys) -> None:
    files = {"json": "g.json", "markdown": "g.md", "junit": "g.xml", "sarif": "g.sarif"}
    assert (
        gate(
            "--set",
            "share=1.0",
            "--limit",
            "which_text=1",
            *(word for form, file in files.items() for word in ("--report", f"{form}={file}")),
        )
        == 1
    )
    result = Result.model_validate_json(Path("g.json").read_text())
    assert result.status == result.attacks[0].status == "beyond"
    (attack,) = json.loads(Path("g.json").read_text())["attacks"]
    assert attack["point"] == "Infinity"  # every guess was right
    assert "| lexical |" in Path("g.md").read_text()
    assert "inf" not in Path("g.md").read_text() + Path("g.xml").read_text() + capsys.readouterr().out
    suite = ElementTree.fromstring(Path("g.xml").read_text())
    assert suite.get("failures") == "1"
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("message", "").startswith("beyond: lexical")
    (finding,) = json.loads(Path("g.sarif").read_text())["runs"][0]["results"]
    assert (finding["kind"], finding["level"]) == ("fail", "error")
    capsys.readouterr()
    assert run("gate", "--schema") == 0
    assert json.loads(capsys.readouterr().out) == schema()
    assert set(schema()["properties"]) == set(json.loads(Path("g.json").read_text()))


def test_every_format_names_a_program_by_its_files_and_without_its_arguments(project, capsys) -> None:
    """Arguments may hold secrets."""
    Path("hides.py").write_text("import sys\nfor line in sys.stdin:\n    print('nothing')\n")
    words = [word for form, file in REPORTS.items() for word in ("--report", f"{form}={file}")]
    command = ["--command", f"{sys.executable} hides.py --key hunter2", "--attacks", "lexical", *words]
    name = f"{Path(sys.executable).name} hides.py"
    for limit, code in (("1", 0), ("900", 2)):
        assert run("gate", "texts.txt", *command, "--max-loss", limit) == code
        written = {file: Path(file).read_text() for file in REPORTS.values()} | {"console": capsys.readouterr().out}
        assert all(name in content for file, content in written.items() if code == 0 or file != "console")
        assert not [file for file, content in written.items() if "hunter2" in content or "CommandMechanism" in content]
    assert json.loads(written["g.json"])["mechanism"] == name
    assert run("gate", "texts.txt", *command, "--limit", "which_text=1", "--baseline", "a.json", "--accept") == 2
    accept = ("gate", "texts.txt", *command[:4], "--baseline", "a.json")
    assert run(*accept, "--accept", "--budget", "2000") == 0
    assert run(*accept) == 0
    first = json.loads(Path("a.json").read_text()) | {"schema": "epsilometer/accepted/1"}
    Path("a.json").write_text(json.dumps(first | {"mechanism": "CommandMechanism"}))
    assert run(*accept) == 0, "as earlier baselines call it"


def test_a_cell_against_the_baseline_of_its_project(tmp_path, monkeypatch, capsys) -> None:
    """Half of the texts shown: 1.1 nats, accepted; all: right every time. Errors: .001 and .05 of the gate."""
    folder = audited(tmp_path / "project", 0.5)
    monkeypatch.chdir(folder)
    cell = ("gate", "--cell", "songs-mine", "--baseline", "baseline", "--max-increase", "2")
    assert run(*cell) == 2
    assert "baseline has no baseline yet" in capsys.readouterr().err
    accept(params.read())
    assert run(*cell) == 0
    assert "PASSED, not exceeded by these attacks: mine, " in capsys.readouterr().out
    leaks(folder, "mine", 1.0)
    assert run(*cell) == 1
    assert "BEYOND: mine, " in capsys.readouterr().out
    (folder / "songs.txt").write_text("\n".join(f"rather sing song {i} of artist {i}" for i in range(20)))
    prepare.main("songs")
    assert run(*cell) == 2
    assert "was accepted with other texts or trials of songs; run the audit, then accept" in capsys.readouterr().err
    text = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(text.replace("{lexical: {}}", "{length: {}}"))
    assert run(*cell) == 2
    assert "baseline has attacks lexical, but params.yaml has length" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing is limited"),
        (("--limit", "which_text=0"), "the limit of which_text"),
        (("--baseline", "absent.json"), "does not exist"),
        (("--cell", "a"), "give one of"),
        (("--limit", "which_text=900"), "no success rate exceeds"),
    ],
)
def test_bad_input(project, capsys, words: tuple[str, ...], said: str) -> None:
    assert gate(*words) == 2
    assert said in capsys.readouterr().err


MASKER = """
import re

def rewrite(texts, masks):
    return [re.sub(masks, "***", text) for text in texts]

from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites

@component
class Masks:
    has_budget = False
    masks: str = "[A-Z][a-z]+ [A-Z][a-z]+"

    def rewrite(self, texts, epsilon, noise):
        return Rewrites(rewrite(texts, self.masks))

    def guarantee(self, epsilon):
        return None
"""


IN_MID_SENTENCE = r"(?<=[a-z,;:] )[A-Z]\w+(?: [A-Z]\w+)*"


def identified(*words: str) -> int:
    Path("masks.py").write_text(MASKER)
    return run("gate", "texts.txt", "--mechanism", "masks.py", "--report", "json=g.json", *words)


def judged(file: str = "g.json") -> dict[str, Any]:
    return {row.attack: row for row in Result.model_validate_json(Path(file).read_text()).attacks}


def test_a_masker_of_capitalised_words_fails_by_the_names_of_shapes(project, capsys) -> None:
    """It masks capitalised words in mid-sentence, so that every name of the plain shape is hidden."""
    masks = f"masks='{IN_MID_SENTENCE}'"
    rate = ("--limit", "identifiers=0.1", "--identifiers", "name", "--budget", "540")
    assert identified(*rate, "--set", masks) == 1
    rows = judged()
    assert len(rows) == 18
    assert all(row.measure == "identifiers" and row.trials == 30 for row in rows.values())
    assert rows["identifiers: name, middle of a sentence"].status == "within"
    for shape in ("lower case", "initials"):
        row = rows[f"identifiers: name, {shape}"]
        assert (row.shape, row.status, row.successes) == (shape, "beyond", 30)
    said = capsys.readouterr().out
    assert said.startswith("BEYOND: masks.py, 510 rewrites, identifiers: name in 18 shapes\n")
    assert "identifiers: name, lower case" in said
    assert "initials" in said.split("also beyond: ")[1]
    assert "middle of a sentence" not in said


FORGETFUL = '''
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites

@component
class Forgetful:
    """Hides all texts but a tenth of those that are written in capitals."""

    has_budget = False

    def rewrite(self, texts, epsilon, noise):
        capitals = [any(len(word) > 4 and word.isupper() for word in text.split()) for text in texts]
        tenth = [noise.generator(i).random() < 0.1 for i in range(len(texts))]
        return Rewrites([text if a and b else "" for text, a, b in zip(texts, capitals, tenth)])

    def guarantee(self, epsilon):
        return None
'''


@pytest.mark.parametrize("seed", range(3))
def test_a_masker_that_fails_one_shape_in_a_tenth_of_cases_is_named(project, capsys, seed: int) -> None:
    """All pass that shape with probability 3 * .9 ** 59 = .006 at most; the draws have fixed seeds."""
    (project / "forgetful.py").write_text(FORGETFUL)
    rate = ("--limit", "identifiers=0.05", "--identifiers", "date", "--budget", "649", "--report", "json=g.json")
    assert run("gate", "texts.txt", "--mechanism", "forgetful.py", *rate, "--seed", str(seed)) in (1, 3)
    statuses = {row.shape: row.status for row in judged().values()}
    assert statuses.pop("upper case") != "within"
    assert {*statuses.values()} == {"within"}
    assert "identifiers: date, upper case: " in capsys.readouterr().out.splitlines()[1]


def test_what_survives_in_part_counts_where_it_is_asked_for(project, capsys) -> None:
    """The masker leaves surnames."""
    rate = ("--limit", "identifiers=0.1", "--identifiers", "name", "--budget", "540")
    hides = ("--set", r"masks='[A-Z][a-z]+[.]? (?=[A-Z])'")
    assert identified(*rate, *hides, "--count-partly") == 1
    counted = judged()["identifiers: name, title"]
    assert identified(*rate, *hides) in (0, 1, 3)
    whole = judged()["identifiers: name, title"]
    assert counted.partly == whole.partly > 0
    assert counted.successes == whole.successes + whole.partly
    assert "in part" in counted.source
    assert run("gate", "texts.txt", "--mechanism", "constant", "--limit", "which_text=1", "--count-partly") == 2
    assert "identifiers.partly is not a setting of the questions asked (which_text)" in capsys.readouterr().err


def test_identity_fails_and_a_constant_passes(project, capsys) -> None:
    rate = ("--limit", "identifiers=0.1", "--identifiers", "phone number", "--budget", "319")
    assert identified(*rate, "--set", "masks='(?!)'") == 1
    assert all(row.successes == row.trials == 29 for row in judged().values())
    assert identified(*rate, "--set", "masks='(?s).+'") == 0
    assert "identifiers in a spelling that only a reader recognises are not counted" in capsys.readouterr().out


def test_identifiers_and_attacks_are_judged_together(project, capsys) -> None:
    named = ("--limit", "identifiers=0.1", "--identifiers", "date", "--limit", "which_text=1", "--attacks", "lexical")
    assert identified(*named, "--set", "masks='(?!)'", "--budget", "700") == 1
    assert {row.status for row in judged().values()} == {"beyond"}
    assert "lexical" in judged()
    _, *kinds = capsys.readouterr().out.splitlines()[:3]
    assert sorted(line.split(":")[0].split()[0] for line in kinds) == ["identifiers", "lexical"], "one line a kind"


def test_a_share_at_its_limit_is_open_by_name(project, capsys) -> None:
    """Half of the dates survive; the draws have a fixed seed."""
    (project / "half.py").write_text(MECHANISM.replace("share: float = 1.0", "share: float = 0.5"))
    rate = ("--limit", "identifiers=0.5", "--identifiers", "date")
    assert run("gate", "texts.txt", "--mechanism", "half.py", *rate) == 3
    out = capsys.readouterr().out
    assert out.startswith("OPEN: half.py, ")
    assert "identifiers: date in 11 shapes" in out


def test_on_annotated_texts_no_message_quotes_one(project, capsys) -> None:
    """60 texts with the name of a person each; the masker leaves them."""
    documents = []
    for i in range(80):
        text = f"number {i} is Agent{i}, says agent{i + 1} of the house"
        start = text.index("Agent")
        span = {"entity_type": "PERSON", "start_position": start, "end_position": start + len(f"Agent{i}")}
        documents.append({"full_text": text, "spans": [span]})
    (project / "texts.txt").write_text("x")
    (project / "spans.json").write_text(json.dumps(documents))
    (project / "masks.py").write_text(MASKER)
    command = ("gate", "spans.json", "--mechanism", "masks.py")
    assert run(*command, "--limit", "identifiers=0.1") == 1
    assert run(*command, "--limit", "identifiers=0.1", "--set", "masks='(?i)agent.'") == 0
    assert run(*command, "--limit", "identifiers=0.01") == 2
    said = capsys.readouterr()
    assert "takes 299 texts per kind to test, but the file has fewer (person in 80" in said.err
    assert run("audit", "spans.json", "--mechanism", "masks.py", "--identifiers", "person") == 0
    printed = capsys.readouterr()
    assert "person" in printed.out
    assert "gent1" not in said.out + said.err + printed.out + printed.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--limit", "identifiers=0"), "must be in (0, 1), got 0.0: no number of texts can show"),
        (("--limit", "identifiers=1"), "must be in (0, 1)"),
        (
            ("--limit", "identifiers=0.001"),
            "takes 2,995 texts for each of 58 kinds and shapes to test, in all 173,710 rewrites, and 15,000 are left",
        ),
        (("--limit", "identifiers=0.01", "--budget", "500"), "takes 299 texts for each of"),
        (("--limit", "identifiers=0.1", "--identifiers", "nmae"), "name"),
        (
            ("--identifiers", "name", "--limit", "which_text=1"),
            "identifiers.kinds is not a setting of the questions asked (which_text)",
        ),
    ],
)
def test_bad_limits_on_identifiers(project, capsys, words: tuple[str, ...], said: str) -> None:
    budget = () if "--budget" in words else ("--budget", "15000")
    assert identified(*words, *budget) == 2
    assert said in capsys.readouterr().err


def test_an_audit_of_identifiers_stands_alone(project, capsys) -> None:
    (project / "masks.py").write_text(MASKER)
    command = ("audit", "texts.txt", "--mechanism", "masks.py", "--identifiers", "name,date", "--trials", "2")
    assert run(*command, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["kind"] for row in rows] == ["name"] * 15 + ["date"] * 8 + ["any kind"] * 3
    assert len({(row["kind"], row["shape"]) for row in rows}) == len(rows)
    assert {row["texts"] for row in rows} == {2}
    for option, *value in (["--worst"], ["--attacks", "length"], ["--prior", ".5,.5"], ["--fpr", ".1"]):
        assert run(*command, option, *value) == 2
        assert option in capsys.readouterr().err


REPORTS = {"json": "g.json", "markdown": "g.md", "junit": "g.xml", "sarif": "g.sarif", "html": "g.html"}


@pytest.mark.parametrize(
    ("mechanism", "code", "said"),
    [
        ("return Rewrites(['nothing'] * len(texts))", 0, "PASSED"),
        ("return Rewrites(list(texts))", 1, "BEYOND"),
        ("raise ValueError('Secret ' + texts[0])", 2, "ValueError in crashes.py"),
        ("import sys; sys.exit(0)", 2, "SystemExit"),
    ],
)
def test_reports_are_written_whatever_the_code_and_quote_no_text(
    project, capsys, mechanism: str, code: int, said: str
) -> None:
    body = (
        MECHANISM.split("        tells =")[0]
        + f"        {mechanism}\n\n    def guarantee(self, epsilon):\n        return None\n"
    )
    (project / "crashes.py").write_text(body)
    words = [word for form, file in REPORTS.items() for word in ("--report", f"{form}={file}")]
    out = ["--out", "who.jsonl", "--out", "who.html"]
    assert (
        run(
            "gate",
            "texts.txt",
            "--mechanism",
            "crashes.py",
            "--attacks",
            "lexical",
            "--limit",
            "which_text=1",
            *words,
            *out,
        )
        == code
    )
    written = {name: Path(name).read_text() for name in REPORTS.values()}
    assert said in written["g.html"]
    assert (
        Result.model_validate_json(written["g.json"]).status == ("not exceeded by these attacks", "beyond", None)[code]
    )
    assert ElementTree.fromstring(written["g.xml"]).get("name") == "epsilometer gate"
    if code < 2:
        written |= {name: Path(name).read_text() for name in ("who.jsonl", "who.html")}
        rows = [json.loads(line) for line in written["who.jsonl"].splitlines()]
        assert {row["text"] for row in rows} <= {*range(60)}
        assert sum(row["trials"] for row in rows) == Result.model_validate_json(written["g.json"]).attacks[0].trials
        assert "This page shows no text" in written["who.html"]
    assert not [name for name, content in written.items() if "wants" in content or "Secret" in content]


def test_texts_are_shown_where_the_user_asks_and_nowhere_else(project, capsys) -> None:
    assert (
        gate(
            "--limit",
            "which_text=1",
            "--out",
            "who.jsonl",
            "--out",
            "who.html",
            "--show-texts",
            "--report",
            "html=g.html",
        )
        == 1
    )
    assert json.loads(Path("who.jsonl").read_text().splitlines()[0])["content"].startswith("a wants tea")
    assert "as private as they are" in Path("who.html").read_text()
    assert "wants" not in Path("g.html").read_text()
    assert {Path(name).stat().st_mode & 0o777 for name in ("who.jsonl", "who.html")} == {0o600}
    assert gate("--limit", "which_text=1", "--show-texts") == 2
    assert gate("--limit", "which_text=1", "--out", "who.csv") == 2
    assert "--out writes .jsonl or .html, got who.csv" in capsys.readouterr().err
    audited = ("audit", "texts.txt", "--mechanism", "tells.py", "--attacks", "lexical", "--trials", "50")
    assert run(*audited, "--out", "audit.jsonl") == 0
    rows = [json.loads(line) for line in Path("audit.jsonl").read_text().splitlines()]
    assert sum(row["trials"] for row in rows) == sum(row["right"] for row in rows) == 50
    assert "wants" not in Path("audit.jsonl").read_text()


def people(folder: Path) -> None:
    """240 texts of 120 authors with a gender, and two claims of each."""
    rows = []
    for i in range(240):
        gender, town = "fm"[i % 2], f"town{i}"
        word = {"f": "gown", "m": "beard"}[gender]
        claims = [f"lives in {town}", "likes tea"]
        said = f"person {i} of {town} has a {word}"
        rows.append({"text": said, "gender": gender, "author": f"{gender}{i // 4}", "claims": claims})
    (folder / "people.jsonl").write_text("\n".join(map(json.dumps, rows)))


def test_limits_on_an_attribute_and_on_linking(project, capsys) -> None:
    people(project)
    command = ("gate", "people.jsonl", "--mechanism", "tells.py", "--report", "json=g.json", "--out", "who.jsonl")
    attribute = ("--attribute", "gender", "--limit", "attribute=1.5", "--kinds", "linear")
    linking = ("--facts", "claims", "--linkers", "bm25", "--limit", "linking=1", "--among", "5")
    assert run(*command, *attribute, *linking, "--set", "share=0") == 0
    rows = Result.model_validate_json(Path("g.json").read_text()).attacks
    assert {(row.measure, row.status) for row in rows} == {
        (measure, "not exceeded by these attacks") for measure in ("attribute", "linking")
    }
    assert run(*command, *attribute) == 1
    assert run(*command, *linking) == 1
    assert "named the rewrites of" in capsys.readouterr().out
    (row,) = Result.model_validate_json(Path("g.json").read_text()).attacks
    assert (row.attack, row.measure, row.least_found) == ("linking: bm25", "linking", None)
    audited = (
        "audit",
        "people.jsonl",
        "--mechanism",
        "tells.py",
        "--author",
        "author",
        "--linkers",
        "bm25",
        "--trials",
        "20",
    )
    assert run(*audited, "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["attack"], row["people"], row["rewrites"], row["sets"]) == ("bm25", 120, 10, 20)


EITHER = """
def rewrite(text, rng):
    return "alike" if ("gown" in text) == ("young" in text) else "apart"
"""


def test_two_attributes_that_are_published_as_their_exclusive_or_fail_jointly(project, capsys) -> None:
    """Each alone is a coin's toss, together 2 of 4 classes are ruled out: ln 3 nats.

    Of 400 tested texts an attacker at chance fails to pass with probability 6e-4 (binomial), one of all ten with .006;
    the seed is fixed.
    """
    rows = []
    for i in range(800):
        gender, age = "fm"[i % 2], ("young", "old")[i // 2 % 2]
        rows.append(
            {"text": f"person {i}, {age}, in a {'gown' if gender == 'f' else 'suit'}", "gender": gender, "age": age}
        )
    (project / "people.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (project / "either.py").write_text(EITHER)
    command = (
        "gate",
        "people.jsonl",
        "--mechanism",
        "either.py",
        "--json",
        "g.json",
        "--max-attribute-loss",
        "0.5",
        "--kinds",
        "linear",
    )
    for attribute in ("gender", "age"):
        assert run(*command, "--attribute", attribute) == 0
        assert "a combination of 2 attributes (their exclusive or) is not covered" in capsys.readouterr().out
    assert run(*command, "--attribute", "gender,age") == 1
    rows = Result.model_validate_json(Path("g.json").read_text()).attacks
    worst = max(row.point for row in rows if row.status == "beyond")
    assert worst == pytest.approx(1.1, abs=0.3)
    assert run(*command, "--attribute", "gender,town") == 2
    assert "town" in capsys.readouterr().err
    own = [{**row, "gender,age": "same"} for row in map(json.loads, Path("people.jsonl").read_text().splitlines())]
    (project / "people.jsonl").write_text("\n".join(map(json.dumps, own)))
    assert run(*command, "--attribute", "gender,age") == 2, "a column of that very name has one class"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--attribute", "gender"), "attribute.attribute is not a setting of the questions asked (nothing)"),
        (("--limit", "attribute=1"), "the setting 'attribute' is missing"),
        (("--limit", "which_text=1", "--group", "author"), "attribute.group is not a setting of the questions asked"),
        (("--facts", "claims"), "linking.facts is not a setting of the questions asked"),
        (("--facts", "claims", "--author", "author", "--limit", "linking=1"), "give linking.facts or linking.author"),
        (("--linkers", "bm25", "--limit", "which_text=1"), "linking.attacks is not a setting of the questions asked"),
        (("--among", "5", "--limit", "which_text=1"), "linking.among is not a setting of the questions asked"),
        (("--attribute", "age", "--limit", "attribute=1"), "age"),
        (("--facts", "claims", "--limit", "linking=0"), "the limit of linking, in nats, must be > 0"),
        (("--facts", "claims", "--limit", "linking=.01"), "a limit of 0.01 nats on linking takes"),
        (("--facts", "claims", "--limit", "linking=1", "--among", "500"), "the number of people with facts, 240"),
    ],
)
def test_bad_limits_on_people(project, capsys, words: tuple[str, ...], said: str) -> None:
    people(project)
    assert run("gate", "people.jsonl", "--mechanism", "tells.py", "--attacks", "length", *words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("guide", ["gate-limits.md", "identifiers.md"])
def test_the_examples_of_the_guides_print_what_the_guides_say(guide: str, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/how-to" / guide).read_text()
    example = re.search(r"```sh\n(epsilometer [\w ]+ reviews.txt.*?)\n```\n\n[^`\n]+\n\n```\n(.*?)```", text, re.DOTALL)
    assert example is not None
    Path("reviews.txt").write_text("\n".join(generate("reviews", 120, seed=1)["text"]))
    Path("masker.py").write_text(MASKER.replace('"[A-Z][a-z]+ [A-Z][a-z]+"', repr(IN_MID_SENTENCE)))
    assert run(*shlex.split(example[1])[1:]) == int("BEYOND" in example[2])
    assert capsys.readouterr().out == example[2]


def test_it_says_what_the_mechanism_does_not_read(project, capsys) -> None:
    """It passes, as what is not read cannot leak, but that says little about it."""
    Path("unknown.txt").write_text("".join(f"zzqx{i} qqqzz{i}\n" for i in range(40)))
    words = ["--mechanism", "tem", "--epsilon", "1", "--attacks", "lexical", "--limit", "which_text=3"]
    assert run("gate", "unknown.txt", *words) == 0
    assert "of the words are outside the mechanism's vocabulary" in capsys.readouterr().err


def test_the_fixture_fails_a_rewriter_that_leaks(pytester) -> None:
    pytester.makepyfile(
        """
        import polars as pl

        TEXTS = [f"{who} wants {what} at {when}" for who in "abcd" for what in ("tea", "milk") for when in "12345"]

        def test_it_hides(assert_leaks_at_most):
            assert_leaks_at_most(lambda text, rng: "nothing", TEXTS, loss=1.0)

        def test_it_leaks(assert_leaks_at_most):
            assert_leaks_at_most(lambda text, rng: text, TEXTS, loss=1.0)

        def test_its_tail_leaks(assert_leaks_at_most):
            coin = lambda text, rng: text if rng.random() < 0.1 else "nothing"
            assert_leaks_at_most(coin, TEXTS, loss=1.0)
            assert_leaks_at_most(coin, TEXTS, loss=1.0, delta_at_4=0.01)

        def test_it_masks(assert_leaks_at_most):
            assert_leaks_at_most(lambda text, rng: "nothing", TEXTS, identifiers=0.1)

        def test_it_names(assert_leaks_at_most):
            assert_leaks_at_most(lambda text, rng: text, TEXTS, identifiers=(0.1, ["name"]))

        TABLE = pl.DataFrame({"text": [f"{i} of {g}" for i in range(240) for g in "MF"], "gender": ["M", "F"] * 240})

        def test_nobody_infers(assert_leaks_at_most):
            assert_leaks_at_most(lambda text, rng: "nothing", TABLE, attribute=(0.5, "gender"))

        def test_it_is_inferred(assert_leaks_at_most):
            assert_leaks_at_most(lambda text, rng: text, TABLE, attribute=(0.5, "gender"))

        def test_there_is_no_such_limit(assert_leaks_at_most):
            assert_leaks_at_most(lambda text, rng: "nothing", TEXTS, loss=1.0, identifier=0.1)

        def test_there_is_no_such_column(assert_leaks_at_most):
            assert_leaks_at_most(lambda text, rng: text, TABLE, attribute=(0.5, "age"))
        """
    )
    outcome = pytester.runpytest_inprocess()
    outcome.assert_outcomes(passed=3, failed=6)
    outcome.stdout.fnmatch_lines(
        [
            "*BEYOND*",
            "*a delta at 4 nats of*",
            "*identifiers: name*",
            "*was right in *0.50 nats*",
            "*unknown limit 'identifier'; did you mean 'identifiers'*",
            "*reads the column age*",
        ]
    )
