"""The tables of private trainings in Markdown: claims, scores, canaries, membership, reconstruction. Losses in nats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from epsilometer.auditing.one_run.training import AUDITED
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.auditing.schemas import BUDGETS, CANDIDATES, MEMBERSHIP, RUNS
from epsilometer.report import wording
from epsilometer.report.results import Results
from epsilometer.studies.training import tables as paths
from epsilometer.studies.training.curves import CURVES
from epsilometer.studies.training.pairs import MARGIN, METRIC, PAIRS
from epsilometer.studies.training.params import TrainingParams
from epsilometer.studies.training.report.section import candidates_path, claim_rows, of_entries, run_rows

ACCOUNTANTS = ("loss distribution", "approximation", "Renyi", "pure", "published")


def sections(results: Results[TrainingParams]) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Headings, notes and tables; none where the audit has no private training."""
    params = results.params
    if not params.private_training:
        return
    yield claimed(results.table(paths.budgets_path(), BUDGETS))
    yield scored(of_entries(results, "private_training", paths.runs_path, RUNS))
    yield equally_loud(results.table(paths.training_pairs_path(), PAIRS))
    yield proved(results.tables(map(paths.one_run_path, params.one_run), AUDITED))
    yield members(results.tables(map(paths.membership_path, params.membership), MEMBERSHIP))
    yield guessed(of_entries(results, "reconstruction", candidates_path, CANDIDATES))
    yield against_noise(results.table(paths.training_curves_path(), CURVES))


def claimed(budgets: pl.DataFrame) -> tuple[str, str, pl.DataFrame]:
    """The epsilon of each accountant."""
    rows = []
    for row in claim_rows(budgets):
        exact, *others = (row["by"].get(name) for name in ACCOUNTANTS)
        rows.append(
            {
                "training": row["cell"],
                "level": _level(row["level"]),
                "as sigma": f"{row['effective_sigma']:.3g}",
                "neighbours": row["neighbours"],
                "sampling": row["sampling"],
                "delta": f"{row['delta']:.1e}",
                ACCOUNTANTS[0]: "" if exact is None else _bracket(exact["lower"], exact["upper"]),
                **{name: _nats(row and row["upper"]) for name, row in zip(ACCOUNTANTS[1:], others, strict=True)},
            }
        )
    note = (
        "Epsilons of one example; `a to b` is the bracket of the exact one, of directional noise the ends that are "
        "proved. The approximation, of an average of directional draws as of Gaussian noise, is no claim."
    )
    return "What trainings claim", note, _table(rows)


def scored(runs: pl.DataFrame) -> tuple[str, str, pl.DataFrame]:
    """What heads score on texts that were not trained on."""
    rows = []
    for row in run_rows(runs):
        scores = {
            metric: f"{mean:.3f} ({least:.3f} to {most:.3f})"
            for metric, (mean, least, most, _) in row["scores"].items()
        }
        seeds = max(count for *_, count in row["scores"].values())
        rows.append({"training": row["cell"], "level": _level(row["level"]), "runs": seeds, **scores})
    return "What heads score", "On texts that were not trained on: mean over seeds, least and most.", _table(rows)


def equally_loud(pairs: pl.DataFrame) -> tuple[str, str, pl.DataFrame]:
    """Differences of heads under noises that are equally loud."""
    rows = [
        {
            "training": row["cell"],
            "level": _level(row["level"]),
            "less": row["other"],
            "its level": _level(row["other_level"]),
            "equally loud on": "a step's sum" if row["seen"] == "average" else "one gradient",
            "as sigma": f"{row['sigma']:.3g}",
            "seeds": row["seeds"],
            "difference": f"{row['difference']:.3f} ({row['low']:.3f} to {row['high']:.3f})",
            "verdict": row["verdict"],
        }
        for row in pairs.to_dicts()
    ]
    return "Equally loud noises", f"Seed by seed. Equivalent: surely within {MARGIN:g} of {METRIC}.", _table(rows)


def proved(audited: pl.DataFrame) -> tuple[str, str, pl.DataFrame]:
    """What canaries prove, beside the claim."""
    rows = [
        {
            "training": row["cell"],
            "level": _level(row["level"]),
            "canaries": f"{row['canaries']:,} {row['kind']}",
            "score": row["score"],
            "bound by": row["method"],
            "right": "" if row["guesses"] is None else f"{row['right']:,} of {row['guesses']:,}",
            "proved": _nats(row["lower"]),
            "ceiling": _nats(row["ceiling"]),
            "claimed": _bracket(row["bracket_lower"], row["bracket_upper"]),
            "sampling": row["sampling"],
            "verdict": row["verdict"],
        }
        for row in audited.to_dicts()
    ]
    return "What canaries prove", "", _table(rows)


def members(membership: pl.DataFrame) -> tuple[str, str, pl.DataFrame]:
    """Each attack's area under the curve; a row a model."""
    rows = []
    for key, part in membership.group_by("training", "level", "seed", "overfit", maintain_order=True):
        areas = {
            row["attack"]: f"{row['auc']:.3f} ({row['auc_low']:.3f} to {row['auc_high']:.3f})"
            for row in part.filter(pl.col("attack") != STRONGEST).to_dicts()
        }
        best = part.filter(attack=STRONGEST).to_dicts()
        proof = {"loss of the strongest": _nats(best[0]["loss"])} if best else {}
        rows.append({"training": key[0], "level": _level(key[1]), "seed": key[2], "epochs x": key[3], **areas, **proof})
    return "Membership", "Areas under the curve; intervals are over examples, given the model.", _table(rows)


def guessed(candidates: pl.DataFrame) -> tuple[str, str, pl.DataFrame]:
    """Which of k texts a gradient came from: the share that is guessed right, and its law."""
    rows = [
        {
            "sent": row["entry"],
            "level": _level(row["level"]),
            "k": row["candidates"],
            "right": f"{row['success_rate']:.4f}",
            "by its law": "" if row["law"] is None else f"{row['law']:.4f}",
            "loss": f"{wording.proved(row['loss'])} to {wording.bounded(min(row['upper'], row['ceiling']))}",
        }
        for row in candidates.to_dicts()
    ]
    return "Which of k texts a gradient came from", "", _table(rows)


def against_noise(curves: pl.DataFrame) -> tuple[str, str, pl.DataFrame]:
    """Every attack against noise, with its tests."""
    rows = [
        {
            "cell": row["cell"],
            "attack": row["attack"] if row["size"] is None else f"{row['attack']}, {row['size']}",
            "measure": row["measure"],
            "levels: values": ", ".join(
                f"{_level(level)}: {value:.3f}" for level, value in zip(row["levels"], row["values"], strict=True)
            ),
            "p of the fall": "" if row["fall_p"] is None else f"{row['fall_p']:.2g}",
            "least p": "" if not row["least_p"] else f"{row['least_p']:.2g}",
            "p of a rise": "" if row["rise_p"] is None else f"{row['rise_p']:.2g}",
            "verdict": row["verdict"],
        }
        for row in curves.sort("family", "cell", "attack", "size", "measure").to_dicts()
    ]
    note = (
        "p-values before the correction (Holm) over the curves with a verdict, one an attack, without those that are "
        "not testable: the least p-value that their number of batches allows could not have been significant."
    )
    return "Attacks against noise", note, _table(rows)


def _level(level: float | None) -> str:
    return "–" if level is None else f"{level:g}"


def _nats(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _bracket(lower: float | None, upper: float | None) -> str:
    return "" if upper is None else f"{_nats(lower)} to {_nats(upper)}"


def _table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)
