"""Re-audits of any question's figures: what counts as a change, and what cannot be compared."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from epsilometer.auditing.evidence.status import Change
from epsilometer.auditing.question import question
from epsilometer.auditing.subject import Subject, subject
from epsilometer.doors import reaudit as reauditing
from epsilometer.doors.reaudit import accept, read, reaudit, write
from epsilometer.reaudit import drift
from tests.support.refusals import refused

TEXTS = [f"{who} wants {what} at {when}" for who in "abcd" for what in ("tea", "milk", "rum") for when in "12345"]
TABLE = pl.DataFrame({"text": TEXTS, "author": [text[0] for text in TEXTS]})
LINKING = question("linking", {"author": "author", "among": 4, "attacks": ["bm25"]})


class Tells:
    """Releases its source with a probability that can be changed between audits."""

    def __init__(self, share: float) -> None:
        self.share = share

    def __call__(self, text: str, rng) -> str:
        return text if rng.random() < self.share else "nothing at all"


def of(share: float) -> Subject:
    return subject(TABLE, Tells(share), None, ["lexical"])


def changes(before: Subject, now: Subject, tmp_path: Path, **questions) -> dict[str, Change]:
    write(accept(questions, before, trials=200), path := tmp_path / "b.json")
    baseline, drifts = reaudit(read(path), now)
    assert len(baseline.reaudits) == 1
    return {drift.row.attack: drift.verdict for drift in drifts}


def test_a_larger_leak_is_worse_whatever_is_asked(tmp_path: Path) -> None:
    """A share of .1 grows to .9: 200 trials miss that with a probability below 1e-20."""
    every = {"which_text": question("which_text"), "linking": LINKING, "similarity": question("similarity")}
    drifts = changes(of(0.1), of(0.9), tmp_path, **every)
    assert drifts.pop("similarity: jaccard") is Change.BETTER, "it keeps more"
    assert {*drifts.values()} == {Change.WORSE}
    assert len(drifts) == 2


def test_a_smaller_leak_is_better_and_no_change_is_none(tmp_path: Path) -> None:
    assert {*changes(of(0.9), of(0.1), tmp_path, linking=LINKING).values()} == {Change.BETTER}
    assert {*changes(of(0.4), of(0.4), tmp_path, linking=LINKING).values()} == {Change.UNCHANGED}


def test_what_was_always_right_cannot_get_worse(tmp_path: Path) -> None:
    drifts = changes(of(1.0), of(1.0), tmp_path, which_text=question("which_text"))
    assert drifts == {"which_text: lexical": Change.NOT_TESTABLE}


def test_a_leaner_level_for_each_further_audit_of_a_year(tmp_path: Path) -> None:
    baseline = accept({"which_text": question("which_text")}, of(0.2), trials=50)
    for count in range(3):
        assert len(baseline.reaudits) == count
        baseline, _ = reaudit(baseline, of(0.2))
    assert baseline.reaudits == sorted(baseline.reaudits)


def test_a_clock_that_is_set_back_spends_no_alpha_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[int] = []

    def spied(alpha: float, earlier: int) -> float:
        levels.append(earlier)
        return drift.level(alpha, earlier)

    monkeypatch.setattr(reauditing, "level", spied)
    baseline = accept({"which_text": question("which_text")}, of(0.2), trials=50)
    baseline = baseline.model_copy(update={"reaudits": ["2199-01-01T00:00:00Z", "2199-01-02T00:00:00Z"]})
    after, _ = reaudit(baseline, of(0.2))
    assert levels == [2]
    assert after.reaudits[-1].startswith("2199-")


def test_other_texts_and_questions_without_outcomes_are_refused(tmp_path: Path) -> None:
    baseline = accept({"which_text": question("which_text")}, of(0.2), trials=20)
    with refused("EPS-Q017"):
        reaudit(baseline, subject(TEXTS[:-1], Tells(0.2), None, ["lexical"]))
    with refused("EPS-Q021"):
        accept({"tail": question("tail")}, of(0.2))
    with refused("EPS-A124"):
        read(tmp_path / "absent.json")
    (tmp_path / "other.json").write_text('{"schema": "epsilometer/answers/1"}')
    with refused("EPS-A125"):
        read(tmp_path / "other.json")
