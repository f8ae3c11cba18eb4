"""Words of a file that was read as another kind of table are quoted on a terminal and counted in logs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from epsilometer.auditing.attributes.released import numbered
from epsilometer.core.errors import UserError
from epsilometer.core.file_names import absent, listed, names_shown, no_column
from epsilometer.corpora import files, parts, reading
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.sparing import first
from tests.support.waiting import LAST_RESORT

WORD = "petiolatum"
TABLE = pl.DataFrame({"text": ["a b", "c d"], "split": ["train", f"zyxomma {WORD}"]})

SOURCES = {
    "no header": ("a.csv", f"my {WORD},hurts\nso much,today\n", {}),
    "separator": ("a.csv", f"text;{WORD}\na;b\n", {}),
    "two headers": ("a.csv", f"{WORD},{WORD}\na,b\n", {}),
    "key": ("a.jsonl", json.dumps({f"my {WORD}": "x"}) + "\n", {}),
    "keys of a text": ("a.jsonl", json.dumps({"text": {f"my {WORD}": 1}}) + "\n", {}),
    "values of two kinds": ("a.jsonl", f'{{"text": 1}}\n{{"text": {{"{WORD}": "{WORD}"}}}}\n', {}),
    "column": ("a.parquet", pl.DataFrame({f"my {WORD}": ["x"]}), {}),
    "label": ("a.csv", f"text,{WORD}\na,b\n", {"labels": ["mood"]}),
    "no strings": ("a.parquet", pl.DataFrame({"text": [1], WORD: ["x"]}), {}),
    "texts in JSON": ("a.json", json.dumps({"text": f"my {WORD} hurts"}), {}),
    "keys in JSON": ("a.json", json.dumps({"dataset": "x", f"my {WORD}": 1}), {}),
    "kind of an identifier": (
        "a.json",
        json.dumps([{"text": "ab", "dataset_type": "dev", "doc_id": "1", "annotations": {"one": {"entity_mentions": [
            {"start_offset": 0, "end_offset": 1, "entity_id": "e", "identifier_type": WORD}]}}}]),
        {},
    ),
}  # fmt: skip


def written(folder: Path, name: str, content: str | pl.DataFrame) -> Path:
    path = folder / name
    if isinstance(content, str):
        path.write_text(content)
    else:
        content.write_parquet(path)
    return path


@pytest.mark.parametrize("case", SOURCES)
def test_no_word_of_a_misread_file_reaches_a_log(tmp_path: Path, case: str) -> None:
    name, content, settings = SOURCES[case]
    path = written(tmp_path, name, content)
    with names_shown(False), pytest.raises(UserError) as caught:
        reading.read(path, **settings)
    assert WORD not in str(caught.value)
    assert str(path) in str(caught.value)


DAMAGED = {"encoding": (b"\xff\xfe\xfd", "EPS-D019"), "NUL": (b"a\x00b", "EPS-D021")}


@pytest.mark.parametrize(("content", "code"), DAMAGED.values(), ids=DAMAGED)
def test_nor_does_the_name_of_a_text_in_a_folder(tmp_path: Path, content: bytes, code: str) -> None:
    (tmp_path / "adam.txt").write_text("a b")
    (tmp_path / f"{WORD}.txt").write_bytes(content)
    with refused(code, f"{WORD}.txt"):
        reading.read(tmp_path)
    with names_shown(False), refused(code, "file 2") as caught:
        reading.read(tmp_path)
    assert WORD not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_nor_does_that_of_a_text_which_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / f"{WORD}.txt").write_text("a b")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with names_shown(False), refused("EPS-D016", "1") as caught:
        reading.read(tmp_path)
    assert WORD not in str(caught.value)


def test_a_text_in_json_is_not_quoted_on_a_terminal_either(tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", json.dumps({"text": f"my {WORD} hurts"}))
    with refused("EPS-D031") as caught:
        reading.read(path)
    assert WORD not in str(caught.value)


@pytest.mark.parametrize(
    "refused",
    [
        lambda: parts.check_apart(TABLE, pl.Series([0, 0]).to_numpy(), "datasets.a"),
        lambda: parts.groups(TABLE.rename({"split": WORD}), ["author"]),
        lambda: numbered([WORD], ["glad", "sad"]),
    ],
)
def test_nor_does_a_split_a_column_or_a_class(refused: Any) -> None:
    with names_shown(False), pytest.raises(UserError) as caught:
        refused()
    assert WORD not in str(caught.value)


def test_names_are_counted_where_they_are_not_shown() -> None:
    assert listed(["a", "b"], "column") == "columns 'a', 'b'"
    assert listed([], "class") == "no classes"
    assert listed(range(10), "class").endswith("and 2 more")
    with names_shown(False):
        assert [listed(range(n), "class") for n in (1, 10)] == ["1 class", "10 classes"]
        assert "'txt'" not in str(absent("column", "text", ["txt"]))
        assert "its separator may be ';'" in str(no_column("a.csv", "column", "text", ["a;b"]))
    assert "did you mean 'txt'" in str(absent("column", "text", ["txt"]))


def said(words: list[str], folder: Path, terminal: bool) -> str:
    """What a command says on standard error: a terminal, or a pipe as of a log."""
    above, below = pty.openpty() if terminal else os.pipe()
    environment = {name: value for name, value in os.environ.items() if name != "EPSILOMETER_SHOW_ERRORS"}
    command = [sys.executable, "-c", "from epsilometer.cli import main; main()", *words]
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, cwd=folder, env=environment, timeout=LAST_RESORT, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=below)  # fmt: skip
    assert done.returncode == 2
    text = os.read(above, 1 << 16).decode()
    os.close(above), os.close(below)
    return text


@pytest.mark.parametrize("terminal", first(1, [False, True]))
def test_a_command_quotes_names_on_a_terminal_alone(tmp_path: Path, terminal: bool) -> None:
    (tmp_path / "a.csv").write_text(f"my {WORD},hurts\nso much,today\n")
    text = said(["audit", "a.csv", "--mechanism", "identity"], tmp_path, terminal)
    assert "unknown text column 'text'" in text
    assert (WORD in text) is terminal
    assert WORD in said(["--show-errors", "audit", "a.csv", "--mechanism", "identity"], tmp_path, terminal)


def test_a_file_that_is_fine_is_read_as_before(tmp_path: Path) -> None:
    with names_shown(False):
        assert files.read(written(tmp_path, "a.csv", "text,x\na,b\n")).columns == ["text", "x"]
