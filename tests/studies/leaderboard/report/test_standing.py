"""Tiers of the leaderboard's rows, and rows that repeat at several losses."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.ceilings.share import BY_ATTACKS, BY_LATENTS, BY_LAW
from epsilometer.studies.leaderboard.learning import WORDS
from epsilometer.studies.leaderboard.report.standing import standings
from epsilometer.studies.leaderboard.tables import ANY, AVERAGE, FIGURES, ROWS, TAIL

_WORTHS = {"better": [0.5, 0.52, 0.51, 0.53, 0.5], "worse": [0.3, 0.31, 0.32, 0.3, 0.29]}


def standing(average: float = 1.0, one_text: float = 0.1, **classes: tuple[str, str]) -> dict[str, dict]:
    """The rows of mechanisms of these classes of claims, whose losses are known so; `worse` keeps less than others.

    average: the loss of `better` at its budget; one_text: the cosine of one sentence for all.
    """
    of = {"loss": 1.0, "lengths": ANY, "budget": TAIL}
    rows, figures = [], []
    for name, (claim_class, by) in classes.items():
        values = _WORTHS["worse" if name == "worse" else "better"]
        lost = {"average": average if name == "better" else 1.0, "by": by}
        lost |= {"claim_class": claim_class, "epsilon": 1.0, "control": False, "one_text": one_text}
        rows.append(of | lost | {"mechanism": name, "cosine": sum(values) / len(values)})
        for figure, learner, texts in (("cosine", None, None), ("task", WORDS, 10)):
            figures.append(of | {"mechanism": name, "figure": figure, "learner": learner, "texts": texts,
                                 "by_law": False, "values": values})  # fmt: skip
    return {row["mechanism"]: row for row in standings(*tables(rows, figures)).to_dicts()}


def tables(rows: list[dict], figures: list[dict]) -> tuple[pl.DataFrame, pl.DataFrame]:
    table = pl.DataFrame([{name: row.get(name) for name in ROWS} for row in rows], schema=dict(ROWS))
    return table, pl.DataFrame(figures, schema={**FIGURES, "mechanism": pl.String, "loss": pl.Float64})


def test_a_mechanism_surely_better_than_another_of_its_class_is_first() -> None:
    rows = standing(worse=("pure", BY_LAW), better=("pure", BY_LAW))
    assert (rows["better"]["tier"], rows["worse"]["tier"]) == (1, 2)
    assert rows["better"]["above"] == ["worse"]


def test_a_mechanism_that_loses_more_than_was_asked_for_has_no_tier() -> None:
    rows = standing(average=1.2, worse=("pure", BY_LAW), better=("pure", BY_LAW), third=("pure", BY_LAW))
    assert [rows[name]["tier"] for name in ("better", "third", "worse")] == [None, 1, 2]


def test_bounds_by_latents_give_no_tier() -> None:
    rows = standing(worse=("approximate", BY_LATENTS), better=("approximate", BY_LATENTS))
    assert [row["tier"] for row in rows.values()] == [None, None]


def test_nobody_is_first_of_one() -> None:
    """Alone in its class, or beside losses that attacks alone bound: nothing could have put it second."""
    rows = standing(better=("pure", BY_LAW), worse=("metric", BY_LAW), other=("metric", BY_ATTACKS))
    assert [row["tier"] for row in rows.values()] == [None, None, None]


def test_what_keeps_no_more_than_one_sentence_has_no_tier() -> None:
    """It is compared all the same; with 0.31 `worse` is below the sentence, with 0.6 all are."""
    of = {"better": ("pure", BY_LAW), "worse": ("pure", BY_LAW), "third": ("pure", BY_LAW)}
    rows = standing(one_text=0.31, **of)
    assert [rows[name]["tier"] for name in of] == [1, None, 1]
    assert rows["better"]["above"] == ["worse"]
    assert [row["tier"] for row in standing(one_text=0.6, **of).values()] == [None, None, None]


def losses(binding: dict[float, float | None], reason: str | None = None) -> pl.DataFrame:
    """The rows of `held` at 0.5, 1 and 2 nats beside `free`, whose tail never binds and which keeps less at 2.

    binding: by loss, the second budget of `held`, below its first one; None: no budget, for that reason.
    """
    rows, figures = [], []
    for loss, epsilon in binding.items():
        of = {"loss": loss, "lengths": ANY, "control": False, "by": BY_LAW, "claim_class": "pure", "one_text": 0.1}
        of |= {"average": 0.4}
        for name, second, values in (
            ("held", epsilon, [0.4 + loss / 1000 + x for x in (0, 0.01, 0.02, 0.01, 0)]),
            ("free", 9.0, [0.5, 0.52, 0.51, 0.53, 0.5] if loss < 2 else [0.3, 0.31, 0.32, 0.3, 0.29]),
        ):
            for budget, at in ((TAIL, second), (AVERAGE, 9.0)):
                mean = sum(values) / 5
                why = None if at else reason
                rows.append(of | {"mechanism": name, "budget": budget, "epsilon": at, "cosine": mean, "reason": why})
                for figure, learner, texts in (("cosine", None, None), ("task", WORDS, 10)):
                    figures.append({"mechanism": name, "loss": loss, "lengths": ANY, "budget": budget, "figure": figure,
                                    "learner": learner, "texts": texts, "by_law": False, "values": values})  # fmt: skip
    return standings(*tables(rows, figures))


def test_a_row_whose_tail_binds_is_shown_once_and_compared_at_every_loss() -> None:
    shown = losses({0.5: 4.0, 1.0: 4.02, 2.0: 3.99})
    (held,) = shown.filter(mechanism="held", budget=TAIL).to_dicts()
    assert (held["loss"], held["epsilon"], held["tier"]) == (0.5, 4.0, 2)
    assert held["repeated"] == [{"loss": 1.0, "tier": 2}, {"loss": 2.0, "tier": 1}]
    free = shown.filter(mechanism="free", budget=TAIL)
    assert dict(free.select("loss", "tier").iter_rows()) == {0.5: 1, 1.0: 1, 2.0: 2}
    assert len(shown.filter(budget=AVERAGE)) == 6, "first budgets are of their own losses"


def test_budgets_that_differ_are_rows_of_their_own() -> None:
    """A search finds one of several crossings: 4.01 at 2 nats repeats 4, and 4.5 does not."""
    held = losses({0.5: 4.0, 1.0: 4.5, 2.0: 4.01}).filter(mechanism="held", budget=TAIL)
    assert held["loss"].to_list() == [0.5, 1.0]
    assert held["repeated"].to_list() == [[{"loss": 2.0, "tier": 1}], None]


def test_a_mechanism_without_a_budget_for_one_reason_is_shown_once() -> None:
    held = losses({0.5: None, 1.0: None, 2.0: 4.0}, "even at epsilon 1 its delta at 4 nats is above 0.01")
    assert held.filter(mechanism="held", budget=TAIL)["loss"].to_list() == [0.5, 2.0]
