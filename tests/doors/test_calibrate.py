"""The epsilon at which a figure meets a target: known truths, ends of the range, budgets and refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import epsilometer
from epsilometer.auditing.calibration.looks import Look, Looks, Turn, level
from epsilometer.auditing.evidence.evidence import By, Covers, Evidence, Means
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.question import Gives, Observed, question
from epsilometer.auditing.subject import Subject, subject
from epsilometer.auditing.trials.design import Design
from epsilometer.cells.calibrating.losses import Search, calibrate_texts
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites
from epsilometer.doors.calibrate import GROWTH, LOOKS, PARTS, calibrate, calibrate_on
from epsilometer.questions.identifiers import Identifiers
from epsilometer.questions.which_text import WhichText
from tests.support.commands import call
from tests.support.refusals import refused

SURE = 1e-4  # alpha of a search
NAMES = [f"{first} {last}" for first in ("Nora", "Ines", "Omar", "Tove") for last in ("Quill", "Hale", "Ruz", "Berg")]
TEXTS = [f"{name} ordered {i} cups of tea" for name in NAMES for i in range(12)]
NEARBY = Search(low=0.05, high=20.0, budget=6000)


def recorded() -> pl.DataFrame:
    """The texts with the name that each holds."""
    names = [[text.partition(" ordered")[0]] for text in TEXTS]
    return pl.DataFrame({"text": TEXTS, "identifiers": names, "identifier_kinds": [["name"]] * len(TEXTS)})


@component
class Keeps:
    """Keeps a text with a probability that depends on epsilon, else releases nothing of it."""

    share: Callable[[float], float]

    def rewrite(self, texts, epsilon, noise):
        stays = noise.uniforms()[:, 0] < self.share(epsilon)
        return Rewrites([text if stay else "nothing" for text, stay in zip(texts, stays.tolist(), strict=True)])

    def guarantee(self, epsilon):
        return None


def rises(epsilon: float) -> float:
    return 1 - math.exp(-epsilon)


def falls(epsilon: float) -> float:
    return math.exp(-epsilon)


def coin(epsilon: float) -> float:
    """The probability at which the average loss of naming one of two texts is epsilon."""
    return math.tanh(epsilon / 2)


def of(share: Callable[[float], float], texts: pl.DataFrame | list[str] | None = None, **design) -> Subject:
    texts = recorded() if texts is None else texts
    mechanism = Keeps(share=share)
    return subject(texts, mechanism, 1.0, ["lexical"], design=Design(temperature=0, **design))


@dataclass(frozen=True)
class Guessing:
    """which_text as a question of somebody's own, which has no search of its own."""

    needs = WhichText.needs
    gives = WhichText.gives
    usual = WhichText.usual
    columns = ()

    def __getattr__(self, name: str):
        return getattr(WhichText(), name)


@pytest.mark.parametrize("seed", range(10))
def test_the_interval_contains_the_epsilon_of_a_known_share(seed: int) -> None:
    """Half of all names survive at ln 2. All 10 searches contain it but with probability 10 alpha = .001 at most."""
    result = calibrate(Identifiers(), of(rises, alpha=SURE, seed=seed), 0.5, NEARBY)
    assert result.low < math.log(2) < result.high
    assert result.high / result.low < 4
    assert (result.by, result.row["attacks"]) == ("identifiers", None)
    assert result.trials <= NEARBY.budget


@pytest.mark.parametrize("seed", range(5))
def test_the_interval_contains_the_epsilon_of_a_known_loss(seed: int) -> None:
    """The loss is epsilon. All 5 searches contain the target but with probability 5 alpha = 5e-4 at most."""
    search = Search(low=0.05, high=20.0, budget=40_000, width=1.5)
    result = calibrate(Guessing(), of(coin, alpha=SURE, seed=seed), 1.0, search)
    assert result.low < 1 < result.high
    assert result.status == "found"
    assert result.high / result.low <= 1.5
    assert (result.by, result.attacks) == ("loss", ["lexical"])
    assert result.trials <= 40_000


def test_which_text_keeps_its_search() -> None:
    """Numbers and reasons are those of the search by betting, by the door and by the row of a file."""
    design, search = Design(temperature=0, seed=3), Search(attack="lexical", low=0.05, high=20.0, width=1.6)
    row = calibrate_texts(TEXTS, Keeps(share=coin), 1.0, search, design=design)
    result = calibrate(WhichText(), of(coin, TEXTS, seed=3), 1.0, search).row
    assert result == {name: row[name] for name in result}
    assert row["status"] == "found"
    assert calibrate_on(TEXTS, Keeps(share=coin), 1.0, search, design=design) == row
    table = epsilometer.calibrate(recorded(), Keeps(share=coin), target=1.0, search=search, design=design)
    assert table.to_dicts() == [row]


@pytest.mark.parametrize(
    ("share", "target", "low", "high", "status", "ends"),
    [
        (rises, 0.5, 2.0, 9.0, "outside", (0.0, 2.0)),
        (rises, 0.5, 0.01, 0.1, "outside", (0.1, math.inf)),
        (falls, 0.5, 0.1, 9.0, "falling", None),
        (falls, 0.5, 1.4, 9.0, "outside", (9.0, math.inf)),
        (lambda epsilon: 0.5, 0.5, 0.1, 9.0, "undecided", (0.1, 9.0)),
    ],
)
def test_statuses(share, target: float, low: float, high: float, status: str, ends: tuple[float, float] | None) -> None:
    """.86 and more, or .25 and less, survive of 192 where half is the target; alpha is 1e-4 in each."""
    result = calibrate(Identifiers(), of(share, alpha=SURE), target, Search(low=low, high=high, budget=3000))
    assert result.status == status
    assert (result.epsilon is None) == (status == "outside")
    if ends is None:
        assert result.low < math.log(2) < result.high
    else:
        assert (result.low, result.high) == ends
    assert result.reason is not None
    if status != "undecided":
        assert "the largest figure of identifiers is " in result.reason
    if share is falls and status == "outside":
        assert "lower `low` (--low) to search below" in result.reason


@dataclass(frozen=True)
class Kept:
    """The share of texts that are released as they are, by two metrics, of which one is twice the other."""

    needs = frozenset()
    gives = frozenset({Gives.LOW, Gives.HIGH, Gives.OUTCOMES})
    usual = 100
    columns = ()

    def limit(self, of: Subject, allowed: float) -> Limit:
        return Limit(allowed, Scale("kept"), "the least share", at_least=True)

    def tests(self, of: Subject) -> list[str]:
        return ["whole", "half"]

    def amount(self, of: Subject, limit: Limit, budget: int, tests: int, *, errors) -> int:
        return 2000

    def observe(self, of: Subject, count: int) -> list[Observed]:
        rng = np.random.default_rng(of.design.seed)
        whole = (rng.random(count) < of.mechanism.share(of.epsilon)).astype(float)
        return [
            Observed(
                Evidence(name, By.COUNT, Scale("kept"), Means((whole * part).tolist(), 1), covers=Covers.EVERYONE),
                whole * part,
            )
            for name, part in (("whole", 1.0), ("half", 0.5))
        ]


def test_of_what_is_kept_the_smallest_counts() -> None:
    """Half of what is kept is .25 at ln 2, whole at ln(4/3): false alarm 1e-4."""
    search = Search(low=0.05, high=20.0, budget=100_000)
    result = calibrate(Kept(), of(rises, alpha=SURE), 0.25, search)
    assert result.low < math.log(2) < result.high
    assert result.low > math.log(4 / 3)
    assert calibrate(Kept(), of(rises, alpha=SURE), 0.45, Search(low=0.05, high=1.0)).status == "outside"


def test_each_look_has_a_level_of_its_own() -> None:
    """It is repeated until it decides; the bounds of all looks at an epsilon hold."""
    turns = []

    def look(epsilon: float, turn: Turn) -> Look | None:
        turns.append((epsilon, turn))
        width = 4.0 / (turn.again + 1)
        return None if turn.left < 300 or turn.again == 3 else Look(epsilon - width, epsilon + width, 300)

    looks = Looks(look, target=5.0, budget=2000, alpha=0.01)
    assert looks(5.0) == (5 - 4 / 3, 5 + 4 / 3), "all three leave it open"
    assert looks(7.5) == (5.5, 9.5)
    assert looks(9.5) == (5.5, 13.5)
    assert looks(5.0) == (5.0, 5.0), "too little is left"
    assert looks.spent == 1800
    levels = [turn.level for _, turn in turns]
    assert levels == [6 * 0.01 / (math.pi * number) ** 2 for number in (1, 2, 3, 4, 4, 5, 6, 7)]
    assert [turn.left for _, turn in turns] == [2000, 1700, 1400, 1100, 1100, 800, 500, 200]
    assert sum(level(0.01, number) for number in range(1, 20_000)) == pytest.approx(0.01, rel=1e-4)


def test_looks_are_fresh_and_grow_within_the_budget() -> None:
    """Each look has trials of its own seed, and at an epsilon more than the look before, up to a part of the budget."""
    seen: list[tuple[float, int, int]] = []

    class Watched(Guessing):
        def observe(self, of: Subject, count: int):
            seen.append((of.epsilon, of.design.seed, count))
            return WhichText().observe(of, count)

    result = calibrate(Watched(), of(coin), 1.0, Search(low=0.05, high=20.0, budget=8000))
    assert len({seed for _, seed, _ in seen}) == len(seen) >= 5
    counts: dict[float, list[int]] = {}
    for epsilon, _, count in seen:
        counts.setdefault(epsilon, []).append(count)
    (fewest,) = {each[0] for each in counts.values()}
    assert fewest <= 8000 // LOOKS
    for each in counts.values():
        assert all(after <= GROWTH * before for before, after in pairwise(each))
        assert max(each) <= 8000 // PARTS
    assert max(len(each) for each in counts.values()) > 1
    assert result.trials == sum(count for *_, count in seen) <= 8000


def test_refusals() -> None:
    halves = type("Lower", (Guessing,), {"gives": frozenset({Gives.LOW})})()
    with refused("EPS-Q004"):
        calibrate(halves, of(coin), 1.0)
    without = subject(TEXTS, "identity", attacks=["lexical"])
    with refused("EPS-Q001"):
        calibrate(Identifiers(), without, 0.5)
    with refused("EPS-Q029"):
        calibrate(Identifiers(), of(rises), 1.5)
    with refused("EPS-A152"):
        calibrate(question("linking", {"facts": "facts"}), of(rises), 1.0)
    with refused("EPS-A036"):
        calibrate(Identifiers(), of(rises), 0.0)
    with refused("EPS-Q031", "8"):
        calibrate(Identifiers(), of(rises), 0.5, Search(budget=100))
    searched = partial(calibrate_on, recorded(), Keeps(share=rises), 0.5)
    for wrong, refusal in (
        ({"measure": "worst"}, ("EPS-Q005", "measure")),
        ({"sees": "text", "match": "words"}, ("EPS-Q005", "sees, match")),
        ({"question": "identifirs"}, ("EPS-C022", "identifirs", "identifiers")),
    ):
        with refused(*refusal):
            searched(Search(**{"question": "identifiers", **wrong}))
    row = calibrate_on(recorded(), "identity", 0.5, Search(question="identifiers"))
    assert (row["status"], row["trials"]) == ("not searched", 0)
    assert "no privacy budget" in row["reason"]


def test_the_tail_is_searched_by_the_attacks_that_are_named() -> None:
    search = Search(question="tail", attack="lexical", match="words", low=0.01, high=20.0, budget=24_000)
    row = calibrate_on(TEXTS, Keeps(share=rises), 0.3, search, design=Design(temperature=0, alpha=SURE))
    assert (row["by"], row["attacks"], row["sees"]) == ("delta_at_4", "lexical, tail", None)
    assert row["low"] < -math.log(0.7) < row["high"], "a text that is released whole proves a delta of that share"


MINE = """
import math
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites

@component
class Keeps:
    def rewrite(self, texts, epsilon, noise):
        stays = noise.uniforms()[:, 0] < 1 - math.exp(-epsilon)
        return Rewrites([text if stay else "nothing" for text, stay in zip(texts, stays)])

    def guarantee(self, epsilon):
        return None
"""


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("keeps.py").write_text(MINE)
    rows = [(f"person {i} likes the song {i * 7 % 31}", f"likes the song {i * 7 % 31} person {i}") for i in range(60)]
    pl.DataFrame(rows, schema=["text", "facts"], orient="row").write_csv("people.csv")
    search = ("calibrate", "people.csv", "--mechanism", "keeps.py", "--low", 0.01, "--high", 20, "--json")
    links = ("--question", "linking", "--with", "linking.facts=facts", "--with", "linking.among=5")
    links += ("--with", "linking.attacks=[bm25]", "--target", 0.7, "--budget", 9000)
    code, out, _ = call(capsys, *search, *links, "--width", 5)
    (row,) = json.loads(out)
    assert (code, row["status"]) == (0, "found")
    assert (row["dataset"], row["by"], row["attacks"]) == ("people.csv", "linking", "linking: bm25")
    assert 0 < row["low"] < row["epsilon"] < row["high"] <= 5 * row["low"]
    code, out, _ = call(capsys, *search, *links, "--high", 0.1)
    (row,) = json.loads(out)
    assert (code, row["status"], row["epsilon"]) == (3, "outside", None)
    for wrong, said in (
        ((*search, "--target", 1, "--with", "linking.facts=facts"), "not a setting of the questions asked"),
        ((*search, "--target", 1, "--question", "linkng"), "did you mean 'linking'"),
        ((*search, "--target", 1, "--question", "linking"), "give linking.facts or linking.author"),
        ((*search, *links, "--measure", "worst"), "measure has no effect on"),
        (("calibrate", *links), "params.yaml does not exist"),
        (("calibrate", "--training", "a", *links), "No such option: --question"),
    ):
        code, _, err = call(capsys, *wrong)
        assert (code, said in err) == (2, True), err
