"""The exact losses, their effects on the page, and the risk in words."""

from __future__ import annotations

import math

import polars as pl
import pytest

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_REFUTED, VIOLATED
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.auditing.exact_loss.importance import AT_LEAST
from epsilometer.auditing.schemas import EXACT
from epsilometer.report.cells import claims, exact_loss
from epsilometer.report.cells.exact_loss import (
    ceiling_sentence,
    claims_sentence,
    departed_sentence,
    length_sentence,
    order_sentence,
    ranked,
    risks,
    rows,
)
from epsilometer.report.rows import by_equal_length, comparable
from tests.support.audited import HOSTILE, TRIALS, audit, bare, estimates, exact, frame, text_of
from tests.support.exact_losses import curves, losses

SURE = ("queries", "mvc", 5.0, "embedding", TRIALS, None, NO_CLAIM)  # every guess was right


def test_both_groups_of_pairs_stand_beside_what_trials_of_each_prove() -> None:
    table = frame(
        ("queries", "dp_bart", 5.0, "embedding", 600, None, NO_CLAIM),
        ("queries", "dp_bart", 5.0, "internal", 900, None, NO_CLAIM),
        ("queries", "mvc", 5.0, "embedding", 800, None, NO_CLAIM),
        equal=(100, 70),
    )
    laws = losses({("queries", "mvc", 5.0): 8.0, ("queries", "dp_bart", 5.0): 4.0}, latents=["dp_bart"])
    latents, _, equal, every = rows(laws, table)
    assert (equal["pairs"], equal["first"], equal["trials"], equal["sampled"]) == (
        "equal length", True, 100, estimate(70, 100).loss
    )  # fmt: skip
    assert (every["pairs"], every["first"], every["trials"]) == ("all", False, TRIALS)
    assert every["sampled"] == estimate(800, TRIALS).loss
    assert latents["sampled"] == estimate(70, 100).loss
    section = exact_loss.section(audit())
    assert section is not None
    text = "".join(str(table.grid()) for table in section.tables if table.off_page)
    assert text.count("latents") == 3 + 1  # once per budget of one mechanism, and in the caption
    assert "4.00 ± 0.01" in text
    assert "8.00 ± 0.01" in text
    assert text.count("∞") >= 3  # for different lengths, and for a law with an infinite loss
    assert "nan" not in text
    assert "None" not in text


def test_the_cells_that_trials_cannot_tell_apart_come_apart() -> None:
    laws = losses({("queries", "mvc", 5.0): 8.0, ("queries", "tem", 5.0): 60.0, ("queries", "dp_bart", 5.0): 0.5})
    sure = [(*SURE[:1], name, *SURE[2:]) for name in ("mvc", "tem")]
    table = frame(*sure, ("queries", "dp_bart", 5.0, "embedding", 600, None, NO_CLAIM))
    (sentence,) = ceiling_sentence(laws, table)
    assert sentence.startswith("2 cells with a known law are at the ceiling of the trials (5.23 nats)")
    assert "Their exact average losses are 8.00 to 60.00 nats" in sentence
    assert ceiling_sentence(laws, table.filter(pl.col("mechanism") != "tem")) == []


def test_the_order_of_mechanisms_by_trials_and_by_laws() -> None:
    cells = [
        {"released": True, "sampled": sampled, "average": average, "delta_at_4": tail}
        for sampled, average, tail in ((5.0, 9.0, 1.0), (5.0, 30.0, 1.0), (2.0, 12.0, 1.0), (1.0, 0.5, 0.2))
    ]
    order = ranked([*cells, {"released": False, "sampled": 9.0, "average": 99.0, "delta_at_4": 1.0}])
    assert [row["tail_rank"] for row in order] == [1, 1, 1, 4, None]
    assert [(row["sampled_rank"], row["exact_rank"]) for row in order] == [(1, 3), (1, 1), (3, 2), (4, 4), (None, None)]


def test_the_order_turns_where_intervals_lie_apart_alone() -> None:
    """Of the first three the first is the largest when sampled, and the least by its law; the last two overlap."""
    ends = [(5.0, 5.5, 8.9, 9.1), (5.2, 6.0, 29.0, 31.0), (2.0, 2.5, 12.0, None), (2.4, 2.6, 0.4, 0.6)]
    names = ("sampled", "sampled_high", "all_low", "all_high")
    cells = [dict(zip(names, row, strict=True)) | {"sampled_rank": 1} for row in ends]
    # The first and the third: apart when sampled, and the other way by law. The first and the second, as the last two:
    # alike when sampled, apart by law, unless an end is unknown.
    assert order_sentence([*cells, {"sampled_rank": None}]) == (
        "Of 6 pairs of cells, the exact loss orders 2 whose sampled intervals overlap, and reverses the sampled order "
        "of 1."
    )
    near = [cells[0] | {"sampled": 0.98, "sampled_high": 1.30}, cells[1] | {"sampled": 0.97, "sampled_high": 1.29}]
    assert order_sentence(near).endswith(
        "orders 1 whose sampled intervals overlap, and reverses the sampled order of 0."
    )
    assert order_sentence(near[:1]) == ""
    table = frame(SURE, ("queries", "tem", 5.0, "embedding", 700, None, NO_CLAIM), equal=(100, 70))
    of_equal = rows(losses({("queries", "tem", 5.0): 1.0}), table)[0]
    assert of_equal["sampled_high"] == pytest.approx(estimate(70, 100).upper)


def test_who_is_named_is_not_said_by_a_law_that_is_refuted() -> None:
    results = audit(estimates=estimates().with_columns(departs=pl.col("mechanism") == "mvc"))
    tables = exact_loss.section(results).tables  # type: ignore[union-attr]
    named = [table for table in tables if table.heading.startswith("Who is named")]
    assert all(row["mechanism"] != "mvc" for table in named for row in table.rows)
    (as_stated, *_) = [
        table for table in exact_loss.section(audit()).tables if table.heading.startswith("Who is named")
    ]  # type: ignore[union-attr]
    assert "mvc" in {row["mechanism"] for row in as_stated.rows}
    assert "for the compared pairs" in as_stated.caption


def test_what_lengths_give_away_is_said_of_whom_it_concerns() -> None:
    (sentence,) = length_sentence(exact())
    assert sentence.startswith("On queries mvc reveals the length of a text")
    assert HOSTILE not in sentence  # its latents have one length
    assert "12.5\N{NO-BREAK SPACE}% of the compared pairs" in sentence
    assert length_sentence(exact().filter(pairs="equal length")) == []


def test_claims_of_whole_texts_are_judged() -> None:
    cells = {("queries", "mvc", 5.0): 8.0, ("queries", "tem", 5.0): 60.0}
    assert claims_sentence(losses(cells)) == []  # nothing could be checked
    (held,) = claims_sentence(losses(cells, verdict=NOT_REFUTED))
    assert held.startswith("2 claims were also checked")
    assert held.endswith("no compared pair of texts loses more than claimed.")
    mixed = losses(cells, verdict=NOT_REFUTED).with_columns(
        verdict=pl.when(mechanism="tem").then(pl.lit(VIOLATED)).otherwise("verdict")
    )
    assert claims_sentence(mixed)[0].endswith("it exceeds the claim of tem at ε = 5.")
    results = audit(exact=mixed)
    assert "it exceeds the claim of tem" in text_of(claims.section(results), results)


def test_a_sampler_that_departs_from_its_law_is_named() -> None:
    table = frame(SURE, (*SURE[:2], 9.0, *SURE[3:]))
    departs = table.with_columns(departs=pl.col("epsilon") == 9.0)
    laws = losses({("queries", "mvc", 5.0): 8.0, ("queries", "mvc", 9.0): 9.0})
    (sentence,) = departed_sentence(laws, departs)
    assert "mvc at ε = 9:" in sentence
    assert departed_sentence(laws, table) == []
    assert departed_sentence(laws.filter(epsilon=5.0), departs) == []


def test_the_risk_is_that_of_the_law_and_never_below_guessing() -> None:
    """Of randomised response among k texts: e^epsilon / (e^epsilon + k - 1)."""
    law = losses({("queries", "mvc", 5.0): 3.0, ("letters", "mvc", 5.0): 0.0})
    chances = risks(curves(law), law, {"queries": 4000, "letters": 500})
    of = {(row["dataset"], row["pairs"], row["candidates"]): row["chance"] for row in chances.to_dicts()}
    assert sorted(k for name, pairs, k in of if (name, pairs) == ("queries", "all")) == [2, 10, 1000, 4000]
    assert sorted(k for name, pairs, k in of if (name, pairs) == ("letters", "all")) == [2, 10, 500]
    for k in (2, 10, 1000, 4000):
        assert math.isclose(of["queries", "equal length", k], math.exp(3) / (math.exp(3) + k - 1))
    for k in (2, 10, 500):
        assert math.isclose(of["letters", "equal length", k], 1 / k)
    results = audit()
    text = text_of(exact_loss.section(results), results)
    table = text[text.index("Who is named among the texts of queries") :]
    assert "Among 4,000" in table
    assert table.index("guessing") < table.index("0.025 of 100") < table.index("mvc")
    assert "95.3 of 100; 95.4 of 100" in table  # mvc at 3 nats on the pairs compared: .9526; at 3.01: .9530


def test_of_generated_text_the_mean_alone_is_known() -> None:
    unknown = ("median", "q95", "worst", "worst_x", "worst_other", "relative_epsilon", "relative_method", "error")
    law = losses({("queries", "mvc", 5.0): 8.0}).with_columns(
        *(pl.lit(None).alias(name) for name in unknown), method=pl.lit(AT_LEAST)
    )
    results = audit(estimates=frame(SURE), exact=law.cast(dict(EXACT)), curves=curves(law))
    section = exact_loss.section(results)
    assert section is not None
    text = str(section.tables[0].grid())
    assert "at least 7.99" in text
    assert "None" not in text
    assert comparable(results.estimates, results.exact, 0.01)["exact"].to_list() == [False]


def test_losses_to_compare_are_all_over_texts_of_equal_length() -> None:
    table = frame(SURE, ("queries", "dp_bart", 5.0, "embedding", 900, None, NO_CLAIM), equal=(100, 70))
    law = losses({("queries", "mvc", 5.0): 8.0})
    sampled, by_law = comparable(table, law, 0.01).sort("mechanism").to_dicts()
    assert (by_law["exact"], by_law["point"], by_law["loss"], by_law["upper"]) == (True, 8.0, 7.99, 8.01)
    own = estimate(70, 100)
    assert (sampled["exact"], sampled["loss"], sampled["upper"]) == (False, own.loss, own.upper)
    inside = losses({("queries", "mvc", 5.0): 8.0}, latents=["mvc"])
    assert not comparable(table, inside, 0.01)["exact"].any()  # it is an upper bound on the text's loss
    alone = comparable(table, law.clear(), 0.01)
    assert alone["loss"].to_list() == [estimate(900, TRIALS).loss, estimate(TRIALS, TRIALS).loss]


def test_without_pairs_of_equal_length_all_pairs_count() -> None:
    both = losses({("queries", "mvc", 5.0): 8.0, ("letters", "mvc", 5.0): 3.0})
    some = both.filter((pl.col("dataset") == "queries") | (pl.col("pairs") == "all"))
    assert by_equal_length(some).select("dataset", "pairs").rows() == [("letters", "all"), ("queries", "equal length")]


def test_without_laws_there_is_no_section() -> None:
    assert exact_loss.section(bare(estimates())) is None
