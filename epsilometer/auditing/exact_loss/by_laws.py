"""The losses of pairs of texts under a mechanism with `laws`: the law of a text is a product of unit laws.

The computation is deterministic. Laws are computed for one block of pairs at a time. One pass serves all budgets, and
each distinct law is computed once per block. Blocks run in this process or in several workers (`runtime/scaling.py`); a
pair's figures do not depend on its block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from epsilometer.accounting.convolution.grid import loss_range, unit_losses
from epsilometer.auditing.claims.verdicts import rounding
from epsilometer.auditing.exact_loss.bracket import Bracket, guess_losses
from epsilometer.auditing.exact_loss.losses import LEVELS, PairLosses, Request, joined
from epsilometer.auditing.exact_loss.products import Product
from epsilometer.auditing.exact_loss.unit_laws import Room, log_laws
from epsilometer.core.laws import Laws
from epsilometer.core.mechanism import HasLaws, Mechanism
from epsilometer.runtime.scaling import run

Array = NDArray[np.float64]
_CELLS = 1 << 25  # law entries in memory at a time, over all budgets (512 MB with their exponentials)
_POINTS = 512  # fewest grid points between a loss of 0 and a unit's largest loss
_STEP = 1000.0  # largest distance of grid points, in nats
_HUGE = 1000.0  # nats; the allowed width grows with losses above this
_SHARE = 4  # fewest blocks per worker; with several blocks, few workers are idle at the end
_FINER = 4  # largest number of grids to try, each four times as fine as the previous one
_ENTRIES = 1 << 26  # largest number of grid points of a pair's units, about 4 GB with all results


def losses(request: Request) -> list[PairLosses]:
    """Return the losses of all pairs under the mechanism's laws, one `PairLosses` per budget."""
    laws, engine = cast(HasLaws, request.mechanism).laws(request.texts), request.crew.engine
    rows = max(1, _CELLS // (laws.outputs * len(request.epsilons)))
    shares = 1 if engine.here else _SHARE * engine.workers
    blocks = list(_blocks(laws, request.pairs, rows, math.ceil(len(request.pairs) / shares)))
    job = _Job(request.pairs, request.epsilons, request.claims, request.width)
    build = partial(_worker, job, request.crew.build, request.texts)
    compare = (lambda: partial(job.compare, laws, Room())) if engine.here else build
    by_block = list(run(compare, blocks, engine, "exact losses"))
    order = np.argsort([i for block in blocks for i in block])
    return [joined(parts, order) for parts in zip(*by_block, strict=True)]


@dataclass(frozen=True)
class _Job:
    """The part of a `Request` that is sent to workers, which build the mechanism themselves."""

    pairs: NDArray[np.int64]
    epsilons: Sequence[float]
    claims: Sequence[Array]
    width: float

    def compare(self, laws: Laws, room: Room, block: Sequence[int]) -> list[PairLosses]:
        """Return the losses of a block of pairs, one `PairLosses` per budget."""
        tables = [PairFigures(len(block)) for _ in self.epsilons]
        units = [_units(laws, self.pairs[i]) for i in block]
        rows = np.unique(np.concatenate([unit for unit in units if unit is not None] or [np.empty(0, np.int64)]))
        by_budget = log_laws(laws, rows, self.epsilons, room) if len(rows) else [np.empty((0, 0))] * len(tables)
        for table, law, claims in zip(tables, by_budget, self.claims, strict=True):
            masses = np.exp(law)
            for place, (unit, claim) in enumerate(zip(units, claims[block].tolist(), strict=True)):
                if unit is not None:
                    table.enter(place, product(law, np.searchsorted(rows, unit), self.width, masses), claim)
        return [table.losses() for table in tables]


def _worker(
    job: _Job, build: Callable[[], Mechanism] | None, texts: Sequence[str]
) -> Callable[[Sequence[int]], list[PairLosses]]:
    """Build a mechanism in a worker; return the function that the worker runs on each block."""
    assert build is not None, "workers need a function that makes the mechanism"
    return partial(job.compare, cast(HasLaws, build()).laws(texts), Room())


def product(laws: Array, units: NDArray[np.integer], width: float = 0.02, masses: Array | None = None) -> Product:
    """Return the laws of two texts, each as a product of unit laws.

    laws: log-laws [rows, outputs]. units: [n, 2], the row of each unit in the first and in the second text. width: the
    error of the guess loss that the grid may cause, in nats each way (more if the loss is in the thousands). The grid
    is refined until the error is small enough, or until bounds that do not depend on the grid apply. If a pair has too
    many units for memory, its grid is coarser, and its bracket is valid but wider. masses: the exponentials of the
    laws, if these are already computed.
    """
    pairs = [(laws[a], laws[b], None if masses is None else (masses[a], masses[b])) for a, b in units]
    largest = max((loss_range(a, b) for a, b, _ in pairs), default=0.0)
    # n units on a grid of step h cause an error of about n^2 h^2 / 8 to n^2 h^2 / 4. The largest loss is a grid point,
    # so losses of one size, as in randomised response, are not rounded.
    least = max(_POINTS, math.ceil(largest / _STEP))
    points = max(least, math.ceil(largest * len(pairs) / math.sqrt(4 * width)))
    most = max(least, _ENTRIES // (2 * len(pairs))) if len(pairs) * laws.shape[1] > _ENTRIES else math.inf
    if points > most:
        losses = Product([unit_losses(a, b, largest / least or 1.0, both) for a, b, both in pairs])
        if losses.certain:
            return losses
        points = int(most)
    for _ in range(_FINER):
        losses = Product([unit_losses(a, b, largest / points or 1.0, both) for a, b, both in pairs])
        if 4 * points > most:
            break
        error = guess_losses(Bracket(*map(np.array, (losses.log_error().low, losses.log_error().high))))
        if losses.certain or error.high - error.low <= 2 * width * max(1.0, float(error.low) / _HUGE):
            break
        points *= 4
    return losses


def _units(laws: Laws, pair: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the law rows [n, 2] of the units in which two texts differ; None if one text has more units."""
    first, second = laws.rows.row(int(pair[0])), laws.rows.row(int(pair[1]))
    if len(first) != len(second):
        return None
    return np.stack([first, second], axis=1)[first != second]


def _blocks(laws: Laws, pairs: NDArray[np.int64], most_rows: int, most_pairs: int) -> Iterator[list[int]]:
    """Yield blocks of indices of pairs; pairs that share a text are in one block if possible.

    A block has at most `most_pairs` pairs. A block of more than one pair has at most `most_rows` distinct law rows.
    """
    block: list[int] = []
    rows: set[int] = set()
    often = np.bincount(pairs.ravel())
    shared = np.where(often[pairs[:, 0]] >= often[pairs[:, 1]], pairs[:, 0], pairs[:, 1])
    for i in np.argsort(shared, kind="stable").tolist():
        own = set(np.ravel([] if (units := _units(laws, pairs[i])) is None else units).tolist())
        if block and (len(rows | own) > most_rows or len(block) == most_pairs):
            yield block
            block, rows = [], set()
        block.append(i)
        rows |= own
    if block:
        yield block


class PairFigures:
    """The losses of n pairs, entered one by one. A pair that is never entered has an infinite loss."""

    def __init__(self, count: int) -> None:
        self._log_error = np.full((2, count), -math.inf)
        self._delta = np.ones((2, count, len(LEVELS)))
        self._larger = np.ones((count, len(LEVELS)))
        self._pure = np.full(count, math.inf)
        self._at_claim = np.ones((2, count))

    def enter(self, i: int, product: Product, claim: float) -> None:
        """Enter one pair's losses at index i. claim: the claimed loss in nats, or infinity."""
        error, both = product.log_error(), (product, product.reversed)
        self._log_error[:, i] = error.low, error.high
        deltas = [way.deltas(LEVELS) for way in both]
        self._delta[:, i] = [sum(d.low for d in deltas) / 2, sum(d.high for d in deltas) / 2]
        self._larger[i] = np.maximum(deltas[0].high, deltas[1].high)
        self._pure[i] = max(way.pure_loss for way in both)
        if self._pure[i] <= claim + rounding(claim):
            self._at_claim[:, i] = 0.0
        elif math.isfinite(claim):
            at_claim = [way.delta(claim) for way in both]
            self._at_claim[:, i] = max(d.low for d in at_claim), max(d.high for d in at_claim)

    def losses(self) -> PairLosses:
        """Return the losses of all pairs."""
        return PairLosses(
            log_error=Bracket(*self._log_error),
            delta=Bracket(*self._delta),
            larger_delta=self._larger,
            pure=self._pure,
            delta_at_claim=Bracket(*self._at_claim),
        )
