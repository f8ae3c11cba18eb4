"""The first screen of the page: every sentence and cell agrees with the table of decisions, whatever it contains."""

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
from epsilometer.report.bars import Bars
from epsilometer.report.cells import dossier
from epsilometer.report.cells.answers import answers
from epsilometer.report.cells.first_screen import (
    ANYWAY,
    answer,
    basis,
    behind_averages,
    chosen,
    hardly_reading,
    in_a_cell,
    matrices,
    otherwise,
    pictures,
    query_access,
    reason,
    reasons,
    section,
)
from epsilometer.report.cells.next_steps import step
from epsilometer.report.cells.use import Kept, Uses, uses
from epsilometer.report.cells.worth import tradeoff_sentence
from epsilometer.report.rows import CELL
from epsilometer.report.table import Table, anchor
from epsilometer.report.wording import at_budgets, budget, guesses
from tests.support.audited import audit, frame, settings, text_of

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


MORE, NO_MORE = Kept(0.42, 0.4, 0.3), Kept(0.28, 0.2, 0.3)  # more, and not more, than one fixed sentence


def measured(keeps: dict[tuple[str, str, float], bool]) -> Uses:
    """What cells keep, if they keep more than one fixed sentence or not."""
    return {cell: MORE if more else NO_MORE for cell, more in keeps.items()}


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
    every = answers(shown, {}, measured(keeps))
    assert [each.dataset for each in every] == ["letters", "queries"]
    for each in every:
        said, audited = f"{answer(each)} {reason(each)}", shown.filter(dataset=each.dataset, limit=ALL)
        within, beyond = (cells(shown, each.dataset, word) for word in (WITHIN, BEYOND))
        unexceeded, unshown = (cells(shown, each.dataset, word) for word in (NOT_EXCEEDED, OPEN))
        more, no_more, unmeasured = (
            [cell for cell in within if keeps.get((each.dataset, *cell)) is use] for use in (True, False, None)
        )
        assert said.startswith("Yes") == bool(more)
        assert ("Every budget of" in said) == (len(beyond) == audited.filter(~pl.col("control")).height)
        assert ("was not measured" in said) == bool(unmeasured and not more)
        assert ("one fixed sentence is as useful" in said) == bool(no_more and not more and not unmeasured)
        for beginning, named in (
            ("Yes, by ", more),
            ("Nothing is recommended. With ", unmeasured),
            ("No. With ", no_more),
            ("with ", unexceeded),
            ("It is open whether ", unshown),
        ):
            if named and beginning in said:
                assert f"{beginning}{at_budgets(named, each.audited)}" in said
                break
        assert "check" not in said, "no control is named"
        assert reason(each).count(". ") == 0, "the reason is one sentence"
        check_step(step(each, shown), each.dataset, shown, keeps)


def check_step(said: str, dataset: str, shown: pl.DataFrame, keeps: dict[tuple[str, str, float], bool]) -> None:
    """The next step releases only what is within and keeps more, and names no control."""
    for of, mechanism, epsilon in re.findall(r"release (\w+) by (\w+) at ε = ([\d.]+)", said):
        assert of == dataset
        assert (mechanism, float(epsilon)) in cells(shown, dataset, WITHIN)
        assert keeps[dataset, mechanism, float(epsilon)], "what keeps no more is released by no sentence"
    if said.startswith("release nothing"):
        within = cells(shown, dataset, WITHIN)
        assert bool(within) == ("yet" not in said)
        assert all(keeps[dataset, *cell] is False for cell in within)
    assert "check" not in said


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
        (here,) = [each for each in answers(shown, {}, measured(keeps)) if each.dataset == dataset]
        said = tradeoff_sentence(points.filter(dataset=dataset), within, measured(keeps))
        assert ("no measured budget keeps the limits" in said) == (not here.usable), "the loss has no say"
        if here.usable:
            of = points.filter(~pl.col("control"), pl.Series([cell in within for cell in points.select(CELL).rows()]))
            best = of.filter(dataset=dataset).sort("utility").row(-1, named=True)
            assert f"{best['mechanism']} at ε = {budget(best['epsilon'])} is the most useful within the limits" in said
            more = keeps.get((dataset, best["mechanism"], best["epsilon"]))
            assert (", no more than one fixed" in said, ", more than one fixed" in said) == (
                more is False, more is True,
            )  # fmt: skip
    for row in whole.filter(~pl.col("control")).to_dicts():
        more = keeps.get((row["dataset"], row["mechanism"], row["epsilon"]))
        said = dossier.answer(release(row), row, {True: MORE, False: NO_MORE, None: Kept()}[more])
        assert said.startswith("Yes") == (row["decision"] == WITHIN and more is True)
        assert ("exceeds" in said) == (row["decision"] == BEYOND)
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
    of_datasets = {each.heading: each for each in matrices(shown, {}, {})}
    rows_of = {each.heading: each for each in reasons(shown, {}, {}, {}, alpha=0.01)}
    for (dataset, mechanism, epsilon), rows in shown.group_by("dataset", "mechanism", "epsilon"):
        text, word = in_a_cell(rows, {}, {}), rows.filter(limit=ALL)["decision"].item()
        assert text.startswith(f"ε {budget(epsilon)}: {'not exceeded' if word == NOT_EXCEEDED else word}")  # type: ignore[arg-type]
        assert len(re.findall(r"\d[\d.,]*", text)) <= 3, text
        assert ("utility was not measured" in text) == (word in (WITHIN, NOT_EXCEEDED))
        if (number := re.search(r"\((rare outputs |names |)at (most|least) ([\d.]+)( %)?", text)) and word in (
            WITHIN,
            BEYOND,
        ):
            allowed = {"": 100 / (1 + np.exp(-1)), "rare outputs ": 1.0, "names ": 1.0}[number[1]]
            assert (float(number[3]) > allowed) == (word == BEYOND), text
            assert number[2] == ("least" if word == BEYOND else "most")
        row = next(row for row in of_datasets[dataset].rows if row["mechanism"] == mechanism)
        link = row[f"budget {1 + BUDGETS.index(epsilon)}"]  # type: ignore[arg-type]
        name = anchor(str(dataset), str(mechanism), epsilon)  # type: ignore[arg-type]
        assert link == f'<a href="#{name}">{text}</a>', "every cell leads to its evidence"
        evidence = rows_of[f"Decisions on {dataset}"]
        assert evidence.rows[evidence.anchors.index(name)]["decision"] == word
    for each in rows_of.values():
        assert "at 99 % for each figure and not for all at once" in each.caption
        of = shown.filter(dataset=each.heading.removeprefix("Decisions on "), limit=ALL)
        assert [row["decision"] for row in each.rows] == of["decision"].to_list()


def test_who_hardly_reads_the_texts_is_not_named_for_release() -> None:
    shown = next(t for seed in range(99) if cells(t := table(seed), "letters", WITHIN))
    unread: dict[tuple[str, str], Any] = {("letters", name): ["80 % unknown"] for name in NAMES}
    each = answers(shown, unread, {})[0]
    assert re.search(
        "(is within, but hardly reads|are within, but hardly read) the texts",
        " ".join([reason(each), *hardly_reading(each)])
        .replace("keeps the limits", "is within")
        .replace("keep the limits", "are within"),
    )
    assert "letters by" not in step(each, shown)


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
    hardly = "cust at ε = 1 and tem at every ε keep the limits, but hardly read the texts."
    assert (answer(each), reason(each)) == ("Not yet.", "It is open whether mvc at ε = 1 keeps the limits.")
    assert hardly_reading(each) == [f"On letters {hardly}"]
    (each,) = answers(decisions(*within), unread, {})
    assert (answer(each), reason(each), hardly_reading(each)) == ("No.", hardly, [])
    (each,) = answers(decisions(within[0], rest[1]), unread, {})
    assert reason(each) == "cust at ε = 1 keeps the limits, but hardly reads the texts."


def test_which_of_several_is_to_be_released_is_said_and_none_that_hardly_reads_is_shown() -> None:
    table = decisions(*((name, epsilon, WITHIN, None) for name in ("cust", "tem") for epsilon in (1.0, 2.0)))
    keeps = measured({("letters", name, epsilon): True for name in ("cust", "tem") for epsilon in (1.0, 2.0)})
    (each,) = answers(table, {}, keeps)
    how = "the largest budget that keeps every limit; of several mechanisms, the first by name"
    assert step(each, table).startswith(f"release letters by cust at ε = 2 ({how});")
    assert chosen(table) == {"letters": ("cust", 2.0)}
    assert chosen(table, {("letters", "cust")}) == {"letters": ("tem", 2.0)}
    assert chosen(table, {("letters", "cust"), ("letters", "tem")}) == {"letters": ("cust", 2.0)}, (
        "nothing else is there"
    )
    lone = table.filter(mechanism="tem")
    (each,) = answers(lone, {}, keeps)
    assert "(the largest budget that keeps every limit);" in step(each, lone)


def test_only_what_keeps_more_than_one_fixed_sentence_is_recommended() -> None:
    table = decisions(("cust", 1.0, WITHIN, None), ("cust", 2.0, WITHIN, None), ("cust", 4.0, BEYOND, "loss"))
    bound = "an attacker is right in at most 71.1 of 100 guesses between two texts (0.90 nats; 50 is chance, 73.1 is"
    for keeps, said, released in (
        (
            {1.0: False, 2.0: True},
            f"Yes, by cust at ε = 2. With cust at ε = 2 {bound} allowed); rewrites are 140",
            True,
        ),
        ({1.0: False, 2.0: False}, f"No. With cust at ε = 1 and 2 {bound} allowed), but one fixed sentence", False),
        ({1.0: False}, f"Nothing is recommended. With cust at ε = 2 {bound} allowed), but the utility of the", False),
    ):
        (each,) = answers(table, {}, measured({("letters", "cust", epsilon): more for epsilon, more in keeps.items()}))
        assert f"{answer(each)} {reason(each)}".startswith(said)
        assert step(each, table).startswith("release letters by cust") == released


def test_use_is_measured_by_the_lower_end_beside_the_best_fixed_sentence() -> None:
    """.191 where one sentence for everybody keeps .20, and .21 whose interval begins at .19: both keep no more."""
    named = {"dataset": "letters", "mechanism": "exemplars", "one_text": 0.2}
    rows = [
        named | {"epsilon": e, "worth": w, "worth_low": low} for e, w, low in ((1.0, 0.191, 0.17), (2.0, 0.21, 0.19))
    ]
    rows += [named | {"epsilon": 4.0, "worth": 0.3, "worth_low": 0.25}, named | {"epsilon": 8.0, "one_text": None}]
    keeps = uses(audit(possible=pl.DataFrame(rows, schema=dict(POSSIBLE))))
    of = {epsilon: keeps.get(("letters", "exemplars", epsilon), Kept()) for epsilon in (1.0, 2.0, 4.0, 8.0)}
    assert [each.more for each in of.values()] == [False, False, True, None]
    assert of[4.0].briefly == "rewrites are 150\N{NO-BREAK SPACE}% as similar to texts as one fixed sentence"
    assert of[8.0].briefly == "utility was not measured"


def test_what_a_learner_keeps_stands_beside_it() -> None:
    """Of five seeds the mean, on clean texts, beside classifiers trained on clean texts: .6 of .8 in the audit."""
    keeps = uses(audit())["queries", "mvc", 0.5]
    assert keeps.briefly == "a classifier trained on rewrites has F1 0.60, trained on texts 0.80 (intent)"
    assert "reach intent F1 0.60 (0.80 if trained on the texts)" in keeps.sentence


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
    (each,) = answers(table, {}, measured({("letters", "cust", 2.0): True}))
    (behind,) = behind_averages(replace(each, by={WITHIN: [("cust", 2.0)]}))
    assert (
        f"In the worst pair compared, an attacker is right in {guesses(12.0):g} of 100 guesses (12.00 nats)" in behind
    )
    assert "3 of 412 texts are told apart from another text in more than 98.2 of 100 guesses (4 nats; 300 of" in behind
    assert "The average alone was bounded." in behind_averages(each)[0], "of one of both nothing else is known"
    (rows,) = reasons(table, {}, {}, {}, alpha=0.01)
    assert rows.rows[1]["pairs compared"] == "300 of 2,000"
    assert rows.rows[1]["texts above 4 nats"] == "3 of 412"
    assert rows.rows[0]["worst pair"] == "the average alone was bounded"


@pytest.mark.parametrize(("attacks", "looked"), [(["lexical", "shadow"], True), (["lexical"], False)])
def test_the_page_says_whether_codes_were_looked_for(attacks: list[str], looked: bool) -> None:
    said = query_access(pl.DataFrame({"attack": attacks}))
    assert ("were not looked for" not in said) == looked
    assert "no hidden code" not in said.lower() or "it found no hidden code" in said


def test_a_cell_that_a_smaller_budget_keeps_open_says_so() -> None:
    table = decisions(("mvc", 1.0, OPEN, "loss"), ("mvc", 2.0, OPEN, SMALLER))
    cells_of = {epsilon: in_a_cell(cell, {}, {}) for (epsilon,), cell in table.group_by("epsilon")}
    assert cells_of == {1.0: "ε 1: open (at least 52.4 of 100)", 2.0: f"ε 2: open ({SMALLER})"}


def test_the_picture_has_a_bar_a_mechanism_and_no_control() -> None:
    """At the largest budget within, else where it loses least; without an upper bound nothing is ruled out."""
    table = decisions(
        ("cust", 1.0, WITHIN, None),
        ("cust", 2.0, WITHIN, None),
        ("mvc", 1.0, BEYOND, "loss"),
        ("mvc", 2.0, OPEN, "loss"),
    )
    table = pl.concat([table, decisions(("coin", 1.0, WITHIN, None)).with_columns(control=pl.lit(True))])
    results = audit()
    results.held["data/resources/plain_words.json"] = {"cell": {"cust": "replaces each word by a similar one"}}
    (bars,) = pictures(results, table, answers(table, {}, measured({("letters", "cust", 2.0): True})))
    cust, mvc = bars.rows
    assert (cust.name, cust.means, cust.status) == ("cust at ε = 2", "replaces each word by a similar one", WITHIN)
    assert (cust.low, cust.high, cust.limit) == (52.4, 71.1, 73.1)
    assert (cust.shown, cust.possible, cust.allowed) == (4.8, 42.2, 46.2)
    assert cust.use == MORE.briefly
    assert (mvc.name, mvc.means, mvc.high, mvc.possible) == ("mvc at ε = 2", "", None, 100.0)
    blocks = section(results).blocks
    kinds = [block.kind for block in blocks]
    assert kinds.index("bars") < kinds.index("table"), "a picture before any table"
    assert isinstance(blocks[0], Bars)
    assert all(isinstance(block, Table) for block in blocks[kinds.index("table") :])


def test_a_share_of_few_is_a_count_and_what_no_text_could_change_is_said() -> None:
    """0 of 3 at 99 %: 1 - .005^(1/3) is .829."""
    of = {"dataset": "letters", "mechanism": "cust", "epsilon": 1.0, "control": False, "allowed": 0.01}
    name = of | {"limit": "identifiers: name", "decision": OPEN, "low": 0.0, "high": 0.829}
    rows = [name, of | {"limit": ALL, "decision": OPEN, "why": "identifiers: name"}]
    few = pl.DataFrame(rows, schema=dict(DECISIONS))
    counted = {("letters", "cust", 1.0, "identifiers: name"): (0, 3)}
    said = "names 0 of 3; up to 83\N{NO-BREAK SPACE}% cannot be ruled out"
    assert in_a_cell(few, {}, counted) == f"ε 1: open ({said})"
    many = dict.fromkeys(counted, (0, 300))
    assert in_a_cell(few, {}, many) == "ε 1: open (names at most 82.9 %)"
    loss = {"limit": "loss", "allowed": 1.0, "decision": WITHIN, "high_by": By.LAW}
    tail = {"limit": "delta_at_4", "allowed": 0.01, "decision": WITHIN, "high_by": By.LAW}
    assert otherwise([loss, tail], 0.9) == f"guesses between two texts and rare outputs: by the claim, {ANYWAY}"
    assert otherwise([loss, tail], 3.0) == f"rare outputs: by the claim, {ANYWAY}"
    assert otherwise([loss, tail], 5.0) == otherwise([loss, tail], None) == ""
    assert otherwise([loss | {"decision": OPEN}], 0.9) == ""
    none = {"limit": "identifiers: name", "allowed": 0.01, "decision": WITHIN, "high": 0.0, "high_by": By.RELEASES}
    assert (
        otherwise([loss, none], None)
        == "names: no draw could have shown the opposite, as all possible releases were counted"
    )


def test_the_first_screen_has_a_sentence_a_data_set_and_says_a_fault_first() -> None:
    results = audit()
    shown = section(results)
    topics = [topic for topic, _ in shown.first_screen]
    assert topics == ["Alarm", "Audited", "letters", "letters", "queries", "queries"], "a claim here is violated"
    for name in ("letters", "queries"):
        (said, following) = [sentence for topic, sentence in shown.first_screen if topic == name]
        assert re.match(r"\*\*(Yes, by .*|No|Not yet|Not shown|Nothing is recommended)\.\*\* .+\.", said)
        assert following.startswith("**Next:** ")
    assert shown.alarm
    sound = audit(
        estimates=frame(("queries", "mvc", 5.0, "embedding", 900, 950.0, NOT_REFUTED)),
        claims=pl.DataFrame(schema=dict(results.table("data/claims.parquet", {}).schema)),
    )
    assert [topic for topic, _ in section(sound).first_screen] == ["Audited", "queries", "queries"]
    assert not section(sound).alarm
    controls = audit(estimates=frame(("queries", "identity", 1.0, "embedding", 1000, None, NO_CLAIM)))
    assert ("queries", "**No.** No mechanism but controls was audited.") in section(controls).first_screen


def test_data_sets_that_are_not_english_are_named() -> None:
    german = "Der Zug nach Bonn war heute leider wieder sehr spät und alle Leute standen im Gang und warteten dort"
    results = audit(texts=[f"{german} {i}" for i in range(6)])
    assert "Not English, or no sentences: queries (English function words:" in text_of(basis(results), results).replace(
        "**", ""
    )
    assert "Not English" not in text_of(basis(audit()), audit())


def test_limits_and_what_does_not_apply_are_said() -> None:
    results = audit()
    text = text_of(basis(results), results)
    assert "An attacker who guesses between two texts may be right in 73.1 of 100 guesses (1 nat); 50 is" in text
    assert "attribute on letters and queries (the data set has no labels)" in text
    assert "another of equal length on letters, of any length elsewhere" in text


def test_the_page_says_what_was_audited() -> None:
    """A generator's texts are a demonstration; a pinned data set has real texts; of a file nothing is known."""
    for source, said in (
        ("epsilometer/corpora/synthetic.py", "Generated texts: 4,000 of queries. A program wrote them: **this is a"),
        ("profiles/packages/chitchat.json", "Real texts: 4,000 of queries."),
        ("mine.csv", "Texts of your own: 4,000 of queries."),
    ):
        datasets = settings().datasets
        of = settings(datasets={**datasets, "queries": datasets["queries"].model_copy(update={"source": source})})
        (first,) = [sentence for topic, sentence in section(audit(of)).first_screen if topic == "Audited"]
        assert first.startswith(said)
        assert ("demonstration" in first) == source.endswith(".py")
