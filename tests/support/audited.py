"""Results of an audit for tests of the report: every section has data, and names and texts contain HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.auditing.claims.verdicts import (
    NO_CLAIM,
    NOT_REFUTED,
    NOT_TESTABLE,
    VIOLATED,
    p_value,
    trials_needed,
)
from epsilometer.auditing.decisions.decide import decide
from epsilometer.auditing.decisions.evidence import Tables
from epsilometer.auditing.decisions.limits import Limits
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.auditing.results.diagnostics import STRONGEST, STRONGEST_INSIDE
from epsilometer.auditing.schemas import (
    ABLATIONS,
    ATTRIBUTE_LOSSES,
    CEILINGS,
    CLAIMS,
    DECISIONS,
    DENIABILITY,
    DISAGREEMENTS,
    DOWNSTREAM,
    ESTIMATES,
    ESTIMATORS,
    EXACT,
    EXACT_CURVES,
    FIRST_TOKENS,
    GUESSES,
    LEAKAGE,
    OUTPUTS,
    POSSIBLE,
    REWRITES,
    SWEEPS,
    TOKENS,
)
from epsilometer.auditing.schemas import TRIALS as TRIALS_SCHEMA
from epsilometer.cells.params import TrialSettings, Utility
from epsilometer.cells.tables import (
    SIMILARITIES,
    SIMILARITY,
    WAYS,
    curves_path,
    decisions_path,
    exact_path,
    rewrites_path,
    tokens_path,
    varied_path,
    ways_path,
)
from epsilometer.core.tables import Schema
from epsilometer.corpora.reading import PREPARED
from epsilometer.pipeline import params, reporting
from epsilometer.pipeline.params import Params
from epsilometer.project.sections import Audit, Dataset
from epsilometer.report import body
from epsilometer.report.cells.known_loss import INSTRUMENT
from epsilometer.report.cells.results import TextResults
from epsilometer.report.environment import show
from epsilometer.report.figures import styles
from epsilometer.report.section import Section
from tests.support.exact_losses import curves, losses
from tests.support.html import Elements
from tests.support.places import ROOT

TRIALS = 1000
HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>'
CONTROLS = ("identity", "randomized_response")
MECHANISMS = ("dp_bart", "mvc", HOSTILE)
INSIDE = ("internal",)  # attacks on latents, which are not released
LEVEL = 0.01 / 16  # significance level of one test
Row = tuple[str, str, float, str, int, float | None, str]


def frame(*rows: Row, equal: tuple[int, int] = (0, 0), validated: bool = True) -> pl.DataFrame:
    """Return a table of estimates, followed by the rows of the strongest attacks (on the release, and on everything).

    rows: data set, mechanism, epsilon, attack, successes in 1,000 trials, expected successes (None: no claim), verdict.
    equal: for every row, the number of trials with candidates of equal length, and the successes among them. Attacks
    of INSIDE see latents, and all others see the text.
    """
    cells: dict[tuple[str, str, float], list[Row]] = {}
    for row in rows:
        cells.setdefault(row[:3], []).append(row)
    chosen = []
    for cell, them in cells.items():
        for name, among in ((STRONGEST, [r for r in them if r[3] not in INSIDE]), (STRONGEST_INSIDE, them)):
            if among:
                best = max(among, key=lambda row: row[4])
                chosen.append(((*cell, name, *best[4:]), best[3], len(among)))
    lines = []
    for row, best, attacks in [*((row, None, 1) for row in rows), *chosen]:
        dataset, mechanism, epsilon, attack, successes, expected, verdict = row
        e = estimate(successes, TRIALS, alpha=0.01 / attacks)
        of = best or attack
        lines.append(
            {
                "dataset": dataset,
                "mechanism": mechanism,
                "epsilon": epsilon,
                "attack": attack,
                "best_attack": best,
                "control": mechanism in CONTROLS,
                "sees": "latents" if of in INSIDE else "text",
                "released": of not in INSIDE,
                "validated": validated,
                "trials": TRIALS,
                "candidates": 2,
                "successes": successes,
                "success_rate": e.success_rate,
                "delta": 0.0,
                "loss": e.loss,
                "loss_at_delta": e.loss,
                "point": e.point,
                "upper": e.upper,
                "ceiling": e.ceiling,
                "equal_trials": equal[0],
                "equal_successes": equal[1],
                "equal_loss": estimate(equal[1], equal[0]).loss if equal[0] else None,
                "claim": f"{epsilon:g} per word" if expected else NO_CLAIM,
                "covered": TRIALS if expected else 0,
                "expected": expected,
                "p_value": p_value(successes, TRIALS, expected) if expected else None,
                "verdict": verdict,
                "refutable": 4.63 if expected else None,
                "trials_needed": trials_needed(expected / TRIALS, LEVEL) if expected else None,
            }
        )
    return pl.DataFrame(lines, schema=ESTIMATES)


def checks(*rows: dict[str, object]) -> pl.DataFrame:
    """Return rows of `CLAIMS`. Missing columns are null, and every epsilon counts as audited."""
    return pl.DataFrame([{"audited": True, **row} for row in rows], schema=dict(CLAIMS))


def estimates() -> pl.DataFrame:
    """Estimates of two data sets, four mechanisms and two attacks, with infinite upper bounds and a violated claim."""
    rows: list[Row] = []
    for dataset in ("queries", "letters"):
        for attack in ("embedding", "length"):
            length = attack == "length"
            rows.append((dataset, "identity", 1.0, attack, 800 if length else 1000, None, NO_CLAIM))
            for i, epsilon in enumerate((0.5, 5.0, 2500.0)):
                rows += [
                    (dataset, "dp_bart", epsilon, attack, 500, 900.0, NOT_REFUTED),
                    (dataset, "mvc", epsilon, attack, 800 if length else 700 + 120 * i, 995.0, NOT_TESTABLE),
                    (
                        dataset,
                        HOSTILE,
                        epsilon,
                        attack,
                        600,
                        500.0 if i == 1 else 700.0,
                        (NOT_REFUTED, VIOLATED)[i == 1],
                    ),
                ]
    return frame(*rows)


def ends(mean: float, off: float = 0.0) -> tuple[float, float, float]:
    """Return the macro F1 of a seed, and the interval over all seeds."""
    return mean + off, mean - 0.05, mean + 0.04


def downstream() -> pl.DataFrame:
    """Return downstream results for a task and an attribute of `queries`, with five seeds each."""
    kind, rows = "transformer", list[tuple[object, ...]]()
    for label, role, baseline, clean, settings in (
        ("intent", "task", 0.01, 0.8, {"private": (0.6, 0.3, 0.5)}),
        ("gender", "attribute", 0.33, 0.7, {"static": (0.5, 0.4, 0.5), "adaptive": (0.6, 0.35, 0.4)}),
    ):
        sizes = (0.5, None, None, 2, 100, 50)
        majority = ("queries", None, None, label, role, "majority", None, 0)
        rows.append((*majority, *ends(baseline), None, baseline, 0.0, None, None, 1, 100, 50, 0))
        for seed, off in enumerate((-0.02, -0.01, 0.0, 0.01, 0.02)):
            binary = clean + 0.1 if role == "attribute" else None
            rows.append(
                ("queries", None, None, label, role, "clean", kind, seed, *ends(clean, off), binary, clean, *sizes, 0)
            )
            for setting, values in settings.items():
                for mechanism, epsilon, value in zip(("mvc", HOSTILE, "mvc"), (0.5, 5.0, 2500.0), values, strict=True):
                    scores = (*ends(value, off), binary, value)
                    rows.append(("queries", mechanism, epsilon, label, role, setting, kind, seed, *scores, *sizes, 7))
    return pl.DataFrame(rows, schema=dict(DOWNSTREAM), orient="row")


TABLES: dict[str, tuple[str, Schema]] = {  # files of an audit of the cell `queries-mvc`, with ablations and sweeps
    "estimates": ("data/estimates.parquet", ESTIMATES),
    "claims": ("data/claims.parquet", CLAIMS),
    "deniability": ("data/deniability.parquet", DENIABILITY),
    "similarity": ("data/similarity.parquet", SIMILARITY),
    "similarities": ("data/similarities.parquet", SIMILARITIES),
    "leakage": ("data/leakage.parquet", LEAKAGE),
    "downstream": ("data/downstream/clean.parquet", DOWNSTREAM),
    "outputs": ("data/outputs.parquet", OUTPUTS),
    "estimators": ("data/estimators.parquet", ESTIMATORS),
    "ablations": (str(varied_path("ablations", "queries-mvc")), ABLATIONS),
    "first_tokens": (str(varied_path("first_tokens", "queries-mvc")), FIRST_TOKENS),
    "sweeps": (str(varied_path("sweeps", "queries-mvc")), SWEEPS),
    "tokens": (str(tokens_path("queries-mvc")), TOKENS),
    "disagreements": ("data/disagreements.parquet", DISAGREEMENTS),
    "exact": (str(exact_path("queries-mvc")), EXACT),
    "curves": (str(curves_path("queries-mvc")), EXACT_CURVES),
    "instrument": ("data/instrument.parquet", INSTRUMENT),
    "ceilings": ("data/ceilings.parquet", CEILINGS),
    "possible": ("data/possible.parquet", POSSIBLE),
    "ways": (str(ways_path()), WAYS),
    "decisions": (str(decisions_path()), DECISIONS),
}
TEXTS = ["flights to boston", "play jazz", HOSTILE, "planes & trains", "rain", "snow"]
REWRITTEN = ["planes & trains", HOSTILE, "", "x", "x", "x"]


@cache
def _params() -> Params:
    return params.read(ROOT / "profiles/generated.yaml")


def settings(**changes: object) -> Params:
    """Return the parameters of an audit of two data sets: `queries` is public, `letters` is not."""
    cell = _params().cells["queries-mvc"]
    of_audit: dict[str, object] = {
        "title": "An audit & its page",
        "notes": ("dp_st was left out.",),
        "audit": Audit(seed=0, round=3, alpha=0.01),
        "trials": TrialSettings(count=1000, candidates=2, temperature=-1e4),
        "utility": Utility(target=1.75),
        "datasets": {
            "queries": Dataset(source="a grammar", public=True),
            "letters": Dataset(source=HOSTILE, match="words"),
        },
        "attacks": {"embedding": {}, "length": {}},
        "cells": {"queries-mvc": cell},
        "downstream": {},
        "ablations": {"queries-mvc": cell},
        "sweeps": {"queries-mvc": cell},
    }
    return _params().model_copy(update={**of_audit, **changes})


def prepared(texts: Sequence[str], words: int) -> pl.DataFrame:
    rows = [(str(i), text, "train", words) for i, text in enumerate(texts)]
    return pl.DataFrame(rows, schema=dict(PREPARED), orient="row")


def records(texts: Sequence[str], rewrites: Sequence[str]) -> dict[str, Any]:
    """Return records of stages, prepared texts, trials, rewrites and guesses of the cells of `queries`, by path."""
    counts = {
        "queries": ({"duplicates_merged": 312, "empty_dropped": 0}, {"unmatched_dropped": 0, "cut": 0}, (115, 0.54)),
        "letters": ({"duplicates_merged": 0, "empty_dropped": 2}, {"unmatched_dropped": 110, "cut": 14}, (1100, 0.01)),
    }
    held: dict[str, Any] = {}
    for (name, (merged, left, (distinct, share))), count in zip(counts.items(), (4000, 1200), strict=True):
        record = {"texts": count, "distinct": distinct, "five_commonest": share}
        held[f"data/prepared/{name}.json"] = merged
        held[f"data/trials/{name}.json"] = record | {"unmatched_dropped": left["unmatched_dropped"]}
        held[f"data/embeddings/{name}.json"] = {"cut": left["cut"]}
    held["data/prepared/queries.parquet"] = prepared(texts, 9)
    held["data/prepared/letters.parquet"] = prepared(["a private letter"], 48)
    candidates = [(i, [i, (i + 1) % len(texts)], 0) for i in range(len(texts))]
    held["data/trials/queries.parquet"] = pl.DataFrame(candidates, schema=dict(TRIALS_SCHEMA), orient="row")
    written = [(i, text, None, None) for i, text in enumerate(rewrites)]
    for mechanism, epsilons in (("identity", (1.0,)), *((name, (None, 0.5, 5.0, 2500.0)) for name in MECHANISMS)):
        for epsilon in epsilons:
            table = pl.DataFrame(written, schema=dict(REWRITES), orient="row")
            held[str(rewrites_path(f"queries-{mechanism}", epsilon))] = table
    counted = {"attack": "judge", "epsilon": 0.5, "asked": 1500, "at_random": 3, "cost": 0.25}
    held["data/guesses/queries-mvc.json"] = [counted, counted | {"asked": 500, "at_random": 0, "cost": 0}]
    for mechanism in ("identity", *MECHANISMS):
        guessed = [
            (epsilon, attack, "text", i, 0, float(i), None)
            for epsilon in (0.5, 1.0, 5.0, 2500.0)
            for attack in ("embedding", "length")
            for i in range(len(texts))
        ]
        held[f"data/guesses/queries-{mechanism}.parquet"] = table_of(GUESSES, guessed)
    return held


def audit(
    settings_of: Params | None = None,
    texts: Sequence[str] = TEXTS,
    rewrites: Sequence[str] = REWRITTEN,
    **tables: pl.DataFrame,
) -> TextResults:
    """Return results with data for every section except those on similarity and sweeps.

    texts, rewrites: one of each per trial, for the data set `queries`. tables: replacements, by their names in TABLES.
    Without a table of decisions, they are computed from the others.
    """
    held = records(texts, rewrites)
    for name, (path, schema) in TABLES.items():
        held[path] = tables.pop(name, None)
        if held[path] is None:
            held[path] = tables_of_all().get(name, pl.DataFrame(schema=dict(schema)))
    assert not tables, f"no table of an audit: {[*tables]}"
    if held[str(decisions_path())].is_empty():
        held[str(decisions_path())] = decided(held)
    return TextResults(settings_of or settings(), held)


def decided(held: dict[str, Any]) -> pl.DataFrame:
    """Return the decisions of stage `decide` on an audit with these tables."""
    estimates, exact, leaked = (held[TABLES[name][0]] for name in ("estimates", "exact", "leakage"))
    none = pl.DataFrame(schema=dict(ATTRIBUTE_LOSSES))
    return decide(Limits(), Tables(estimates, exact, leaked=leaked, attribute_losses=none), {}, 0.01)


def build_page(results: TextResults, page: Path, figures: Path) -> None:
    """Write the report on these results, like stage `report`."""
    assert isinstance(results.params, Params)
    body.build(reporting.body(results.params, results), page, figures)


def bare(estimates: pl.DataFrame) -> TextResults:
    """Return results with estimates and no other table."""
    empty = {name: pl.DataFrame(schema=dict(schema)) for name, (_, schema) in TABLES.items()}
    return audit(settings(notes=()), **(empty | {"estimates": estimates}))


def shown(section: Section, results: TextResults) -> str:
    """Return a section as HTML."""
    estimates = results.estimates
    controls = estimates.filter("control")["mechanism"].unique().to_list()
    return show(section, styles(estimates["mechanism"]), controls)


def text_of(section: Section | None, results: TextResults) -> str:
    """Return the visible text of a section."""
    assert section is not None
    return "".join(Elements(shown(section, results)).text)


def exact() -> pl.DataFrame:
    """Return exact losses on `queries`: those of mvc, and those of a law of latents whose largest loss is infinite."""
    mvc = {("queries", "mvc", epsilon): loss for epsilon, loss in ((0.5, 1.0), (5.0, 8.0), (2500.0, 60.0))}
    inside = {("queries", HOSTILE, epsilon): loss for epsilon, loss in ((0.5, 0.2), (5.0, 4.0), (2500.0, math.inf))}
    return losses(mvc | inside, latents=[HOSTILE])


def claims() -> pl.DataFrame:
    """Return three checked claims: one not testable, one violated, one not refuted."""
    return checks(
        {
            "mechanism": "mvc",
            "epsilon": 5.0,
            "claim": "5 per word",
            "verdict": NOT_TESTABLE,
            "worst": 1.25,
            "reason": "no draw could refute it",
            "method": "Monte Carlo",
            "claimed": 9.5,
            "slack": 8.25,
            "x": "cat",
            "other": "dog",
            "output": "bird",
            "inputs": 24,
            "draws": 4000,
            "testable": 4.58,
            "largest": 17.0,
            "largest_method": "draws",
        },
        {
            "mechanism": HOSTILE,
            "epsilon": 5.0,
            "claim": "5 per word",
            "verdict": VIOLATED,
            "method": "exact",
            "claimed": 5.0,
            "worst": math.inf,
            "slack": -math.inf,
            "x": HOSTILE,
            "other": "dog",
            "output": "cat",
            "inputs": 1000,
            "largest": math.inf,
            "largest_method": "exact",
        },
        {
            "mechanism": "dp_bart",
            "epsilon": 5.0,
            "claim": "5 per text",
            "verdict": NOT_REFUTED,
            "worst": 4.0,
            "method": "largest found",
            "claimed": 5.0,
            "slack": 1.0,
            "bound": -1.0,
            "inputs": 200,
        },
    )


def table_of(schema: Schema, rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """Return a table of this schema."""
    return pl.DataFrame(rows, schema=dict(schema), orient="row")


def varied() -> dict[str, pl.DataFrame]:
    """Return tables of ablations, of first tokens, and of the tokens of texts."""
    return {
        "ablations": table_of(
            ABLATIONS,
            [
                ("queries", name, 5.0, "embedding", value < 16, factor, value, 500, *losses)
                for losses in [(0.7, 0.5, 0.8, math.inf, 4.5, 0.4, math.inf)]
                for name in ("mvc", HOSTILE)
                for factor, values in (("candidates k", (2.0, 16.0)), ("temperature", (-1e4, 0.0)))
                for value in values
            ],
        ),
        "first_tokens": table_of(
            FIRST_TOKENS,
            [
                ("queries", "dp_prompt", e, "flights to boston", r, token, p / (1 + r))
                for e, p in ((10.0, 0.001), (250.0, 0.5))
                for r, token in enumerate(["flights", HOSTILE])
            ],
        ),
        "tokens": table_of(
            TOKENS,
            [
                ("queries", name, "flights to bostn", ["flights", "to", *rest])
                for name, rest in (("mvc", ["bos", HOSTILE]), ("dp_mlm", ["unknown"]))
            ],
        ),
    }


@cache
def tables_of_all() -> dict[str, pl.DataFrame]:
    """Return the tables of the audit, by their names in TABLES."""
    truth = [estimate(round(100_000 / (1 + math.exp(-e))), 100_000) for e in (0.5, 1.0, 4.0)]
    return {
        "estimates": estimates(),
        "downstream": downstream(),
        "disagreements": table_of(DISAGREEMENTS, [("queries", "mvc", 5.0, "embedding", "length", 12, 1)]),
        "claims": claims(),
        "deniability": table_of(
            DENIABILITY,
            [("mvc", e, "sampled", 0.1 * e, 0.0, 0.2 * e, 60 - e, 40.0, 80.0) for e in (0.5, 4.0)],
        ),
        "similarity": table_of(
            SIMILARITY,
            [
                ("queries", name, e, 100, c, c - 0.1, c + 0.1, None)
                for name, e, c in (
                    ("identity", 1.0, 0.9),
                    ("dp_bart", 0.5, 0.3),
                    ("dp_bart", 5.0, 0.2),
                    ("mvc", 0.5, 0.4),
                    ("mvc", 2500.0, 0.8),
                )
            ],
        ),
        "outputs": table_of(
            OUTPUTS,
            [
                ("queries", "mvc", 5.0, "5 per word", 45.0, 9.0, 9.1, 14, 0.02, 0.6, 0.7, None, 0.123, None),
                ("queries", HOSTILE, 5.0, "no claim", None, 9.0, None, None, 0.0, 0.0, 0.0, 1.25, None, 0.345),
            ],
        ),
        "estimators": table_of(
            ESTIMATORS,
            [("queries", "mvc", 2500.0, "embedding", t, loss, 1.9) for t, loss in ((100, 1.5), (1000, 2.25))],
        ),
        **varied(),
        "exact": exact(),
        "curves": curves(exact()),
        "instrument": pl.DataFrame(
            [{name: getattr(x, name, e) for name in INSTRUMENT} for e, x in zip((0.5, 1.0, 4.0), truth, strict=True)],
            schema=dict(INSTRUMENT),
        ),
    }
