"""The report's section on what rewritten texts are worth at equal measured loss. Losses are in nats."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import polars as pl

from epsilometer.report.figures import nats
from epsilometer.report.wording import at_budget

COSINE = "cosine"
SEEDS = 5  # at least, to rank mechanisms by what was trained
CELL = ["dataset", "mechanism", "epsilon"]
_GROUP = ["dataset", "measure"]


def tradeoff_points(strongest: pl.DataFrame, similarity: pl.DataFrame, downstream: pl.DataFrame) -> pl.DataFrame:
    """A row a data set, measure of utility, mechanism and epsilon: the strongest attack's loss, and the utility.

    strongest: as `page.strongest` gives it; downstream: schema `tables.DOWNSTREAM`. The measures are the mean cosine
    and each task's mean macro F1 after training on rewritten texts, with intervals over texts. seeds: the macro F1 of
    each, about which the interval says nothing; null for the cosine. best: on the Pareto front of its data set and
    measure, where no other point is worth more at a lower loss; the front is read off the plug-in values, without their
    intervals. Controls are no part of it, nor is what fewer than SEEDS seeds were trained for.
    """
    kept = ["measure", "utility", "low", "high", "seeds"]
    cosine = similarity.select(
        *CELL, measure=pl.lit(COSINE), utility="cosine", low="cosine_low", high="cosine_high",
        seeds=pl.lit(None, pl.List(pl.Float64)),
    )  # fmt: skip
    trained = downstream.filter(setting="private").with_columns(measure="macro F1 of " + pl.col("label"))
    f1 = trained.group_by(*CELL, "measure", maintain_order=True).agg(
        utility=pl.mean("macro_f1"), low=pl.first("low"), high=pl.first("high"), seeds="macro_f1"
    )
    found = strongest.join(pl.concat([cosine, f1]), on=CELL, nulls_equal=True).sort(
        "dataset", pl.col("measure") == COSINE, "measure", *CELL[1:]
    )
    rows = found.select(*CELL, "attack", "loss", "point", "upper", "ceiling", "optimal", "control", *kept)
    points = rows.to_dicts()

    def beaten(one: dict[str, Any]) -> bool:
        return any(
            not other["control"]
            and all(other[name] == one[name] for name in _GROUP)
            and other["utility"] >= one["utility"]
            and other["point"] <= one["point"]
            and (other["utility"] > one["utility"] or other["point"] < one["point"])
            for other in points
        )

    return rows.with_columns(
        best=pl.Series([not (point["control"] or _few(point) or beaten(point)) for point in points], dtype=pl.Boolean)
    )


def _few(point: Mapping[str, Any]) -> bool:
    """Whether too few seeds were trained for this point to be ranked."""
    return point["seeds"] is not None and len(point["seeds"]) < SEEDS


def levels(downstream: pl.DataFrame) -> pl.DataFrame:
    """What utility is to be compared with: dataset, measure, what (clean texts, majority), value."""
    names = {"clean": "clean texts", "majority": "majority"}
    base = downstream.filter(pl.col("setting").is_in(list(names)), role="task")
    return (
        base.group_by("dataset", "label", "setting", maintain_order=True)
        .agg(value=pl.mean("macro_f1"))
        .select(
            "dataset",
            measure="macro F1 of " + pl.col("label"),
            what=pl.col("setting").replace_strict(names, return_dtype=pl.String),
            value="value",
        )
    )


def tradeoff_sentence(points: pl.DataFrame, target: float, hardly: Container[str] = ()) -> str:
    """Which mechanism is worth most where the whole interval of its loss is within the target; never a control.

    By data set and measure. hardly: mechanisms that hardly take in some texts, which is said where one is named.
    """
    parts, limit = [], f"{target:g} nat{'s' * (target != 1)}"
    for (dataset, measure), table in points.filter(~pl.col("control")).group_by(_GROUP, maintain_order=True):
        within = table.filter(pl.col("upper") <= target).sort("utility", "mechanism", descending=[True, False])
        if not len(within):
            parts.append(f"on {dataset} no measured budget stays within {limit} ({measure})")
            continue
        best = within.row(0, named=True)
        if within.select(pl.col("seeds").list.len().min()).item() in range(SEEDS):
            parts.append(f"on {dataset} {measure} was trained for fewer than {SEEDS} seeds, too few to rank mechanisms")
            continue
        parts.append(
            f"on {dataset} {at_budget(best['mechanism'], best['epsilon'])}"
            f"{'' if best['optimal'] else ', which no optimal adversary attacks,'}"
            f"{', which hardly reads the texts of some data sets,' if best['mechanism'] in hardly else ''} "
            f"keeps most within {limit}: {measure} {best['utility']:.2f} ({best['low']:.2f} to {best['high']:.2f}) "
            f"at a measured loss of {nats(best['point'])} (at most {nats(best['upper'], best['ceiling'])})"
        )
    sentence = "; ".join(parts)
    return sentence[:1].upper() + sentence[1:] + "." if sentence else ""


def labels(downstream: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """By role (task, attribute), for each data set and label: its baselines, and a row a mechanism and budget.

    Scores are dicts of macro and binary: `0.71 ± 0.02` (mean and standard deviation over seeds), binary None where a
    label has more than two classes. empty: the most empty rewrites that a row's classifiers met; texts: of how many.
    """
    found: dict[str, list[dict[str, Any]]] = {"task": [], "attribute": []}
    order = downstream.sort("dataset", "label", "mechanism", "epsilon", "seed")
    for (dataset, label, role), table in order.group_by("dataset", "label", "role", maintain_order=True):
        rows = []
        for (mechanism, epsilon), made in table.drop_nulls("mechanism").group_by(
            "mechanism", "epsilon", maintain_order=True
        ):
            scores = {setting: _score(part) for (setting,), part in made.group_by("setting", maintain_order=True)}
            rows.append({"mechanism": mechanism, "epsilon": epsilon, "empty": made["empty"].max(), **scores})
        base = {setting: _score(table.filter(setting=setting)) for setting in ("majority", "clean")}
        sizes = {"train": table["train"].max(), "test": table["test"].max(), "seeds": table["seed"].n_unique()}
        found[str(role)].append({"dataset": dataset, "label": label, **base, **sizes, "rows": rows})
    return found


def attribute_sentence(downstream: pl.DataFrame) -> str:
    """Against which attacker attributes are better hidden, over all cells."""
    mean = downstream.filter(role="attribute").drop_nulls("mechanism")
    means = mean.group_by(*CELL, "label", "setting").agg(pl.mean("macro_f1"))
    both = means.pivot("setting", index=[*CELL, "label"], values="macro_f1") if len(means) else means
    if not len(both):
        return ""
    worse = int((both["adaptive"] > both["static"]).sum())
    sentence = (
        f"The adaptive attacker, trained on rewritten texts, beats the static one in {worse} of {len(both)} cases."
    )
    return sentence + (" What a classifier of clean texts no longer tells is not gone for that." if worse else "")


def _score(seeds: pl.DataFrame) -> dict[str, str | None]:
    """`0.71 ± 0.02`; without a spread where one seed ran."""
    return {kind: _spread(seeds[f"{kind}_f1"].drop_nulls()) for kind in ("macro", "binary")}


def _spread(values: pl.Series) -> str | None:
    found = values.to_numpy()
    if not len(found):
        return None
    return f"{found.mean():.2f}" + (f" ± {found.std(ddof=1):.2f}" if len(found) > 1 else "")
