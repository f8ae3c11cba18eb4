"""Stage ablations@cell: a cell's loss when one factor of its audit varies: k candidates, temperature, seed or match.

For a mechanism that writes token by token, the stage also writes the distribution of the first token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import polars as pl

from epsilometer.auditing.schemas import ABLATIONS, FIRST_TOKENS
from epsilometer.auditing.text_audit import attacked
from epsilometer.auditing.trials.design import Design
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.trials.sampling import sample
from epsilometer.cells.adversaries import attacks
from epsilometer.cells.params import Ablation, TextsParams
from epsilometer.cells.params import read as read_params
from epsilometer.cells.reading import mechanism
from epsilometer.cells.tables import varied_path
from epsilometer.cells.varying import pool
from epsilometer.core import tables
from epsilometer.core.mechanism import HasFirstTokens, Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.project.paths import audited_texts
from epsilometer.project.sections import Match
from epsilometer.runtime.scaling import run

SHOWN = 5  # number of most likely tokens

Variation = tuple[str, float, int, float, int, Match]  # factor, value, k, temperature, the variation's seed, match


def main(name: str) -> None:
    """Write data/varied/ablations/<cell>.parquet and first_tokens/<cell>.parquet."""
    params = read_params()
    varied = list(_variations(params, params.ablations[name]))
    with tables.Writer(varied_path("ablations", name), ABLATIONS) as writer:
        for rows in run(partial(_vary, name), varied, params.runtime.engine, f"ablations of {name}"):
            writer.write(rows)
    tokens = pl.DataFrame(list(_first_tokens(params, name)), schema=dict(FIRST_TOKENS))
    tables.write(tokens, varied_path("first_tokens", name), FIRST_TOKENS)


def _first_tokens(params: TextsParams, name: str) -> Iterator[dict[str, str | float]]:
    """Yield the rows of a cell at all of its epsilons; no rows if the data set is private."""
    cell, built = params.cells[name], mechanism(params, name)
    if not (isinstance(built, HasFirstTokens) and params.datasets[cell.dataset].public):
        return
    text = audited_texts(params, cell.dataset)[0]
    cell_columns = {"dataset": cell.dataset, "mechanism": cell.mechanism, "text": text}
    for epsilon, tokens in zip(cell.budgets, built.first_tokens(text, cell.budgets, SHOWN), strict=True):
        for rank, (token, probability) in enumerate(tokens):
            yield {**cell_columns, "epsilon": epsilon, "rank": rank, "token": token, "probability": probability}


def _vary(name: str) -> Callable[[Variation], pl.DataFrame]:
    """Return a function that runs one variation of a cell. Variations with equal settings are computed once."""
    params = read_params()
    audited = cache(partial(_audited, params, name, mechanism(params, name)))

    def rows(variation: Variation) -> pl.DataFrame:
        factor, value, *settings = variation
        return audited(*settings).with_columns(factor=pl.lit(factor), value=pl.lit(float(value))).select(*ABLATIONS)

    return rows


def _variations(params: TextsParams, ablation: Ablation) -> Iterator[Variation]:
    k, temperature, match = params.trials.candidates, params.trials.temperature, params.match(ablation.dataset)
    for other in ablation.candidates:
        yield "candidates k", other, other, temperature, 0, match
    for value in ablation.temperatures:
        yield "temperature", value, k, value, 0, match
    for seed in range(ablation.seeds):
        yield "seed", seed, k, temperature, seed, match
    for matched in ablation.matches:
        yield "equal length", float(matched == "words"), k, temperature, 0, matched


def _audited(
    params: TextsParams, name: str, built: Mechanism, candidates: int, temperature: float, seed: int, match: Match
) -> pl.DataFrame:
    """Return a row per attack for one variation of a cell, without the columns factor and value."""
    cell = params.ablations[name]
    epsilon, count = cell.epsilon, cell.trials
    among, vectors = pool(params, cell.dataset, match)
    stream = (params.audit.seed, params.audit.round, "ablation", cell.dataset, seed)
    sampled = sample(vectors, count, candidates, temperature, seed="/".join(map(str, stream)), groups=among.groups)
    noise = Noise.named(count, *stream, cell.mechanism, epsilon)
    (rewrites,) = rewrite_all(built, Job(among.texts, sampled.source, [epsilon], [noise]))
    design = Design(alpha=params.audit.alpha, seed=params.audit.seed + seed)
    estimates = attacked(among, sampled, {epsilon: rewrites}, attacks(params), mechanism=built, design=design)
    rows = estimates.join(estimates.by_rates, ["epsilon", "attack"], "left", maintain_order="left")
    return rows.with_columns(dataset=pl.lit(cell.dataset), mechanism=pl.lit(cell.mechanism))
