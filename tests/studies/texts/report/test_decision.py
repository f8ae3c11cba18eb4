"""What the page says first: every sentence and cell agrees with the table of decisions, whatever that says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import pytest

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_REFUTED
from epsilometer.auditing.decisions.decide import ALL, BEYOND, NOT_EXCEEDED, NOT_SHOWN, WITHIN, decision
from epsilometer.auditing.decisions.evidence import LimitEvidence
from epsilometer.auditing.schemas import DECISIONS
from epsilometer.report.wording import at_budgets, budget
from epsilometer.studies.texts.report.decision import (
    answers,
    chosen,
    hardly_reading,
    in_a_cell,
    matrices,
    reasons,
    section,
    sentence,
    steps,
)
from tests.support.audited import audit, frame, text_of

BUDGETS = (0.5, 1.0, 2.0)
NAMES = ("alpha", "beta", "gamma", "check")  # the last is a control


def evidence(rng: np.random.Generator) -> list[LimitEvidence]:
    """Of two limits: anything that can be known, often near the limit."""
    rows = []
    for limit, allowed in (("loss", 1.0), ("delta_at_4", 0.01), ("identifiers: name", 0.01)):
        middle = allowed * rng.choice([0.1, 0.9999, 1.0001, 3.0])
        low, high = middle * rng.choice([0.5, 0.99999, 1]), middle * rng.choice([1, 1.00001, 2])
        bounded = rng.integers(3)
        rows.append(
            LimitEvidence(
                limit,
                allowed,
                low=(low, "attacks"),
                high=(high, "law") if bounded else None,
                shown=bool(bounded == 0 and rng.integers(2)),
                settles=None if bounded else "trials",
                needed=None if bounded else int(rng.integers(1000)),
            )
        )
    return rows


def table(seed: int) -> pl.DataFrame:
    """Two data sets, three mechanisms and a control, three budgets; decided as the stage does."""
    rng, rows = np.random.default_rng(seed), []
    for dataset in ("letters", "queries"):
        for mechanism in NAMES[: 1 + seed % 4] if seed % 4 < 3 else NAMES:
            within = True
            for epsilon in BUDGETS:
                of = {"dataset": dataset, "mechanism": mechanism, "epsilon": epsilon, "control": mechanism == "check"}
                decided = decision(evidence(rng), within)
                within = within and decided[-1]["decision"] == WITHIN
                rows += [of | row for row in decided]
    shown = pl.DataFrame(rows, schema=dict(DECISIONS))
    return shown.sort("dataset", "control", "mechanism", "epsilon", maintain_order=True)


def cells(shown: pl.DataFrame, dataset: str, word: str) -> list[tuple[str, float]]:
    rows = shown.filter(~pl.col("control"), dataset=dataset, limit=ALL, decision=word)
    return rows.select("mechanism", "epsilon").rows()


@pytest.mark.parametrize("seed", range(40))
def test_no_sentence_contradicts_the_table(seed: int) -> None:
    shown = table(seed)
    every = answers(shown, {})
    assert [each.dataset for each in every] == ["letters", "queries"]
    for each in every:
        said, audited = sentence(each), shown.filter(~pl.col("control"), dataset=each.dataset, limit=ALL).height
        within, beyond = (cells(shown, each.dataset, word) for word in (WITHIN, BEYOND))
        unexceeded, unshown = (cells(shown, each.dataset, word) for word in (NOT_EXCEEDED, NOT_SHOWN))
        assert said.startswith("Yes") == bool(within)
        assert said.startswith("No:") == (len(beyond) == audited)
        for beginning, named in (("Yes, by ", within), ("for ", unexceeded), ("Not yet shown within: ", unshown)):
            if named and beginning in said:
                assert f"{beginning}{at_budgets(named, each.audited)}" in said
                break
        counted = re.search(r"(\d+) of (\d+) budgets exceeds? a limit", said)
        if beyond and len(beyond) < audited:
            assert counted is not None
            assert (int(counted[1]), int(counted[2])) == (len(beyond), audited)
        assert "check" not in said, "no control is named"
    for step in steps(shown, every):
        for dataset, mechanism, epsilon in re.findall(r"(\w+) by (\w+) at ε = ([\d.]+)", step):
            assert (mechanism, float(epsilon)) in cells(shown, dataset, WITHIN)
            assert (mechanism, float(epsilon)) == chosen(shown)[dataset]
        if step.startswith("Release nothing "):
            assert all(not cells(shown, name, WITHIN) for name in re.findall(r"letters|queries", step))
        assert "check" not in step


@pytest.mark.parametrize("seed", range(40))
def test_no_cell_contradicts_the_table_nor_is_rounded_across_its_limit(seed: int) -> None:
    shown = table(seed)
    of_datasets = {each.heading: each for each in matrices(shown)}
    for (dataset, mechanism, epsilon), rows in shown.group_by("dataset", "mechanism", "epsilon"):
        text, word = in_a_cell(rows), rows.filter(limit=ALL)["decision"].item()
        assert text.startswith(f"ε {budget(epsilon)}: {'not exceeded' if word == NOT_EXCEEDED else word}")  # type: ignore[arg-type]
        assert len(re.findall(r"\d[\d.,]*", text)) <= 2, text
        if (number := re.search(r"\((loss|δ|names) ([≤≥]) ([\d.]+)( %)?\)", text)) and word in (WITHIN, BEYOND):
            allowed = {"loss": 1.0, "δ": 0.01, "names": 0.01}[number[1]] * (100 if number[4] else 1)
            assert (float(number[3]) > allowed) == (word == BEYOND), text
            assert number[2] == ("≥" if word == BEYOND else "≤")
        row = next(row for row in of_datasets[dataset].rows if row["mechanism"] == mechanism)
        assert row[f"budget {1 + BUDGETS.index(epsilon)}"] == text  # type: ignore[arg-type]
    for each in reasons(shown, 0.01):
        assert "each at 99 %, not all at once" in each.caption
        of = shown.filter(dataset=each.heading.removeprefix("Decisions on "), limit=ALL)
        assert [row["decision"] for row in each.rows] == of["decision"].to_list()


def test_who_hardly_reads_the_texts_is_not_named_for_release() -> None:
    shown = next(t for seed in range(99) if cells(t := table(seed), "letters", WITHIN))
    unread: dict[tuple[str, str], Any] = {("letters", name): ["80 % unknown"] for name in NAMES}
    each = answers(shown, unread)[0]
    assert re.search(
        "(is within, but hardly reads|are within, but hardly read) the texts",
        " ".join([sentence(each), *hardly_reading(each)]),
    )
    assert not any("letters by" in step for step in steps(shown, [each]))


def decisions(*rows: tuple[str, float, str, str | None]) -> pl.DataFrame:
    """Rows `all` and `loss` of cells of letters: mechanism, epsilon, the decision, and why."""
    every = []
    for mechanism, epsilon, word, why in rows:
        of = {"dataset": "letters", "mechanism": mechanism, "epsilon": epsilon, "control": False, "allowed": 1.0}
        loss = {"limit": "loss", "low": 2.0 if word == BEYOND else 0.1, "high": 0.9 if word == WITHIN else None}
        of_loss = WITHIN if why == SMALLER else word
        every += [of | loss | {"decision": of_loss}, of | {"limit": ALL, "decision": word, "why": why}]
    return pl.DataFrame(every, schema=dict(DECISIONS))


SMALLER = "a smaller budget is not within"


def test_the_others_are_named_beside_who_hardly_reads_the_texts() -> None:
    """Two are within and hardly read; the open and the beyond ones are said too."""
    unread: dict[tuple[str, str], Any] = {("letters", name): ["80 % unknown"] for name in ("cust", "tem")}
    within = [("cust", 1.0, WITHIN, None), ("tem", 1.0, WITHIN, None), ("tem", 2.0, WITHIN, None)]
    rest = [("mvc", 1.0, NOT_SHOWN, "loss"), ("mvc", 2.0, BEYOND, "loss")]
    (each,) = answers(decisions(*within, *rest), unread)
    hardly = "cust at ε = 1 and tem at every ε are within, but hardly read the texts."
    beyond = "1 of 5 budgets exceeds a limit."
    assert sentence(each) == f"Not yet shown within: mvc at ε = 1. {beyond}"
    assert hardly_reading(each) == [f"On letters {hardly}"]
    (each,) = answers(decisions(*within), unread)
    assert (sentence(each), hardly_reading(each)) == (f"No. {hardly}", [])
    (each,) = answers(decisions(within[0], rest[1]), unread)
    assert sentence(each) == "No. cust at ε = 1 is within, but hardly reads the texts. 1 of 2 budgets exceeds a limit."


def test_which_of_several_is_to_be_released_is_said_and_none_that_hardly_reads_is_shown() -> None:
    table = decisions(*((name, epsilon, WITHIN, None) for name in ("cust", "tem") for epsilon in (1.0, 2.0)))
    (step, *_) = steps(table, answers(table, {}))
    how = "the largest budget within, and of several mechanisms within the first by name"
    assert step.startswith(f"Release letters by cust at ε = 2 ({how});")
    assert chosen(table) == {"letters": ("cust", 2.0)}
    assert chosen(table, {("letters", "cust")}) == {"letters": ("tem", 2.0)}
    assert chosen(table, {("letters", "cust"), ("letters", "tem")}) == {"letters": ("cust", 2.0)}, (
        "nothing else is there"
    )
    lone = table.filter(mechanism="tem")
    assert "(the largest budget within);" in steps(lone, answers(lone, {}))[0]


def test_a_cell_that_a_smaller_budget_keeps_open_says_so() -> None:
    table = decisions(("mvc", 1.0, NOT_SHOWN, "loss"), ("mvc", 2.0, NOT_SHOWN, SMALLER))
    cells_of = {epsilon: in_a_cell(cell) for (epsilon,), cell in table.group_by("epsilon")}
    assert cells_of == {1.0: "ε 1: not shown (loss ≥ 0.10)", 2.0: f"ε 2: not shown ({SMALLER})"}


def test_the_first_screen_has_a_sentence_a_data_set_and_says_a_fault_first() -> None:
    results = audit()
    shown = section(results)
    topics = [topic for topic, _ in shown.first_screen]
    assert topics == ["Alarm", "letters", "queries", "Next"], "a claim of this audit is violated"
    assert shown.alarm
    sound = audit(
        estimates=frame(("queries", "mvc", 5.0, "embedding", 900, 950.0, NOT_REFUTED)),
        claims=pl.DataFrame(schema=dict(results.table("data/claims.parquet", {}).schema)),
    )
    assert [topic for topic, _ in section(sound).first_screen] == ["queries", "Next"]
    assert not section(sound).alarm
    controls = audit(estimates=frame(("queries", "identity", 1.0, "embedding", 1000, None, NO_CLAIM)))
    assert ("queries", "No mechanism but controls was audited.") in section(controls).first_screen


def test_data_sets_that_are_not_english_are_named() -> None:
    german = "Der Zug nach Bonn war heute leider wieder sehr spät und alle Leute standen im Gang und warteten dort"
    results = audit(texts=[f"{german} {i}" for i in range(6)])
    assert "Not English, or no sentences: queries, of whose words" in text_of(section(results), results).replace(
        "**", ""
    )
    assert "Not English" not in text_of(section(audit()), audit())


def test_limits_and_what_does_not_apply_are_said() -> None:
    results = audit()
    text = text_of(section(results), results)
    assert "1 nat: an adversary who guesses between two texts is right at most 15 of 20 times" in text
    assert "attribute on letters and queries (no attribute is named)" in text
    assert "another of equal length on letters, of any length elsewhere" in text
