"""The tables of a finished audit as one Markdown file, for a repository that keeps its results. Losses are in nats.

A section is a heading, a sentence on how to read its table, and the table; one without rows is left out. No text of a
data set is shown.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import psutil

from epsilometer.auditing.claims.verdicts import NO_CLAIM, overall, with_overall
from epsilometer.auditing.exact_loss.rows import ALL
from epsilometer.auditing.results.diagnostics import CHOSEN, STRONGEST, STRONGEST_INSIDE
from epsilometer.auditing.schemas import ABLATIONS, CLAIMS, ESTIMATES, POSSIBLE, SWEEPS
from epsilometer.core import tables
from epsilometer.project.params import Params
from epsilometer.project.paths import possible_path, varied_path
from epsilometer.report import page, training_markdown
from epsilometer.report.export import markup
from epsilometer.report.results import Results
from epsilometer.report.sections import anonymity, exact_loss, origin, possible
from epsilometer.report.sections.worth import spread
from epsilometer.report.wording import bounded, budget, listed, proved, tail_words
from epsilometer.runtime.machine import processor
from epsilometer.utility.attackers import CLEAN
from epsilometer.utility.intervals import mean_interval
from epsilometer.utility.schemas import ANONYMITY, ATTACKERS, DOWNSTREAM, LEAKAGE, SIMILARITIES

CELL = ["mechanism", "epsilon"]
_ENDS = {"law": "", "latents": "≤ ", "attacks": "≥ "}  # what a loss is known by

Section = tuple[str, str, pl.DataFrame]


def write(results: Results, out: Path | None = None) -> Path:
    """Write the tables of the audit in the current folder, by default to docs/results/PROFILE.md of its project.

    Returns the file. Raises UserError where no audit is finished here.
    """
    params, profile = results.params, origin.profile(Path())
    parts = [
        f"# {profile}: {params.title}",
        "Written by `epsilometer results` from the outputs of a run; do not edit. Losses are in nats; `a to b` is the "
        "lower bound and the upper end of an interval; `ceiling` means that every guess was right, as does `at least` "
        "where the exact loss is known.",
        f"Run of {unescape(page.header())}{hardware()}.",
        _settings(params),
    ]
    for heading, note, table in sections(results):
        parts += [f"## {heading}", *([note] if note else []), markup(table).rstrip("\n")]
    path = Path(params.root) / "docs/results" / f"{profile}.md" if out is None else out
    tables.write_text("\n\n".join(parts) + "\n", path)
    return path


def sections(results: Results) -> list[Section]:
    """Returns the sections that have rows, in order."""
    params = results.params
    estimates = results.table("data/estimates.parquet", ESTIMATES)
    claims = results.table("data/claims.parquet", CLAIMS)
    verdicts = overall(estimates, claims, results.exact)
    downstream = [f"data/downstream/{name}.parquet" for name in ("clean", *params.downstream)]
    sweeps = [varied_path("sweeps", name) for name in params.sweeps]
    ablations = [varied_path("ablations", name) for name in params.ablations]
    every = [
        *losses(with_overall(estimates, verdicts), results.exact),
        *exact_losses(with_overall(results.exact, verdicts), estimates),
        *kept_of_possible(results),
        worst_cases(with_overall(claims, verdicts)),
        closeness(results.table("data/similarities.parquet", SIMILARITIES), params.audit.alpha),
        *identifiers(results.table("data/leakage.parquet", LEAKAGE)),
        *learnt(results.tables(downstream, DOWNSTREAM)),
        *anonymised(
            anonymity.tables_of(results, "anonymity", ANONYMITY), anonymity.tables_of(results, "attackers", ATTACKERS)
        ),
        varied(results.tables(sweeps, SWEEPS)),
        ablated(results.tables(ablations, ABLATIONS)),
        *training_markdown.sections(results),
    ]
    return [section for section in every if len(section[2])]


def hardware() -> str:
    """Returns the processor, its cores and the memory of this machine."""
    return f"{processor()}, {os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB of memory"


def losses(estimates: pl.DataFrame, exact: pl.DataFrame) -> Iterator[Section]:
    """A section a data set: the strongest attack on what is released, then each attack, then the claim's verdict.

    estimates: as `verdicts.with_overall` gives them; exact: schema `EXACT`.
    """
    lawful = set(exact.select("dataset", *CELL).iter_rows())
    for (dataset,), table in estimates.group_by("dataset", maintain_order=True):
        attacks = [name for name in table["attack"].unique(maintain_order=True) if name not in CHOSEN]
        inside = [STRONGEST_INSIDE] if len(table.filter(~pl.col("released"), attack=STRONGEST_INSIDE)) else []
        rows = []
        for (mechanism, epsilon), cell in table.group_by(CELL, maintain_order=True):
            by_attack = {row["attack"]: row for row in cell.to_dicts()}
            best = by_attack.get(STRONGEST, {}).get("best_attack")
            end = "at least {}" if (dataset, mechanism, epsilon) in lawful else "ceiling"
            shown = {name: _loss(by_attack.get(name), end) for name in (STRONGEST, *inside, *attacks)}
            row = {"mechanism": mechanism, "epsilon": budget(epsilon), **shown}
            tail = tail_words(by_attack.get(STRONGEST, {}).get("delta_at_4_low"), None)
            rows.append(row | {"strongest is": best, "delta at 4 nats": tail, "claim": cell["overall"][0]})
        single = table.filter(pl.col("attack").is_in(attacks))["ceiling"].to_numpy().max()
        several = table.filter(attack=STRONGEST)["ceiling"].to_numpy().min()
        note = (
            f"k = {table['candidates'][0]}, {table['trials'][0]:,} trials a row. Every guess right shows "
            f"{proved(single)} nats with one attack, at least {proved(several)} with the strongest of several, which "
            "pays for the choice."
        )
        yield f"Losses on {dataset}", note, _table(rows)


def exact_losses(exact: pl.DataFrame, estimates: pl.DataFrame) -> Iterator[Section]:
    """A section a data set: what laws prove beside what trials do, and the order of cells by either."""
    controls = set(estimates.filter("control")["mechanism"])
    shown = exact_loss.rows(exact.filter(~pl.col("mechanism").is_in(list(controls))), estimates)
    for dataset in dict.fromkeys(row["dataset"] for row in shown):
        here = [row for row in shown if row["dataset"] == dataset]
        every = {(row["mechanism"], row["epsilon"]): row for row in here if row["pairs"] == ALL}
        cells = exact_loss.ranked([row for row in here if row["first"]])
        note = (
            f"Between texts of equal length ({cells[0]['share']:.0%} of the pairs compared); the last two columns are "
            "over all pairs. Sampled: what the strongest attack proves on such trials, on what the law describes. "
            "Latents are not released: their losses bound those of the text. "
        ) + exact_loss.order_sentence(cells)
        rows = [
            {
                "mechanism": row["mechanism"],
                "epsilon": budget(row["epsilon"]),
                "sees": row["sees"],
                "sampled": _number(row["sampled"]),
                "average": row["exactly"],
                "95 %": _number(row["q95"]),
                "worst pair": _number(row["worst"]),
                "relative epsilon": _number(row["relative_epsilon"]),
                "delta at 4 nats": tail_words(row["delta_at_4_low"] if row["released"] else None, row["delta_at_4"]),
                "rank sampled": _rank(row["sampled_rank"]),
                "rank exact": _rank(row["exact_rank"]),
                "rank by delta": _rank(row["tail_rank"]),
                "method": row["method"],
                "claim": row["overall"],
                "sampled, all": _number(every[row["mechanism"], row["epsilon"]]["sampled"]),
                "average, all": every[row["mechanism"], row["epsilon"]]["exactly"],
            }
            for row in cells
        ]
        yield f"Exact losses on {dataset}", note.strip(), _table(rows)


def kept_of_possible(results: Results) -> Iterator[Section]:
    """A section a data set whose trials are of sets: worth beside the ceiling at the loss of the same trials."""
    path = possible_path()
    if str(path) not in results.held and not path.is_file():  # an audit from before there were such trials
        return
    table = possible.with_tails(results, results.table(path, POSSIBLE))
    for (dataset,), part in table.group_by("dataset", maintain_order=True):
        rows = [
            {
                "mechanism": row["mechanism"],
                "epsilon": budget(row["epsilon"]),
                "cosine": f"{row['worth']:.3f} ({row['worth_low']:.3f} to {row['worth_high']:.3f})",
                "loss": f"{_ENDS[row['by']]}{_number(row['loss'])}",
                "proved by worth": proved(row["proved"]),
                "ceiling": bounded(row["ceiling"]),
                "share of the possible": "–"
                if row["share"] is None
                else f"{row['share_is']} {row['share']}".removeprefix("= "),
                "delta at 4 nats": row["tails"],
            }
            for row in possible.rows(part)
        ]
        note = (
            "A pair from each of many sets of texts drawn at random. The ceiling is the largest cosine that any "
            "mechanism can have at that loss; the share is 0 for one public text given to everybody, 1 at the ceiling."
        )
        yield f"How good it can be on {dataset}", note, _table(rows)


def worst_cases(claims: pl.DataFrame) -> Section:
    """Each claim against its worst case."""
    rows = [
        {
            "mechanism": row["mechanism"],
            "epsilon": budget(row["epsilon"]),
            "claim": row["claim"],
            "method": row["method"],
            "claimed": _number(row["claimed"]),
            "worst": _number(row["worst"]),
            "audited": "yes" if row["audited"] else "no",
            "verdict": row["overall"],
        }
        for row in claims.filter(pl.col("verdict") != NO_CLAIM).to_dicts()
    ]
    note = (
        "Over pairs of inputs and all outputs where the law is computed (at most `claims.vocabulary` inputs); by draws "
        "elsewhere, where `worst` is a lower bound, and a budget that is not audited is one at which draws can refute."
    )
    return "Claims against their worst case", note, _table(rows)


def closeness(each: pl.DataFrame, alpha: float) -> Section:
    """Means of every metric; the cosine's with its interval, in which rewrites of one text count as one."""
    rows = []
    for (dataset, mechanism, epsilon), table in each.group_by("dataset", *CELL, maintain_order=True):
        row = {"data set": dataset, "mechanism": mechanism, "epsilon": budget(epsilon)}
        for (metric,), part in table.drop_nulls("value").group_by("metric", maintain_order=True):
            mean, low, high = mean_interval(part["value"], part["source"], alpha)
            row[str(metric)] = f"{mean:.3f} ({low:.3f} to {high:.3f})" if metric == "cosine" else f"{mean:.3f}"
        rows.append(row)
    return "What rewrites keep", f"Means, with {100 * (1 - alpha):g} % intervals of the cosine.", _table(rows)


def identifiers(leakage: pl.DataFrame) -> Iterator[Section]:
    """A section a data set: which share of its identifiers, by kind, survive as they were."""
    for (dataset,), table in leakage.group_by("dataset", maintain_order=True):
        rows = []
        for (mechanism, epsilon), cell in table.group_by(CELL, maintain_order=True):
            shares = {
                f"{kind} ({count})": f"{share:.0%} ({low:.0%} to {high:.0%})"
                for kind, count, share, low, high in cell.select(
                    "kind", "identifiers", "share", "low", "high"
                ).iter_rows()
            }
            rows.append({"mechanism": mechanism, "epsilon": budget(epsilon), **shares})
        yield f"Identifiers that survive on {dataset}", "After each kind: how many there were.", _table(rows)


def learnt(downstream: pl.DataFrame) -> Iterator[Section]:
    """A section a data set: macro F1 of classifiers, baselines first."""
    for (dataset,), table in downstream.group_by("dataset", maintain_order=True):
        rows = []
        for (mechanism, epsilon), cell in table.group_by(CELL, maintain_order=True):
            scores = {
                f"{label}, {setting}": spread(seeds["macro_f1"])
                for (label, setting), seeds in cell.group_by("label", "setting", maintain_order=True)
            }
            rows.append({"mechanism": mechanism or "baselines", "epsilon": budget(epsilon), **scores})
        note = "Macro F1: mean and standard deviation over seeds."
        yield f"What classifiers learn on {dataset}", note, _table(rows)


def anonymised(measured: pl.DataFrame, attackers: pl.DataFrame) -> Iterator[Section]:
    """A section a data set and attribute on success over all texts, and one on who infers the attribute."""
    rows = anonymity.success_rows(measured)
    for dataset, attribute, task in dict.fromkeys((r["dataset"], r["attribute"], r["task"]) for r in rows):
        here = [r for r in rows if (r["dataset"], r["attribute"], r["task"]) == (dataset, attribute, task)]
        table = [
            {
                "mechanism": row["mechanism"],
                "epsilon": budget(row["epsilon"]),
                "victim": row["victim"],
                "RS_all": f"{row['rs_all']:.3f} ({row['rs_all_low']:.3f} to {row['rs_all_high']:.3f})",
                "coverage": _number(row["coverage"]),
                "RS": _number(row["rs"]),
                "UR": _number(row["ur"]),
                "PA": _number(row["pa"]),
                "UR, all": _number(row["ur_released"]),
                "PA, all": _number(row["pa_released"]),
                "words changed": f"{row['words_changed']:.1%}",
                "tags equal": "" if row["tags_equal"] is None else f"{row['tags_equal']:.0%}",
                "F1 of the task": f"{row['task_f1']:.2f}",
                "questions": "" if row["asked"] is None else f"{row['asked']:,.0f}",
            }
            for row in here
        ]
        victims = {row["victim"]: row for row in here}
        right = listed([f"{name} {row['both_right']:,}" for name, row in victims.items()])
        clean = listed([f"{row['task_f1_clean']:.2f} ({name})" for name, row in victims.items()])
        note = (
            f"Over the texts whose {attribute} and {task} the victim reads right: of {here[0]['texts']:,} test texts "
            f"{right}. F1: of {task} on all released texts; on clean ones {clean}."
        )
        yield f"{dataset}: {attribute} hidden, {task} kept", note, _table(table)
    inferred = anonymity.infer_rows(attackers.filter(pl.col("label").is_in({*measured["attribute"]})))
    for dataset, label in dict.fromkeys((row["dataset"], row["label"]) for row in inferred):
        here = [row for row in inferred if (row["dataset"], row["label"]) == (dataset, label)]
        names = [name for name in (CLEAN, *anonymity.SHOWN) if any(name in row["accuracies"] for row in here)]
        table = [
            {
                "mechanism": row["mechanism"],
                "epsilon": budget(row["epsilon"]),
                **{name: _number(row["accuracies"].get(name)) for name in names},
                "attribute loss": _loss(row),
                "strongest": row["best_attacker"],
                "verdict": row["verdict"],
            }
            for row in here
        ]
        note = f"Balanced accuracy of each attacker; guessing has {here[0]['chance']:.2f}."
        yield f"{dataset}: who infers {label}", note, _table(table)


def varied(sweeps: pl.DataFrame) -> Section:
    """Cosine and loss under the embedding attack when one setting of a mechanism is varied."""
    rows = [
        {
            "data set": row["dataset"],
            "mechanism": row["mechanism"],
            "setting": row["setting"],
            "value": _number(row["value"]),
            "cosine": f"{row['cosine']:.3f} ({row['cosine_low']:.3f} to {row['cosine_high']:.3f})",
            "loss": _loss(row),
        }
        for row in sweeps.to_dicts()
    ]
    return "One setting varied", "The loss is that of the embedding attack.", _table(rows)


def ablated(ablations: pl.DataFrame) -> Section:
    """Losses when one factor of the audit is varied."""
    rows = [
        {
            "data set": row["dataset"],
            "mechanism": row["mechanism"],
            "epsilon": budget(row["epsilon"]),
            "attack": row["attack"],
            "factor": row["factor"],
            "value": _number(row["value"]),
            "trials": row["trials"],
            "loss": _loss(row),
        }
        for row in ablations.to_dicts()
    ]
    return "One factor of the audit varied", "", _table(rows)


def _settings(params: Params) -> str:
    datasets = ", ".join(
        name if params.match(name) == "none" else f"{name} (candidates matched by {params.match(name)})"
        for name in params.datasets
    )
    trials = params.trials
    return (
        f"Data sets: {datasets}. T = {trials.count:,}, k = {trials.candidates}, lambda = {trials.temperature:g}, "
        f"alpha = {params.audit.alpha:g}, seed {params.audit.seed}, round {params.audit.round}."
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The columns of all rows; what a row lacks is empty."""
    return pl.DataFrame(rows, infer_schema_length=None)


def _loss(row: Mapping[str, Any] | None, end: str = "ceiling") -> str:
    """`0.71 to 0.82`; `end`, which takes the loss, where every guess was right, for then there is no upper end."""
    if row is None:
        return ""
    return (
        f"{proved(row['loss'])} to {bounded(row['upper'])}"
        if math.isfinite(row["upper"])
        else end.format(proved(row["loss"]))
    )


def _rank(value: int | None) -> str:
    return "–" if value is None else str(value)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if math.isfinite(value) else "∞"
