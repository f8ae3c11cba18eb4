"""The report on anonymisers, from tables made for these tests."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from epsilometer.auditing.attributes.attackers import (
    ADAPTIVE,
    AUTHOR,
    CLEAN,
    DETECTOR,
    LLM,
    RELABELLED,
    REWRITTEN,
    STATIC,
)
from epsilometer.auditing.attributes.tables import ANONYMITY, ATTACKERS
from epsilometer.auditing.claims.verdicts import NO_CLAIM
from epsilometer.project.sections import Dataset
from epsilometer.studies.anonymity.anonymizing import changed_share
from epsilometer.studies.anonymity.params import AnonymityCell
from epsilometer.studies.anonymity.report import attackers as inferring
from epsilometer.studies.anonymity.report import section as anonymity
from epsilometer.studies.anonymity.tables import (
    ANONYMIZED,
    BY_LENGTH,
    OUTCOMES,
    QUALITY,
    anonymity_path,
    anonymized_path,
)
from tests.support.audited import audit, frame, settings, text_of

TRIALS = 200  # an attacker that is right more often is right on a superset of the texts
SCHEMAS = {
    "anonymity": ANONYMITY, "attackers": ATTACKERS, "by_length": BY_LENGTH, "outcomes": OUTCOMES, "quality": QUALITY
}  # fmt: skip
SHARES = ("rs", "ur", "pa", "ur_released", "pa_released")
CELLS = {"identity": 0.0, "idt": 0.2, "textfooler": 0.3}  # RS_all


def attackers(*rows: tuple[str, str, float, float], label: str = "gender") -> pl.DataFrame:
    """Rows of mechanism, attacker, balanced accuracy and loss on `reviews`; what is not given is null."""
    every = [
        {
            "dataset": "reviews", "mechanism": mechanism, "label": label, "attacker": attacker, "kind": "linear",
            "seed": 0, "texts_each": 1, "classes": 2, "balanced_accuracy": accuracy, "loss": loss, "point": loss + 0.1,
            "upper": loss + 0.2, "ceiling": 5.0, "claim": NO_CLAIM, "verdict": NO_CLAIM,
            "best_attacker": ADAPTIVE if attacker == "strongest" else None,
            "hits": [i < round(TRIALS * accuracy) for i in range(TRIALS)],
        }
        for mechanism, attacker, accuracy, loss in rows
    ]  # fmt: skip
    return pl.DataFrame(every, schema=dict(ATTACKERS))


def hidden() -> pl.DataFrame:
    return attackers(
        ("identity", CLEAN, 0.8, 1.3), ("identity", STATIC, 0.8, 1.3), ("identity", "strongest", 0.8, 1.2),
        ("idt", CLEAN, 0.8, 1.3), ("idt", STATIC, 0.7, 0.8), ("idt", ADAPTIVE, 0.78, 1.2),
        ("idt", RELABELLED, 0.75, 1.0), ("idt", "strongest", 0.78, 0.2),
        ("textfooler", CLEAN, 0.8, 1.3), ("textfooler", STATIC, 0.6, 0.4), ("textfooler", ADAPTIVE, 0.7, 0.8),
        ("textfooler", "strongest", 0.7, 0.7), ("idt", DETECTOR, 0.66, 0.6), ("textfooler", DETECTOR, 0.9, 2.0),
    )  # fmt: skip


def measured() -> pl.DataFrame:
    rows = [
        {
            "dataset": "reviews", "mechanism": name, "attribute": "gender", "task": "rating", "victim": "linear",
            "seed": seed, "texts": 500, "both_right": 180, "rs_all": success + seed / 10, "rs_all_low": 0.1,
            "rs_all_high": 0.4, "coverage": 0.5, "words_changed": 0.1, "task_f1": 0.9 - success, "task_f1_clean": 0.9,
            "task_f1_low": 0.5, "task_f1_high": 0.95,
        }
        for name, success in CELLS.items()
        for seed in (0, 1)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=dict(ANONYMITY))


def losses() -> pl.DataFrame:
    """Of the texts: textfooler at the ceiling of some trials, idt not."""
    rows = [("identity", 1000), ("idt", 700), ("textfooler", 1000)]
    table = frame(*((("reviews", name, 1.0, "lexical", right, None, NO_CLAIM)) for name, right in rows))
    return anonymity.strongest(table.with_columns(epsilon=pl.lit(None, pl.Float64)))


def test_a_page_without_anonymisers_has_no_section() -> None:
    assert anonymity.section(audit()) is None


def test_who_is_surely_stopped_and_who_is_not_is_said() -> None:
    own = hidden().filter(pl.col("mechanism") != "identity")
    (sentence,) = inferring.stopped_sentences(own, 0.01)
    # Of 200 texts, 20 and 40 are lost, and 16 and 20 of them won back: p = 2^-19, 2^-39, 2^-15, 2^-19, each times 2.
    assert "80.0\N{NO-BREAK SPACE}% of clean texts; a guess is right in 50.0\N{NO-BREAK SPACE}%" in sentence
    assert "Of 2 methods without an epsilon, idt and textfooler are shown to stop" in sentence
    assert (
        "that learned from rewrites does significantly better against 2 of 2 (McNemar's test at 99 %, which assumes"
        in sentence
    )
    nobody_learned = own.filter(pl.col("attacker").is_in(["clean", "static"]))
    assert (
        "are shown to stop a classifier that never saw rewrites (McNemar"
        in inferring.stopped_sentences(nobody_learned, 0.01)[0]
    )
    (strict,) = inferring.stopped_sentences(own, 1e-8)  # only textfooler's decrease is that significant
    assert "Of 2 methods without an epsilon, textfooler is shown to stop" in strict
    assert "against 0 of 1" in strict
    by_chance = own.with_columns(hits=pl.lit([True, False] * 100)).with_columns(
        hits=pl.when(attacker=STATIC).then(pl.lit([False, False, *[True, False] * 99])).otherwise("hits")
    )
    assert "None of 2 methods without an epsilon is shown to stop" in inferring.stopped_sentences(by_chance, 0.01)[0]


def test_hiding_an_attribute_is_set_against_hiding_the_text() -> None:
    (sentence,) = anonymity.held_sentence(losses(), measured())
    assert "1 of 2 methods without an epsilon reaches the ceiling" in sentence  # identity is a control
    assert anonymity.held_sentence(losses(), measured().clear()) == []


def test_success_is_over_all_texts_and_means_are_over_seeds() -> None:
    rows = anonymity.success_rows(measured())
    assert [(row["mechanism"], round(row["rs_all"], 3), row["seeds"]) for row in rows] == [
        ("textfooler", 0.35, 2), ("idt", 0.25, 2), ("identity", 0.05, 2),
    ]  # fmt: skip


def test_the_best_method_at_half_the_loss_of_clean_texts_is_named_or_none_is() -> None:
    points = anonymity.against(hidden(), measured(), losses())
    assert points.filter("front")["mechanism"].to_list() == ["idt"]  # textfooler has less utility at a larger loss
    (sentence,) = anonymity.best_sentence(points)
    assert sentence.startswith("On reviews idt retains the most utility of the methods shown to halve")
    assert "the macro F1 of the task is 0.70 (0.50 to 0.95), not within 0.03 of the 0.90" in sentence
    (none,) = anonymity.best_sentence(points.filter(pl.col("mechanism") != "idt"))
    assert "no method is shown to halve the loss of gender" in none
    clean = points.with_columns(loss=pl.when(mechanism="identity").then(0.3).otherwise("loss"))
    assert "at least 0.3" in anonymity.best_sentence(clean)[0]
    assert anonymity.best_sentence(points.with_columns(loss=pl.lit(0.0))) == []  # no loss of clean texts is proved


def test_what_several_texts_of_an_author_and_a_detector_add() -> None:
    single, five = (attackers(("idt", AUTHOR, accuracy, 0.5)) for accuracy in (0.7, 0.9))
    both = pl.concat([single, five.with_columns(texts_each=pl.lit(5, pl.Int64))])
    grouped, alone = ({"reviews": Dataset(source="reviews.csv", group=group)} for group in ("author", ()))
    (sentence,) = inferring.author_sentence(both, grouped)
    assert sentence.startswith("An attacker who reads several texts of one author on reviews infers gender")
    assert "70.0\N{NO-BREAK SPACE}% with 1 and 90.0\N{NO-BREAK SPACE}% with 5" in sentence
    (sentence,) = inferring.author_sentence(both, alone)
    assert sentence.startswith(
        "An attacker who reads several texts of one class on reviews"
    )  # they replace an author's texts
    assert inferring.author_sentence(single, grouped) == []
    (shows,) = inferring.detector_sentence(hidden())
    assert "66.0\N{NO-BREAK SPACE}% of cases (idt) to 90.0\N{NO-BREAK SPACE}% (textfooler)" in shows


def further() -> pl.DataFrame:
    """What reads five texts of an author, detects, and is asked: half of whose answers cannot be used."""
    first, five = (attackers(("idt", AUTHOR, accuracy, 0.5)) for accuracy in (0.7, 0.9))
    of_llm = attackers(("idt", LLM, 0.4, 0.0)).with_columns(unusable=pl.lit(0.5), top_3=pl.lit(0.625))
    detectors = attackers(("idt", DETECTOR, 0.66, 0.6), ("textfooler", DETECTOR, 0.9, 2.0), label=REWRITTEN)
    single = hidden().filter(pl.col("attacker") != DETECTOR)
    return pl.concat([single, first, five.with_columns(texts_each=pl.lit(5, pl.Int64)), of_llm, detectors])


def test_authors_detectors_and_unusable_answers_stand_beside_each_method() -> None:
    rows = {row["mechanism"]: row for row in inferring.further_rows(further(), ["gender"])}
    assert {*rows} == {"idt", "textfooler"}  # identity has no such rows
    assert rows["idt"]["authors"] == {1: 0.7, 5: 0.9}
    assert [rows["idt"][name] for name in ("detector", "unusable", "top_3")] == [0.66, 0.5, 0.625]
    assert [rows["textfooler"][name] for name in ("authors", "detector", "top_3")] == [{}, 0.9, None]


def test_settings_are_chosen_on_texts_of_which_nothing_else_is_said() -> None:
    """A page of a test cell and of a validation cell: the latter stands in a table of its own, with its settings."""
    cells = {
        "queries-idt": AnonymityCell(dataset="queries", mechanism="idt"),
        "queries-k5": AnonymityCell(dataset="queries", mechanism="k5", settings={"k": 5, "q": 1}, part="validation"),
    }
    results = audit(settings(anonymity=cells))
    empty = {name: pl.DataFrame(schema=dict(schema)) for name, schema in SCHEMAS.items()}
    chosen = measured().filter(mechanism="idt").with_columns(pl.lit(0.25, pl.Float64).alias(name) for name in SHARES)
    idt = {**empty, "anonymity": chosen, "attackers": further().filter(pl.col("mechanism") == "idt")}
    k5 = {**empty, "anonymity": chosen.with_columns(mechanism=pl.lit("k5"), rs_all=pl.lit(0.321))}
    for name, written in (("queries-idt", idt), ("queries-k5", k5)):
        for what, table in written.items():
            results.held[str(anonymity_path(name, what))] = table.with_columns(dataset=pl.lit("queries"))
        results.held[str(anonymized_path(name, None))] = pl.DataFrame(schema=dict(ANONYMIZED))
    page = text_of(anonymity.section(results), results)
    before, after = page.split("Settings, on validation texts")
    assert "k 5, q 1" in after
    assert "0.321" in after
    assert "0.321" not in before
    assert "of 500 test texts, linear 180" in before
    assert "1 text5 textsDetector" in before.replace("\n", "")
    assert "70.0 %90.0 %66.0 %50.0 %62.5 %".replace(" ", "\N{NO-BREAK SPACE}") in before
    alone = text_of(
        anonymity.section(replace(results, params=settings(anonymity={"queries-k5": cells["queries-k5"]}))), results
    )
    assert "k 5, q 1" in alone
    assert "Who infers" not in alone


def test_both_tables_stand_in_the_results_of_a_profile() -> None:
    (success,) = anonymity.success_tables(measured())
    (inferred,) = inferring.infer_tables(hidden().filter(label="gender"))
    assert success.in_results
    assert inferred.in_results
    assert success.heading == "reviews: gender hidden, rating kept"
    assert inferred.heading == "reviews: who infers gender"
    assert success.rows[0]["RS_all"] == "0.350 (0.100 to 0.400)"
    assert "of 500 test texts, linear 180." in success.caption
    assert "F1 is that of rating" in success.caption
    assert "on clean texts it is 0.90 (linear)" in success.caption
    assert [row["adaptive"] for row in inferred.rows if row["mechanism"] == "idt"] == ["0.78"]
    assert "chance is 0.50" in inferred.caption


def test_attackers_of_several_kinds_stand_apart_beside_the_best_of_them() -> None:
    linear = hidden().filter(label="gender")
    single = linear.filter(pl.col("attacker") != "strongest")
    tuned = single.with_columns(kind=pl.lit("transformer"), balanced_accuracy=pl.col("balanced_accuracy") + 0.05)
    both, by_kind = inferring.infer_tables(pl.concat([linear, tuned]))
    assert [row["adaptive"] for row in both.rows if row["mechanism"] == "idt"] == ["0.83"]
    assert by_kind.heading == "reviews: who infers gender, by kind of classifier"
    assert by_kind.in_results
    assert [(row["classifier"], row["adaptive"]) for row in by_kind.rows if row["mechanism"] == "idt"] == [
        ("linear", "0.78"),
        ("transformer", "0.83"),
    ]


def test_questions_to_the_victim_have_a_column_where_any_were_asked() -> None:
    (plain,) = anonymity.success_tables(measured())
    assert "asked of the victim" not in plain.columns
    (counted,) = anonymity.success_tables(measured().with_columns(asked_victim=pl.lit(1234)))
    assert counted.rows[0]["asked of the victim"] == "1,234"


def test_by_length_each_row_names_its_victim() -> None:
    own = {"dataset": "reviews", "mechanism": "idt", "attribute": "gender", "task": "rating", "seed": 0}
    quarters = [
        {**own, "victim": victim, "shortest": start, "longest": start + 3, "rs_all": success}
        for victim, success in (("encoder", 0.25), ("linear", 0.5))
        for start in (5, 1)
    ]
    table = anonymity.length_table(pl.DataFrame(quarters, schema=dict(BY_LENGTH)))
    assert [(row["victim"], row["words: RS_all"]) for row in table.rows] == [
        ("encoder", "1 to 4: 0.25; 5 to 8: 0.25"), ("linear", "1 to 4: 0.5; 5 to 8: 0.5"),
    ]  # fmt: skip


def test_what_rewrites_keep_has_a_column_a_metric_and_a_dash_where_there_is_none() -> None:
    rows = [
        ("reviews", "idt", None, "cosine", 40, 0.9111, 0.8, 0.95),
        ("reviews", "idt", None, "BERTScore", 40, 0.5, 0.25, 0.75),
        ("reviews", "bae", None, "cosine", 7, 1.0, 1.0, 1.0),
    ]
    table = anonymity.quality_table(pl.DataFrame(rows, schema=dict(QUALITY), orient="row"))
    assert [(row["mechanism"], row["texts"], row["cosine"], row.get("BERTScore")) for row in table.rows] == [
        ("bae", "7", "1.000 (1.000 to 1.000)", None),
        ("idt", "40", "0.911 (0.800 to 0.950)", "0.500 (0.250 to 0.750)"),
    ]
    assert table.in_results


def test_figures_hold_every_cell() -> None:
    rows = inferring.attacker_figure(hidden())["datasets"]["reviews: gender"]
    assert {(row["cell"], row["attacker"]) for row in rows} >= {("idt", ADAPTIVE), ("textfooler", STATIC)}
    points = anonymity.against(hidden(), measured(), losses())
    figure = anonymity.loss_figure(points, points["mechanism"], ["identity"])
    assert {row["mechanism"] for row in figure["datasets"]["reviews gender"]} == {*CELLS}


def test_texts_at_the_quartiles_of_change() -> None:
    pairs = [("a b c d", " ".join("abcd"[:same] + "x" * (4 - same))) for same in (4, 3, 2, 1)]
    rows = anonymity.quartile_rows(pairs)
    assert [changed_share(*pair) for pair in pairs] == [0, 0.25, 0.5, 0.75]
    assert [row["text"].count("<s ") for row in rows] == [1, 1, 1]
