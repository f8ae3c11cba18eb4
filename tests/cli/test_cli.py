"""The command line as a user meets it: results on standard output, one message and exit code 2 for a mistake."""

from __future__ import annotations

import gzip
import json
import math
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
import yaml

from epsilometer import __version__
from epsilometer.auditing.schemas import AUDIT, CLAIMS, ESTIMATES
from epsilometer.cli import check, main, results
from epsilometer.core import tables
from epsilometer.core.component import names
from epsilometer.core.mechanism import FunctionMechanism, Rewrites
from epsilometer.corpora import files
from epsilometer.pipeline import repro
from epsilometer.pipeline.checking import AbsentError
from epsilometer.runtime.progress import parse
from tests.support.commands import call
from tests.support.places import ROOT
from tests.support.waiting import LAST_RESORT, finished, wait_for

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
RUN = f"{shlex.quote(sys.executable)} -m epsilometer.cli"

SHOUT = """
def rewrite(text, epsilon, rng):
    return f"{text.upper()}\\n{epsilon:g} {rng.integers(1000000)}"
"""


def shell(command: str, folder: Path, **settings: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
        timeout=LAST_RESORT,
        **settings,
    )


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.csv"
    rows = [f"{word} times {other}" for word in ("two", "three", "four", "five") for other in ("six", "seven")]
    pl.DataFrame({"query": [*rows, "two  times six ", "!"]}).write_csv(path)
    return path


@pytest.fixture
def shout(tmp_path: Path) -> Path:
    path = tmp_path / "shout.py"
    path.write_text(SHOUT)
    return path


def test_help_needs_nothing_heavy() -> None:
    code = "import sys, epsilometer.cli; print(*{'numpy', 'polars', 'pydantic', 'torch', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_audit_at_several_epsilons(capsys: pytest.CaptureFixture[str], texts: Path, tmp_path: Path) -> None:
    same = tmp_path / "same.py"
    same.write_text("def rewrite(text, epsilon, rng):\n    return text\n")
    options = ["--text", "query", "--epsilons", "1,0.5", "--attacks", "lexical,length", "--trials", 300]
    arguments = ["audit", texts, "--mechanism", same, "--temperature", 0, *options]
    code, out, err = call(capsys, *arguments, "--json")
    rows = json.loads(out)
    assert code == 0
    assert [(row["epsilon"], row["attack"]) for row in rows] == [
        (0.5, "lexical"), (0.5, "length"), (0.5, "strongest"),
        (1.0, "lexical"), (1.0, "length"), (1.0, "strongest"),
    ]  # fmt: skip
    assert rows[0]["loss"] == rows[0]["ceiling"] > 3
    assert rows[0]["upper"] == "Infinity"  # a string, because JSON has no infinity and null means not computed
    assert 0 < rows[1]["loss"] < rows[0]["loss"]  # texts have three words each, but different numbers of characters
    notes = err.splitlines()
    assert notes[:2] == ["note: 1 texts without a word dropped", "note: 1 duplicate texts merged"]
    assert any("length alone proves" in note for note in notes)  # for texts with equally many words
    code, out, _ = call(capsys, *arguments)
    header, first, _, strongest, *_ = out.split("\n")
    assert header.split() == ["epsilon", "attack", "success_rate", "loss", "upper", "overall"]
    assert first.split()[:4] == ["0.5", "lexical", "1", "≥"]  # all guesses were right, and nothing bounds the loss
    assert first.endswith("∞  no claim")
    assert strongest.split()[1:3] == ["strongest:", "lexical"]


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version")[:2] == (0, f"{__version__}\n")


def test_any_columns_on_request(capsys: pytest.CaptureFixture[str], texts: Path) -> None:
    arguments = ["audit", texts, "--text", "query", "--mechanism", "identity", "--temperature", 0]
    arguments += ["--trials", 20, "--attacks", "lexical"]
    assert call(capsys, *arguments, "--columns", "all")[1].splitlines()[0].split() == list(AUDIT)
    assert call(capsys, *arguments, "--columns", "trials,ceiling")[1].splitlines()[0].split() == ["trials", "ceiling"]
    assert json.loads(call(capsys, *arguments, "--columns", "trials", "--json")[1]) == [{"trials": 20}]
    code, out, err = call(capsys, *arguments, "--columns", "epsilon,ceilling")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == "error: unknown column 'ceilling'; did you mean 'ceiling'? [EPS-C022]"
    assert "not run" not in err  # before anything is rewritten


def test_audit_of_an_own_mechanism_a_program_and_recorded_rewrites(
    capsys: pytest.CaptureFixture[str], texts: Path, shout: Path, tmp_path: Path
) -> None:
    recorded = tmp_path / "recorded.jsonl"
    originals = pl.read_csv(texts)["query"].to_list()[:8] * 20
    pl.DataFrame({"original": originals, "epsilon": 1, "rewrite": originals}).write_ndjson(recorded)
    file = [texts, "--text", "query"]
    own = [*file, "--mechanism", shout, "--epsilons", 1]
    for source in (own, [*file, "--command", "cat"], ["--rewrites", recorded]):
        code, out, _ = call(
            capsys, "audit", *source, "--attacks", "lexical", "--trials", 80, "--temperature", 0, "--json"
        )
        (row,) = json.loads(out)
        assert code == 0
        assert row["trials"] == row["successes"] == 80


def test_an_attack_that_does_not_apply_is_said_so(capsys: pytest.CaptureFixture[str], texts: Path) -> None:
    arguments = ["audit", texts, "--text", "query", "--mechanism", "identity", "--temperature", 0]
    code, out, err = call(capsys, *arguments, "--trials", 5, "--attacks", "likelihood,length", "--json")
    assert code == 0
    assert [row["attack"] for row in json.loads(out)] == ["length"]
    assert "note: skipped: likelihood, which does not apply to this mechanism" in err


def test_a_loss_that_no_guesses_could_have_proved_is_not_testable(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Seven guesses between two texts, all right, come by chance too often; so does a set of two people."""
    rows = [{"text": f"{word} {n}", "author": word} for word in ("tea", "milk", "rum") for n in ("first", "second")]
    pl.DataFrame(rows).write_csv(tmp_path / "few.csv")
    arguments = ("audit", tmp_path / "few.csv", "--mechanism", "identity")
    attacked = ("--attacks", "lexical", "--temperature", 0)
    for options in (
        (*attacked, "--trials", 7),
        ("--author", "author", "--linkers", "bm25", "--among", 2, "--trials", 1),
    ):
        code, out, _ = call(capsys, *arguments, *options)
        assert (code, "not testable" in out) == (0, True)
        code, out, _ = call(capsys, *arguments, *options, "--json")
        assert [(row["loss"], row["ceiling"]) for row in json.loads(out)] == [(0, 0)]
    assert "not testable" not in call(capsys, *arguments, *attacked, "--trials", 8)[1]
    code, out, _ = call(capsys, "gate", *arguments[1:], "--attacks", "lexical", "--max-loss", 1, "--budget", 5)
    assert (code, "not testable: too few rewrites" in out) == (3, True)


def test_help_names_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    said = " ".join(call(capsys, "audit", "--help")[1].split())
    assert f"({', '.join(names('attacks/identification'))})" in said
    assert f"({', '.join(names('mechanisms'))})" in said


def test_attacks_take_settings(capsys: pytest.CaptureFixture[str], texts: Path) -> None:
    arguments = ["audit", texts, "--text", "query", "--mechanism", "identity", "--temperature", 0]
    options = ["--trials", 20, "--attacks", "lexical", "--json"]
    assert call(capsys, *arguments, *options, "--attack-set", "lexical.longest=2")[0] == 0
    code, _, err = call(capsys, *arguments, *options, "--attack-set", "lexical.longst=2")
    assert code == 2
    assert "unknown setting in attacks.lexical 'longst'; did you mean 'longest'?" in err
    code, _, err = call(capsys, *arguments, *options, "--attack-set", "longest=2")
    assert code == 2
    assert "--attack-set takes ATTACK.KEY=VALUE for one of lexical, got 'longest'" in err


def test_every_command_on_texts_reads_them_in_the_same_ways(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("euro.csv").write_bytes("1;thé vert\n2;café noir\n3;lait chaud\n".encode("latin-1"))
    layout = ["--text", "2", "--rows", "2"]
    for entry in ("separator=;", "header=false", "encoding=latin-1", "quotes=false"):
        layout += ["--layout", entry]
    read = []
    monkeypatch.setattr(
        "epsilometer.questions.which_text.audit", lambda texts, *_, **__: read.append(texts) or pl.DataFrame()
    )
    monkeypatch.setattr(
        "epsilometer.cells.calibrating.losses.calibrate_texts",
        lambda texts, *_, **__: read.append(texts) or {"status": "found", "reason": ""},
    )
    monkeypatch.setattr("epsilometer.cells.comparing.compare_texts", lambda texts, *_, **__: read.append(texts) or [])
    for command in (
        ["audit", "euro.csv", "--mechanism", "identity"],
        ["calibrate", "euro.csv", "--mechanism", "identity", "--target", 1],
        ["compare", "identity=1", "identity=2", "euro.csv"],
    ):
        assert call(capsys, *command, *layout)[0] == 0
    assert call(capsys, "rewrite", "euro.csv", "--mechanism", "identity", "--out", "out.csv", *layout)[0] == 0
    assert Path("out.csv").read_text("latin-1") == "1;thé vert\n2;café noir\n"
    assert read == [["thé vert", "café noir"]] * 3


def test_calibrate_takes_public_texts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, texts: Path
) -> None:
    monkeypatch.chdir(texts.parent)
    Path("public.txt").write_text("two plus six\nthree plus seven\nfour plus six\nfive plus seven")
    command = ["calibrate", texts.name, "--text", "query", "--mechanism", "exemplars", "--set", "m=4", "--target", 0.3]
    code, out, _ = call(capsys, *command, "--public", "public.txt", "--measure", "worst", "--high", 50, "--json")
    assert (code, json.loads(out)[0]["status"]) == (0, "found")
    Path("public.txt").write_text("two times six\nthree times six\ntwo plus one\nsix plus one")
    code, _, err = call(capsys, *command, "--public", "public.txt")
    assert (code, "2 of the 8 texts are also among the mechanism's public texts" in err) == (2, True)
    code, _, err = call(capsys, "calibrate", "--target", 1, "--public", "public.txt")
    assert (code, "--public need a FILE of texts" in err) == (2, True)


def test_rewrite_releases_public_texts_like_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """To refuse one would show that it is there."""
    monkeypatch.chdir(tmp_path)
    Path("public.txt").write_text("two times six\nthree times six\ntwo plus one\nsix plus one")
    Path("private.txt").write_text("Two times six!\nfour minus three")
    command = ["rewrite", "private.txt", "--mechanism", "exemplars", "--set", "m=4", "--public", "public.txt"]
    code, out, err = call(capsys, *command, "--epsilon", 1)
    assert (code, len(out.splitlines())) == (0, 2)
    assert set(out.splitlines()) <= set(Path("public.txt").read_text().splitlines())
    assert "1 of the texts are among the public texts" in " ".join(err.split())


SILENT = """
class Mine:
    def rewrite(self, texts, epsilon, noise):
        raise ValueError("its claim is looked at before anything is rewritten")
"""
MISTAKEN = {
    "one.txt": "play a song\nplay a song\n",
    "records.json": '[{"text": "play a song"}, {"text": "stop it"}]',
    "syntax.py": "import re\ndef rewrite(text, epsilon, rng)\n    return text\n",
    "silent.py": SILENT,
    "number.py": f"{SILENT}\n    def guarantee(self, epsilon):\n        return epsilon\n",
}
MISTAKES = {
    "": "give one of --mechanism, --command, --endpoint and --rewrites",
    "texts.csv --mechanism identity --command cat": "give one of",
    "--mechanism identity": "give a FILE of texts; only --rewrites works without one",
    "texts.csv --text query --mechanism randomized_response": "epsilons is not set",
    "texts.csv --rewrites texts.csv": "leave out FILE and --epsilons",
    "texts.csv --mechanism identity": "unknown text column 'text'; to see the file's names",
    "nothing.csv --mechanism identity": "file 'nothing.csv' not found",
    "texts.csv --text query --mechanism identiti": "did you mean 'identity'?",
    "texts.csv --text query --mechanism mine.py --epsilons 1": "file 'mine.py' not found",
    "texts.csv --text query --mechanism identity --epsilons 1,x": "--epsilons must be numbers separated by commas",
    "texts.csv --text query --mechanism identity --epsilons 1,-2": "epsilon must be a finite number > 0, got -2.0",
    "texts.csv --text query --mechanism identity --epsilons nan": "epsilon must be a finite number > 0, got nan",
    "texts.csv --text query --mechanism identity --attacks embeding": "did you mean 'embedding'?",
    "texts.csv --text query --mechanism identity --candidates 1": "candidates (k) must be between 2 and",
    "texts.csv --text query --mechanism identity --candidates 9": "the number of distinct texts (8)",
    "texts.csv --text query --mechanism identity --trials 0": "trials must be >= 1, got 0",
    "texts.csv --text query --mechanism identity --alpha 1": "alpha must be in (0, 1), got 1.0",
    "texts.csv --text query --mechanism identity --set depth": "--set takes key=value, got 'depth'",
    "texts.csv --text query --mechanism identity --set depth=2": "'depth'; known: none",
    "texts.csv --text query --command no-such-program": "no-such-program' does not exist",
    "texts.csv --text query --command false --temperature 0": "failed with exit status 1",
    "--rewrites texts.csv": "unknown column 'original'",
    "texts.csv --attribute gender": "give one of --mechanism, --command, --endpoint and --rewrites",
    "texts.csv --rewrites texts.csv --attribute gender --keep rating --mechanism tem": "give one of",
    "texts.csv --rewrites texts.csv --attribute gender --keep rating --kinds deep": "unknown kind of classifier 'deep'",
    "texts.csv --rewrites texts.csv --keep rating": "the setting 'attribute' is missing",
    "--epsilon 1": "No such option: --epsilon",
    "texts.csv --text query --mechanism identity --among 5": "give linking.facts or linking.author",
    "texts.txt --mechanism identity --layout separator=;": "--layout separator is for .csv and .tsv files; leave it",
    "texts.txt --mechanism identity --layout header=false --layout quotes=false": "header, --layout quotes are for",
    "--rewrites rewrites.jsonl --layout header=false": "--layout header is for .csv and .tsv files",
    "one.txt --mechanism identity": "trials need at least 2 distinct texts, got 1 distinct text; give more",
    "records.json --mechanism identity": "for a list of records use .jsonl",
    "texts.csv --text query --mechanism silent.py --epsilons 1": "silent.py has no method guarantee; add guarantee",
    "texts.csv --text query --mechanism number.py --epsilons 1": "guarantee returns 1.0 at epsilon 1; return a Guar",
    "texts.csv --text query --mechanism syntax.py --epsilons 1": "syntax.py, line 2: expected ':'; correct the code",
    "--candidates two": "--candidates must be a whole number or `all`, got 'two'",
}


@pytest.mark.parametrize("arguments", MISTAKES)
def test_a_mistake_ends_with_one_message(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, texts: Path, arguments: str
) -> None:
    monkeypatch.chdir(texts.parent)
    for name, content in MISTAKEN.items():
        Path(name).write_text(content)
    code, out, err = call(capsys, "audit", *arguments.split())
    assert code == 2
    assert out == ""
    assert MISTAKES[arguments].lower() in err.lower()
    assert "Traceback" not in err


PARAMS = """
root: .
audit: {seed: 0}
datasets:
  mine: {source: texts.csv, text: query}
  theirs: {source: pin.json}
trials: {count: 10, candidates: 2}
words: {sources: {theirs: words.json}}
cells:
  mine-shout: {dataset: mine, mechanism: shout, file: shout.py, resource: texts.csv, epsilons: [1, 2]}
attacks: {length: {}, embedding: {}}
mechanisms: {}
"""


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch, texts: Path, shout: Path) -> Path:
    monkeypatch.chdir(texts.parent)
    Path("pin.json").write_text(json.dumps({"dataset": "nobody/nothing", "revision": "0" * 40}))
    Path("words.json").write_text(json.dumps({"model": "nobody/words", "revision": "v1"}))
    Path("params.yaml").write_text(PARAMS)
    return Path("params.yaml")


def test_check_says_what_would_be_downloaded(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    downloads = [f"data set nobody/nothing@{'0' * 40}", "model nobody/words@v1"]
    code, out, _ = call(capsys, "check", "params", "--json")
    assert code == 0
    shown = json.loads(out)
    assert (shown["file"], shown["downloads"]) == ("params.yaml", downloads)
    code, out, _ = call(capsys, "check", "params", project)
    lines = out.splitlines()
    assert lines[0] == "params.yaml is valid"
    assert lines[2].split("  ")[0] == "data set nobody/nothing@0000000"
    assert lines[3].endswith("missing")
    assert lines[4].startswith("`epsilometer check params params.yaml --fetch` downloads the missing files")


def test_check_lists_what_is_missing_and_what_would_be_downloaded(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    project.write_text(PARAMS.replace("texts.csv, text", "text.csv, text").replace("words.json", "word.json"))
    code, out, err = call(capsys, "check", "params")
    assert code == 2
    assert out.splitlines()[1].split("  ")[0] == "data set nobody/nothing@0000000"
    assert "valid" not in out
    assert err.splitlines() == [
        "error: datasets.mine.source: 'text.csv' does not exist; put it there, or correct the path",
        "words.sources.theirs: 'word.json' does not exist; put it there, or correct the path [EPS-P080]",
    ]


@pytest.mark.parametrize(("right", "wrong"), [("use: train", "use: trian"), ("part: queries", "part: querys")])
def test_check_looks_into_generated_data_sets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, right: str, wrong: str
) -> None:
    monkeypatch.chdir(ROOT)
    file = tmp_path / "params.yaml"
    file.write_text((ROOT / "profiles/generated.yaml").read_text().replace(right, wrong, 1))
    code, _, err = call(capsys, "check", "params", file)
    assert code == 2
    assert wrong.split()[1] in err


@pytest.mark.parametrize(("candidates", "code", "said"), [(300, 0, ""), (901, 2, "distinct texts, 900 in the split")])
def test_check_counts_all_texts_of_a_generator_where_a_sample_has_too_few(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    candidates: int,
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(ROOT)
    file = tmp_path / "params.yaml"
    params = yaml.safe_load((ROOT / "profiles/full.yaml").read_text())
    params["datasets"] = {"queries": params["datasets"]["queries"] | {"count": 1200}}
    params["exemplars"] = params["decide"] = params["questions"] = {}
    params["cells"] = {name: cell for name, cell in params["cells"].items() if cell["dataset"] == "queries"}
    params["trials"]["candidates"] = candidates
    file.write_text(yaml.safe_dump(params))
    ended, _, err = call(capsys, "check", "params", file)
    assert (ended, said in err) == (code, True)


def test_the_default_audit_needs_no_download(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    code, out, err = call(capsys, "check", "params", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["downloads"] == []


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("seed: 0", "sed: 0", "did you mean 'seed'?"),
        ("texts.csv, text", "text.csv, text", "datasets.mine.source: 'text.csv' does not exist; put it there"),
        ("resource: texts.csv", "resource: text.csv", "unknown resource in cells.mine-shout.resource 'text.csv'"),
        ("resource: texts.csv", "resource: data/prepared/mein.parquet", "did you mean 'data/prepared/mine.parquet'?"),
        ("text: query", "text: qery", "unknown text column 'qery'; to see the file's names"),
        ("text: query", "text: query, use: tran", "unknown split in datasets.mine.use 'tran'; to see the file's names"),
        ("candidates: 2", "candidates: 9", "the number of distinct texts, 8 in the split 'train' of mine, got 9"),
        ("{length", "{lenght", "unknown attack 'lenght'; did you mean 'length'?"),
        ("length: {}", "length: {depth: 2}", "'depth'"),
        ("file: shout.py", "file: shut.py", "file 'shut.py' not found"),
        ("[1, 2]", "[1, -2]", "epsilon must be a finite number > 0, got -2.0 (cells.mine-shout.epsilons[1])"),
        ("embedding: {}", "embedding: {model: ./no/model}", "folder './no/model' of the model not found"),
        ("words.json", "word.json", "words.sources.theirs: 'word.json' does not exist"),
    ],
)
def test_check_names_what_is_wrong(
    capsys: pytest.CaptureFixture[str], project: Path, right: str, wrong: str, message: str
) -> None:
    project.write_text(PARAMS.replace(right, wrong))
    code, out, err = call(capsys, "check", "params")
    assert code == 2
    assert "valid" not in out
    assert message in err


def test_mechanisms_lists_every_file_with_claim_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "list", "--json")
    rows = {row["mechanism"]: row for row in json.loads(out)}
    assert code == 0
    assert list(rows) == names("mechanisms")
    assert all(row["claim"] and row["source"] for row in rows.values())
    assert rows["randomized_response"]["claim"] == "Epsilon for a whole text."
    assert "Warner 1965" in rows["randomized_response"]["source"]
    _, out, _ = call(capsys, "list")
    assert "identity\n  The identity: releases every text unchanged." in out


def test_rewrite_keeps_a_text_on_its_line(tmp_path: Path, shout: Path) -> None:
    lines = [" a\t b ", "", "naïve  東京\r", *(f"line {i}" for i in range(12_000))]
    fresh = [
        shell(f"{RUN} rewrite --mechanism shout.py --epsilon 2", tmp_path, input="\n".join(some).encode()).stdout
        for some in (lines, lines[:9])
    ]
    private, again = (text.decode().split("\n") for text in fresh)
    assert private[:9] != again[:9]
    assert [line.rpartition(" ")[0] for line in private[:4]] == ["A B 2", " 2".strip(), "NAÏVE 東京 2", "LINE 0 2"]
    assert len(private) == len(lines) + 1


CLAIMS_A_COIN = """
import random

from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import Rewrites

random.seed(0)


class Mine:
    def guarantee(self, epsilon):
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY)

    def rewrite(self, texts, epsilon, noise):
        draws = DRAWS
        return Rewrites([text if draw < 0.5 else "nothing" for text, draw in zip(texts, draws)])
"""


@pytest.mark.parametrize("own", [True, False])
def test_a_claim_is_published_only_by_draws_from_its_noise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own: bool
) -> None:
    """A generator that a file seeds for itself gives everybody the same release."""
    draws = "noise.uniforms()[:, 0]" if own else "[random.random() for _ in texts]"
    (mine := tmp_path / "mine.py").write_text(CLAIMS_A_COIN.replace("DRAWS", draws))
    (source := tmp_path / "texts.txt").write_text("one\ntwo\nthree\nfour\nfive\nsix\n")
    code, out, errors = call(capsys, "rewrite", source, "--mechanism", mine, "--epsilon", "1")
    if own:
        assert (code, len(out.splitlines())) == (0, 6)
        assert "draws by `laws.sample` are exact" in errors
    else:
        assert (code, out) == (2, "")
        assert "the mechanism draws from another source" in errors


def test_a_seeded_rewrite_is_reproducible_and_says_that_it_is_not_for_release(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, shout: Path
) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(f"line {i}" for i in range(10_003)))

    def seeded(source: Path) -> list[bytes]:
        with pytest.raises(SystemExit) as exit:
            main(["rewrite", str(source), "--mechanism", str(shout), "--epsilon", "2", "--seed", "7"])
        out, err = capfdbinary.readouterr()
        assert not exit.value.code
        assert b"do not publish it" in err
        return out.splitlines()

    whole = seeded(file)
    assert len(whole) == 10_003
    assert len({line.split()[-1] for line in whole[:100] + whole[-3:]}) > 100  # no block restarts the random stream
    file.write_text("\n".join(f"line {i}" for i in range(5)))
    assert seeded(file) == whole[:5]


QUERIES = pl.DataFrame({"label": ["A", "B"], "query": ["a\tb, c", 'says "d"'], "id": ["1", "2"]})


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".csv.gz", ".tsv.zst", ".parquet"])
def test_rewrite_knows_columns_and_formats(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, shout: Path, suffix: str
) -> None:
    source, out = tmp_path / f"queries{suffix}", tmp_path / f"private{suffix}"
    files.write(QUERIES, source, files.suffix(source))
    arguments = ["rewrite", source, "--text", "query", "--mechanism", shout, "--epsilon", 2]
    code, said, err = call(capfd, *arguments, "--out", out)
    assert (code, said) == (0, "")
    assert "note: only query is rewritten; unchanged: 2 columns" in err
    private = files.read(out)
    assert private.columns == QUERIES.columns
    assert private.drop("query").equals(QUERIES.drop("query"))
    assert [text.rpartition(" ")[0] for text in private["query"]] == ["A B, C 2", 'SAYS "D" 2']
    code, said, err = call(capfd, *arguments)
    if suffix == ".parquet":
        assert code == 2
        assert "Parquet cannot be written to standard output" in err
    else:
        assert code == 0
        assert len(said.splitlines()) == 2 + (not suffix.startswith(".jsonl"))
    code, _, err = call(capfd, *arguments, "--out", tmp_path / "private.txt")
    assert code == 2
    assert f"--out must end with {files.suffix(source)}" in err
    code, _, err = call(capfd, *arguments[:2], *arguments[4:], "--out", out)
    assert code == 2
    assert "unknown text column 'text'" in err


def test_rewrite_writes_lines_to_a_file(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "lines.txt.gz").write_bytes(gzip.compress("café\nthé\nmaté\n".encode("latin-1")))
    arguments = ["rewrite", tmp_path / "lines.txt.gz", "--mechanism", "identity", "--rows", 2]
    code, out, _ = call(capfd, *arguments, "--layout", "encoding=latin-1", "--out", tmp_path / "out.txt")
    assert (code, out) == (0, "")
    assert (tmp_path / "out.txt").read_text() == "café\nthé\n"


def test_a_long_rewrite_says_how_long(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A second a text, by the test's clock."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("epsilometer.runtime.progress.time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(FunctionMechanism, "rewrite", lambda _, texts, *rest: slow(texts))

    def slow(texts: list[str]) -> Rewrites:
        clock.now += len(texts)
        return Rewrites(texts)

    (tmp_path / "mine.py").write_text("def rewrite(text, epsilon, rng): return text")
    (tmp_path / "lines.txt").write_text("some text\n" * 600)
    code, out, err = call(capfd, "rewrite", tmp_path / "lines.txt", "--mechanism", tmp_path / "mine.py", "--epsilon", 1)
    assert (code, out) == (0, "some text\n" * 600)
    note, *lines = err.splitlines()
    assert note == "note: rewrite: about 9.8 min to go for 600 texts; with --rows 100 about 1.7 min"
    assert all(parse(line) for line in lines)


def test_rewrite_streams_and_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    """The input never ends: whatever reads it whole, or does not notice that nobody listens, does not end."""
    done = shell(f"yes some text | {RUN} rewrite --mechanism identity | head -2", tmp_path)
    assert done.stdout == b"some text\n" * 2
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--mechanism identity --epsilon 0", "epsilon must be a finite number > 0"),
        ("--mechanism idenity", "did you mean 'identity'?"),
        ("--mechanism identity nothing.txt", "'nothing.txt' does not exist"),
        ("--mechanism identity .", "'.' is a folder, and rewrite reads one file"),
        ("--mechanism coin --epsilon 1 latin.txt", "coin needs the list of public texts that it chooses among"),
        ("--mechanism identity latin.txt", "latin.txt, line 2: not UTF-8 (byte 3 of the line)"),
        ("--epsilon 1", "Missing option '--mechanism'"),
    ],
)
def test_a_mistake_in_a_rewrite(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("latin.txt").write_bytes(b"tea\ncaf\xe9\n")
    code, out, err = call(capsys, "rewrite", *arguments.split())
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_with_130_and_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "epsilometer.cli", "rewrite", "--mechanism", "identity"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"text\n" * 10_000)  # one block, whose output shows that the program has begun
        process.stdin.flush()
        assert process.stdout.readline() == b"text\n"
        process.send_signal(signal.SIGINT)
        wait_for("it ends", lambda: process.poll() is not None)  # its input stays open, or it would end
        _, err = finished(process)
    assert process.returncode == 130
    assert err == b"interrupted\n"


def test_repro_alone_is_the_whole_audit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It checks first, and shows the report at the end; with arguments it is `dvc repro` after that check."""
    steps: list[object] = []
    monkeypatch.setattr(check, "params", lambda: steps.append("check"))
    monkeypatch.setattr(repro, "main", steps.append)
    monkeypatch.setattr(results, "report", lambda: steps.append("report"))
    assert call(capsys, "pipeline", "repro")[0] == 0
    assert steps == ["check", [], "report"]
    assert call(capsys, "pipeline", "repro", "trials", "--force")[0] == 0
    assert steps[3:] == ["check", ["trials", "--force"]]


def test_a_missing_file_stops_the_stages_that_need_it_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> None:
        raise AbsentError(["datasets.songs.source: 'songs.csv' does not exist"], [])

    steps: list[object] = []
    monkeypatch.setattr(check, "params", absent)
    monkeypatch.setattr(repro, "main", steps.append)
    assert call(capsys, "pipeline", "repro")[0] == 2
    code, _, err = call(capsys, "pipeline", "repro", "prepare@queries")
    assert (code, steps) == (0, [["prepare@queries"]])
    assert "note: stages that need a missing file cannot run: datasets.songs.source: 'songs.csv' does not exist" in err


def test_a_stage_is_not_begun_with_invalid_parameters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = call(capsys, "pipeline", "repro", "--help")
    assert (code, "--force" in out, "`dvc repro --help`" in " ".join(out.split())) == (
        0,
        False,
        True,
    )  # it needs no project
    monkeypatch.setattr(repro, "main", lambda targets: pytest.fail("begun"))
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text().replace("candidates: 2", "candidates: 1"))
    code, _, err = call(capsys, "pipeline", "repro", "prepare@queries")
    assert (code, "trials.candidates" in err) == (2, True)


def test_report_prints_estimates_and_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("show", "history"):
        code, _, err = call(capsys, "results", command)
        assert code == 2
        assert "this needs a project, a folder with params.yaml and dvc.yaml: a clone" in err
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text())
    code, _, err = call(capsys, "results", "show")
    assert code == 2
    assert "data/estimates.parquet does not exist; run `dvc repro`" in err
    row = {name: "x" if dtype == pl.String else 1 for name, dtype in ESTIMATES.items()}
    row |= {"loss": 0.25, "upper": math.inf, "p_value": None, "expected": None, "verdict": "not testable"}
    tables.write(pl.DataFrame([row], schema=dict(ESTIMATES)), "data/estimates.parquet", ESTIMATES)
    assert call(capsys, "results", "show")[0] == 2
    Path("reports").mkdir()
    Path("reports/audit.html").write_text("<p>")
    code, out, _ = call(capsys, "results", "show", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["report"] == str(tmp_path / "reports/audit.html")
    assert report["estimates"] == [row | {"upper": "Infinity", "overall": "not testable", "overall_by": None}]
    _, out, _ = call(capsys, "results", "show")
    assert "0.25" in out
    assert "not testable" in out
    check = {"mechanism": "x", "epsilon": 1.0, "claim": "x", "verdict": "violated", "method": "exact"}
    tables.write(pl.DataFrame([check], schema=dict(CLAIMS)), "data/claims.parquet", CLAIMS)
    _, out, _ = call(capsys, "results", "show")  # like the page, which also counts the worst case
    assert "violated" in out
    assert "not testable" not in out
    assert out.endswith("reports/audit.html\n")


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("--trials 60", "upper"),
        ("--trials 60 --candidates all", "loss"),
        ("--trials 60 --fpr 0.1", "tpr_low"),
        ("--trials 60 --prior .7,.3", "loss"),
        ("--trials 20 --units", "coins"),
        ("--trials 60 --worst", "other_place"),
    ],
)
def test_a_black_box_goes_through_every_kind_of_audit(
    capsys: pytest.CaptureFixture[str], texts: Path, tmp_path: Path, options: str, shown: str
) -> None:
    """A plain function without a law, a claim, or units."""
    box = tmp_path / "box.py"
    box.write_text(
        "def rewrite(text, epsilon, rng):\n    return ' '.join(w for w in text.split() if rng.random() < .9)\n"
    )
    arguments = ["audit", texts, "--text", "query", "--mechanism", box, "--epsilons", "1,2", "--temperature", 0]
    arguments += ["--attacks", "lexical,length", *options.split()]
    code, out, _ = call(capsys, *arguments)
    assert code == 0
    assert shown in out.splitlines()[0].split()
    assert "None" not in out
    rows = json.loads(call(capsys, *arguments, "--json")[1])
    assert {row["epsilon"] for row in rows} == {1, 2}
    assert all(row["verdict"] == "no claim" for row in rows)
    for epsilon in (1, 2):
        assert max(row["loss"] for row in rows if row["epsilon"] == epsilon) > 0  # rewrites reveal lengths and words


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--units --worst", "No such option: --worst"),
        ("--worst --prior .5,.5", "No such option: --prior"),
        ("--identifiers name --author a", "linking.author is not a setting of the questions asked (identifiers)"),
        ("--candidates 3 --prior .5,.5", "prior must be 3 positive numbers"),
        ("--fpr 2", "fpr must be in [0, 1), got 2.0"),
    ],
)
def test_what_does_not_go_together_is_refused(
    capsys: pytest.CaptureFixture[str], texts: Path, options: str, message: str
) -> None:
    code, _, err = call(capsys, "audit", texts, "--text", "query", "--mechanism", "identity", *options.split())
    assert code == 2
    assert message in err
