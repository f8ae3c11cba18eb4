"""Stage sweeps@cell: utility and loss of a cell when one setting of its mechanism is varied and all others are fixed.

All values of a setting share candidate sets, targets and noise, so a setting without effect gives equal rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from epsilometer.auditing.schemas import SWEEPS
from epsilometer.auditing.text_audit import attacked
from epsilometer.auditing.trials.design import Design
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.trials.sampling import sample
from epsilometer.auditing.worth.intervals import mean_interval
from epsilometer.auditing.worth.similarity import measure, metric
from epsilometer.cells.params import TextsParams, read
from epsilometer.cells.tables import varied_path
from epsilometer.cells.varying import pool
from epsilometer.core import tables
from epsilometer.core.component import IDENTIFICATION, build, find
from epsilometer.core.mechanism import build_mechanism
from epsilometer.core.randomness import Noise
from epsilometer.runtime.progress import track

ATTACK = "embedding"


def main(name: str) -> None:
    """Write data/varied/sweeps/<cell>.parquet."""
    params = read()
    count = sum(len(values) for values in params.sweeps[name].vary.values())
    rows = list(track(_rows(params, name), count, f"sweeps of {name}"))
    tables.write(pl.DataFrame(rows, schema=dict(SWEEPS)), varied_path("sweeps", name), SWEEPS)


def _rows(params: TextsParams, name: str) -> Iterator[dict[str, Any]]:
    """Yield a row per setting and value."""
    cell = params.sweeps[name]
    among, vectors = pool(params, cell.dataset)
    stream = (params.audit.seed, params.audit.round, "sweep", cell.dataset)
    sampled = sample(
        vectors, cell.trials, params.trials.candidates, params.trials.temperature,
        seed="/".join(map(str, stream)), groups=among.groups,
    )  # fmt: skip
    metrics = {"cosine": metric("cosine", params.embedding.model_dump()), "bertscore": metric("bertscore", {})}
    attack = build(find(IDENTIFICATION, ATTACK, "guess"), params.attacks.get(ATTACK, {}), f"attacks.{ATTACK}")
    noise = Noise.named(cell.trials, *stream, "rewrite")
    for setting, value, epsilon, settings in params.variations(name):
        built = build_mechanism(str(params.code(cell)), settings, cell.resource, f"sweeps.{name}.vary.{setting}")
        (rewrites,) = rewrite_all(built, Job(among.texts, sampled.source, [epsilon], [noise]))
        design = Design(alpha=params.audit.alpha, seed=params.audit.seed)
        estimates = attacked(among, sampled, {epsilon: rewrites}, {ATTACK: attack}, mechanism=built, design=design)
        similarities = measure([among.texts[i] for i in sampled.source], rewrites.texts, metrics)
        row: dict[str, Any] = {"dataset": cell.dataset, "mechanism": cell.mechanism, "setting": setting, "value": value}
        row |= estimates.select("epsilon", "trials", "loss", "point", "upper", "ceiling").row(0, named=True)
        for metric_name in metrics:
            ends = mean_interval(similarities[metric_name], sampled.source, params.audit.alpha)
            row |= dict(zip((metric_name, f"{metric_name}_low", f"{metric_name}_high"), ends, strict=True))
        yield row
