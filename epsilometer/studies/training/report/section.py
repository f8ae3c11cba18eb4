"""The section of the report on training: claims, proved losses, and the cost of noise. Losses are in nats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
from markupsafe import Markup

from epsilometer.accounting.statement import between
from epsilometer.auditing.claims.verdicts import NOT_TESTABLE, VIOLATED
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.core.guarantees import budget_name
from epsilometer.report.figures import COLOURS, INK, MUTED, WIDTH, Figure, Specification, joined, specify
from epsilometer.report.results import Results
from epsilometer.report.rows import unbeaten
from epsilometer.report.section import Section
from epsilometer.report.table import NONE, Table, record, records
from epsilometer.report.wording import bounded, confidence, inflected, listed, proved
from epsilometer.studies.training import tables as paths
from epsilometer.studies.training.curves import CURVES, PRIMARY
from epsilometer.studies.training.one_run.training import AUDITED
from epsilometer.studies.training.pairs import MARGIN, METRIC, PAIRS
from epsilometer.studies.training.params import HEAD, Noised, TrainingParams
from epsilometer.studies.training.reconstruction import BLIND
from epsilometer.studies.training.results.well_behaved import FALLS, NO_MESSAGE, NOT_MONOTONE
from epsilometer.studies.training.tables import BUDGETS, CANDIDATES, MEMBERSHIP, MEMBERSHIP_CURVES, RECONSTRUCTED, RUNS

ACCOUNTANTS = ("loss distribution", "approximation", "Renyi", "pure", "published")
SCORE = "mcc"  # the score of a head; 0 if it always guesses one class
RECONSTRUCTION = "rouge_l"  # the measure of reconstruction
_SHOWN = 4  # maximum number of reconstructions shown of a text, one per level


def section(results: Results[TrainingParams]) -> Section | None:
    """Return the section: claims and proofs, utility at equal reconstruction, and attacks against noise.

    Returns None if params.yaml has no entry of `private_training` or `reconstruction`.
    """
    params = results.params
    if not (params.private_training or params.reconstruction):
        return None
    runs = runs_of(results)
    audited = results.tables(map(paths.one_run_path, params.one_run), AUDITED)
    membership = results.tables(map(paths.membership_path, params.membership), MEMBERSHIP)
    curves = results.table(paths.training_curves_path(), CURVES)
    canaries, members = canary_sentence(audited), membership_sentence(membership, params.audit.alpha)
    candidates = of_entries(results, "choosing", candidates_path, CANDIDATES)
    pairs = results.table(paths.training_pairs_path(), PAIRS)
    traded = utility_rows(results.params, runs, curves)
    return Section(
        id="training",
        link="Training",
        heading="What training gives away",
        words=[*canaries, *members, *curve_sentence(curves)],
        blocks=[
            *drawings(results, traded, audited, curves),
            claimed(results.table(paths.budgets_path(), BUDGETS)),
            scored(runs),
            equally_loud(pairs),
            proofs(audited),
            memberships(membership),
            guessed(candidates),
            against_noise(curves),
            utility_table(traded),
            *examples(results),
        ],
        first_screen=[
            *[("Claims", sentence) for sentence in canaries],
            *[("Membership", sentence) for sentence in members],
        ],
    )


def drawings(
    results: Results[TrainingParams], traded: Sequence[dict[str, Any]], audited: pl.DataFrame, curves: pl.DataFrame
) -> Iterator[Figure]:
    """Yield the figures that have data to show."""
    shown = (
        (
            "training-epsilons",
            "Proved, claimed and published epsilons",
            epsilon_figure(audited),
            "Proved, exact, and published",
            "Epsilons for one example of the training set. Grey bars are the bracket by the loss distribution. A bound "
            "by canaries above the bar would refute the claim; a bound far below it does not confirm the claim.",
        ),
        (
            "training-utility",
            "Utility against reconstruction",
            utility_figure(traded),
            "Utility and protection by noise",
            "Each mark is one noise at one level: a head's score on other texts, and how much an adversary "
            "reconstructs from one client's gradient. Rings: no other noise has a higher score without more "
            "reconstruction. Bars: the range over seeds, and intervals over texts.",
        ),
        (
            "training-attacks",
            "Attacks against noise",
            curve_figure(curves),
            "Does more noise help?",
            "A noise can be calibrated by an attack only if the attack's success falls as noise grows. Bars are "
            "intervals. Intervals of areas under curves hold for these models on further examples, not for other "
            "trainings at these levels.",
        ),
        (
            "training-roc",
            "Who was in the training set",
            roc_figure(results),
            "Who was in the training set",
            "ROC curves for the first seed; dashes: random guessing. The left part shows how many members an attack "
            "finds at few false positives.",
        ),
    )
    for name, words, specification, heading, caption in shown:
        if specification is not None:
            yield Figure(name, words, specification, heading=heading, caption=caption)


def of_entries(
    results: Results[TrainingParams], kind: str, path: Callable[[str], Path], schema: Mapping[str, Any]
) -> pl.DataFrame:
    """Return the joined tables of several entries, with the entry's name in the column `entry`.

    kind: the property of `TrainingParams` that contains the entries; path: the path of an entry's table.
    """
    parts = [
        results.table(path(name), schema).with_columns(entry=pl.lit(name)) for name in getattr(results.params, kind)
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema={**schema, "entry": pl.String})


def runs_of(results: Results[TrainingParams]) -> pl.DataFrame:
    """Return the scores of all heads (schema RUNS), with their cells in the column `entry`."""
    every = [
        results.table(paths.runs_path(of.cell, of.level), RUNS).with_columns(entry=pl.lit(of.cell))
        for of in results.params.trainings.values()
    ]
    return pl.concat(every) if every else pl.DataFrame(schema={**RUNS, "entry": pl.String})


def candidates_path(name: str) -> Path:
    """Return the path of the table of guesses among candidates of an entry of `reconstruction`."""
    return paths.reconstruction_path(name, "candidates")


def claimed(budgets: pl.DataFrame) -> Table:
    """Return the table of the epsilons by each accountant, a row per cell, level and neighbours."""
    columns = (
        "training: {cell} | level: {level:g} | as sigma: {effective_sigma:.3g} | neighbours: {neighbours} | "
        "sampling: {sampling}"
    )
    rows = []
    for _, part in budgets.group_by("cell", "level", "neighbours", "sampling", maintain_order=True):
        first = part.row(0, named=True)
        row = record(first | {"neighbours": between(first["neighbours"], first["sampling"])}, columns)
        by = {each["accountant"]: each for each in records(part, "accountant: {accountant} | exact: {lower:rough} to "
              "{upper:rough} | upper: {upper:rough}")}  # fmt: skip
        exact, *others = ACCOUNTANTS
        row |= {"delta": f"{part['delta'].to_numpy().max():.1e}", exact: by[exact]["exact"] if exact in by else NONE}
        rows.append(row | {name: by[name]["upper"] if name in by else NONE for name in others})
    caption = (
        "Epsilons for one example. `a to b` contains the exact epsilon; for directional noise both bounds are proved. "
        "The approximation treats an average of directional draws as Gaussian noise, and is not a claim."
    )
    return Table("What trainings claim", caption, rows)


def scored(runs: pl.DataFrame) -> Table:
    """Return the table of heads' scores on texts not trained on: mean, minimum and maximum over seeds.

    Scores on training texts are left out, because they are computed from private texts without noise.
    """
    tested = runs.filter(pl.col("split") != "train", pl.col("metric") != "loss")
    rows = []
    for _, part in tested.group_by(["entry", "level"], maintain_order=True):
        scores = part.group_by("metric", maintain_order=True).agg(
            pl.len(), mean=pl.mean("value"), least=pl.min("value"), most=pl.max("value")
        )
        row = record(part.row(0, named=True), "training: {entry} | level: {level:g}")
        shown = zip(scores["metric"], records(scores, "of: {mean:.3f} ({least:.3f} to {most:.3f})"), strict=True)
        rows.append({**row, "runs": scores["len"].to_numpy().max(), **{name: score["of"] for name, score in shown}})
    return Table("What heads score", "On texts that were not trained on: mean over seeds (minimum to maximum).", rows)


def equally_loud(pairs: pl.DataFrame) -> Table:
    """Return the table of differences between heads at equal amounts of noise."""
    columns = (
        "training: {cell} | level: {level:g} | less: {other} | its level: {other_level:g} | equally loud on: {on} | "
        "as sigma: {sigma:.3g} | seeds: {seeds} | difference: {difference:.3f} ({low:.3f} to {high:.3f}) | "
        "verdict: {verdict}"
    )
    on = pl.when(seen="average").then(pl.lit("a step's sum")).otherwise(pl.lit("one gradient"))
    caption = (
        "Two noises are equally loud if they have the same size. Differences are between equal seeds. Equivalent: "
        f"surely less than {MARGIN:g} apart in {METRIC}."
    )
    return Table("Equally loud noises", caption, records(pairs.with_columns(on=on), columns))


def proofs(audited: pl.DataFrame) -> Table:
    """Return the table of the claims, and of the losses that canaries prove: a row per score, a column per bound."""
    of_score = "training: {cell} | level: {level:g} | canaries: {canaries:,} {kind} | score: {score} | "
    of_score += "right: {right:,} of {guesses:,}"
    of_claim = "claimed: {bracket_lower:rough} to {bracket_upper:rough} | sampling: {sampling} | verdict: {verdict}"
    rows = []
    for _, part in audited.group_by("cell", "level", "kind", "score", maintain_order=True):
        bounds = zip(part["method"], records(part, "proved: {lower:rough} of {ceiling:rough}"), strict=True)
        first = part.row(0, named=True)
        proved_by = {f"proved by {method}": bound["proved"] for method, bound in bounds}
        rows.append(record(first, of_score) | proved_by | record(first, of_claim))
    caption = (
        "`a of b`: a is the proved lower bound in nats, b what as many canaries would prove if every guess were "
        "right. The verdict is that of a test of the whole claimed curve, at all deltas at once."
    )
    return Table("What canaries prove", caption, rows)


def memberships(membership: pl.DataFrame) -> Table:
    """Return the table of areas under the ROC curve: a row per model, a column per attack."""
    columns = "training: {training} | level: {level:g} | seed: {seed} | epochs x: {overfit}"
    rows = []
    for _, part in membership.group_by("training", "level", "seed", "overfit", maintain_order=True):
        attacks = part.filter(pl.col("attack") != STRONGEST)
        areas = records(attacks, "area: {auc:.3f} ({auc_low:.3f} to {auc_high:.3f})")
        row = record(part.row(0, named=True), columns)
        row |= {name: area["area"] for name, area in zip(attacks["attack"], areas, strict=True)}
        for best in records(part.filter(attack=STRONGEST), "loss of the strongest: {loss:rough}"):
            row |= best
        rows.append(row)
    return Table("Membership", "Areas under the ROC curve; intervals account for the choice of examples.", rows)


def guessed(candidates: pl.DataFrame) -> Table:
    """Return the table of guesses of a gradient's source among k texts: the share of right guesses, and the losses."""
    columns = (
        "sent: {entry} | level: {level:g} | k: {candidates} | right: {success_rate:.4f} | by its law: {law:.4f} | "
        "loss: {loss:proved} to {end:bounded}"
    )
    rows = candidates.with_columns(end=pl.min_horizontal("upper", "ceiling"))
    return Table("Which of k texts a gradient came from", "", records(rows, columns))


def against_noise(curves: pl.DataFrame) -> Table:
    """Return the table of every attack's values at all levels of noise, with its tests."""
    columns = (
        "cell: {cell} | attack: {attack} | measure: {measure} | levels: values: {shown} | p of the fall: {fall_p:.2g} "
        "| least p: {least_p:.2g} | p of a rise: {rise_p:.2g} | verdict: {verdict}"
    )
    rows = []
    for row in curves.sort("family", "cell", "attack", "size", "measure").to_dicts():
        values = zip(row["levels"], row["values"], strict=True)
        row["shown"] = ", ".join(f"{_level(level)}: {value:.3f}" for level, value in values)
        row["attack"] += "" if row["size"] is None else f", {row['size']}"
        rows.append(row | {"least_p": row["least_p"] or None})
    caption = (
        "p-values are before the correction (Holm) over the curves with a verdict, one per attack. Curves that are "
        "not testable are left out of the correction: with their number of batches, no p-value could be "
        "significant. `least p` is the smallest p-value that a fall could have had."
    )
    return Table("Attacks against noise", caption, records(rows, columns), folded=True)


def utility_rows(params: TrainingParams, runs: pl.DataFrame, curves: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a row per noise, level and measure: a head's score, and the reconstruction at the same level of noise.

    The column `front` marks the Pareto front: no other row of the same measure and label is better in score or
    reconstruction without being worse in the other.
    """
    scored: dict[tuple[str, float | None], list[float]] = {}
    for row in runs.filter(pl.col("split") != "train", metric=SCORE).to_dicts():
        scored.setdefault((row["entry"], row["level"]), []).append(row["value"])
    rows = []
    for curve in curves.filter(pl.col("measure").is_in([RECONSTRUCTION, "loss"])).to_dicts():
        sent = params.sent[params.reconstruction[curve["cell"]].sent]
        for cell, training in params.private_training.items():
            comparable = params.features[training.features].model == sent.model and _same_noise(training, sent)
            if training.trains != HEAD or not comparable:
                continue
            for i, level in enumerate(curve["levels"]):
                if (values := scored.get((cell, level))) is None:
                    continue
                rows.append(
                    {
                        "measure": f"{curve['measure']} ({curve['attack']}, {curve['size']})",
                        "label": training.label,
                        "noise": sent.noise.kind,
                        "level": _written(level),
                        "score": sum(values) / len(values),
                        "least": min(values),
                        "most": max(values),
                        "value": curve["values"][i],
                        "low": curve["low"] and curve["low"][i],
                        "high": curve["high"] and curve["high"][i],
                    }
                )
    for row in rows:
        row["front"] = unbeaten(row, rows, ["measure", "label"], worth="score", loss="value")
    return rows


def utility_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of heads' scores and of the reconstruction at equal noise. rows: from `utility_rows`."""
    columns = (
        "reconstructed: {measure} | label: {label} | noise: {noise} | level: {level} | "
        f"{SCORE}: {{score:.3f}} ({{least:.3f}} to {{most:.3f}}) | value: {{value:.3f}} | "
        "interval: {low:.3f} to {high:.3f} | unbeaten: {unbeaten}"
    )
    caption = (
        "A head's score on other texts (minimum to maximum over seeds), and how much an adversary reconstructs from "
        "one client's gradient with the same noise. Unbeaten: no other noise has a higher score without more "
        "reconstruction."
    )
    shown = [{**row, "unbeaten": "yes" if row["front"] else "no"} for row in rows]
    return Table("Utility against reconstruction", caption, records(shown, columns), folded=True)


def _same_noise(left: Noised, other: Noised) -> bool:
    return (left.noise.kind, left.noise.gamma, left.noise.parts) == (
        other.noise.kind,
        other.noise.gamma,
        other.noise.parts,
    )


def canary_sentence(audited: pl.DataFrame) -> list[str]:
    """Return a sentence that counts the claims that canaries tested, refuted, and could have refuted."""
    claimed = audited.filter(pl.col("bracket_upper").is_not_null()).group_by("cell", "level", "noise", "sampling").agg(
        pl.col("lower").max(), pl.col("bracket_upper").first(), pl.col("ceiling").max(), pl.col("verdict")
    )  # fmt: skip
    if claimed.is_empty():
        return []
    rows = claimed.to_dicts()
    violated = [row for row in rows if VIOLATED in row["verdict"]]
    testable = [row for row in rows if any(word != NOT_TESTABLE for word in row["verdict"])]
    nearest = max(rows, key=lambda row: row["lower"] / row["bracket_upper"])
    said = (
        f"Canaries refute {len(violated)} of {len(rows)} {inflected(len(rows), 'claim', 'claims')}: "
        f"{listed([_claim(row) for row in violated])}."
        if violated
        else f"Canaries refute none of {len(rows)} {inflected(len(rows), 'claim', 'claims')}; they could have refuted "
        f"{len(testable) or 'none'}."
    )
    return [
        f"{said} They come nearest to the claim of {_claim(nearest)}: they prove {proved(nearest['lower'])} of "
        f"the {bounded(nearest['bracket_upper'])} nats that are claimed."
    ]


def membership_sentence(membership: pl.DataFrame, alpha: float) -> list[str]:
    """Return sentences on whether attacks distinguish members from others, with and without deliberate overfitting."""
    sentences = []
    for overfit, part in membership.filter(attack="strongest").group_by(pl.col("overfit") > 1, maintain_order=True):
        best = part.sort("auc", descending=True).row(0, named=True)
        attacked = part.filter(pl.col("auc_low") > 0.5)
        regime = "trained too long on purpose" if overfit[0] else "trained as usual"
        area = f"{best['auc']:.2f} ({best['auc_low']:.2f} to {best['auc_high']:.2f})"
        sentences.append(
            f"An attack is shown to distinguish members from others in {len(attacked)} of {len(part)} models {regime} "
            f"({confidence(alpha, 2)}, over examples); the largest area under a curve is {area}, by "
            f"{best['best_attack']} on {best['training']}{_at(best['level'])}."
        )
    return sentences


def curve_sentence(curves: pl.DataFrame) -> list[str]:
    """Return a sentence per family of attacks that counts their curves over noise by verdict."""
    judged = curves.drop_nulls("verdict")
    sentences = []
    for (family,), part in judged.group_by(["family"], maintain_order=True):
        words = (FALLS, NOT_MONOTONE, NO_MESSAGE, NOT_TESTABLE)
        falls, rises, silent, few = (part.filter(verdict=word).height for word in words)
        about = " (of these models, on further examples)" if family == "membership" else ""
        sentences.append(
            f"{len(part)} {inflected(len(part), 'curve', 'curves')} of {family} attacks against noise{about}: "
            f"{falls} {inflected(falls, 'falls', 'fall')} significantly and never {inflected(falls, 'rises', 'rise')} "
            f"significantly, {rises} {inflected(rises, 'rises', 'rise')} significantly somewhere, {silent} "
            f"{inflected(silent, 'shows', 'show')} neither, perhaps for want of power, and {few} "
            f"{inflected(few, 'is', 'are')} not testable"
            f"{', as too few batches were attacked for any fall to be significant.' if few else '.'}"
        )
    return sentences


def epsilon_figure(audited: pl.DataFrame) -> Specification | None:
    """Return the figure of epsilons, a row per training and level; None without claims.

    It shows the largest proved bound, the bracket, the epsilon by Renyi orders and the published epsilon.
    """
    claimed = audited.filter(pl.col("bracket_upper").is_not_null())
    if claimed.is_empty():
        return None
    best = claimed.group_by("cell", "noise", "level", maintain_order=True).agg(
        pl.col("lower", "ceiling").max(),
        pl.col("sampling", "bracket_lower", "bracket_upper", "renyi", "published").first(),
    )
    rows = [{**row, "what": _claim(row)} for row in best.to_dicts()]
    marks = [
        {"what": row["what"], "kind": kind, "epsilon": row[column]}
        for row in rows
        for kind, column in (
            ("proved by canaries", "lower"),
            ("loss distribution", "bracket_upper"),
            ("Renyi", "renyi"),
            ("published", "published"),
        )
        if row[column]
    ]
    kinds = list(dict.fromkeys(mark["kind"] for mark in marks))
    y = alt.Y("what:N", title=None, sort=[row["what"] for row in rows], axis=alt.Axis(labelLimit=260))
    x = alt.X("epsilon:Q", title="epsilon at the stated delta (nats)", scale=alt.Scale(type="log"))
    colour = alt.Color("kind:N", title=None, scale=alt.Scale(domain=kinds, range=list(COLOURS[: len(kinds)])))
    shape = alt.Shape("kind:N", title=None, scale=alt.Scale(domain=kinds))
    tips = [alt.Tooltip("what:N"), alt.Tooltip("kind:N"), alt.Tooltip("epsilon:Q", format=".3g")]
    chart = alt.layer(
        alt.Chart(alt.NamedData("brackets"))
        .mark_rule(strokeWidth=5, opacity=0.35, color=MUTED)
        .encode(y, alt.X("bracket_lower:Q", scale=alt.Scale(type="log")), alt.X2("bracket_upper")),
        alt.Chart(alt.NamedData("marks"))
        .mark_point(filled=True, size=60, opacity=1)
        .encode(x, y, colour, shape, tooltip=tips),
    ).properties(width=WIDTH - 420, height=alt.Step(20))
    bracketed = [row for row in rows if row["bracket_lower"]]
    return specify(alt.hconcat(chart), {"marks": marks, "brackets": bracketed})


def utility_figure(rows: Sequence[dict[str, Any]]) -> Specification | None:
    """Return the figure of a head's score against the reconstruction at the same noise; None without rows.

    It has a panel per measure and label.
    """
    if not rows:
        return None
    datasets: dict[str, Any] = {}
    noises = sorted({row["noise"] for row in rows})
    colour = alt.Color("noise:N", scale=alt.Scale(domain=noises, range=list(COLOURS[: len(noises)])))
    panels = []
    for key in dict.fromkeys((row["measure"], row["label"]) for row in rows):
        name = " ".join(key)
        datasets[name] = [row for row in rows if (row["measure"], row["label"]) == key]
        base = alt.Chart(alt.NamedData(name))
        x = alt.X("value:Q", title=key[0])
        y = alt.Y("score:Q", title=f"{SCORE} of {key[1]}, other texts")
        tips = [alt.Tooltip("noise:N"), alt.Tooltip("level:N")]
        panels.append(
            alt.layer(
                base.mark_rule(opacity=0.4).encode(x, alt.Y("least:Q"), alt.Y2("most"), color=colour),
                base.transform_filter("isValid(datum.low)")
                .mark_rule(opacity=0.4)
                .encode(alt.X("low:Q"), alt.X2("high"), y, color=colour),
                base.mark_point(filled=True, size=60, opacity=1).encode(x, y, colour, tooltip=tips),
                base.transform_filter("datum.front").mark_point(size=190, color=INK).encode(x, y),
            ).properties(width=(WIDTH - 260) // 2, height=240, title=alt.TitleParams(name, offset=8))
        )
    return joined(panels, datasets, columns=2, spacing=30)


def curve_figure(curves: pl.DataFrame) -> Specification | None:
    """Return the figure of attacks against noise; None without curves.

    It has a panel per attack and measure, and a line per cell, from the least noise to the most.
    """
    shown = curves.filter(pl.col("measure").is_in(PRIMARY), pl.col("levels").list.len() > 1)
    if shown.is_empty():
        return None
    datasets: dict[str, Any] = {}
    for row in shown.to_dicts():
        size = "" if row["size"] is None else f", {row['size']}"
        panel = f"{row['attack']}: {row['measure']}{size}"
        for i, level in enumerate(row["levels"]):
            ends = {end: row[end] and row[end][i] for end in ("low", "high")}
            point = {"place": i, "level": _written(level), "value": row["values"][i], "cell": row["cell"], **ends}
            datasets.setdefault(panel, []).append(point | {"noise": row["noise"]})
    colour = alt.Color("cell:N", title=None, scale=alt.Scale(range=list(COLOURS)))
    panels = []
    for panel in datasets:
        base = alt.Chart(alt.NamedData(panel))
        x = alt.X("place:O", title="levels, from the least noise to the most", axis=alt.Axis(labels=False, ticks=False))
        y = alt.Y("value:Q", title=None, scale=alt.Scale(zero="auc" not in panel))
        tips = [alt.Tooltip("cell:N"), alt.Tooltip("level:N"), alt.Tooltip("value:Q", format=".3f")]
        panels.append(
            alt.layer(
                base.mark_line(strokeWidth=1.4).encode(x, y, colour),
                base.transform_filter("isValid(datum.low)")
                .mark_rule(opacity=0.4)
                .encode(x, alt.Y("low:Q", title=None), alt.Y2("high"), color=colour),
                base.mark_point(filled=True, size=40, opacity=1).encode(x, y, colour, tooltip=tips),
            ).properties(width=(WIDTH - 330) // 3, height=180, title=alt.TitleParams(panel, offset=8))
        )
    return joined(panels, datasets, columns=3, spacing=24)


def roc_figure(results: Results[TrainingParams]) -> Specification | None:
    """Return the figure of ROC curves, on logarithmic axes, for the first seed; None if there are no curves."""
    every = [paths.membership_path(name, "roc") for name in results.params.membership]
    curves = results.tables(every, MEMBERSHIP_CURVES)
    first = curves.filter(pl.col("seed") == pl.col("seed").min(), pl.col("fpr") > 0, pl.col("tpr") > 0)
    if first.is_empty():
        return None
    datasets: dict[str, Any] = {}
    panels = []
    for (training, level), part in first.group_by(["training", "level"], maintain_order=True):
        name = f"{training}{_at(level)}"
        datasets[name] = part.select("attack", "fpr", "tpr").to_dicts()
        datasets[f"{name} chance"] = [{"fpr": at, "tpr": at} for at in (part["fpr"].min(), 1.0)]
        log = alt.Scale(type="log", nice=False)
        x, y = alt.X("fpr:Q", title="false positives", scale=log), alt.Y("tpr:Q", title="true positives", scale=log)
        panels.append(
            alt.layer(
                alt.Chart(alt.NamedData(f"{name} chance")).mark_line(color=MUTED, strokeDash=[3, 3]).encode(x, y),
                alt.Chart(alt.NamedData(name))
                .mark_line(strokeWidth=1.4, interpolate="step-after")
                .encode(x, y, alt.Color("attack:N", scale=alt.Scale(range=list(COLOURS)))),
            ).properties(width=(WIDTH - 330) // 3, height=200, title=alt.TitleParams(name, offset=8))
        )
    return joined(panels, datasets, columns=3, spacing=24)


def examples(results: Results[TrainingParams]) -> Iterator[Table]:
    """Yield, for each attack on a public data set, a table of one text and its reconstructions at several levels."""
    for name, entry in results.params.searching.items():
        if results.params.sent[entry.sent].dataset not in results.public:
            continue
        table = results.table(paths.reconstruction_path(name, "texts"), RECONSTRUCTED).filter(pl.col("attack") != BLIND)
        for (attack,), part in table.group_by(["attack"], maintain_order=True):
            of_row = part.filter(pl.col("row") == part["row"][0], pl.col("size") == part["size"].min()).to_dicts()
            rows = [{"level": "text", "words": of_row[0]["truth"]}]
            for each in of_row[:_SHOWN]:
                words = (_MARKS.get(kind, Markup("{}")).format(word) for kind, word in marked(each))
                rows.append({"level": _level(each["level"]), "words": Markup(" ").join(words)})
            heading = f"{name} · {attack}: one text and what the attack read off its gradient"
            caption = "Bold: a word in its place. Plain: a word from elsewhere in the text. Struck out: another word."
            yield Table(heading, caption, rows, folded=True, texts=True)


_MARKS = {"right": Markup("<b>{}</b>"), "wrong": Markup('<s class="muted">{}</s>')}


def marked(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the words of a reconstruction, each with its mark: right, elsewhere or wrong."""
    truth = row["truth"].split()
    return [
        ("right" if i < len(truth) and truth[i] == word else "elsewhere" if word in truth else "wrong", word)
        for i, word in enumerate(row["found"].split())
    ]


def _cell(row: Mapping[str, Any]) -> str:
    return f"{row['cell']}{_at(row['level'])}"


def _claim(row: Mapping[str, Any]) -> str:
    return f"{_cell(row)}, {row['sampling']}"


def _at(level: float | None) -> str:
    return "" if level is None else f" at {budget_name(level)}"


def _written(level: float | None) -> str:
    return "no noise" if level is None else budget_name(level)


def _level(level: float | None) -> str:
    return NONE if level is None else f"{level:g}"
