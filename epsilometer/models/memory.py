"""Number of rows per batch of a network: as many as fit into a budget of bytes, or fewer after memory ran out.

Kernels depend on the shape, so a batch's shape must not depend on what else runs on the machine. On the CPU the shape
is constant. The budget only sets the number of batches in memory at a time, which does not change results. On CUDA the
shape follows from the model's configuration, the lengths and the budget, not from the free memory. If the device runs
out of memory, the number of rows is halved, and a message says so. `runtime/batches.py` records budget and halvings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from functools import partial
from typing import Any, TypeVar

import torch

from epsilometer.core.errors import UserError
from epsilometer.runtime import batches
from epsilometer.runtime.progress import say

S = TypeVar("S", bound=Any)  # a type with a length and slices
T = TypeVar("T", bound=Sized)
W = TypeVar("W")

BUDGET = {"cpu": 4 << 30, "cuda": 24 << 30}  # bytes for the rows of one network, in addition to its weights


class Memory:
    """Chooses the rows per batch of one model. model: the name for messages. budget: bytes; None: `BUDGET`."""

    def __init__(self, device: str, model: str, budget: int | None = None) -> None:
        self._budget, self._model, self._device = budget or BUDGET[device], model, device
        self._halvings, self._last = 0, 1

    def rows(self, each: int, most: int, batch: int | None = None) -> int:
        """Return the number of rows: the largest power of two up to `most` that fits into the budget.

        each:  bytes per row.
        most:  largest result, a power of two.
        batch: smallest result on the CPU, even if it exceeds the budget; None: `most`. Ignored on other devices, where
               the smallest result is 1.
        """
        least = (batch or most) if self._device == "cpu" else 1
        fitting = max(least, min(most, self._budget // each) >> self._halvings)
        self._last = max(least, 1 << fitting.bit_length() - 1)
        if self._device == "cuda":
            batches.noted(self._model, self._budget, self._halvings, each=each, rows=self._last)
        return self._last

    def halve(self) -> None:
        """Halve the number of rows of later batches. Raises UserError if the last batch had one row."""
        if self._last == 1:
            raise UserError(
                f"the {self._device} device ran out of memory with a batch of one row of {self._model}; use a smaller "
                "model, precision: bfloat16, shorter texts, fewer workers on this device, or device: cpu",
                "EPS-N060",
            )
        self._halvings += 1
        batches.noted(self._model, self._budget, self._halvings)
        torch.cuda.empty_cache()
        say(
            f"out of memory: {self._model} continues with batches of half as many rows, which can change last bits of "
            "results"
        )

    def attempt(self, work: Callable[[], W]) -> W:
        """Return the result of `work`. If memory runs out, `work` is repeated with fewer rows."""
        while True:
            try:
                return work()
            except torch.cuda.OutOfMemoryError:
                pass  # halve the rows only after this clause, since the error holds tensors in memory
            self.halve()

    def parts(self, items: S, first: Callable[[S], T]) -> Iterator[tuple[S, T]]:
        """Yield parts of the items with their results. `first` gets the remaining items and processes some of them."""
        while len(items):
            done = self.attempt(partial(first, items))
            yield items[: len(done)], done
            items = items[len(done) :]

    def work_off(self, items: Sequence[int], run: Callable[[Sequence[int]], Iterator[Sequence[int]]]) -> None:
        """Process all items by `run`, which yields finished items. If memory runs out, `run` gets the rest."""
        rest = list(items)

        def some() -> None:
            for members in run(list(rest)):
                done = set(members)
                rest[:] = [item for item in rest if item not in done]

        self.attempt(some)


def cached(config: Any) -> int:
    """Return the number of cached values (keys and values) per token in all layers of a decoder."""
    config = getattr(config, "decoder", config)
    heads = _first(config, "num_key_value_heads", "decoder_attention_heads", "num_attention_heads")
    size = _first(config, "head_dim", "d_kv") or config.hidden_size // _first(
        config, "decoder_attention_heads", "num_attention_heads"
    )
    return 2 * _first(config, "num_decoder_layers", "decoder_layers", "num_hidden_layers") * heads * size


def activations(config: Any, length: int) -> int:
    """Return an estimate of the number of values in one encoder layer for a sequence, including attention weights."""
    inner = _first(config, "intermediate_size") or 4 * config.hidden_size
    return length * (8 * config.hidden_size + 2 * inner + 2 * length * config.num_attention_heads)


def _first(config: Any, *names: str) -> int:
    """Return the first of these settings that the configuration has; 0 if it has none of them."""
    values = (getattr(config, name, None) for name in names)
    return next((int(value) for value in values if value), 0)
