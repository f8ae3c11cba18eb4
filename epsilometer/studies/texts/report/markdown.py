"""The tables of the study of texts in Markdown. Losses are in nats."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from epsilometer.auditing.claims.verdicts import NO_CLAIM, overall, with_overall
from epsilometer.auditing.exact_loss.rows import ALL
from epsilometer.auditing.results.diagnostics import CHOSEN, STRONGEST, STRONGEST_INSIDE
from epsilometer.auditing.schemas import ABLATIONS, CLAIMS, ESTIMATES, LEAKAGE, POSSIBLE, SWEEPS
from epsilometer.auditing.worth.intervals import mean_interval
from epsilometer.report.markdown import CELL, Section, as_number, as_rank, as_table, loss_between
from epsilometer.report.wording import bounded, budget, proved, tail_words
from epsilometer.studies.texts.params import TextsParams
from epsilometer.studies.texts.report import exact_loss, possible
from epsilometer.studies.texts.report.results import TextResults
from epsilometer.studies.texts.report.worth import spread, trained_on_rewrites
from epsilometer.studies.texts.tables import SIMILARITIES, possible_path, varied_path

_ENDS = {"law": "", "latents": "≤ ", "attacks": "≥ "}  # what a loss is known by


def sections(results: TextResults) -> Iterator[Section]:
    """Losses, exact losses, worst cases, what rewrites keep, and what varying one factor changes."""
    params = results.params
    if not params.cells:
        return
    estimates = results.table("data/estimates.parquet", ESTIMATES)
    claims = results.table("data/claims.parquet", CLAIMS)
    verdicts = overall(estimates, claims, results.exact)
    kept = results.table(possible_path(), POSSIBLE) if results.has(possible_path()) else pl.DataFrame(schema=POSSIBLE)
    yield from losses(with_overall(estimates, verdicts), results.exact, kept)
    yield from exact_losses(with_overall(results.exact, verdicts), estimates)
    yield from kept_of_possible(results, kept)
    yield worst_cases(with_overall(claims, verdicts))
    yield closeness(results.table("data/similarities.parquet", SIMILARITIES), params.audit.alpha)
    yield from identifiers(results.table("data/leakage.parquet", LEAKAGE))
    yield from learnt(trained_on_rewrites(results))
    yield varied(results.tables([varied_path("sweeps", name) for name in params.sweeps], SWEEPS))
    yield ablated(results.tables([varied_path("ablations", name) for name in params.ablations], ABLATIONS))


def losses(estimates: pl.DataFrame, exact: pl.DataFrame, kept: pl.DataFrame) -> Iterator[Section]:
    """A section a data set: the strongest attack on what is released, then each attack, then the claim's verdict.

    estimates: as `verdicts.with_overall` gives them; exact: schema `EXACT`; kept: schema `POSSIBLE`, whose certificate
    stands beside the attacks.
    """
    certificates = {
        tuple(cell): f"at least {proved(loss)}" for *cell, loss in kept.select("dataset", *CELL, "proved").iter_rows()
    }
    lawful = set(exact.select("dataset", *CELL).iter_rows())
    for (dataset,), table in estimates.group_by("dataset", maintain_order=True):
        attacks = [name for name in table["attack"].unique(maintain_order=True) if name not in CHOSEN]
        inside = [STRONGEST_INSIDE] if len(table.filter(~pl.col("released"), attack=STRONGEST_INSIDE)) else []
        certified, rows = any(of == dataset for of, *_ in certificates), []
        for (mechanism, epsilon), cell in table.group_by(CELL, maintain_order=True):
            by_attack = {row["attack"]: row for row in cell.to_dicts()}
            best = by_attack.get(STRONGEST, {}).get("best_attack")
            end = "at least {}" if (dataset, mechanism, epsilon) in lawful else "ceiling"
            shown = {name: loss_between(by_attack.get(name), end) for name in (STRONGEST, *inside, *attacks)}
            if certified:
                shown["worth"] = certificates.get((dataset, mechanism, epsilon), "")
            row = {"mechanism": mechanism, "epsilon": budget(epsilon), **shown}
            tail = tail_words(by_attack.get(STRONGEST, {}).get("delta_at_4_low"), None)
            rows.append(row | {"strongest is": best, "delta at 4 nats": tail, "claim": cell["overall"][0]})
        single = table.filter(pl.col("attack").is_in(attacks))["ceiling"].to_numpy().max()
        several = table.filter(attack=STRONGEST)["ceiling"].to_numpy().min()
        note = (
            f"k = {table['candidates'][0]}, {table['trials'][0]:,} trials a row. Every guess right shows "
            f"{proved(single)} nats with one attack, at least {proved(several)} with the strongest of several, which "
            "pays for the choice."
            + (" Worth: what the cosines prove without any attack; not among these." if certified else "")
        )
        yield f"Losses on {dataset}", note, as_table(rows)


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
                "sampled": as_number(row["sampled"]),
                "average": row["exactly"],
                "95 %": as_number(row["q95"]),
                "worst pair": as_number(row["worst"]),
                "relative epsilon": as_number(row["relative_epsilon"]),
                "delta at 4 nats": tail_words(row["delta_at_4_low"] if row["released"] else None, row["delta_at_4"]),
                "rank sampled": as_rank(row["sampled_rank"]),
                "rank exact": as_rank(row["exact_rank"]),
                "rank by delta": as_rank(row["tail_rank"]),
                "method": row["method"],
                "claim": row["overall"],
                "sampled, all": as_number(every[row["mechanism"], row["epsilon"]]["sampled"]),
                "average, all": every[row["mechanism"], row["epsilon"]]["exactly"],
            }
            for row in cells
        ]
        yield f"Exact losses on {dataset}", note.strip(), as_table(rows)


def kept_of_possible(results: TextResults, kept: pl.DataFrame) -> Iterator[Section]:
    """A section a data set whose trials are of sets: worth beside the ceiling at the loss of the same trials.

    kept: schema `POSSIBLE`.
    """
    table = possible.with_tails(results, kept)
    for (dataset,), part in table.group_by("dataset", maintain_order=True):
        rows = [
            {
                "mechanism": row["mechanism"],
                "epsilon": budget(row["epsilon"]),
                "cosine": f"{row['worth']:.3f} ({row['worth_low']:.3f} to {row['worth_high']:.3f})",
                "loss": f"{_ENDS[row['by']]}{as_number(row['loss'])}",
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
        yield f"How good it can be on {dataset}", note, as_table(rows)


def worst_cases(claims: pl.DataFrame) -> Section:
    """Each claim against its worst case."""
    rows = [
        {
            "mechanism": row["mechanism"],
            "epsilon": budget(row["epsilon"]),
            "claim": row["claim"],
            "method": row["method"],
            "claimed": as_number(row["claimed"]),
            "worst": as_number(row["worst"]),
            "audited": "yes" if row["audited"] else "no",
            "verdict": row["overall"],
        }
        for row in claims.filter(pl.col("verdict") != NO_CLAIM).to_dicts()
    ]
    note = (
        "Over pairs of inputs and all outputs where the law is computed (at most `claims.vocabulary` inputs); by draws "
        "elsewhere, where `worst` is a lower bound, and a budget that is not audited is one at which draws can refute."
    )
    return "Claims against their worst case", note, as_table(rows)


def closeness(each: pl.DataFrame, alpha: float) -> Section:
    """Means of every metric; the cosine's with its interval, in which rewrites of one text count as one."""
    rows = []
    for (dataset, mechanism, epsilon), table in each.group_by("dataset", *CELL, maintain_order=True):
        row = {"data set": dataset, "mechanism": mechanism, "epsilon": budget(epsilon)}
        for (metric,), part in table.drop_nulls("value").group_by("metric", maintain_order=True):
            mean, low, high = mean_interval(part["value"], part["source"], alpha)
            row[str(metric)] = f"{mean:.3f} ({low:.3f} to {high:.3f})" if metric == "cosine" else f"{mean:.3f}"
        rows.append(row)
    return "What rewrites keep", f"Means, with {100 * (1 - alpha):g} % intervals of the cosine.", as_table(rows)


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
        yield f"Identifiers that survive on {dataset}", "After each kind: how many there were.", as_table(rows)


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
        yield f"What classifiers learn on {dataset}", note, as_table(rows)


def varied(sweeps: pl.DataFrame) -> Section:
    """Cosine and loss under the embedding attack when one setting of a mechanism is varied."""
    rows = [
        {
            "data set": row["dataset"],
            "mechanism": row["mechanism"],
            "setting": row["setting"],
            "value": as_number(row["value"]),
            "cosine": f"{row['cosine']:.3f} ({row['cosine_low']:.3f} to {row['cosine_high']:.3f})",
            "loss": loss_between(row),
        }
        for row in sweeps.to_dicts()
    ]
    return "One setting varied", "The loss is that of the embedding attack.", as_table(rows)


def ablated(ablations: pl.DataFrame) -> Section:
    """Losses when one factor of the audit is varied."""
    rows = [
        {
            "data set": row["dataset"],
            "mechanism": row["mechanism"],
            "epsilon": budget(row["epsilon"]),
            "attack": row["attack"],
            "factor": row["factor"],
            "value": as_number(row["value"]),
            "trials": row["trials"],
            "loss": loss_between(row),
        }
        for row in ablations.to_dicts()
    ]
    return "One factor of the audit varied", "", as_table(rows)


def settings(params: TextsParams) -> str:
    datasets = ", ".join(
        name if params.match(name) == "none" else f"{name} (candidates matched by {params.match(name)})"
        for name in params.datasets
    )
    trials = params.trials
    return (
        f"Data sets: {datasets}. T = {trials.count:,}, k = {trials.candidates}, lambda = {trials.temperature:g}, "
        f"alpha = {params.audit.alpha:g}, seed {params.audit.seed}, round {params.audit.round}."
    )
