"""The ceilings of some texts, in one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from epsilometer.auditing.ceilings.frontier import (
    Frontier,
    TextSet,
    frontier,
    mean,
    success_of,
    under_pure_epsilon,
)
from epsilometer.auditing.ceilings.set_trials import draw_sets
from epsilometer.core.errors import UserError
from epsilometer.models.locate import ENCODER

LOSSES = (0.0, 0.5, 1.0, 2.0, 4.0)
SCHEMA = {"nats": pl.Float64, "guess_loss": pl.Float64, "pure_epsilon": pl.Float64, "one_text": pl.Float64}


def ceiling(
    texts: Sequence[str],
    losses: Sequence[float] = LOSSES,
    *,
    sets: int = 100,
    size: int = 10,
    equal_length: bool = False,
    public: Sequence[str] = (),
    seed: int = 0,
) -> pl.DataFrame:
    """The largest mean cosine between original and rewrite that any mechanism can have: a row for each loss.

    Sets of `size` texts are drawn, each of them served by one mechanism, all of their pairs audited. Columns: nats;
    guess_loss, the ceiling where the best adversary's average loss among two is that many nats; pure_epsilon, the one
    under that pure epsilon between any two texts of a set; one_text, what the best one of the `public` texts keeps if
    everybody gets it, null without any.

    Embeddings are those of the default encoder.
    equal_length: a set's texts have equally many words. Raises UserError for losses below 0, and for fewer texts (of
    equal length) than a set has.
    """
    from epsilometer.models.encoder import Encoder

    if wrong := [loss for loss in losses if not loss >= 0]:
        raise UserError(f"losses must be numbers >= 0, got {wrong[0]}")
    distinct = list(dict.fromkeys(texts))
    numbers_of = draw_sets(distinct, sets, size, equal_length=equal_length, seed=seed)
    model = Encoder(ENCODER)
    vectors = model.encode(distinct).astype(np.float64)
    served = [TextSet.of_all_pairs(vectors[numbers]) for numbers in numbers_of]
    whole = mean([frontier(items) for items in served])
    pure = [float(np.mean([under_pure_epsilon(items, loss) for items in served])) for loss in losses]
    one_text = None
    if public:
        one_text = float(
            (model.encode(list(public)).astype(np.float64) @ vectors[np.concatenate(numbers_of)].T).mean(1).max()
        )
    by_guess = whole.ceiling(success_of(np.array(losses, np.float64))).tolist()
    rows = [(float(loss), a, b, one_text) for loss, a, b in zip(losses, by_guess, pure, strict=True)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def share_of_possible(worth: float, loss: float, ceilings: Frontier, one_text: float) -> float:
    """(U - c) / (F(l) - c): 0 for one public text given to everybody, 1 at the ceiling, below 0 for less than that.

    worth and loss are those of the same trials; one_text: c, the worth of the best public text. NaN where the ceiling
    is no higher than c.
    """
    room = float(ceilings.ceiling(success_of(loss))) - one_text
    return (worth - one_text) / room if room > 0 else float("nan")
