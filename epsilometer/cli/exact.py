"""`epsilometer exact`: the loss that a mechanism's law proves between texts, without trials."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from epsilometer.cli.options import (
    A_MECHANISM,
    TEXTS,
    Epsilons,
    Json,
    Public,
    Seed,
    Settings,
    Temperature,
    TextOptions,
    Vectors,
    numbers,
    settings_of,
)
from epsilometer.cli.output import show
from epsilometer.runtime.withholding import withheld

_SHOWN = (
    "epsilon", "pairs", "compared", "average", "error", "all_low", "all_high", "median", "q95", "worst",
    "relative_epsilon", "delta_at_claim", "delta_at_4", "method", "seconds",
)  # fmt: skip


def exact(
    file: Annotated[Path, typer.Argument(help=TEXTS)],
    mechanism: Annotated[str, typer.Option(help=A_MECHANISM)],
    epsilons: Epsilons = None,
    vectors: Vectors = None,
    trials: Annotated[
        int,
        typer.Option(help="If the texts form more pairs than this, only the pairs of this many trials are compared."),
    ] = 2000,
    temperature: Temperature = -10_000,
    seed: Seed = 0,
    *,
    reading: TextOptions,
    settings: Settings = [],  # noqa: B006
    public: Public = None,
    as_json: Json = False,
) -> None:
    """Compute a mechanism's privacy loss from its law.

    No text is rewritten, so no ceiling limits the result. Prints two rows for each epsilon: for all pairs of texts, and
    for pairs of equal length. A row has the guess loss of the pairs in nats (average, median, worst), the largest loss
    of any output between any two texts (relative_epsilon), and delta at the claimed loss. If the texts form more pairs
    than --trials, the column `method` says which were compared, and all_low to all_high is a 99 % interval of the
    average over all pairs. --json prints every column.
    """
    budgets = numbers(epsilons, "--epsilons must be numbers separated by commas")
    from epsilometer.auditing.exact_loss.from_texts import exact_loss
    from epsilometer.auditing.text_audit import on_vectors
    from epsilometer.auditing.trials.design import Design

    assert temperature is not None, "it has a default"
    chosen, design = settings_of(mechanism, settings, public), Design(temperature=temperature, seed=seed)
    texts = reading.distinct(file)
    with tempfile.TemporaryDirectory() as folder:
        if vectors is not None:
            chosen = on_vectors(mechanism, chosen, vectors, Path(folder))
        with withheld():
            table = exact_loss(texts, mechanism, budgets, chosen, trials=trials, design=design)
    show(table.to_dicts() if as_json else table.select(_SHOWN).to_dicts(), as_json)
