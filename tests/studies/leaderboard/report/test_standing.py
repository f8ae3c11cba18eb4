"""Who has a rank on the leaderboard."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.ceilings.share import BY_ATTACKS, BY_LATENTS, BY_LAW
from epsilometer.studies.leaderboard.learning import WORDS
from epsilometer.studies.leaderboard.report.standing import ranked
from epsilometer.studies.leaderboard.tables import ANY, FIGURES, ROWS, TAIL

_WORTHS = {"better": [0.5, 0.52, 0.51, 0.53, 0.5], "worse": [0.3, 0.31, 0.32, 0.3, 0.29]}


def standing(average: float = 1.0, **classes: tuple[str, str]) -> dict[str, dict]:
    """The rows of mechanisms of these classes of claims, whose losses are known so; `worse` keeps less than others.

    average: the loss of `better` at its budget.
    """
    of = {"loss": 1.0, "lengths": ANY, "budget": TAIL}
    rows, figures = [], []
    for name, (claim_class, by) in classes.items():
        values = _WORTHS["worse" if name == "worse" else "better"]
        lost = {"average": average if name == "better" else 1.0, "by": by}
        rows.append(of | lost | {"mechanism": name, "control": False, "epsilon": 1.0, "claim_class": claim_class})
        for figure, learner, texts in (("cosine", None, None), ("task", WORDS, 10)):
            figures.append(of | {"mechanism": name, "figure": figure, "learner": learner, "texts": texts,
                                 "by_law": False, "values": values})  # fmt: skip
    table = pl.DataFrame([{name: row.get(name) for name in ROWS} for row in rows], schema=dict(ROWS))
    schema = {**FIGURES, "mechanism": pl.String, "loss": pl.Float64}
    return {row["mechanism"]: row for row in ranked(table, pl.DataFrame(figures, schema=schema)).to_dicts()}


def test_a_mechanism_surely_better_than_another_of_its_class_is_first() -> None:
    rows = standing(worse=("pure", BY_LAW), better=("pure", BY_LAW))
    assert (rows["better"]["rank"], rows["worse"]["rank"]) == (1, 2)
    assert rows["better"]["above"] == ["worse"]


def test_a_mechanism_that_loses_more_than_was_asked_for_has_no_rank() -> None:
    rows = standing(average=1.2, worse=("pure", BY_LAW), better=("pure", BY_LAW), third=("pure", BY_LAW))
    assert [rows[name]["rank"] for name in ("better", "third", "worse")] == [None, 1, 2]


def test_bounds_by_latents_rank_nobody() -> None:
    rows = standing(worse=("approximate", BY_LATENTS), better=("approximate", BY_LATENTS))
    assert [row["rank"] for row in rows.values()] == [None, None]


def test_nobody_is_first_of_one() -> None:
    """Alone in its class, or beside losses that attacks alone bound: nothing could have put it second."""
    rows = standing(better=("pure", BY_LAW), worse=("metric", BY_LAW), other=("metric", BY_ATTACKS))
    assert [row["rank"] for row in rows.values()] == [None, None, None]
