"""Stage rewrite@cell: every trial's source text rewritten at every epsilon, and the claimed loss of each trial.

The stage also writes facts about the mechanism, so that later stages need not build the mechanism.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import polars as pl

from epsilometer.auditing.claims.law_fit import law_fit
from epsilometer.auditing.claims.stated import stated, write
from epsilometer.auditing.claims.verdicts import trial_claims
from epsilometer.auditing.schemas import REWRITES, TOKENS
from epsilometer.auditing.trials.rewriting import Job, rewrite_blocks
from epsilometer.auditing.trials.unread import unread
from epsilometer.cells.params import read as read_params
from epsilometer.cells.reading import mechanism, read_once, trials, well_read
from epsilometer.cells.reading import rewrites as read_rewrites
from epsilometer.cells.tables import latents_path, rewrites_path, stated_path, tokens_path
from epsilometer.core import tables
from epsilometer.core.mechanism import HasLatents, HasTokens, wants_all
from epsilometer.core.randomness import Noise
from epsilometer.project.paths import audited_texts
from epsilometer.runtime.scaling import HERE

LATENT_BLOCK = 1 << 10  # trials per block


def main(name: str) -> None:
    """Write data/rewrites/<cell>/<epsilon>.parquet, and <epsilon>.npy and before.npy if there are latents.

    If there are outcomes, the tables also have the columns of `core.outcomes`. Three more files contain the mechanism's
    statements (stated.json, `auditing.claims.stated`), the mechanism's tokens of the first text
    (data/tokens/<cell>.parquet), and the output of its network for the trials' texts (data/readings/<cell>.npy).
    """
    params = read_params()
    cell = params.cells[name]
    cell_trials, texts = trials(cell.dataset), audited_texts(params, cell.dataset)
    count = len(cell_trials.target)
    of = params.audit.seed, params.audit.round, "rewrite", cell.dataset, cell.mechanism
    streams = [Noise.named(count, *of, epsilon) for epsilon in cell.budgets]
    job = Job(texts, cell_trials.source, cell.budgets, streams)
    built = mechanism(params, name)
    read_once(params, name, built)
    claims = [trial_claims(built, epsilon, texts, cell_trials.candidates) for epsilon in cell.budgets]
    engine = HERE if wants_all(built) else params.runtime.engine
    build = (lambda: built) if engine.here else partial(well_read, params, name)
    count = len(cell_trials.target)
    size = count if wants_all(built) else params.runtime.block
    if isinstance(built, HasLatents):  # a latent is thousands of numbers
        size = min(size, LATENT_BLOCK)
    with ExitStack() as files:
        writers = [
            files.enter_context(tables.Writer(rewrites_path(name, epsilon), REWRITES)) for epsilon in cell.budgets
        ]
        before = files.enter_context(tables.ArrayWriter(latents_path(name, None), count))
        afters = [
            files.enter_context(tables.ArrayWriter(latents_path(name, epsilon), count)) for epsilon in cell.budgets
        ]
        for block in rewrite_blocks(build, job, size, engine):
            for rewrites, claim, writer, after in zip(block.rewrites, claims, writers, afters, strict=True):
                if rewrites.latents:
                    before.write(block.rows, rewrites.latents.before)
                    after.write(block.rows, rewrites.latents.after)
                units = rewrites.units.to_series() if rewrites.units else pl.Series([None] * len(rewrites.texts))
                table = pl.DataFrame(
                    {
                        "trial": block.rows,
                        "text": rewrites.texts,
                        "units": units.cast(pl.List(pl.Int32)),
                        "claim": claim[block.rows],
                    }
                )
                writer.write(table if rewrites.outcomes is None else table.hstack(rewrites.outcomes.table()))
    job.tally.say()
    outputs = [read_rewrites(name, epsilon)[0] for epsilon in cell.budgets]
    fits = law_fit(built, texts, cell_trials.source, outputs, epsilons=cell.budgets)
    left = unread(built, texts)
    statements = {epsilon: stated(built, epsilon, left, p) for epsilon, p in zip(cell.budgets, fits, strict=True)}
    write(statements, stated_path(name))
    first = {"dataset": cell.dataset, "mechanism": cell.mechanism, "text": texts[0]}
    cut = [first | {"tokens": built.tokens(texts[0])}] if isinstance(built, HasTokens) else []
    tables.write(pl.DataFrame(cut, schema=dict(TOKENS)), tokens_path(name), TOKENS)
