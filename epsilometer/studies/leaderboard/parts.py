"""The division of a data set: a public part, texts to rewrite, texts to test classifiers on, and sets.

The public part is the data set's `public_part`. The remaining texts are ordered by a hash of each text, so the order of
rows does not matter. The first texts in this order form the other parts. The five splits share no text. Each split has
texts to rewrite and clean texts for testing. Classifiers are trained on the texts to rewrite, clean or rewritten. Sets
of ten texts are sampled from the texts to rewrite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing.ceilings.set_trials import draw_sets, draw_trials
from epsilometer.core.errors import UserError
from epsilometer.corpora.parts import PUBLIC, hashed
from epsilometer.studies.leaderboard.tables import ANY, EQUAL, SETS, SPLITS, TEXTS

SET_SIZE = 10


def divided(
    table: pl.DataFrame, task: str, attribute: str | None, counts: Mapping[str, int], *, name: str
) -> pl.DataFrame:
    """Return the texts of a data set with their parts, schema `TEXTS`. Texts without the task's label are left out.

    table: the prepared data set, with a public part.
    counts: the numbers of texts in the parts TRAIN and TEST, over all splits.
    name: the name of the data set, for the error message.
    Raises UserError if the data set has too few texts.
    """
    usable = table.filter(pl.col(task).is_not_null())
    usable = usable[np.argsort(hashed(usable), kind="stable")]
    public, rest = usable.filter(split=PUBLIC), usable.filter(pl.col("split") != PUBLIC)
    if (needed := sum(counts.values())) > len(rest):
        raise UserError(
            f"the leaderboard needs {needed:,} texts of {name} with the label {task!r} that are not public, got "
            f"{len(rest):,}; lower texts or tested under leaderboard.datasets.{name}",
            "EPS-S052",
        )
    parts: list[tuple[str, int | None]] = [(PUBLIC, None)] * len(public)
    parts += [(part, i // (count // SPLITS)) for part, count in counts.items() for i in range(count)]
    rows = pl.concat([public, rest.head(needed)])
    columns = {
        "text": rows["text"],
        "task": rows[task].cast(pl.String),
        "attribute": rows[attribute].cast(pl.String) if attribute else [None] * len(rows),
        "part": [part for part, _ in parts],
        "block": [block for _, block in parts],
    }
    return pl.DataFrame(columns, schema=dict(TEXTS))


def sets_of(texts: Sequence[str], count: int, seed: int) -> pl.DataFrame:
    """Sample sets of ten texts, schema `SETS`: per split, `count` with texts of any length and `count` of equal length.

    texts: the texts to rewrite, ordered by split. If a split lacks ten texts of equal length, the result has no sets of
    equal length.
    """
    each, rows = len(texts) // SPLITS, []
    for lengths in (ANY, EQUAL):
        of_lengths: list[dict[str, Any]] = []
        for block in range(SPLITS):
            own = texts[block * each : (block + 1) * each]
            try:
                sets = draw_sets(own, count, SET_SIZE, equal_length=lengths == EQUAL, seed=f"{seed} {block}")
            except UserError:
                if lengths == ANY:
                    raise
                of_lengths = []
                break
            pairs = draw_trials(sets, seed=f"{seed} {block} {lengths}").candidates.astype(np.int64)
            of_lengths += [
                {"lengths": lengths, "block": block, "texts": (numbers + block * each).tolist(), "pair": pair}
                for numbers, pair in zip(sets, (pairs + block * each).tolist(), strict=True)
            ]
        rows += of_lengths
    return pl.DataFrame(rows, schema=dict(SETS))
