"""The sampler of token mechanisms: samples texts from a language model, and computes likelihoods of given texts.

The next token y is sampled from the logits l that the model gives for the prompt and the tokens so far. The logits are
clipped to a public range [low, high]:

    P(y) ~ exp(epsilon clip(l_y) / (2 (high - low))).

This is a softmax over the whole output vocabulary at temperature 2 (high - low) / epsilon, without top-k or top-p. It
is the exponential mechanism (McSherry and Talwar 2007, definition 2 and theorem 6) with a utility of sensitivity high -
low. So for any two prompts, the probabilities of a token differ by a factor of at most e^epsilon. An audit samples
token t of a trial by inverse CDF from number t of the trial's stream. A publication uses exact samplers
(`epsilometer.core.exact_samplers`).

The model reads each distinct prompt once for all trials and epsilons. A prefix that several continuations share is also
read once. Batches contain continuations of one length and have a fixed number of rows. Ended continuations are dropped
when the unfinished ones fit into fewer batches. The number of rows follows from a memory budget in bytes (`memory`). If
the device runs out of memory, later tokens are sampled with fewer rows. The tokens sampled so far are kept, since a
fresh start would favour texts that need little memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epsilometer.core.exact_samplers import ExactDraws
from epsilometer.core.ragged import Ragged
from epsilometer.models.generator import EQUAL_ROWS, Generator, filled, gather

ROWS = {"cpu": 16, "cuda": 256}  # continuations per batch; fewer if memory is short
FORCED_ROWS = {"cpu": 4, "cuda": 64}  # sequences of given tokens per batch; fewer if memory is short
BATCHES = 16  # batches in memory at a time; fewer if memory is short; batches are merged as rows end
_BUCKET = 4  # sequences of given tokens are padded to a multiple of this length
Tokens: TypeAlias = Sequence[int] | NDArray[np.integer]
_Reading: TypeAlias = tuple[NDArray[np.int64], tuple[Tensor, Any]]  # indices of prompts; next logits and cache


@dataclass(frozen=True)
class TokenLaw:
    """The distribution of one token.

    low, high: clip bounds. top_k: sample only among the `top_k` most likely tokens; None: among all tokens, as the
    claim assumes.
    """

    low: float
    high: float
    top_k: int | None = None

    def log_weights(self, logits: Tensor, epsilons: Tensor) -> Tensor:
        """Return unnormalised log-probabilities, float64 and at most 0, in the shape of logits [n, ..., outputs]."""
        scale = epsilons / (2 * (self.high - self.low))  # 1 / T
        scaled = (logits.double().clip(self.low, self.high) - self.high) * scale.view(-1, *[1] * (logits.dim() - 1))
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            least = scaled.topk(self.top_k).values[..., -1:]
            scaled = scaled.masked_fill(scaled < least, -torch.inf)
        return scaled

    def log_probabilities(self, logits: Tensor, epsilons: Tensor) -> Tensor:
        """Return normalised log-probabilities (natural logarithms) in the shape of the logits."""
        return self.log_weights(logits, epsilons).log_softmax(-1)

    def draw(self, logits: Tensor, epsilons: Tensor, uniforms: Tensor) -> Tensor:
        """Sample k outputs from each row of logits [n, outputs] by k uniforms [n, k]; return their indices [n, k]."""
        weights = self.log_weights(logits, epsilons)
        weights -= weights.amax(-1, keepdim=True)  # else the weights of logits far below the upper bound would all be 0
        cdf = weights.exp_().cumsum(-1)
        total = cdf[:, -1:]
        # `at` stays below the total after rounding, so that no output of probability 0 is sampled.
        at = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
        return torch.searchsorted(cdf, at, right=True)


@dataclass(frozen=True)
class Softmax(TokenLaw):
    """The model's unclipped softmax, without a claim. Its methods take temperatures as `epsilons`."""

    low: float = -float("inf")
    high: float = float("inf")

    def log_weights(self, logits: Tensor, epsilons: Tensor) -> Tensor:
        """Return the same as `TokenLaw.log_weights`. epsilons: temperatures [n]."""
        scaled = logits.double() / epsilons.view(-1, *[1] * (logits.dim() - 1))
        return scaled - scaled.amax(-1, keepdim=True)


def generate(
    model: Generator,
    law: TokenLaw,
    prompts: Sequence[Tokens],
    source: NDArray[np.integer],
    epsilons: NDArray[np.floating],
    limits: NDArray[np.integer],
    draws: NDArray[np.floating] | ExactDraws,
) -> Ragged:
    """Sample continuations of prompts: n rows of vocabulary ids, including the end of the sequence if reached.

    prompts:   token ids of each prompt.
    source:    [n], index of each row's prompt.
    epsilons:  [n], epsilon of each row.
    limits:    [n], most tokens of each row, all >= 1.
    draws:     [n, at least max(limits)] numbers in the open unit interval, one per token; or the exact samplers of a
               publication. A row depends only on its prompt, epsilon, limit and draws.
    """
    state = _DrawnTokens(model, law, epsilons, limits, draws=draws)
    model.memory.attempt(lambda: _draw(state, prompts, source))
    return state.ragged()


def _draw(state: _DrawnTokens, prompts: Sequence[Tokens], source: NDArray[np.integer]) -> None:
    """Sample the rest of all rows. Rows whose prompts have the same length are sampled together."""
    model, new, every = state.model, int(state.limits.max(initial=1)), np.arange(len(source))
    open_rows = every[state.going(every)]
    for length, numbers in _by_length(prompts, source[open_rows]):
        shape = shape_of(model, length, new)
        counts = np.bincount(source[open_rows], minlength=len(prompts))
        for readings in _together(_read(model, prompts, numbers, shape.prompts), counts, shape.size):
            slots, logits, caches = _side_by_side(readings, len(prompts), shape.prompts)
            rows = open_rows[slots[source[open_rows]] >= 0]
            rows = rows[np.argsort(slots[source[rows]], kind="stable")]
            for start in range(0, len(rows), shape.size):
                part = rows[start : start + shape.size]
                _go_on(state, part, Prefixes(model, logits, caches, slots[source[part]], shape=shape))


def forced(
    model: Generator, prompts: Sequence[Tokens], source: NDArray[np.integer], sequences: Sequence[Tokens]
) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
    """Yield the logits of each token of given sequences (teacher forcing).

    source: [n], index of each sequence's prompt. sequences: n lists of vocabulary ids, none longer than the model can
    generate. Yields indices [m] of sequences, and the logits [m, length, outputs] of these sequences. `length` is at
    least the length of the longest of these sequences.
    """
    rest = np.arange(len(sequences))
    while True:
        try:
            for part, logits in _forced(model, prompts, source, sequences, rest=rest):
                yield part, logits
                rest = np.setdiff1d(rest, part, assume_unique=True)
            return
        except torch.cuda.OutOfMemoryError:
            pass
        model.memory.halve()


def _forced(
    model: Generator,
    prompts: Sequence[Tokens],
    source: NDArray[np.integer],
    sequences: Sequence[Tokens],
    *,
    rest: NDArray[np.int64],
) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
    """Yield the same as `forced`, for the sequences with the indices `rest`."""
    lengths = np.array([len(sequence) for sequence in sequences])
    widths = -(-lengths // _BUCKET) * _BUCKET
    counts = np.bincount(source[rest], minlength=len(prompts))
    most = EQUAL_ROWS[model.device]
    for length, numbers in _by_length(prompts, source[rest]):
        together = model.memory.rows(model.row_bytes(length, 1), BATCHES * FORCED_ROWS[model.device], most)
        few = min(most, together)
        for readings in _together(_read(model, prompts, numbers, few), counts, together):
            slots, first, caches = _side_by_side(readings, len(prompts), few)
            whole = gather(caches, torch.arange(len(first), device=first.device))
            rows = rest[slots[source[rest]] >= 0]
            rows = rows[np.lexsort((slots[source[rows]], widths[rows]))]
            room = model.longest(length)
            for width, run in groupby(rows, key=lambda row: widths[row]):
                members, steps = np.array(list(run)), min(int(width), room)
                each = model.row_bytes(length, steps) + 8 * steps * len(model.outputs)
                size = model.memory.rows(each, FORCED_ROWS[model.device])
                for start in range(0, len(members), size):
                    part = members[start : start + size]
                    place = model.tensor(filled(slots[source[part]], size))
                    tokens = np.full((size, steps), model.end)
                    for slot, row in enumerate(part):
                        tokens[slot, : lengths[row]] = sequences[row]
                    logits = first[place][:, None]
                    if steps > 1:
                        after = model.step(model.tensor(tokens[:, :-1]), gather([whole], place))
                        logits = torch.cat([logits, after], dim=1)
                    yield part, logits[: len(part)]


def log_likelihoods(
    model: Generator,
    law: TokenLaw,
    prompts: Sequence[Tokens],
    source: NDArray[np.integer],
    sequences: Sequence[Tokens],
    epsilons: NDArray[np.floating],
) -> NDArray[np.float64]:
    """Return [n]: ln P(sequence | prompt) at each row's epsilon; minus infinity for an impossible sequence."""
    total = np.zeros(len(sequences))
    for rows, logits in forced(model, prompts, source, sequences):
        for row, values in zip(rows, logits, strict=True):
            at, possible = places(model, sequences[row])
            budgets = torch.full((len(at),), float(epsilons[row]), dtype=torch.float64, device=values.device)
            log_p = law.log_probabilities(values[: len(at)], budgets)
            chosen = log_p[torch.arange(len(at)), model.tensor(at)].cpu().numpy()
            total[row] = np.where(possible, chosen, -np.inf).sum()
    return total


def places(model: Generator, tokens: Tokens) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return two arrays: the index of each vocabulary id in `model.outputs`, and True for each id that is there."""
    ids = np.asarray(tokens, np.int64)
    at = np.minimum(np.searchsorted(model.outputs, ids), len(model.outputs) - 1)
    return at, model.outputs[at] == ids


class BatchShape(NamedTuple):
    """Sizes of batches: prompts per batch, continuations per batch (`rows`), and continuations in memory (`size`)."""

    prompts: int
    rows: int
    size: int


def shape_of(model: Generator, prompt: int, new: int) -> BatchShape:
    """Return the sizes of batches that continue prompts of `prompt` tokens by at most `new` tokens."""
    rows = ROWS[model.device]
    size = model.memory.rows(model.row_bytes(prompt, new), BATCHES * rows, rows)
    return BatchShape(min(EQUAL_ROWS[model.device], size), min(rows, size), size)


def _by_length(prompts: Sequence[Tokens], source: NDArray[np.integer]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the lengths of the used prompts, ascending, each with the ascending indices of prompts of this length."""
    used = sorted(np.unique(source).tolist(), key=lambda number: len(prompts[number]))
    for length, run in groupby(used, key=lambda number: len(prompts[number])):
        yield length, np.array(list(run))


def _read(model: Generator, prompts: Sequence[Tokens], members: NDArray[np.int64], size: int) -> Iterator[_Reading]:
    """Read prompts of one length in batches of a fixed size; yield each batch's indices, next logits and cache."""
    for start in range(0, len(members), size):
        numbers = members[start : start + size]
        yield numbers, model.read(filled(np.array([prompts[i] for i in numbers]), size))


def _together(readings: Iterator[_Reading], counts: NDArray[np.integer], size: int) -> Iterator[list[_Reading]]:
    """Yield groups of readings. The prompts of a group have at least `size` rows in all. counts: rows per prompt."""
    some: list[_Reading] = []
    for reading in readings:
        some.append(reading)
        if sum(int(counts[numbers].sum()) for numbers, _ in some) >= size:
            yield some
            some = []
    if some:
        yield some


def _side_by_side(readings: Sequence[_Reading], prompts: int, size: int) -> tuple[NDArray[np.int64], Tensor, list[Any]]:
    """Join readings of `size` rows each; return the row of each prompt (-1 if not read), next logits and caches."""
    slots = np.full(prompts, -1)
    for i, (numbers, _) in enumerate(readings):
        slots[numbers] = i * size + np.arange(len(numbers))
    return slots, torch.cat([first for _, (first, _) in readings]), [cache for _, (_, cache) in readings]


class _DrawnTokens:
    """The tokens sampled so far: ids [n, longest], and the number of tokens in each row."""

    def __init__(
        self,
        model: Generator,
        law: TokenLaw,
        epsilons: NDArray[np.floating],
        limits: NDArray[np.integer],
        draws: NDArray[np.floating] | ExactDraws,
    ) -> None:
        self.model, self._law, self._epsilons, self.limits, self._draws = model, law, epsilons, limits, draws
        self.ids = np.zeros((len(limits), int(limits.max(initial=0))), np.int64)
        self._lengths = np.zeros(len(limits), np.int64)

    def going(self, rows: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return True for each row that continues: it has not reached its end token or its limit of tokens."""
        lengths = self._lengths[rows]
        last = self.ids[rows, np.maximum(lengths - 1, 0)]
        return (lengths == 0) | ((last != self.model.end) & (lengths < self.limits[rows]))

    def put(self, rows: NDArray[np.integer], position: int, prefixes: Prefixes) -> NDArray[np.bool_]:
        """Sample the token at a position, for rows [n] without this token. Return True for each row that continues."""
        new = self._lengths[rows] == position
        self._choose(rows[new], position, prefixes.logits, prefixes.slots[new], size=prefixes.shape.rows)
        return (self._lengths[rows] > position + 1) | self.going(rows)

    def _choose(
        self, rows: NDArray[np.integer], position: int, logits: Tensor, slots: NDArray[np.integer], *, size: int
    ) -> None:
        """Sample the token at a position of rows [n] from logits[slots], `size` rows at a time."""
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            epsilons = _tensor(self._epsilons[part], logits.device)
            own = logits[self.model.tensor(slots[start : start + size])]
            if isinstance(self._draws, ExactDraws):
                weights = self._law.log_weights(own, epsilons).cpu().numpy()
                chosen = np.array([self._draws.choose(row)[0] for row in weights])
            else:
                uniforms = _tensor(self._draws[part, position], logits.device)
                chosen = self._law.draw(own, epsilons, uniforms[:, None])[:, 0].cpu().numpy()
            self.ids[part, position] = self.model.outputs[chosen]
            self._lengths[part] = position + 1

    def ragged(self) -> Ragged:
        """Return the sampled ids, one list per row."""
        written = np.arange(self.ids.shape[1]) < self._lengths[:, None]
        return Ragged.from_lengths(self.ids[written].astype(np.int32), self._lengths)


def _tensor(values: NDArray[np.floating], device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float64)).to(device)


def _go_on(state: _DrawnTokens, rows: NDArray[np.integer], prefixes: Prefixes) -> None:
    """Sample the rest of these rows. prefixes: the model's state after the prompts of the rows."""
    position = 0
    while True:
        going = state.put(rows, position, prefixes)
        rows = rows[going]
        if not len(rows):
            return
        prefixes.go_on(going, state.ids[rows, position])
        position += 1


def opened(model: Generator, prompts: Sequence[Tokens], source: NDArray[np.integer], shape: BatchShape) -> Prefixes:
    """Read the prompts with the indices `source` [n], all of one length. Return the state of n rows before sampling."""
    readings = list(_read(model, prompts, np.unique(source), shape.prompts))
    slots, logits, caches = _side_by_side(readings, len(prompts), shape.prompts)
    return Prefixes(model, logits, caches, slots[source], shape=shape)


class Prefixes:
    """The model's state for rows that have read a prompt and some tokens. Equal rows share a slot.

    logits: [slots, outputs], logits of the next token.
    slots:  [rows], the slot of each row, numbered across all caches.
    shape:  sizes of the batches.
    """

    def __init__(
        self, model: Generator, logits: Tensor, caches: list[Any], slots: NDArray[np.int64], *, shape: BatchShape
    ) -> None:
        self.logits, self.slots, self.shape = logits, slots, shape
        self._model, self._caches, self._held, self._read_alone = model, caches, shape.prompts, True

    def go_on(self, going: NDArray[np.bool_], tokens: NDArray[np.integer]) -> None:
        """Read one more token of each continuing row, and drop the other rows. tokens: ids [m] of continuing rows."""
        model, size, caches = self._model, self.shape.rows, self._caches
        prefixes, own = np.unique(self.slots[going] << 32 | tokens, return_inverse=True)
        parents, tokens = prefixes >> 32, prefixes & 0xFFFFFFFF
        if self._read_alone or len(np.unique(parents)) < len(parents) or -(-len(parents) // size) < len(caches):
            batches = np.split(parents, range(size, len(parents), size))
            caches = [_some(model, caches, self._held, batch, size=size) for batch in batches]
            self._caches, self._held, self._read_alone = caches, size, False
            parents = np.arange(len(parents))
        self.slots = parents[own]
        inputs = np.full((len(caches), size), model.end)
        inputs.ravel()[parents] = tokens
        after = [model.step(model.tensor(row[:, None]), cache) for row, cache in zip(inputs, caches, strict=True)]
        self.logits = torch.cat(after)[:, 0]


def _some(model: Generator, caches: Sequence[Any], held: int, slots: NDArray[np.integer], size: int) -> Any:
    """Return one cache of these ascending slots, padded to `size`. Caches without any of these slots are not read."""
    first = int(slots[0]) // held
    some = caches[first : int(slots[-1]) // held + 1]
    return gather(some, model.tensor(filled(slots - first * held, size)))
