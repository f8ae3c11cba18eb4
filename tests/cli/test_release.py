"""`epsilometer release`, in this process and in processes that are killed or run at the same time."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from epsilometer.auditing.corpora.checks import for_the_curator
from epsilometer.auditing.corpora.vote_loss import outcome_laws
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.mechanisms.corpora.private_evolution import PrivateEvolution
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram
from tests.support.commands import call
from tests.support.corpora import LABELS, PUBLIC, TEXTS, TOPICS, Writer, words_as_vectors
from tests.support.processes import OUTSIDE
from tests.support.waiting import finished, wait_for

COLUMNS = ["--text", "message", "--person", "user", "--label", "topic", "--labels", ",".join(TOPICS)]
SHARES = ["release", "texts.csv", "--mechanism", "label_shares", "--epsilon", "4", *COLUMNS]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    people = [f"u{i}" for i in range(60)]
    pl.DataFrame({"message": TEXTS, "user": people, "topic": LABELS}).write_csv(tmp_path / "texts.csv")
    pl.DataFrame({"text": PUBLIC}).write_csv(tmp_path / "public.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "epsilometer.cli", *words],
        env=OUTSIDE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def entries(folder: Path) -> list[dict[str, object]]:
    file = folder / ".epsilometer-ledger/ledger.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize("more", [["--workers", "2"], ["--ray", "auto"]])
def test_workers_without_texts_to_embed_are_refused(
    folder: Path, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(capsys, *SHARES, "--out", "out.csv", *more)
    assert code == 2
    assert "EPS-U124" in err
    assert not entries(folder)


def test_a_release_and_another(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words_as_vectors(monkeypatch)
    command = ["release", "texts.csv", "--epsilon", "4", "--public", "public.csv", *COLUMNS, "--out", "out.csv"]
    code, out, err = call(capsys, *command)
    assert (code, out) == (0, "")
    assert "60 people" in err
    assert "macro F1" in err
    table = pl.read_csv("out.csv")
    assert table.columns == ["text", "label", "weight"]
    assert table["text"].to_list() == list(PUBLIC)
    files = "".join(Path(name).read_text() for name in ("out.csv", "out.csv.statement.json"))
    assert not any(text in files for text in TEXTS)
    assert "F1" not in files
    code, _, err = call(capsys, *command)
    assert code == 2
    assert "epsilon 4 to epsilon 8" in err
    code, _, err = call(capsys, *command, "--again")
    assert code == 0
    assert "no longer holds" in err
    assert len(entries(folder)) == 2


class Writing:
    """A language model whose prompt l, however it is trained, writes texts on topic l."""

    width = 4

    def adapt(self, texts: Sequence[str], generator: np.random.Generator) -> None:
        """Already knows what to write."""

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        return [[0] for _ in texts]

    def means(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return 1000 * np.eye(len(texts), self.width, dtype=np.float32)

    def gradients(self, prompts: NDArray[np.float32], rows: Sequence[list[int]]) -> NDArray[np.float32]:
        return np.zeros_like(prompts)

    def write(self, prompts: NDArray[np.float32], generator: np.random.Generator) -> list[str]:
        topics = [list(TOPICS.values())[place] for place in prompts.argmax(1)]
        return [f"written {topic[i // 4 % 4]} number {i}" for i, topic in enumerate(topics)]


OWN = """\
import numpy as np
from epsilometer.auditing.corpora.vote_loss import outcome_laws
from epsilometer.core.corpus_mechanism import Release
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours


class Own:
    def __init__(self, labels=()):
        self.labels = labels

    def guarantee(self, epsilon):
        return Guarantee(epsilon, Granularity.USER, Neighbours.REPLACED)

    def release(self, corpus, epsilon, noise):
        words = {"music": "song", "food": "pasta", "weather": "rain", "travel": "train"}
        texts = [f"own {words[label]} number {i}" for label in self.labels for i in range(5)]
        return Release(texts, np.ones(20), [label for label in self.labels for _ in range(5)])
"""


@pytest.mark.parametrize("mechanism", ["private_generator", "own.py"])
def test_a_generators_figures_are_on_the_console_alone(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    """Texts of the right topics teach the topics; the same figures are computed from the released file."""
    words_as_vectors(monkeypatch)
    monkeypatch.setattr("epsilometer.mechanisms.corpora.private_generator.Prompted", lambda writer: Writing())
    Path("own.py").write_text(OWN)
    command = ["release", "texts.csv", "--mechanism", mechanism, "--epsilon", "4", *COLUMNS, "--out", "out.csv"]
    if mechanism == "private_generator":
        command += ["--public", "public.csv", "--set", "rows=40", "--set", "epochs=1", "--set", "batches=2"]
    code, _, err = call(capsys, *command)
    assert code == 0, err
    table = pl.read_csv("out.csv")
    release = Release(table["text"].to_list(), table["weight"].to_numpy(), table["label"].to_list())
    private = PrivateCorpus(TEXTS, [f"u{i}" for i in range(60)], LABELS)
    figures = for_the_curator(VoteHistogram(resource=PUBLIC, labels=tuple(TOPICS)), private, release)
    assert figures.f1 is not None
    assert figures.f1 > 0.9
    assert all(line in err for line in figures.describe())
    assert len(figures.describe()) == 3
    published = "".join(Path(name).read_text() for name in ("out.csv", "out.csv.statement.json"))
    assert "F1" not in published
    assert not any(text in published for text in TEXTS)


@pytest.mark.parametrize(
    ("mechanism", "rounds"), [("vote_histogram", 0), ("private_evolution", 1), ("private_evolution", 2)]
)
def test_the_exact_loss_of_all_rounds_is_stated(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, mechanism: str, rounds: int
) -> None:
    """At epsilon 4 the noise of a table of R has rate 2 / R; all outcomes of the tables together are enumerated."""
    words_as_vectors(monkeypatch)
    monkeypatch.setattr(PrivateEvolution, "_writer", Writer())
    command = ["release", "texts.csv", "--mechanism", mechanism, "--epsilon", "4", "--public", "public.csv", *COLUMNS]
    if rounds:
        command += ["--set", f"rounds={rounds}"]
    code, _, err = call(capsys, *command, "--set", "m=8", "--out", "out.csv")
    assert code == 0, err
    table = outcome_laws(np.eye(2, dtype=np.int64), 2 / max(1, rounds))
    joint = np.array([reduce(np.kron, [law] * max(1, rounds)) for law in table])
    right = 100 * joint.max(0).sum() / 2
    stated = json.loads(Path("out.csv.statement.json").read_text())["guess loss"]
    assert stated["right guesses of 100, at most"] == math.ceil(10 * right) / 10
    assert stated["nats"] == pytest.approx(math.log(right / (100 - right)))
    assert stated["exact for votes in different cells"]
    assert f"{math.ceil(10 * right) / 10:g} of 100" in err


def test_shares_of_labels(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, *SHARES, "--out", "shares.csv", "--per-person", "2")[0] == 0
    shares = pl.read_csv("shares.csv")
    assert shares["label"].to_list() == list(TOPICS)
    assert shares["weight"].sum() == pytest.approx(1)


def test_without_people_each_text_is_one_and_that_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SHARES[:6], "--text", "message", *COLUMNS[4:], "--out", "out.csv"]
    code, _, err = call(capsys, *words)
    assert code == 0
    assert "each text counts as a person" in err


BAD = {
    "must be given together": ["--label", "topic"],
    "its release from public texts": ["--mechanism", "vote_histogram"],
    "must end with .csv": ["--out", "out.docx"],
    "unknown mechanism 'nothing'": ["--mechanism", "nothing"],
    "unknown label column 'nobody'": ["--label", "nobody", "--labels", "a,b"],
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(folder: Path, capsys: pytest.CaptureFixture[str], message: str) -> None:
    words = ["release", "texts.csv", "--text", "message", "--epsilon", "1", "--out", "out.csv", *BAD[message]]
    if "--labels" in words:
        words += ["--mechanism", "label_shares"]
    code, _, err = call(capsys, *words)
    assert code == 2
    assert message in err
    assert not (folder / ".epsilometer-ledger").exists()


def test_public_texts_have_no_effect_on_shares(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, *SHARES, "--public", "public.csv", "--out", "out.csv")
    assert (code, "--public has no effect on label_shares" in err) == (2, True)


def test_a_rewrite_of_peoples_texts_is_in_the_ledger(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite = ["rewrite", "texts.csv", "--text", "message", "--person", "user", "--mechanism", "identity"]
    assert call(capsys, *rewrite, "--out", "rewritten.csv")[0] == 0
    assert {entry["once"] for entry in entries(folder)} == {"unbounded"}  # identity claims nothing
    code, _, err = call(capsys, *SHARES, "--out", "shares.csv")
    assert (code, "1 release without a bound" in err) == (2, True)
    assert call(capsys, *SHARES, "--out", "shares.csv", "--again")[0] == 0
    said = json.loads(Path("shares.csv.statement.json").read_text())["spent"]
    assert said["at most, with all releases of the ledger"]["releases without a bound"] == 1


def test_lines_have_no_people(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("lines.txt").write_text("one\ntwo\n")
    code, _, err = call(capsys, "rewrite", "lines.txt", "--mechanism", "identity", "--person", "user")
    assert (code, "give a table" in err) == (2, True)
    code, _, err = call(capsys, "rewrite", "lines.txt", "--mechanism", "identity", "--again")
    assert (code, "--person" in err) == (2, True)


def test_a_kill_between_the_ledger_and_the_release_is_remembered(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe without a reader holds the process where it is about to publish."""
    os.mkfifo("pipe.csv")
    process = start(*SHARES, "--out", "pipe.csv")
    wait_for("the statement", Path("pipe.csv.statement.json").exists, runs=process)
    process.send_signal(signal.SIGKILL)
    finished(process)
    assert len(entries(folder)) == 1
    code, _, err = call(capsys, *SHARES, "--out", "out.csv")
    assert (code, "epsilon 4 to epsilon 8" in err) == (2, True)


def test_of_two_runs_at_once_one_is_refused(folder: Path) -> None:
    runs = [start(*SHARES, "--out", f"out{number}.csv") for number in range(2)]
    said = [finished(run)[0] for run in runs]
    assert sorted(run.returncode for run in runs) == [0, 2], said
    assert len(entries(folder)) == 1
    assert sorted(Path(f"out{number}.csv").exists() for number in range(2)) == [False, True]


def test_two_runs_at_once_with_again_are_both_counted(folder: Path) -> None:
    runs = [start(*SHARES, "--out", f"out{number}.csv", "--again") for number in range(2)]
    said = [finished(run)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    spent = [
        json.loads(Path(f"out{number}.csv.statement.json").read_text())["spent"][
            "at most, with all releases of the ledger"
        ]["epsilon"]
        for number in range(2)
    ]
    assert sorted(spent) == [4, 8]
