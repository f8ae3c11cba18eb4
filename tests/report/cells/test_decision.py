"""What the page says first: every sentence and cell agrees with the table of decisions, whatever that says."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_REFUTED
from epsilometer.auditing.decisions.decide import ALL, decision
from epsilometer.auditing.decisions.evidence import Assessed
from epsilometer.auditing.evidence.combined import Combined
from epsilometer.auditing.evidence.evidence import By
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.schemas import DECISIONS, POSSIBLE
from epsilometer.report.cells import dossier
from epsilometer.report.cells.decision import (
    answers,
    behind_averages,
    chosen,
    hardly_reading,
    in_a_cell,
    matrices,
    query_access,
    reasons,
    section,
    sentence,
    steps,
)
from epsilometer.report.cells.use import uses
from epsilometer.report.cells.worth import tradeoff_sentence
from epsilometer.report.rows import CELL
from epsilometer.report.wording import at_budgets, budget
from tests.support.audited import audit, frame, text_of

BEYOND, NOT_EXCEEDED, OPEN, WITHIN = Status.BEYOND, Status.NOT_EXCEEDED, Status.OPEN, Status.WITHIN

BUDGETS = (0.5, 1.0, 2.0)
NAMES = ("alpha", "beta", "gamma", "check")  # the last is a control


def evidence(rng: np.random.Generator) -> list[Assessed]:
    """Of two limits: anything that can be known, often near the limit."""
    rows = []
    for limit, allowed in (("loss", 1.0), ("delta_at_4", 0.01), ("identifiers: name", 0.01)):
        middle = allowed * rng.choice([0.1, 0.9999, 1.0001, 3.0])
        low, high = middle * rng.choice([0.5, 0.99999, 1]), middle * rng.choice([1, 1.00001, 2])
        bounded = rng.integers(3)
        rows.append(
            Assessed(
                limit,
                allowed,
                Combined((low, By.ATTACK), (high, By.LAW) if bounded else None),
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


def used(shown: pl.DataFrame, seed: int) -> dict[tuple[str, str, float], bool]:
    """Draw for each cell one of three: it keeps more than one fixed sentence, it does not, or nobody measured it."""
    rng = np.random.default_rng(1000 + seed)
    kinds = {cell: int(rng.integers(3)) for cell in shown.select(CELL).unique(maintain_order=True).iter_rows()}
    return {cell: bool(kind) for cell, kind in kinds.items() if kind < 2}


def cells(shown: pl.DataFrame, dataset: str, word: str) -> list[tuple[str, float]]:
    rows = shown.filter(~pl.col("control"), dataset=dataset, limit=ALL, decision=word)
    return rows.select("mechanism", "epsilon").rows()


@pytest.mark.parametrize("seed", range(40))
def test_no_sentence_contradicts_the_table(seed: int) -> None:
    shown = table(seed)
    keeps = used(shown, seed)
    every = answers(shown, {}, keeps)
    assert [each.dataset for each in every] == ["letters", "queries"]
    for each in every:
        said, audited = sentence(each), shown.filter(~pl.col("control"), dataset=each.dataset, limit=ALL).height
        within, beyond = (cells(shown, each.dataset, word) for word in (WITHIN, BEYOND))
        unexceeded, unshown = (cells(shown, each.dataset, word) for word in (NOT_EXCEEDED, OPEN))
        more, no_more, unmeasured = (
            [cell for cell in within if keeps.get((each.dataset, *cell)) is answer] for answer in (True, False, None)
        )
        assert said.startswith("Yes") == bool(more)
        assert said.startswith("No:") == (len(beyond) == audited)
        assert ("its use was not measured" in said) == bool(unmeasured and not more)
        assert said.startswith("Nothing within the limits keeps more than one fixed sentence (by cosine)") == bool(
            no_more and not more and not unmeasured
        )
        for beginning, named in (
            ("Yes, by ", more),
            ("Nothing is recommended. ", unmeasured),
            ("one fixed sentence (by cosine): ", no_more),
            ("for ", unexceeded),
            ("Not yet shown within: ", unshown),
        ):
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
            assert keeps[dataset, mechanism, float(epsilon)], "what keeps no more is released by no sentence"
        if step.startswith("Release nothing "):
            poor = "one fixed sentence" in step
            for name in re.findall(r"letters|queries", step):
                within = cells(shown, name, WITHIN)
                assert bool(within) == poor
                assert all(keeps[name, *cell] is False for cell in within)
        assert "check" not in step


@pytest.mark.parametrize("seed", range(40))
def test_the_sections_on_worth_and_the_dossier_say_what_the_decision_says(seed: int) -> None:
    """One table decides, and one answer says what a cell keeps: no section has a rule of its own."""
    shown = table(seed)
    keeps, rng = used(shown, seed), np.random.default_rng(seed)
    whole = shown.filter(limit=ALL)
    within = set(whole.filter(decision=WITHIN).select(CELL).iter_rows())
    points = whole.select(*CELL, "control").with_columns(
        *(pl.lit(value).alias(name) for name, value in {"measure": "cosine", "low": 0.1, "high": 0.9, "loss": 0.1,
          "point": 0.5, "upper": 9.0, "tail": 0.5, "ceiling": 9.0, "exact": True, "optimal": True}.items()),
        seeds=pl.lit(None, pl.List(pl.Float64)), utility=pl.Series(rng.random(len(whole))),
    )  # fmt: skip
    for dataset in ("letters", "queries"):
        (answer,) = [each for each in answers(shown, {}, keeps) if each.dataset == dataset]
        said = tradeoff_sentence(points.filter(dataset=dataset), within, keeps)
        assert ("no measured budget is within the limits" in said) == (not answer.usable), "the loss has no say"
        if answer.usable:
            of = points.filter(~pl.col("control"), pl.Series([cell in within for cell in points.select(CELL).rows()]))
            best = of.filter(dataset=dataset).sort("utility").row(-1, named=True)
            assert f"{best['mechanism']} at ε = {budget(best['epsilon'])} keeps most within the limits" in said
            more = keeps.get((dataset, best["mechanism"], best["epsilon"]))
            assert (", no more than one fixed" in said, ", more than one fixed" in said) == (
                more is False, more is True,
            )  # fmt: skip
    for row in whole.filter(~pl.col("control")).to_dicts():
        more = keeps.get((row["dataset"], row["mechanism"], row["epsilon"]))
        said = dossier.answer(release(row), row, more)
        assert said.startswith("Within the stated limits") == (row["decision"] == WITHIN)
        assert said.startswith("Beyond") == (row["decision"] == BEYOND)
        assert ("not recommended" in said) == (row["decision"] == WITHIN and more is not True)
        assert "whoever" not in said


def release(row: dict[str, Any]) -> dossier.Release:
    named = {name: row[name] for name in ("dataset", "mechanism", "epsilon", "control")}
    return dossier.Release(
        **named, texts=9, trials=9, candidates=2, attacks=["lexical"], strongest="lexical", alpha=0.01
    )


@pytest.mark.parametrize("seed", range(40))
def test_no_cell_contradicts_the_table_nor_is_rounded_across_its_limit(seed: int) -> None:
    shown = table(seed)
    of_datasets = {each.heading: each for each in matrices(shown)}
    for (dataset, mechanism, epsilon), rows in shown.group_by("dataset", "mechanism", "epsilon"):
        text, word = in_a_cell(rows), rows.filter(limit=ALL)["decision"].item()
        assert text.startswith(f"ε {budget(epsilon)}: {'not exceeded' if word == NOT_EXCEEDED else word}")  # type: ignore[arg-type]
        assert len(re.findall(r"\d[\d.,]*", text)) <= 2, text
        assert ("; the average alone was bounded" in text) == (word in (WITHIN, NOT_EXCEEDED) and "(" in text)
        if (number := re.search(r"\((loss|δ|names) ([≤≥]) ([\d.]+)( %)?\)", text)) and word in (
            WITHIN,
            BEYOND,
        ):
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
    each = answers(shown, unread, {})[0]
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
        loss = {
            "limit": "loss",
            "low": 2.0 if word == BEYOND else 0.1,
            "high": 0.9 if word == WITHIN else None,
        }
        of_loss = WITHIN if why == SMALLER else word
        every += [of | loss | {"decision": of_loss}, of | {"limit": ALL, "decision": word, "why": why}]
    return pl.DataFrame(every, schema=dict(DECISIONS))


SMALLER = "a smaller budget is not within"


def test_the_others_are_named_beside_who_hardly_reads_the_texts() -> None:
    """Two are within and hardly read; the open and the beyond ones are said too."""
    unread: dict[tuple[str, str], Any] = {("letters", name): ["80 % unknown"] for name in ("cust", "tem")}
    within = [("cust", 1.0, WITHIN, None), ("tem", 1.0, WITHIN, None), ("tem", 2.0, WITHIN, None)]
    rest = [("mvc", 1.0, OPEN, "loss"), ("mvc", 2.0, BEYOND, "loss")]
    (each,) = answers(decisions(*within, *rest), unread, {})
    hardly = "cust at ε = 1 and tem at every ε are within, but hardly read the texts."
    beyond = "1 of 5 budgets exceeds a limit."
    assert sentence(each) == f"Not yet shown within: mvc at ε = 1. {beyond}"
    assert hardly_reading(each) == [f"On letters {hardly}"]
    (each,) = answers(decisions(*within), unread, {})
    assert (sentence(each), hardly_reading(each)) == (f"No. {hardly}", [])
    (each,) = answers(decisions(within[0], rest[1]), unread, {})
    assert sentence(each) == "No. cust at ε = 1 is within, but hardly reads the texts. 1 of 2 budgets exceeds a limit."


def test_which_of_several_is_to_be_released_is_said_and_none_that_hardly_reads_is_shown() -> None:
    table = decisions(*((name, epsilon, WITHIN, None) for name in ("cust", "tem") for epsilon in (1.0, 2.0)))
    keeps = {("letters", name, epsilon): True for name in ("cust", "tem") for epsilon in (1.0, 2.0)}
    (step, *_) = steps(table, answers(table, {}, keeps))
    how = "the largest budget within, and of several mechanisms within the first by name"
    assert step.startswith(f"Release letters by cust at ε = 2 ({how});")
    assert chosen(table) == {"letters": ("cust", 2.0)}
    assert chosen(table, {("letters", "cust")}) == {"letters": ("tem", 2.0)}
    assert chosen(table, {("letters", "cust"), ("letters", "tem")}) == {"letters": ("cust", 2.0)}, (
        "nothing else is there"
    )
    lone = table.filter(mechanism="tem")
    assert "(the largest budget within);" in steps(lone, answers(lone, {}, keeps))[0]


def test_only_what_keeps_more_than_one_fixed_sentence_is_recommended() -> None:
    table = decisions(("cust", 1.0, WITHIN, None), ("cust", 2.0, WITHIN, None), ("cust", 4.0, BEYOND, "loss"))
    for keeps, beginning, released in (
        (
            {1.0: False, 2.0: True},
            "Yes, by cust at ε = 2: within every limit that was tested (the average alone was bounded), and keeps more",
            True,
        ),
        ({1.0: False, 2.0: False}, "Nothing within the limits keeps more than one fixed sentence (by cosine): ", False),
        ({1.0: False}, "Nothing is recommended. cust at ε = 2: within every limit that was tested (the average", False),
    ):
        every = answers(table, {}, {("letters", "cust", epsilon): more for epsilon, more in keeps.items()})
        assert sentence(every[0]).startswith(beginning)
        assert any(step.startswith("Release letters by cust") for step in steps(table, every)) == released


def test_use_is_measured_by_the_lower_end_beside_the_best_fixed_sentence() -> None:
    """.191 where one sentence for everybody keeps .20, and .21 whose interval begins at .19: both keep no more."""
    named = {"dataset": "letters", "mechanism": "exemplars", "one_text": 0.2}
    rows = [
        named | {"epsilon": e, "worth": w, "worth_low": low} for e, w, low in ((1.0, 0.191, 0.17), (2.0, 0.21, 0.19))
    ]
    rows += [named | {"epsilon": 4.0, "worth": 0.3, "worth_low": 0.25}, named | {"epsilon": 8.0, "one_text": None}]
    keeps = uses(audit(possible=pl.DataFrame(rows, schema=dict(POSSIBLE))))
    assert [keeps.get(("letters", "exemplars", epsilon)) for epsilon in (1.0, 2.0, 4.0, 8.0)] == [
        False, False, True, None,
    ]  # fmt: skip


def test_what_an_average_hides_stands_beside_within() -> None:
    """One text in 200 published verbatim passes every limit of a mean."""
    hidden = {
        "worst_pair": 12.0,
        "texts_above_4": 3,
        "texts_compared": 412,
        "pairs_compared": 300,
        "pairs_there": 2_000,
    }
    table = decisions(("cust", 1.0, WITHIN, None), ("cust", 2.0, WITHIN, None)).with_columns(
        *(pl.when(pl.col("epsilon") == 2.0).then(pl.lit(value)).alias(name) for name, value in hidden.items())
    )
    keeps = {("letters", "cust", epsilon): True for epsilon in (2.0,)}
    (each,) = answers(table, {}, keeps)
    assert "(worst pair 12.00, above 4 nats 3 of 412 texts)" in sentence(each)
    (behind,) = behind_averages(replace(each, by={WITHIN: [("cust", 2.0)]}))
    assert "The worst pair compared loses 12.00 nats" in behind
    assert "3 of 412 texts lose more than 4 nats to a text compared with them (300 of 2,000 pairs" in behind
    assert "The average alone was bounded." in behind_averages(each)[0], "of one of both nothing else is known"
    assert len(sentence(each).split()) <= 40, "the first screen has room for it"
    (matrix,) = matrices(table)
    assert "worst pair 12.00, above 4 nats 3 of 412 texts" in matrix.rows[0]["budget 2"]
    assert "the average alone was bounded" in matrix.rows[0]["budget 1"]
    (rows,) = reasons(table, 0.01)
    assert rows.rows[1]["pairs compared"] == "300 of 2,000"
    assert rows.rows[0]["worst pair"] == "the average alone was bounded"


@pytest.mark.parametrize(("attacks", "looked"), [(["lexical", "shadow"], True), (["lexical"], False)])
def test_the_page_says_whether_codes_were_looked_for(attacks: list[str], looked: bool) -> None:
    said = query_access(pl.DataFrame({"attack": attacks}))
    assert ("was not looked for" not in said) == looked
    assert "no code" not in said.lower() or "our learner finds no code" in said


def test_a_cell_that_a_smaller_budget_keeps_open_says_so() -> None:
    table = decisions(("mvc", 1.0, OPEN, "loss"), ("mvc", 2.0, OPEN, SMALLER))
    cells_of = {epsilon: in_a_cell(cell) for (epsilon,), cell in table.group_by("epsilon")}
    assert cells_of == {1.0: "ε 1: open (loss ≥ 0.10)", 2.0: f"ε 2: open ({SMALLER})"}


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
    assert "1 nat: an adversary who guesses between two texts is right in at most 73.2 of 100 guesses" in text
    assert "attribute on letters and queries (the data set has no labels)" in text
    assert "another of equal length on letters, of any length elsewhere" in text
