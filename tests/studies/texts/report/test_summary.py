"""The top of the report: every sentence could have come out otherwise, and none ranks or advises a control."""

from __future__ import annotations

from typing import Any

import polars as pl

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_CHECKED, NOT_REFUTED, NOT_TESTABLE, VIOLATED, overall
from epsilometer.auditing.schemas import EXACT, OUTPUTS
from epsilometer.report.rows import comparable
from epsilometer.studies.texts.params import Utility
from epsilometer.studies.texts.report import look, numbers, strongest
from epsilometer.studies.texts.report import summary as top
from epsilometer.studies.texts.report.known_loss import INSTRUMENT
from epsilometer.studies.texts.report.summary import Summary, summary
from tests.support.audited import HOSTILE, TRIALS, audit, bare, checks, frame, settings, shown, tables_of_all, text_of
from tests.support.exact_losses import losses

NOTHING = pl.DataFrame(schema=dict(OUTPUTS))
NO_EXACT = pl.DataFrame(schema=dict(EXACT))


def measured(loss: float) -> pl.DataFrame:
    """What was found where the truth is one nat."""
    return pl.DataFrame([(1.0, 1000, loss, 1.0, 2.0, 7.0)], schema=dict(INSTRUMENT), orient="row")


def of(
    estimates: pl.DataFrame,
    claims: pl.DataFrame | None = None,
    target: float = 1.0,
    instrument: pl.DataFrame | None = None,
    left: pl.DataFrame = NOTHING,
    exact: pl.DataFrame = NO_EXACT,
) -> Summary:
    verdicts = overall(estimates, checks() if claims is None else claims, exact)
    check = measured(0.9) if instrument is None else instrument
    return summary(
        estimates,
        verdicts,
        target,
        check,
        outputs=left,
        exact=exact,
        compared=comparable(estimates, exact, 0.01),
    )


def said(overview: Summary) -> dict[str, str]:
    return {heading: " ".join(sentences) for heading, sentences in overview.parts}


def test_what_leaks_names_budgets_and_what_was_not_found() -> None:
    sentences = said(
        of(
            frame(
                ("queries", "mvc", 1.0, "length", 800, None, NO_CLAIM),
                ("queries", "mvc", 10.0, "embedding", 990, None, NO_CLAIM),
                ("queries", "dp_bart", 10.0, "embedding", 500, None, NO_CLAIM),
                ("reviews", "dp_bart", 10.0, "embedding", 510, None, NO_CLAIM),
                ("queries", "dp_bart", 20.0, "embedding", 700, None, NO_CLAIM),
            )
        )
    )
    assert sentences["What leaks"] == (
        "Given what is released and 2 texts, one of them its source, an adversary names the source at least 19 of 20 "
        "times (by chance: 10 of 20) against mvc at ε = 10. No attack found evidence of a leak against dp_bart at "
        "ε = 10; that does not prove privacy."
    )
    assert sentences["Claims"] == "No mechanism of this audit makes a claim."
    assert "Not tested" not in sentences
    weak = said(of(frame(("queries", "mvc", 1.0, "length", 800, None, NO_CLAIM))))
    assert "less than 19 of 20 times (by chance: 10 of 20) at every ε audited." in weak["What leaks"]


def outputs(*rows: tuple[str, str, float | None, float | None]) -> pl.DataFrame:
    """Data set, mechanism, shares of unknown words and of cut texts; each at two budgets."""
    return pl.DataFrame(
        [
            {"dataset": dataset, "mechanism": name, "epsilon": epsilon, "unknown_words": unknown, "cut_texts": cut}
            for dataset, name, unknown, cut in rows
            for epsilon in (1.0, 10.0)
        ],
        schema=dict(OUTPUTS),
    )


def test_no_loss_of_zero_stands_alone_where_the_texts_are_hardly_read() -> None:
    """In what leaks, and in what to do, where it is not within the target."""
    table = frame(
        ("queries", "tem", 1.0, "embedding", 500, None, NO_CLAIM),
        ("queries", "mvc", 1.0, "embedding", 500, None, NO_CLAIM),
        ("queries", "dp_prompt", 1.0, "embedding", 500, None, NO_CLAIM),
        ("queries", "identity", 1.0, "embedding", 1000, None, NO_CLAIM),
    )
    hardly = [("queries", "tem", 1.0, None), ("queries", "dp_prompt", None, 0.2), ("queries", "identity", 0.9, None)]
    overview = of(table, left=outputs(*hardly, ("queries", "mvc", 0.199, None)))
    assert said(overview)["What leaks"].endswith(
        "dp_prompt at ε = 1, mvc at ε = 1 and tem at ε = 1; that does not prove privacy. What is not read cannot leak, "
        "so a low loss says little of dp_prompt (queries: 20.0% of the texts cut) and tem (queries: 100.0% of the "
        "words unknown)."
    )
    within = "Under every attack and on every data set here, mvc up to ε = 1 stayed within 1 nat"
    assert said(overview)["What to do"].startswith(within)
    assert "Audit dp_prompt and tem again with vectors of the texts' language" in said(overview)["What to do"]
    little = of(table, left=outputs(("queries", "tem", 0.1, 0.1), ("queries", "mvc", None, None)))
    assert "not read" not in said(little)["What leaks"]
    assert "again" not in said(little)["What to do"]


def test_what_is_hardly_read_is_said_beside_every_loss() -> None:
    """At the top, in the tables, and among what is worth a look; the shares of all stand in a table."""
    left = tables_of_all()["outputs"].with_columns(
        unknown_words=pl.when(pl.col("mechanism") == "mvc").then(0.8), cut_texts=pl.lit(None, pl.Float64)
    )
    results = audit(outputs=left)
    said_first = text_of(top.section(results), results)
    assert said_first.count("queries: 80.0% of the words unknown") == 1
    assert "little of mvc (queries: 80.0%" in said_first
    page, tables = text_of(look.section(results), results).split("What the rewrites look like")
    assert "mvc on queries: 80.0% of the words unknown, so a low loss says little" in page
    assert "80.0\N{NO-BREAK SPACE}%" in tables
    matrices = {table.heading: table.rows for table in strongest.section(results).tables}
    marked = [(name, row["mechanism"]) for name, rows in matrices.items() for row in rows if "hardly" in str(row)]
    assert marked == [("queries", "mvc")]
    (table,) = numbers.section(results).tables
    hardly = ["hardly read" in row["loss"] for row in table.rows]
    assert hardly == [(row["mechanism"], row["data set"]) == ("mvc", "queries") for row in table.rows]
    assert any(hardly)


def test_what_is_gone_at_equal_length_is_said() -> None:
    row = ("queries", "mvc", 1.0, "length", 960, None, NO_CLAIM)
    gone = said(of(frame(row, equal=(200, 101))))["What leaks"]
    assert gone.endswith(
        "On queries length may be all that leaks of mvc at ε = 1: in the 200 trials whose texts have equally many "
        "words the same attack proves nothing."
    )
    for equal in ((200, 180), (20, 10), (TRIALS, 500)):  # it leaks more; too few to say; matched anyway
        assert "length" not in said(of(frame(row, equal=equal)))["What leaks"]


def test_released_and_inside_are_two_groups() -> None:
    """Latents that give all away do not count as a leak of a text that gives nothing away; and are named."""
    table = frame(
        ("atis", "dp_bart", 2500.0, "embedding", 520, None, NO_CLAIM),
        ("atis", "dp_bart", 2500.0, "internal", 1000, None, NO_CLAIM),
        ("atis", "dp_mlm", 250.0, "embedding", 990, None, NO_CLAIM),
        ("atis", "dp_mlm", 250.0, "length", 700, None, NO_CLAIM),
    )
    leaks = said(of(table))["What leaks"]
    assert "(by chance: 10 of 20) against dp_mlm at ε = 250." in leaks
    assert "No attack found evidence of a leak against dp_bart at ε = 2,500" in leaks
    assert "right far more often: dp_bart at ε = 2,500 (latents: every time; what is released: 10 of 20)." in leaks
    assert "No audited budget of dp_mlm stayed" in said(of(table))["What to do"]
    released = table.filter(pl.col("attack") != "internal").with_columns(released=True)
    assert "not released" not in said(of(released))["What leaks"]


def test_one_verdict_a_claim_from_audit_and_exact_check() -> None:
    """A claim that only the exact check violates is violated in the headline, too."""
    table = frame(
        ("queries", "mvc", 1.0, "length", 800, 990.0, NOT_REFUTED),
        ("queries", "mvc", 10.0, "embedding", 990, 500.0, VIOLATED),
        ("queries", "custext", 5.0, "embedding", 500, 900.0, NOT_REFUTED),
    )
    check = {"mechanism": "custext", "epsilon": 5.0, "claim": "5 per word", "method": "exact"}
    alone, both = of(table), of(table, checks({**check, "verdict": VIOLATED}))
    assert said(alone)["Claims"] == "1 of the 3 claims tested is violated: mvc at ε = 10 (audit)."
    assert said(both)["Claims"] == (
        "2 of the 3 claims tested are violated: custext at ε = 5 (exact check by its stated law) and mvc at ε = 10 "
        "(audit)."
    )
    assert said(both)["What to do"].startswith("Do not rely on the claim of custext and mvc: ")
    assert both.alarm
    held = of(table.filter(mechanism="custext"))
    assert not held.alarm
    assert said(held)["Claims"] == (
        "Nothing refutes the one claim that could be tested, which is no proof of it: custext at ε = 5."
    )


def test_what_could_not_be_tested_is_named() -> None:
    beyond = NOT_TESTABLE
    table = frame(
        ("queries", "tem", 5.0, "embedding", 800, 999.5, beyond),
        ("queries", "tem", 8.0, "embedding", 900, 1000.0, beyond),
        ("queries", "tem", 1.0, "embedding", 600, 900.0, NOT_REFUTED),
    )
    assert said(of(table))["Not tested"] == (
        "2 of 3 claims are too large to be tested with 1,000 trials: an adversary who is right every time would not "
        "refute them (tem at ε = 5 and 8)."
    )
    only = table.filter(verdict=beyond)
    assert said(of(only))["Claims"] == "No claim could be tested; nothing here speaks for or against any of them."
    assert "Not tested" not in said(of(table.filter(verdict=NOT_REFUTED)))


def test_what_was_not_checked_says_why() -> None:
    table = frame(("queries", "mine", 1.0, "embedding", 500, None, NO_CLAIM))
    row: dict[str, Any] = {"mechanism": "mine", "epsilon": 1.0, "claim": "1 per word", "method": "not checked"}
    sentences = said(of(table, checks({**row, "verdict": NOT_CHECKED, "reason": "the mechanism lists no inputs"})))
    assert sentences["Not tested"] == "Not checked: mine at ε = 1. The mechanism lists no inputs."
    assert "Nothing refutes" not in sentences["Claims"]


def test_budgets_within_the_target_are_the_advice() -> None:
    table = frame(
        ("queries", "mvc", 1.0, "length", 600, None, NO_CLAIM),
        ("queries", "mvc", 5.0, "length", 960, None, NO_CLAIM),
        ("queries", "mvc", 9.0, "length", 500, None, NO_CLAIM),  # falls again: not advised
        ("queries", "dp_bart", 5.0, "length", 600, None, NO_CLAIM),
        ("reviews", "dp_bart", 5.0, "length", 990, None, NO_CLAIM),  # one data set is enough
    )
    advice = said(of(table))["What to do"]
    assert "mvc up to ε = 1 stayed within 1 nat (an adversary right at most 15 of 20 times)." in advice
    assert "No audited budget of dp_bart stayed within 1 nat" in advice
    assert "No audited budget of any mechanism" in said(of(table, target=0.1))["What to do"]


def test_what_stays_within_the_target_between_texts_of_equal_length_alone_is_said() -> None:
    """As where the section on worth names a budget that keeps most within it, which is between such texts."""
    table = frame(*(("queries", "mvc", epsilon, "length", 990, None, NO_CLAIM) for epsilon in (1.0, 5.0)))
    laws = losses({("queries", "mvc", 1.0): 0.5, ("queries", "mvc", 5.0): 5.0})
    advice = said(of(table, exact=laws))["What to do"]
    assert "Between texts of equal length alone, mvc up to ε = 1 stayed within 1 nat" in advice
    assert "No audited budget of" not in advice


def test_what_an_average_within_the_target_hides_is_said() -> None:
    table = frame(("queries", "mvc", 1.0, "length", 600, None, NO_CLAIM))
    laws = losses({("queries", "mvc", 1.0): 0.5})
    assert "An average hides" not in said(of(table, exact=laws))["What to do"]
    heavy = laws.with_columns(delta_at_4=pl.lit(0.1834))
    assert "delta at 4 nats is up to 0.184 with mvc." in said(of(table, exact=heavy))["What to do"]
    assert "no law bounds delta at 4 nats for mvc." in said(of(table))["What to do"]


def test_claims_at_budgets_that_nobody_audited_are_not_counted() -> None:
    """A check by draws adds budgets of its own; what is broken there is said, with where."""
    table = frame(("queries", "mvc", 1.0, "embedding", 500, 999.0, NOT_TESTABLE))
    row: dict[str, Any] = {"mechanism": "mvc", "epsilon": 0.001, "claim": "0.001 per word", "draws": 2000}
    shown = said(of(table, checks({**row, "audited": False, "verdict": NOT_REFUTED})))
    assert shown["Claims"].startswith("No claim could be tested")
    broken = of(table, checks({**row, "audited": False, "verdict": VIOLATED}))
    assert "mvc at ε = 0.001 (draws, at a budget that was not audited)" in said(broken)["Claims"]
    assert broken.alarm


def test_a_smaller_budget_is_not_all_that_is_advised_where_length_leaks() -> None:
    row = ("queries", "mvc", 1.0, "embedding", 950, None, NO_CLAIM)
    for equal, warned in (((200, 101), True), ((200, 180), False), ((TRIALS, 500), False)):
        assert ("may not help mvc" in said(of(frame(row, equal=equal)))["What to do"]) is warned
    larger = frame(row, ("queries", "mvc", 0.5, "embedding", 600, None, NO_CLAIM), equal=(200, 101))
    assert "may not help" not in said(of(larger, target=1.5))["What to do"]


def test_no_budget_is_advised_at_which_the_law_loses_more() -> None:
    """An attack may be weak where the law is known to give more away."""
    table = frame(*(("queries", "mvc", epsilon, "embedding", 500, None, NO_CLAIM) for epsilon in (1.0, 5.0)))
    assert "mvc up to ε = 5 stayed" in said(of(table))["What to do"]
    laws = losses({("queries", "mvc", 1.0): -1.5, ("queries", "mvc", 5.0): 8.0})  # 2 nats more over all pairs
    assert "mvc up to ε = 1 stayed" in said(of(table, exact=laws))["What to do"]
    inside = losses({("queries", "mvc", 5.0): 8.0}, latents=["mvc"])
    assert "mvc up to ε = 5 stayed" in said(of(table, exact=inside))["What to do"]


def test_controls_are_drawn_and_never_counted_ranked_or_advised() -> None:
    table = frame(
        ("queries", "identity", 1.0, "embedding", 1000, None, NO_CLAIM),
        ("queries", "randomized_response", 0.1, "embedding", 500, 520.0, NOT_REFUTED),
        ("queries", "mvc", 1.0, "embedding", 800, 900.0, NOT_REFUTED),
    )
    overview = of(table)
    text = " ".join(said(overview).values())
    assert "identity" not in text
    assert "randomized_response" not in text
    assert "Nothing refutes the one claim that could be tested" in said(overview)["Claims"]
    assert "identity" not in str(overview.headlines)
    assert "randomized_response" not in str(overview.headlines)
    broken = frame(("queries", "randomized_response", 0.1, "embedding", 900, 520.0, VIOLATED))
    assert said(of(broken))["Look here first"].startswith("A control breaks its claim")
    assert of(broken).alarm


def test_a_failed_known_loss_check_comes_first() -> None:
    table = frame(("queries", "mvc", 1.0, "embedding", 800, None, NO_CLAIM))
    overview = of(table, instrument=measured(1.1))
    assert overview.parts[0] == ("Look here first", ["The audit reported more than the truth at 1 nats."])
    assert overview.headlines[0] == ("Look here first", "The audit reported more than the truth at 1 nats.")
    assert overview.alarm


def test_who_was_spared_the_optimal_adversary_is_said() -> None:
    table = frame(
        ("queries", "mvc", 1.0, "embedding", 800, None, NO_CLAIM),
        ("queries", "tem", 1.0, "likelihood", 900, None, NO_CLAIM),
        ("queries", "identity", 1.0, "embedding", 1000, None, NO_CLAIM),
    )
    assert said(of(table))["What to do"].endswith(
        "No optimal adversary attacks mvc: it may leak more than is seen here."
    )
    without = table.filter(pl.col("attack") != "likelihood")
    assert "optimal" not in said(of(without))["What to do"]


def test_the_top_of_the_page() -> None:
    results = audit(settings(utility=Utility(target=0.1)))
    html, text = shown(top.section(results), results), text_of(top.section(results), results)
    assert text.index("What leaks") < text.index("What to do")
    assert "`" not in text
    assert "<code>epsilometer calibrate --target 0.1</code>" in html
    assert HOSTILE in text


def test_the_first_screen_names_what_leaks_what_stays_within_the_target_and_what_is_violated() -> None:
    """By the intervals and laws of the sentences below it; no mechanism is advised whose texts are hardly read."""
    table = frame(
        ("queries", "mvc", 1.0, "embedding", 600, 900.0, NOT_REFUTED),
        ("queries", "mvc", 5.0, "embedding", 990, 900.0, VIOLATED),
        ("queries", "tem", 1.0, "embedding", 500, None, NO_CLAIM),
    )
    first = dict(of(table, left=outputs(("queries", "tem", 1.0, None))).headlines)
    assert first["What leaks"].endswith("at least 19 of 20 times, at some budget of mvc.")
    assert "mvc up to ε = 1 stayed within 1 nat" in first["What to do"]
    assert "tem" not in first["What to do"]
    assert first["Claims"] == "1 of 2 claims tested is violated: mvc."
    alone = table.filter(pl.col("epsilon") > 1)
    assert "Use smaller budgets" in dict(of(alone).headlines)["What to do"]
    laws = losses({("queries", "mvc", 5.0): 0.5})
    assert dict(of(alone, exact=laws).headlines)["What to do"].startswith("Between texts of equal length mvc up to")
    quiet = dict(of(frame(("queries", "mvc", 1.0, "embedding", 600, None, NO_CLAIM))).headlines)
    assert "less than 19 of 20 times" in quiet["What leaks"]
    assert quiet["Claims"] == "No claim could be tested."


def test_an_audit_of_a_control_alone_that_was_not_checked() -> None:
    results = bare(frame(("queries", "identity", 1.0, "embedding", 1000, None, NO_CLAIM)))
    text = text_of(top.section(results), results)
    assert "No mechanism but controls was audited." in text
    assert "The audit was not checked" in text
