"""Checks of an audit: a known loss, statistics of outputs, other estimators, and trials on which attacks disagree."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.claims.stated import read
from epsilometer.auditing.estimation.successes import Rates, estimate
from epsilometer.auditing.results.diagnostics import composed, describe, disagreements
from epsilometer.auditing.schemas import DISAGREEMENTS, ESTIMATORS, GUESSES, OUTPUTS
from epsilometer.auditing.text_audit import audit
from epsilometer.auditing.trials.design import Design
from epsilometer.cells.params import TextsParams
from epsilometer.cells.reading import rewrites, trials
from epsilometer.cells.tables import stated_path
from epsilometer.core import tables
from epsilometer.core.guarantees import stored
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse
from epsilometer.project.paths import audited_texts

SCHEMAS = {"outputs": OUTPUTS, "estimators": ESTIMATORS, "disagreements": DISAGREEMENTS}


def known_losses(epsilons: Sequence[float], trials: int, alpha: float, seed: int) -> pl.DataFrame:
    """Return the audit's table for two-text randomised response at these epsilons, by the likelihood attack.

    Randomised response on a list of two texts keeps the text with probability e^epsilon / (e^epsilon + 1), and the
    optimal adversary guesses the text that it sees, so the loss is exactly epsilon (Warner 1965). The whole audit, from
    trials to estimate, must give a loss at or slightly below epsilon.
    """
    texts = ["the meeting is on", "the meeting is off"]
    with tempfile.TemporaryDirectory() as folder:
        public = Path(folder) / "texts.parquet"
        pl.DataFrame({"text": texts}).write_parquet(public)
        mechanism = RandomizedResponse(resource=public)
        design = Design(temperature=0, alpha=alpha, seed=seed)
        return audit(texts, mechanism, epsilons, ["likelihood"], trials=trials, design=design)


def diagnosed(params: TextsParams) -> dict[str, pl.DataFrame]:
    """Return the tables in `SCHEMAS`, with the rows of all cells."""
    collected: dict[str, list[dict[str, Any]]] = {table: [] for table in SCHEMAS}
    for name in params.cells:
        for table, row in _cell(params, name):
            collected[table].append(row)
    return {table: pl.DataFrame(rows, schema=dict(SCHEMAS[table])) for table, rows in collected.items()}


def _cell(params: TextsParams, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a cell, each with the table it belongs to."""
    cell = params.cells[name]
    texts, cell_trials, statements = audited_texts(params, cell.dataset), trials(cell.dataset), read(stated_path(name))
    guesses = tables.read(f"data/guesses/{name}.parquet", GUESSES)
    originals = [texts[i] for i in cell_trials.source]
    for epsilon in cell.budgets:
        cell_columns = {"dataset": cell.dataset, "mechanism": cell.mechanism, "epsilon": epsilon}
        (outputs, claims), stated = rewrites(name, epsilon), statements[stored(epsilon)]
        units = None if outputs.units is None else outputs.units.lengths
        about = describe(originals, outputs.texts, units, outputs.latents)
        claim = {"claim": stated.claim, "composed": composed(stated, about.units, claims.to_numpy())}
        taken = {"unknown_words": stated.unknown_words, "cut_texts": stated.cut_texts}
        yield "outputs", cell_columns | claim | asdict(about) | taken
        here = tables.at_epsilon(guesses, epsilon).group_by("attack", maintain_order=True)
        guessed = {str(attack): part.sort("trial")["guess"].to_numpy() for (attack,), part in here}
        for attack, guess in guessed.items():
            for count in _counts(len(guess)):
                losses = _both(guess[:count], cell_trials.target[:count], params)
                yield "estimators", cell_columns | {"attack": attack, "trials": count} | losses
        for right, wrong, count, first in disagreements({a: g == cell_trials.target for a, g in guessed.items()}):
            yield "disagreements", cell_columns | {"right": right, "wrong": wrong, "trials": count, "trial": first}


def _counts(trials: int) -> list[int]:
    """Return the numbers of trials that losses are estimated from: 100, 1,000, ... and all trials."""
    return [*(10**power for power in range(2, 10) if 10**power < trials), trials]


def _both(guess: NDArray[np.integer], target: NDArray[np.integer], params: TextsParams) -> dict[str, float]:
    """Return two estimates of the loss: by the rate of right guesses, and by true and false positives.

    Guessing the first candidate counts as positive.
    """
    alpha = params.audit.alpha
    reduced = estimate(int((guess == target).sum()), len(guess), params.trials.candidates, alpha)
    return {"loss": reduced.loss, "by_rates": Rates.of_first_slot(guess, target).loss(alpha)}
