"""Rewrites from elsewhere: programs that work and programs that fail, and recorded rewrites with a known truth."""

from __future__ import annotations

import math
import shlex
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import pytest

from epsilometer import audit
from epsilometer.auditing.external import LINES, CommandMechanism, _allot, _draw, audit_recorded, recorded
from epsilometer.auditing.trials.design import Design
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from tests.support.processes import wait_for_end
from tests.support.refusals import refused
from tests.support.waiting import LAST_RESORT

PYTHON = shlex.quote(sys.executable)


def program(code: str) -> CommandMechanism:
    return CommandMechanism(f"{PYTHON} -c {shlex.quote(code)} --eps {{epsilon}}")


def rewrite(mechanism: CommandMechanism, texts: list[str], epsilon: float = 0.5) -> list[str]:
    return list(mechanism.rewrite(texts, epsilon, Noise.operating_system(len(texts))).texts)


def test_a_program_reads_and_writes_lines() -> None:
    mechanism = program("import sys\nfor line in sys.stdin: print(sys.argv[2], line.strip().upper())")
    assert rewrite(mechanism, ["a\nb\u2028c", "", "naïve {x} 東京"]) == ["0.5 A B C", "0.5 ", "0.5 NAÏVE {X} 東京"]
    assert rewrite(mechanism, ["a"], 10.0) == ["10 A"]
    assert rewrite(mechanism, []) == []
    assert mechanism.guarantee(1) is None


SEEDED = """
import random, sys
draw = random.Random(int(sys.argv[1]))
for line in sys.stdin:
    print(draw.random(), line.strip())
"""


def test_a_seeded_program_writes_the_same_whatever_the_number_of_workers() -> None:
    """Its draws depend on how many texts came before in its process, and no two processes have the same."""
    command, texts = f"{PYTHON} -c {shlex.quote(SEEDED)} {{seed}}", [f"text {i}" for i in range(2 * LINES + 1)]
    noise = Noise.named(len(texts), "programs")
    by_workers = [list(CommandMechanism(command, workers).rewrite(texts, 1.0, noise).texts) for workers in (1, 3)]
    assert by_workers[0] == by_workers[1]
    assert len({rewrite.split()[0] for rewrite in by_workers[0]}) == len(texts)
    assert [rewrite.partition(" ")[2] for rewrite in by_workers[0]] == texts


CRASHES = """
import os, pathlib, signal, sys
lines, count = sys.stdin.readlines(), pathlib.Path(sys.argv[1])
with count.open("a") as file:
    file.write("x")
if count.stat().st_size <= int(sys.argv[2]):
    print(lines[0], end="", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
print("".join(lines), end="")
"""


def test_a_program_that_crashes_is_started_again_so_often_and_no_more(tmp_path: Path, capsys) -> None:
    """What a killed process wrote is not kept."""

    def crashes(times: int, file: str) -> CommandMechanism:
        return CommandMechanism(f"{PYTHON} -c {shlex.quote(CRASHES)} {tmp_path / file} {times}")

    assert rewrite(crashes(2, "twice"), ["one", "two"]) == ["one", "two"]
    assert "exit status -9; it is started again on the same 2 texts (1 attempts left)" in capsys.readouterr().err
    with refused("EPS-A096", "-9"):
        rewrite(crashes(3, "ever"), ["one", "two"])
    assert (tmp_path / "ever").stat().st_size == 3
    for settings, name in (({"workers": 0}, "workers"), ({"restarts": -1}, "restarts")):
        with refused("EPS-A093", name):
            CommandMechanism("cat", **settings)


def test_a_program_is_audited_like_any_mechanism() -> None:
    texts = [f"text number {word}" for word in ("one", "two", "three", "four", "five")]
    settings = {"attacks": ["lexical"], "trials": 400, "design": Design(temperature=0)}
    table = audit(texts, CommandMechanism("cat"), **settings)
    assert table["loss"].to_list() == table["ceiling"].to_list()
    lost = audit(texts, program("import sys\nfor line in sys.stdin: print('x')"), [1.0], **settings)
    assert lost["loss"].to_list() == [0.0]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('only one')", "wrote 1 lines for 2; write exactly one line for each"),
        ("pass", "wrote 0 lines for 2"),
        (
            "import sys; print('no model', file=sys.stderr); sys.exit(3)",
            "failed with exit status 3; its standard error is withheld",
        ),
        ("import os; os.write(1, b'caf\\xe9\\n\\n')", "not UTF-8 (byte 3)"),
    ],
)
def test_a_program_that_misbehaves_is_named(code: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        rewrite(program(code), ["secret", "words"])
    assert message in str(error.value)
    assert "--eps 0.5" in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("code", "bounds", "refusal"),
    [
        (
            f"import time; time.sleep({LAST_RESORT})",
            {"SECONDS": "1"},
            ("EPS-C104", "1", "EPSILOMETER_COMMAND_SECONDS"),
        ),
        ("while True: print('x')", {}, ("EPS-C103", "2")),
        ("while True: print('x', end='')", {"BYTES": "100000"}, ("EPS-C103", "100000", "EPSILOMETER_COMMAND_BYTES")),
        ("import os\nos.close(1), os.close(2)\nwhile True: pass", {"SECONDS": "1"}, ("EPS-C104", "1")),
    ],
    ids=["hangs", "lines without end", "a line without end", "closes its output and goes on"],
)
def test_a_program_without_end_is_ended_and_named(
    code: str, bounds: dict[str, str], refusal: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bounds.items():
        monkeypatch.setenv(f"EPSILOMETER_COMMAND_{name}", value)
    with refused(*refusal):
        rewrite(program(code), ["secret", "words"])


def test_a_child_that_keeps_the_output_is_ended(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("epsilometer.runtime.program._HELD", 0.5)
    number = tmp_path / "number"
    code = (
        f"import subprocess\nprint('a\\nb')\nchild = subprocess.Popen(['sleep', '{LAST_RESORT:.0f}'])\n"
        f"open({str(number)!r}, 'w').write(str(child.pid))"
    )
    assert rewrite(program(code), ["secret", "words"]) == ["a", "b"]
    assert "left a process running that held its output open; the process was ended" in capfd.readouterr().err
    with suppress(psutil.NoSuchProcess):
        wait_for_end([psutil.Process(int(number.read_text()))])


def test_much_is_read_and_written_at_once() -> None:
    """More than pipes hold, in both directions and on standard error."""
    code = "import sys\nfor line in sys.stdin:\n print(line.strip()), print('e' * 1000, file=sys.stderr)"
    texts = [f"{i} {'x' * 500}" for i in range(2000)]
    assert rewrite(program(code), texts) == texts
    assert rewrite(program("print('\\n' * 999)"), texts[:LINES]) == [""] * LINES  # a program that reads no input


@pytest.mark.parametrize(
    ("command", "code"),
    [("", "EPS-A092"), ("no-such-program --eps {epsilon}", "EPS-A092"), ("'unclosed", "EPS-A099")],
)
def test_a_command_that_starts_nothing_is_refused_at_once(command: str, code: str) -> None:
    with refused(code, command):
        CommandMechanism(command)


TABLE = pl.DataFrame({"original": ["a b", "c"], "epsilon": [0.5, 10.0], "rewrite": ["x, y", ""], "note": [1, 2]})


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_recorded_rewrites_in_every_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rewrites.{suffix}"
    {"csv": TABLE.write_csv, "jsonl": TABLE.write_ndjson, "parquet": TABLE.write_parquet}[suffix](path)
    assert recorded(path).equals(TABLE.drop("note"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("original,epsilon,rewritten\na,1,b\n", "unknown column 'rewrite'; did you mean 'rewritten'?"),
        ("original,epsilom,rewrite\na,1,b\n", "unknown column 'epsilon'; did you mean 'epsilom'?"),
        (
            "original,epsilon,rewrite\na,high,b\n",
            "epsilon must be a number, which row 1 of 1 does not have; leave these rows out",
        ),
        ("original,epsilon,rewrite\na,-1,b\n", "epsilon must be a finite number > 0, got -1.0"),
        ("original,epsilon,rewrite\na,nan,b\n", "epsilon must be a finite number > 0, got nan"),
        ("original,epsilon,rewrite\n", "holds no rewrites"),
    ],
)
def test_bad_recordings_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "rewrites.csv"
    path.write_text(content)
    with pytest.raises(UserError) as error:
        recorded(path)
    assert message in str(error.value)


def respond(originals: list[str], repeats: int, epsilon: float, seed: int) -> pl.DataFrame:
    """Randomised response between two texts, recorded."""
    rng = np.random.default_rng(seed)
    truth = np.tile(np.arange(2), repeats)
    keep = rng.random(len(truth)) < 1 / (1 + math.exp(-epsilon))
    return pl.DataFrame(
        {
            "original": [originals[i] for i in truth],
            "epsilon": epsilon,
            "rewrite": [originals[i] for i in np.where(keep, truth, 1 - truth)],
        }
    )


def test_recorded_randomised_response_comes_out_at_its_epsilon() -> None:
    """The loss is exactly epsilon: above it with probability 0.005 each (alpha / 2), below 0.85 of it under 1e-6."""
    texts = ["yes", "no thank you"]
    table = pl.concat([respond(texts, 40_000, epsilon, seed) for seed, epsilon in enumerate((1.0, 2.0))])
    result = audit_recorded(table, ["length"], design=Design(temperature=0))
    assert result["trials"].to_list() == [40_000, 40_000]
    for epsilon, loss in result.select("epsilon", "loss").iter_rows():
        assert 0.85 * epsilon < loss <= epsilon
    assert result.columns == audit(texts, lambda t, e, r: t, [1], ["length"], 10).columns


def test_recordings_of_a_mechanism_without_a_budget_need_no_epsilon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same rewrites, so the same losses; only the budget, and what is claimed by it, is missing."""
    table = respond(["yes", "no thank you"], 2000, 1.0, 0)
    same = {"attacks": ["length"], "design": Design(temperature=0)}
    table.drop("epsilon").write_csv(tmp_path / "rewrites.csv")
    losses = audit_recorded(recorded(tmp_path / "rewrites.csv"), **same)  # type: ignore[arg-type]
    assert "no column epsilon" in capsys.readouterr().err
    assert losses["epsilon"].to_list() == [None]
    assert losses["loss"].equals(audit_recorded(table, **same)["loss"])  # type: ignore[arg-type]


def test_constant_rewrites_prove_nothing_though_some_texts_are_in_most_sets() -> None:
    """Few odd texts are the furthest from all others. Were targets drawn first and dropped when their rewrites are
    used up, most targets would be the other texts, and the rewrite, which resembles these, would be a sure hint.
    False alarm: 0.005."""
    words = ("flight", "train", "bus", "boat", "tram", "car")
    usual = [f"book a {a} and a {b} to boston" for a in words for b in words]
    odd = ["xylophone quartz symphony", "zzz"]
    texts = usual + odd
    table = pl.DataFrame({"original": texts * 30, "epsilon": 1.0, "rewrite": "book a flight and a train to boston"})
    result = audit_recorded(table, ["lexical", "embedding"])
    assert result["trials"].to_list() == [30 * len(texts) // 2] * 3  # rows of two attacks, and of the strongest
    assert result["loss"].to_list() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("candidates", [2, 3])
@pytest.mark.parametrize("temperature", [0, -10_000])
def test_no_rewrite_serves_twice(candidates: int, temperature: float) -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 40, 300)
    vectors = rng.normal(size=(300, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    sets, numbers = _allot(counts, vectors, Design(candidates, temperature))
    assert all(len(set(row)) == candidates for row in sets.tolist())
    assert len({*zip(sets.ravel().tolist(), numbers.ravel().tolist(), strict=True)}) == sets.size
    assert (numbers < counts[sets]).all()
    assert len(sets) > 0.9 * counts.sum() / candidates
    trials, rows = _draw(counts, vectors, 500, 1.0, Design(candidates, temperature))
    assert len(set(rows.tolist())) == 500
    assert (np.repeat(np.arange(300), counts)[rows] == trials.source).all()


def test_sets_are_as_unlike_as_the_temperature_asks() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(400, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

    def cosine(temperature: float) -> float:
        sets, _ = _allot(np.ones(400, np.int64), vectors, Design(temperature=temperature))
        return float(np.einsum("nd,nd->n", vectors[sets[:, 0]], vectors[sets[:, 1]]).mean())

    assert cosine(-10_000) < -0.5
    assert abs(cosine(0)) < 0.1
    assert cosine(10_000) > 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trials": 0}, "trials must be >= 1, got 0"),
        ({"trials": 4}, "trials must be at most 3 at epsilon 1, got 4: each trial uses 2 of the 6 recorded rewrites"),
        ({"candidates": 3}, "the number of distinct originals, 2 at epsilon 1, got 3"),
        ({"candidates": 1}, "candidates (k) must be between 2 and"),
        ({"alpha": 1.5}, "alpha must be in"),
        ({"attacks": ["lexcal"]}, "did you mean 'lexical'"),
    ],
)
def test_bad_settings_are_named(settings: dict, message: str) -> None:
    table = respond(["a b", "c d"], 3, 1.0, 0)
    design = {name: settings[name] for name in ("candidates", "alpha") if name in settings}
    others = {name: settings[name] for name in settings if name not in design}
    with pytest.raises(UserError) as error:
        audit_recorded(table, **{"attacks": ["length"], **others}, design=Design(temperature=0, **design))
    assert message in str(error.value)


def test_a_misspelt_budget_of_a_command_is_named() -> None:
    with refused("EPS-A094"):
        CommandMechanism("sed s/{eps}//")
    CommandMechanism("awk {print}")  # the command has braces of its own


def test_rewrites_too_few_to_prove_anything_are_refused() -> None:
    """Two texts with a rewrite each are one trial: a table of zeros."""
    table = pl.DataFrame({"original": ["hello there", "good bye"], "rewrite": ["x", "y"]})
    with refused("EPS-A101", "1"):
        audit_recorded(table, ["lexical"])
