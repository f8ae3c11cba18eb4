"""The search for an epsilon of each mechanism: rows that cannot be searched, ranges, views, and your own texts."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

import epsilometer
from epsilometer.auditing.trials.design import Design
from epsilometer.cells.calibrating.losses import Search, progress
from epsilometer.cli import main
from epsilometer.cli.options import TextOptions
from epsilometer.core import tables
from epsilometer.corpora.reading import PREPARED
from epsilometer.pipeline.calibrating import calibrate_cells
from epsilometer.pipeline.params import read
from tests.support.refusals import refused

SHORT = [f"play song {i} now" for i in range(10)]
LONG = [f"please play this very nice new song {i} for me" for i in range(10)]

MASK = """from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites

@component
class Mask:
    def rewrite(self, texts, epsilon, noise):
        return Rewrites([" ".join("x" for _ in text.split()) for text in texts])

    def guarantee(self, epsilon):
        return None
"""

STAY = """import math
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites

@component
class Stay:
    def rewrite(self, texts, epsilon, noise):
        return Rewrites([t if u < 1 - math.exp(-epsilon) else "" for t, u in zip(texts, noise.uniforms()[:, 0])])

    def guarantee(self, epsilon):
        return None
"""

PEEK = """import numpy as np
from epsilometer.core.component import component

@component
class Same:
    def sees(self, mechanism):
        return "latents"

    def guess(self, rewrites, candidates, context):
        return np.zeros(len(candidates), np.int8)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set as an audit prepared it: each text's least alike ones are of another length."""
    monkeypatch.chdir(tmp_path)
    for name, code in {"mask.py": MASK, "stay.py": STAY, "peek.py": PEEK}.items():
        Path(name).write_text(code)
    texts = SHORT + LONG
    Path("songs.txt").write_text("\n".join(texts) + "\n")
    words = [len(text.split()) for text in texts]
    table = pl.DataFrame({"id": [str(i) for i in range(20)], "text": texts, "split": "train", "words": words})
    tables.write(table.cast({"words": pl.Int32}), "data/prepared/songs.parquet", PREPARED)
    angle = np.where(np.array(words) < 6, 0.0, np.pi) + np.linspace(0, 0.5, 20)
    tables.write_array(np.c_[np.cos(angle), np.sin(angle)].astype(np.float32), "data/embeddings/songs.npy")
    cell = {"resource": "data/prepared/songs.parquet", "epsilons": [0.1, 4]}
    kinds = {name: {"mechanism": name, "file": f"{name}.py", **cell} for name in ("mask", "stay")}
    params = {
        "root": ".",
        "title": "Twenty texts",
        "audit": {"seed": 0, "round": 0, "alpha": 0.01},
        "datasets": {"songs": {"source": "songs.txt", "use": "train", "match": None, "public": True}},
        "embedding": {"model": "all-MiniLM-L6-v2", "precision": "float32"},
        "trials": {"count": 200, "candidates": 2, "temperature": -10000},
        "words": {"sources": {"own": "songs.txt"}, "lists": 1},
        "mechanisms": kinds,
        "cells": {f"songs-{name}": {**kind, "dataset": "songs"} for name, kind in kinds.items()},
        "attacks": {"lexical": {}, "length": {}},
        "runtime": {"block": 65536, "workers": 1},
    }
    Path("params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    return tmp_path


def test_what_length_alone_gives_is_said(project: Path) -> None:
    (row,) = calibrate_cells(read(), 1.0, Search(), ["mask"])
    assert (row["status"], row["epsilon"]) == ("outside", None)
    assert "the length of rewrites alone proves" in row["reason"]
    assert "--match words" in row["reason"]
    (row,) = calibrate_cells(read(), 1.0, Search(match="words"), ["mask"])
    assert row["status"] == "outside"
    assert "raise `high` (--high) to search beyond" in row["reason"]


@pytest.mark.parametrize("seed", range(3))
def test_what_leaks_nothing_is_not_said_to_lose_what_was_seen_by_chance(seed: int) -> None:
    """Of a constant every guess is a coin's; that its loss is shown has probability .005 for each epsilon."""
    design, search = Design(temperature=0, seed=seed), Search(budget=2000)
    table = epsilometer.calibrate(
        SHORT + LONG, lambda text, epsilon, rng: "x", target=1.0, search=search, design=design
    )
    assert re.match(
        r"no loss was proved at any epsilon; the largest is 0\.\d\d nats at the observed rate "
        r"\(between 0 and (0\.\d\d)\) at epsilon 1000",
        table["reason"].item(),
    )


def test_a_printed_search_shows_its_reason_whole() -> None:
    table = epsilometer.calibrate([*SHORT, *LONG], "identity", target=1.0)
    shown = str(table)
    assert all(name in shown for name in ("mechanism", "status", "low", "high", "12 columns"))
    assert "attacks" not in shown
    assert "…" not in shown
    assert [word for word in table["reason"].item().split() if word not in shown] == []


def test_a_loss_is_said_with_its_interval() -> None:
    """The text with probability 1/4: 5 of 8 guesses are right, which is ln(5/3) nats at every epsilon; misses: .01."""

    def quarter(text: str, epsilon: float, rng: np.random.Generator) -> str:
        return text if rng.random() < 0.25 else ""

    table = epsilometer.calibrate(
        SHORT + LONG, quarter, target=2.0, search=Search(budget=9000), design=Design(temperature=0)
    )
    ends = re.match(
        r"the (?:largest|smallest) loss is (.*) nats at the observed rate \(between (.*) and (.*)\) at eps",
        table["reason"].item(),
    )
    assert ends is not None
    loss, low, high = map(float, ends.groups())
    assert 0 < low < loss < high < 2
    assert low < math.log(5 / 3) < high


def test_the_range_can_be_another(project: Path) -> None:
    """Of two texts the right one is told with probability 1 - e^-epsilon / 2: 1 nat is at epsilon 0.62."""
    for low, high, status in ((None, None, "found"), (1.0, 4.0, "outside"), (0.01, 0.2, "outside")):
        (row,) = calibrate_cells(read(), 1.0, Search(low=low, high=high, width=1.5), ["stay"])
        assert row["status"] == status
        if status == "found":
            assert row["low"] < 0.62 < row["high"]
        else:
            assert ("(--low)" if low == 1.0 else "(--high)") in row["reason"]
            assert "length of rewrites alone" not in row["reason"]  # it reveals much, but less at a smaller epsilon


def test_a_search_says_how_long_it_takes_at_most(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    watch = progress("stay on songs", Search(budget=3_000))
    watch(1_000, 0.1, 4.0)  # these measurements come from the journal
    now = 20.0
    watch(1_200, 0.5, 4.0)
    said = capsys.readouterr().err
    assert said == (
        "stay on songs: epsilon between 0.5 and 4 after 1200 of at most 3000 rewrites, at most about 3 min to go\n"
    )


def test_one_mechanism_without_an_attack_costs_one_row(project: Path) -> None:
    params = read().model_copy(update={"attacks": {"likelihood": {}, "peek.py": {}}})
    rows = list(calibrate_cells(params, 1.0, Search("peek.py")))
    assert [row["status"] for row in rows] == ["not searched"] * 2
    assert all("see more than 'released'" in row["reason"] for row in rows)
    assert [row["attacks"] for row in rows] == [None, None]
    rows = list(calibrate_cells(params, 1.0, Search("likelihood")))
    assert all("no attack of likelihood applies" in row["reason"] for row in rows)


def test_what_is_inside_counts_when_asked_for(project: Path) -> None:
    params = read().model_copy(update={"attacks": {"length": {}, "peek.py": {}}})
    for sees, count in (("text", 1), ("released", 1), ("inside", 2)):
        (row,) = calibrate_cells(params, 1.0, Search(sees=sees), ["mask"])
        keys = {
            json.loads(line.partition(" ")[2])[0]
            for p in Path("data/calibrating").iterdir()
            for line in p.read_text().split("\n")[1:]
        }
        assert len(keys) == count
        assert row["sees"] == sees
        assert row["attacks"] == ("length, peek.py" if sees == "inside" else "length")


def test_two_attacks_of_one_class(project: Path) -> None:
    Path("peek2.py").write_text(PEEK)
    params = read().model_copy(update={"attacks": {"length": {}, "peek.py": {}, "peek2.py": {}}})
    (row,) = calibrate_cells(params, 1.0, Search(sees="inside"), ["mask"])
    assert row["status"] == "outside"


def test_texts_of_ones_own(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main_ok("calibrate", "songs.txt", "--mechanism", "stay.py", "--target", "1", "--width", "1.5", "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["dataset"], row["mechanism"]) == ("songs.txt", "stay.py")
    assert row["status"] == "found"
    main_ok("compare", "stay.py=0.1", "mask.py=1", "songs.txt", "--trials", "500", "--json")
    rows = {row["attack"]: row["finding"] for row in json.loads(capsys.readouterr().out)}
    assert rows["strongest"].startswith("stay.py=0.1 leaks less than mask.py=1")


def main_ok(*arguments: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert not end.value.code


def test_from_python_a_project_is_its_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search(width=1.5)
    (expected,) = calibrate_cells(read(), 1.0, search, ["stay"])
    monkeypatch.chdir(project.parent)
    table = epsilometer.calibrate(project, "stay", target=1.0, search=search)
    assert table.to_dicts() == [expected]
    assert Path.cwd() == project.parent
    assert epsilometer.calibrate(str(project), target=1.0, search=search)["mechanism"].to_list() == ["mask", "stay"]


def test_from_python_texts_are_a_list(project: Path) -> None:
    search = Search(width=1.5, low=0.1, high=4.0)
    table = epsilometer.calibrate(SHORT + LONG, ["stay.py", "mask.py"], target=1.0, search=search)
    assert table.select("dataset", "mechanism").rows() == [("texts", "stay.py"), ("texts", "mask.py")]
    assert table["low"][0] < 0.62 < table["high"][0]  # as in `test_the_range_can_be_another`


def test_python_compares_as_the_command_does(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = epsilometer.compare(TextOptions().distinct("songs.txt"), ("stay.py", 0.1), ("mask.py", 1), trials=500)
    main_ok("compare", "stay.py=0.1", "mask.py=1", "songs.txt", "--trials", "500", "--json")
    rows = [{**row, "dataset": "texts"} for row in json.loads(capsys.readouterr().out)]
    assert table.to_dicts() == rows


def test_python_says_what_cannot_be(project: Path) -> None:
    for wrong, refusal in (
        ({"source": "nowhere", "target": 1.0}, ("EPS-P061", "nowhere", "params.yaml")),
        ({"source": ".", "target": 1.0, "design": Design(seed=1)}, ("EPS-P002", "params.yaml")),
        ({"source": ".", "target": 1.0, "mechanisms": "msak"}, ("EPS-C022", "msak", "mask")),
        ({"source": SHORT, "target": 1.0}, ("EPS-P003",)),
        ({"source": SHORT, "target": 0.0, "mechanisms": "mask.py"}, ("EPS-A036", "0.0")),
    ):
        with refused(*refusal):
            epsilometer.calibrate(**wrong)  # type: ignore[arg-type]
    with refused("EPS-P012"):
        epsilometer.compare(".", (lambda text, epsilon, rng: text, 1.0), ("mask", 1.0))


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"match": "letters"}, ("EPS-S062", "match", "letters")),
        ({"sees": "all"}, ("EPS-S062", "sees", "'all'")),
        ({"low": 3.0, "high": 2.0}, ("EPS-A037", "3", "2")),
        ({"low": "3"}, ("EPS-C066", "low", "'3'")),
        ({"budget": 2.5}, ("EPS-C067", "budget", "2.5")),
    ],
)
def test_mistakes(wrong: dict[str, float], refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        Search(**wrong)  # type: ignore[arg-type]
