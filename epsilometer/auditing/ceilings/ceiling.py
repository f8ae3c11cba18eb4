"""Ceilings on the mean cosine between texts and rewrites, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.ceilings.frontier import (
    Frontier,
    TextSet,
    frontiers,
    mean,
    success_of,
    under_pure_epsilon,
)
from epsilometer.auditing.ceilings.set_trials import draw_sets, grown_sets
from epsilometer.core.errors import UserError
from epsilometer.core.values import check_list, check_number
from epsilometer.models.locate import ENCODER

LOSSES = (0.0, 0.5, 1.0, 2.0, 4.0)
SCHEMA = {
    "nats": pl.Float64,
    "guess_loss": pl.Float64,
    "pure_epsilon": pl.Float64,
    "one_text": pl.Float64,
    "texts": pl.Float64,
}


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
    """Return the largest worth (mean cosine between text and rewrite) of any mechanism, a row per loss.

    `sets` sets of `size` texts are drawn. Each set has a mechanism of its own, and all pairs of the set are audited.
    The default encoder computes the embeddings. Columns: nats (a loss); guess_loss (the ceiling if the best adversary's
    average loss between two texts is `nats`); pure_epsilon (the ceiling if the pure loss between any two texts of a set
    is at most `nats`); one_text (the worth of releasing the best text of `public` for every input; null without public
    texts); texts (the mean number of texts that one mechanism serves).

    equal_length: True if the texts of a set must have equally many words. Raises UserError for losses below 0, and if
    there are too few texts (of equal length) for a set.
    """
    _check(losses)
    distinct = list(dict.fromkeys(texts))
    chosen = draw_sets(distinct, sets, size, equal_length=equal_length, seed=seed)
    return _rows(distinct, [numbers[np.stack(np.triu_indices(size, 1), axis=1)] for numbers in chosen], losses, public)


def ceiling_of_pairs(
    texts: Sequence[str],
    pairs: Sequence[tuple[int, int]] | NDArray[np.integer],
    losses: Sequence[float] = LOSSES,
    *,
    size: int = 10,
    public: Sequence[str] = (),
) -> pl.DataFrame:
    """Return the ceiling over pairs that an audit has compared, with the columns of `ceiling`.

    pairs: [n, 2], indices in `texts`. Pairs that share texts are joined into sets of at most `size` texts. The ceiling
    is tight if many pairs have texts in common. If the column `texts` is near 2, nearly every pair has its own
    mechanism, so the ceiling is far too high. Raises UserError for losses below 0 and for invalid pairs.
    """
    _check(losses)
    distinct = list(dict.fromkeys(texts))
    audited = _numbered(texts, distinct, pairs)
    return _rows(distinct, [audited[places] for places in grown_sets(audited, size)], losses, public)


def _check(losses: Sequence[float]) -> None:
    check_list(losses, "losses")
    for loss in losses:
        check_number(loss, "each of the losses")
    if wrong := [loss for loss in losses if not loss >= 0]:
        raise UserError(f"losses must be numbers >= 0, got {wrong[0]}", "EPS-A041")


def _rows(
    texts: Sequence[str], audited: Sequence[NDArray[np.int64]], losses: Sequence[float], public: Sequence[str]
) -> pl.DataFrame:
    """Return a row for each loss. audited: the pairs of each set, as indices of texts."""
    from epsilometer.models.encoder import Encoder

    model = Encoder(ENCODER)
    vectors = model.encode(texts).astype(np.float64)
    served, weights = [_served(vectors, each) for each in audited], np.array([len(each) for each in audited])
    whole = mean(frontiers(served), weights)
    shares = weights / weights.sum()
    one_text = None
    if public:
        centre = sum(share * (items.sources @ items.vectors) for share, items in zip(shares, served, strict=True))
        one_text = float((model.encode(list(public)).astype(np.float64) @ centre).max())
    together = float(shares @ [len(items.vectors) for items in served])
    pure = [float(shares @ under_pure_epsilon(served, loss)) for loss in losses]
    by_guess = whole.ceiling(success_of(np.array(losses, np.float64))).tolist()
    rows = [(float(loss), a, b, one_text, together) for loss, a, b in zip(losses, by_guess, pure, strict=True)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _numbered(texts: Sequence[str], distinct: Sequence[str], pairs: Any) -> NDArray[np.int64]:
    """Return the pairs as indices of distinct texts. Raises UserError unless each pair has two different texts."""
    numbers = np.asarray(pairs)
    if numbers.ndim != 2 or numbers.shape[1] != 2 or not len(numbers) or numbers.dtype.kind not in "iu":
        raise UserError(
            f"pairs must be an array [n, 2] of text numbers with at least one row, got the shape {numbers.shape}",
            "EPS-A042",
        )
    if numbers.min() < 0 or numbers.max() >= len(texts):
        raise UserError(
            f"pairs must contain numbers of the {len(texts)} texts, 0 to {len(texts) - 1}; correct them", "EPS-A043"
        )
    place = {text: number for number, text in enumerate(distinct)}
    numbered = np.array([place[text] for text in texts], np.int64)[numbers]
    if equal := int((numbered[:, 0] == numbered[:, 1]).sum()):
        raise UserError(f"{equal} of {len(numbers)} pairs consist of the same text twice; leave them out", "EPS-A044")
    return numbered


def _served(vectors: NDArray[np.float64], pairs: NDArray[np.int64]) -> TextSet:
    """Return the set of these pairs' texts; all pairs count as audited equally often."""
    texts, places = np.unique(pairs, return_inverse=True)
    return TextSet(vectors[texts], places.reshape(-1, 2), np.full(len(pairs), 1 / len(pairs)))


def share_of_possible(worth: float, loss: float, ceilings: Frontier, one_text: float) -> float:
    """Return (U - c) / (F(l) - c): 0 for one public text given to everybody, 1 at the ceiling, negative if U < c.

    worth (U) and loss (l) come from the same trials. ceilings: F. one_text: c, the worth of the best public text.
    Returns NaN if the ceiling F(l) is not higher than c.
    """
    room = float(ceilings.ceiling(success_of(loss))) - one_text
    return (worth - one_text) / room if room > 0 else float("nan")
