"""Decisions on mechanisms at a budget: each status, its reason, and how often `within` is wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from epsilometer.auditing.claims.verdicts import NOT_CHECKED, NOT_REFUTED
from epsilometer.auditing.decisions.decide import ALL, decide
from epsilometer.auditing.decisions.evidence import Tables
from epsilometer.auditing.decisions.limits import Limits
from epsilometer.auditing.estimation.successes import clopper_pearson, estimate
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.auditing.schemas import ATTRIBUTE_LOSSES, ESTIMATES, EXACT, LEAKAGE
from epsilometer.auditing.worth.releases import STANDING
from epsilometer.core.errors import LawError
from tests.support.refusals import refused

BEYOND, NOT_APPLICABLE, NOT_EXCEEDED = Status.BEYOND, Status.NOT_APPLICABLE, Status.NOT_EXCEEDED
OPEN, WITHIN = Status.OPEN, Status.WITHIN

CELL = {"dataset": "letters", "mechanism": "mine", "epsilon": 1.0}


def attacked(
    successes: int = 500, trials: int = 1000, tail: float | None = 0.0, most: float = 0.005, **of: Any
) -> dict[str, Any]:
    """The strongest attack of a cell. tail, most: between what its sure guesses prove delta at 4 nats to lie."""
    e = estimate(successes, trials)
    numbers = {name: getattr(e, name) for name in ("trials", "candidates", "successes", "success_rate")}
    losses = {
        "loss": e.loss,
        "point": e.point,
        "upper": e.upper,
        "ceiling": e.ceiling,
        "delta_at_4_low": tail,
        "delta_at_4_high": most,
    }
    rest = {"attack": STRONGEST, "released": True, "control": False, "departs": False}
    return CELL | numbers | losses | rest | of


def law(low: float, high: float, tail: tuple[float, float] = (0.0, 0.0), **of: Any) -> dict[str, Any]:
    """What the law of a cell proves: of the loss over all pairs, and of delta at 4 nats."""
    ends = {"all_low": low, "all_high": high, "average_low": low, "average_high": high}
    tails = {"all_delta_at_4_low": tail[0], "all_delta_at_4": tail[1], "delta_at_4": tail[0]}
    rest = {
        "pairs": "all",
        "compared": 100,
        "released": True,
        "method": "exact",
        "verdict": NOT_CHECKED,
        "claimed_delta": 0.0,
    }
    return CELL | ends | tails | rest | of


def leaked(survived: int, identifiers: int = 1000, alpha: float = 0.01, **of: Any) -> dict[str, Any]:
    low, high = clopper_pearson(survived, identifiers, alpha)
    counts = {"identifiers": identifiers, "recorded": identifiers, "survived": survived, "partly": 0}
    return CELL | {"kind": "name"} | counts | {"share": survived / identifiers, "low": low, "high": high} | of


def decided(
    estimates: list[dict[str, Any]],
    exact: list[dict[str, Any]] | None = None,
    leakage: list[dict[str, Any]] | None = None,
    attributes: list[dict[str, Any]] | None = None,
    hidden: dict[str, list[str]] | None = None,
    alpha: float = 0.01,
    limits: Limits = Limits(),  # noqa: B008  it is frozen
    standing: list[dict[str, Any]] | None = None,
) -> pl.DataFrame:
    tables = [
        pl.DataFrame(rows or [], schema=dict(schema))
        for rows, schema in (
            (estimates, ESTIMATES),
            (exact, EXACT),
            (leakage, LEAKAGE),
            (attributes, ATTRIBUTE_LOSSES),
            (standing, STANDING),
        )
    ]
    return decide(
        limits,
        Tables(tables[0], tables[1], leaked=tables[2], attribute_losses=tables[3], standing=tables[4]),
        hidden or {},
        alpha,
    )


def words(table: pl.DataFrame) -> dict[str, str]:
    return dict(table.select("limit", "decision").iter_rows())


LAWFUL = [law(0.2, 0.4, tail=(0.0, 0.002))]


@pytest.mark.parametrize(
    ("estimates", "exact", "word"),
    [
        ([attacked()], LAWFUL, WITHIN),
        ([attacked(900)], None, BEYOND),  # an attack on a black box decides
        ([attacked(500)], [law(1.2, 1.3)], BEYOND),  # the law decides, whatever the attacks achieve
        ([attacked(500)], None, NOT_EXCEEDED),
        ([attacked(500)], [law(0.9, 1.1)], OPEN),
        ([attacked(730)], None, OPEN),  # a black box: the limit lies within the attack's interval
    ],
)
def test_each_word_can_come_out(estimates: list[dict[str, Any]], exact: list[dict[str, Any]] | None, word: str) -> None:
    assert words(decided(estimates, exact))[ALL] == word


def test_intervals_that_err_more_often_than_the_audit_allows_decide_nothing() -> None:
    """Those over all pairs of texts are at 99 %."""
    table = decided([attacked()], LAWFUL, alpha=0.001)
    assert words(table)["loss"] != WITHIN
    assert "99%" in table.filter(limit="loss")["why"][0]


def test_a_black_box_is_never_within_however_many_trials_it_has() -> None:
    table = decided([attacked(500_000, 1_000_000)], leakage=[leaked(0)])
    said = words(table)
    assert said["identifiers: name"] == WITHIN, "what is counted is the thing itself"
    assert said[ALL] == said["loss"] == said["delta_at_4"] == NOT_EXCEEDED
    assert set(table.filter(limit="loss")["settles"]) == {"a law of what is released"}


def test_an_attack_that_names_another_than_the_source_shows_nothing_to_be_kept() -> None:
    said = decided([attacked(trials=2000, successes=1000), attacked(0, trials=2000, attack="embedding")])
    assert words(said)["loss"] == words(said)["delta_at_4"] == OPEN
    assert "less often than by chance" in said.filter(limit="loss")["why"][0]


def test_a_tail_that_nothing_proves_is_not_shown_to_be_kept() -> None:
    """The most confident guesses may come to a fifth; 1,000 trials without any such guess leave more than .01 open."""
    sure = decided([attacked(1000, trials=2000, tail=0.0, most=0.2)]).filter(limit="delta_at_4").to_dicts()[0]
    assert (sure["decision"], sure["why"]) == (
        OPEN,
        "by the most confident guesses, the tail may be above or below the limit",
    )
    assert (sure["needed"], sure["settles"]) == (None, "trials")
    few = decided([attacked(tail=0.0, most=0.012)]).filter(limit="delta_at_4").to_dicts()[0]
    assert (few["decision"], few["needed"]) == (OPEN, 1200)


EVERY = {"relative_method": "all pairs", "verdict": NOT_REFUTED}


def test_the_largest_loss_of_any_pair_bounds_the_average_whatever_the_alpha_of_intervals() -> None:
    largest = law(0.1, 0.9, relative_epsilon=0.9, **EVERY)
    row = decided([attacked()], [largest], alpha=0.001).filter(limit="loss").to_dicts()[0]
    assert (row["decision"], row["high"], row["high_by"]) == (WITHIN, 0.9, "law")
    open_ = decided([attacked()], [largest | {"relative_epsilon": 1.75}], alpha=0.001).filter(limit="loss").to_dicts()
    assert (open_[0]["high"], open_[0]["decision"]) == (1.75, NOT_EXCEEDED)
    some = largest | {"relative_method": "lower bound"}
    assert decided([attacked()], [some], alpha=0.001).filter(limit="loss")["high"].to_list() == [None]


def test_what_an_attribute_lacks_is_what_would_settle_it() -> None:
    """Attackers decide nothing here, so none is asked for; and a law without a figure says nothing of alpha."""
    hidden = {"letters": ["gender"]}
    row = decided([attacked()], LAWFUL, hidden=hidden).filter(limit="attribute: gender").to_dicts()[0]
    assert (row["decision"], row["why"], row["settles"]) == (OPEN, "the law's bound was not computed", None)
    black = decided([attacked()], hidden=hidden).filter(limit="attribute: gender").to_dicts()[0]
    assert black["settles"] == "a law of what is released"


def test_the_coin_at_one_nat_is_beyond() -> None:
    """It publishes 46 of 100 texts: its average loss is the limit, and delta at 4 nats is .46."""
    shown = math.tanh(0.5)
    said = words(decided([attacked(731)], [law(1.0, 1.0, tail=(shown, shown))]))
    assert (said["loss"], said["delta_at_4"], said[ALL]) == (WITHIN, BEYOND, BEYOND)


def test_a_claim_that_drawn_pairs_do_not_refute_is_no_upper_bound() -> None:
    claimed = law(0.1, 3.0, tail=(0.0, 0.3), claim="0.9 per document; any two texts", verdict=NOT_REFUTED)
    table = decided([attacked()], [claimed])
    assert words(table)[ALL] == OPEN
    assert table.filter(pl.col("limit").is_in(["loss", "delta_at_4"]))["high"].to_list() == [3.0, 0.3]
    assert words(decided([attacked()]))[ALL] != WITHIN, "of a black box a claim is what it says of itself"


def test_bounds_of_one_law_that_cross_are_an_error() -> None:
    with refused("EPS-A074", "0.304", "0.2", kind=LawError):
        decided([attacked()], [law(0.304, 0.2)])
    with refused("EPS-A074", "delta_at_4", kind=LawError):
        decided([attacked()], [law(0.1, 0.2, tail=(0.03, 0.0))])
    with refused("EPS-A074", "0.304", "0.2", kind=LawError):
        decided([attacked(900)], [law(0.304, 0.2)])


def test_an_attack_that_contradicts_a_law_takes_its_upper_bound_away() -> None:
    """700 of 1,000 show .62 nats at least, where the law leaves .4: within the limit, and decided by nothing."""
    table = decided([attacked(700)], LAWFUL)
    row = table.filter(limit="loss").to_dicts()[0]
    assert (row["decision"], row["high"], row["low_by"]) == (OPEN, None, "attacks")
    assert row["why"].startswith("a contradiction: at least 0.6")
    assert words(table)[ALL] == OPEN
    beyond = decided([attacked(900)], LAWFUL).filter(limit="loss").to_dicts()[0]
    assert (beyond["decision"], beyond["high"]) == (BEYOND, None)
    assert beyond["why"].startswith("a contradiction")


def test_a_law_that_the_rewrites_do_not_follow_says_nothing() -> None:
    table = decided([attacked(departs=True)], LAWFUL)
    assert words(table)[ALL] == NOT_EXCEEDED
    assert table.filter(limit="loss")["why"].item() == "the rewrites do not follow the stated law"


def test_a_law_of_latents_bounds_the_text_from_above_alone() -> None:
    table = decided([attacked()], [law(2.0, 2.1, tail=(0.2, 0.3), released=False)])
    assert words(table)[ALL] == OPEN, "who sees the text may learn less than who sees the latents"
    assert words(decided([attacked()], [LAWFUL[0] | {"released": False}]))[ALL] == WITHIN


def test_limits_that_do_not_apply_are_named_and_left_out() -> None:
    table = decided([attacked()], LAWFUL)
    assert words(table)["identifiers"] == words(table)["attribute"] == NOT_APPLICABLE
    assert words(table)[ALL] == WITHIN
    unmeasured = decided([attacked()], LAWFUL, hidden={"letters": ["gender"]})
    assert words(unmeasured)["attribute: gender"] == words(unmeasured)[ALL] == OPEN
    named = {"attribute": "gender", "upper": 0.45}
    measured = decided([attacked()], LAWFUL, attributes=[CELL | named], hidden={"letters": ["gender"]})
    assert words(measured)["attribute: gender"] == words(measured)[ALL] == WITHIN


def test_identifiers_that_patterns_found_show_a_leak_and_never_that_there_is_none() -> None:
    """A masker that has the same patterns leaves none of them."""
    by_patterns = leaked(0, recorded=0)
    assert words(decided([attacked()], LAWFUL, [by_patterns]))["identifiers: name"] == OPEN
    assert words(decided([attacked()], LAWFUL, [leaked(50, recorded=0)]))[ALL] == BEYOND


def test_what_no_release_holds_cannot_survive() -> None:
    """Of 20 identifiers none survived, which leaves 22 % open; none of the 60 in all texts stands in any release."""
    few = leaked(0, 20)
    assert words(decided([attacked()], LAWFUL, [few]))["identifiers: name"] == OPEN

    def by_releases(standing: int, recorded: int = 60, mechanism: str = str(CELL["mechanism"])) -> str:
        of = {"dataset": CELL["dataset"], "mechanism": mechanism, "kind": "name"}
        return words(decided([attacked()], LAWFUL, [few], standing=[of | counts(standing, recorded)]))[ALL]

    def counts(standing: int, recorded: int) -> dict[str, int]:
        return {"identifiers": 60, "recorded": recorded, "standing": standing}

    assert by_releases(0) == WITHIN
    assert by_releases(1) == OPEN, "a sixtieth of them may survive"
    assert by_releases(0, recorded=59) == OPEN, "whom the corpus does not record nobody knows"
    assert by_releases(0, mechanism="another") == OPEN
    assert words(decided([attacked()], LAWFUL, [leaked(20, 20)], standing=None))[ALL] == BEYOND


def test_every_kind_of_identifier_counts() -> None:
    kinds = [leaked(0), leaked(0, 20, kind="order number")]
    table = decided([attacked()], LAWFUL, kinds)
    assert words(table)[ALL] == OPEN
    row = table.filter(limit="identifiers: order number").to_dicts()[0]
    assert 500 < row["needed"] < 600, row
    assert clopper_pearson(0, row["needed"], 0.01)[1] <= 0.01


def test_what_no_number_of_trials_here_could_show_says_how_many_would() -> None:
    table = decided([attacked(20, 20, tail=None)], limits=Limits(loss=3.0))
    loss, tail = (table.filter(limit=name).to_dicts()[0] for name in ("loss", "delta_at_4"))
    assert loss["decision"] == tail["decision"] == OPEN
    assert estimate(loss["needed"], loss["needed"]).loss > 3.0 > estimate(20, 20).ceiling
    assert 600 < tail["needed"] < 700
    assert loss["settles"] == tail["settles"] == "trials"


def test_what_so_few_trials_could_not_show_is_no_lower_end() -> None:
    for trials, low, by in ((7, None, None), (8, 0.0, "attacks")):
        row = decided([attacked(trials // 2, trials, tail=None)]).filter(limit="loss").to_dicts()[0]
        assert (row["low"], row["low_by"], row["decision"]) == (low, by, OPEN)


def test_a_number_of_trials_or_pairs_that_is_named_would_be_enough() -> None:
    row = decided([attacked(730)]).filter(limit="loss").to_dicts()[0]
    e = estimate(round(0.73 * row["needed"]), row["needed"])
    assert e.upper <= 1.0 or e.loss > 1.0
    open_tail = law(0.1, 0.3, tail=(0.0, 0.06))
    row = decided([attacked()], [open_tail]).filter(limit="delta_at_4").to_dicts()[0]
    assert row["needed"] == 3600, "100 pairs leave .06 open, so .01 takes 6 x 6 times as many"
    few = law(0.1, 0.3, tail=(0.0, 0.02), compared=1)
    row = decided([attacked()], [few]).filter(limit="delta_at_4").to_dicts()[0]
    assert 826 <= row["needed"] <= 840, "betting on zeros alone takes 826 at a limit of .01"


@pytest.mark.parametrize(
    ("name", "code"),
    [("loss", "EPS-A059"), ("delta_at_4", "EPS-A060"), ("identifiers", "EPS-A060"), ("attribute", "EPS-A059")],
)
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_limit_that_nothing_could_show_is_refused(name: str, code: str, value: float) -> None:
    with refused(code, f"decide.{name}", f"{value:g}"):
        Limits(**{name: value})


def test_a_larger_budget_is_not_within_where_a_smaller_one_is_not() -> None:
    budgets = (0.5, 1.0, 2.0)
    exact = [law(0.2, high) | {"epsilon": e} for e, high in zip(budgets, (0.4, 1.1, 0.4), strict=True)]
    table = decided([attacked(epsilon=e) for e in budgets], exact).filter(limit=ALL)
    assert table["decision"].to_list() == [WITHIN, OPEN, OPEN]
    assert table["why"].to_list() == [None, "loss", "a smaller budget is not within"]


@pytest.mark.slow
def test_any_false_within_over_eight_budgets_is_as_rare_as_stated() -> None:
    """Each is barely beyond. Stated: at most alpha / 2 = .05; that 45 of 400 or more are false then has p < 3e-7."""
    alpha, rng, families = 0.1, np.random.default_rng(3), 400
    budgets = np.arange(1.0, 9.0)
    estimates = [attacked(epsilon=e) for e in budgets]
    exact = [LAWFUL[0] | {"epsilon": e} for e in budgets]
    false, alone = 0, 0
    for _ in range(families):
        rows = [
            leaked(int(s), 3000, alpha) | {"epsilon": e}
            for s, e in zip(rng.binomial(3000, 0.0101, 8), budgets, strict=True)
        ]
        table = decided(estimates, exact, rows, alpha=alpha)
        false += WITHIN in table.filter(limit=ALL)["decision"]
        alone += WITHIN in table.filter(limit="identifiers: name")["decision"]
    assert false < 45
    assert alone > 60, "without the order of budgets it would be wrong more often than stated"
