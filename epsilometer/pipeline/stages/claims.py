"""Stage claims: a check of every claim in its worst case over a vocabulary, and plausible deniability of words."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from epsilometer.auditing.claims.largest_loss import largest_losses
from epsilometer.auditing.claims.verdicts import describe
from epsilometer.auditing.claims.worst_case import EXACT, Extent, check_claim, is_sampled
from epsilometer.auditing.deniability import deniability
from epsilometer.auditing.schemas import CLAIMS, DENIABILITY
from epsilometer.cells import claimed
from epsilometer.cells.params import read
from epsilometer.core import tables
from epsilometer.core.mechanism import HasInputs
from epsilometer.core.randomness import Noise
from epsilometer.project.sections import Cell
from epsilometer.runtime.progress import track

WORDS, DRAWS = 100, 100  # words, and draws per word, for plausible deniability (1-Diffractor, figure 4)


def main() -> None:
    """Write data/claims.parquet and, for mechanisms on words, data/deniability.parquet, with a row per epsilon."""
    params = read()
    cells: dict[str, Cell] = {}  # one per mechanism, because claims do not depend on the data set
    for cell in params.cells.values():
        cells.setdefault(cell.mechanism, cell)
    with (
        tables.Writer("data/claims.parquet", CLAIMS) as claims,
        tables.Writer("data/deniability.parquet", DENIABILITY) as hidden,
        tempfile.TemporaryDirectory() as folder,
    ):
        few = {
            name: claimed.few_words(cell.resource, params.claims.vocabulary, Path(folder) / f"{name}.npz")
            for name, cell in cells.items()
        }
        smaller = {name: claimed.built(params, cell, few[name]) for name, cell in cells.items()}
        budgets = {name: claimed.budgets(params, name, smaller[name]) for name in cells}
        sampled = sum(is_sampled(smaller[name], epsilon) for name in cells for epsilon in budgets[name])
        # The error of each sampled check. All checks together then err with probability at most `audit.alpha`.
        alpha = params.audit.alpha / max(1, sampled)
        for name, cell in track(cells.items(), len(cells), "check claims"):
            whole = claimed.built(params, cell, cell.resource)
            # True if the mechanism's inputs are the texts of a data set, and not the words of a vocabulary.
            texts = (cell.resource or "").startswith("data/prepared/")
            extent = Extent(params.claims.vocabulary if texts else EXACT)
            findings = [check_claim(smaller[name], e, alpha, params.audit.seed, extent=extent) for e in budgets[name]]
            private = claimed.is_private(params, cell)
            rows = [
                {"mechanism": name, "audited": audited, "claim": describe(whole.guarantee(epsilon))}
                | claimed.row(finding, largest, private)
                for (epsilon, audited), finding, largest in zip(
                    budgets[name].items(), findings, largest_losses(whole, findings), strict=True
                )
            ]
            claims.write(pl.DataFrame(rows, schema=dict(CLAIMS)))
            if cell.epsilons is not None and few[name] != cell.resource and isinstance(whole, HasInputs):
                order = Noise.named(len(whole.inputs), "deniability", params.audit.seed).uniforms()[:, 0]
                words = [whole.inputs[i] for i in np.sort(np.argsort(order)[:WORDS])]
                table = deniability(whole, words, cell.epsilons, DRAWS, seed=params.audit.seed)
                hidden.write(table.with_columns(pl.lit(name).alias("mechanism")).select(list(DENIABILITY)))
