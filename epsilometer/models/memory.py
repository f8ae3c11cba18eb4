"""How many rows of a network run at a time: as many as a budget of bytes holds, fewer where memory runs out.

Kernels differ by shape, so a batch's shape must not depend on what else is running. On the processor it is a constant,
and the budget only says how many batches lie in memory side by side, which changes no byte. On CUDA shapes follow from
the model's configuration, the lengths and the budget, never from how much memory is free; where the device runs out of
memory all the same, the number of rows is halved, which is said. A stage's record has both (`runtime/batches.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from functools import partial
from typing import Any, TypeVar

import torch

from epsilometer.core.errors import UserError
from epsilometer.runtime import batches
from epsilometer.runtime.progress import say

S = TypeVar("S", bound=Any)  # what has a length and can be cut
T = TypeVar("T", bound=Sized)
W = TypeVar("W")

BUDGET = {"cpu": 4 << 30, "cuda": 24 << 30}  # bytes of the rows of one network; its weights come on top


class Memory:
    """The rows of one model's batches. model: what messages call it; budget: bytes, by default that of the device."""

    def __init__(self, device: str, model: str, budget: int | None = None) -> None:
        self._budget, self._model, self._device = budget or BUDGET[device], model, device
        self._halvings, self._last = 0, 1

    def rows(self, each: int, most: int, batch: int | None = None) -> int:
        """The largest power of two up to `most` (one itself) of rows of `each` bytes that fit; at least 1.

        batch: how many a batch has where memory holds them, `most` by default; on the processor no fewer.
        """
        least = (batch or most) if self._device == "cpu" else 1
        fitting = max(least, min(most, self._budget // each) >> self._halvings)
        self._last = max(least, 1 << fitting.bit_length() - 1)
        if self._device == "cuda":
            batches.noted(self._model, self._budget, self._halvings, each=each, rows=self._last)
        return self._last

    def halve(self) -> None:
        """Use half as many rows from here on. Raises UserError where they were one."""
        if self._last == 1:
            raise UserError(
                f"the {self._device} device ran out of memory with one row of {self._model}; use a smaller model, "
                "precision: bfloat16, shorter texts, fewer workers on this device, or device: cpu"
            )
        self._halvings += 1
        batches.noted(self._model, self._budget, self._halvings)
        torch.cuda.empty_cache()
        say(f"out of memory: {self._model} goes on with half as many rows, which can change last bits")

    def attempt(self, work: Callable[[], W]) -> W:
        """The result of work that is done again with fewer rows where memory runs out."""
        while True:
            try:
                return work()
            except torch.cuda.OutOfMemoryError:
                pass  # frames hold tensors until this clause ends
            self.halve()

    def parts(self, items: S, first: Callable[[S], T]) -> Iterator[tuple[S, T]]:
        """Yields items and their results, some at a time: `first` has done as many of those left as memory held."""
        while len(items):
            done = self.attempt(partial(first, items))
            yield items[: len(done)], done
            items = items[len(done) :]

    def work_off(self, items: Sequence[int], run: Callable[[Sequence[int]], Iterator[Sequence[int]]]) -> None:
        """Have all items done by `run`, which yields what is done; it is given the others again, in fewer rows."""
        rest = list(items)

        def some() -> None:
            for members in run(list(rest)):
                done = set(members)
                rest[:] = [item for item in rest if item not in done]

        self.attempt(some)


def cached(config: Any) -> int:
    """How many numbers a token's keys and values are, in all layers of a decoder, by its configuration."""
    config = getattr(config, "decoder", config)
    heads = _first(config, "num_key_value_heads", "decoder_attention_heads", "num_attention_heads")
    size = _first(config, "head_dim", "d_kv") or config.hidden_size // _first(
        config, "decoder_attention_heads", "num_attention_heads"
    )
    return 2 * _first(config, "num_decoder_layers", "decoder_layers", "num_hidden_layers") * heads * size


def activations(config: Any, length: int) -> int:
    """About how many numbers a sequence has in an encoder's layer, attention written out."""
    inner = _first(config, "intermediate_size") or 4 * config.hidden_size
    return length * (8 * config.hidden_size + 2 * inner + 2 * length * config.num_attention_heads)


def _first(config: Any, *names: str) -> int:
    """The first of some settings that the configuration has; 0 for none."""
    values = (getattr(config, name, None) for name in names)
    return next((int(value) for value in values if value), 0)
