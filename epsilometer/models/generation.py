"""Drawing texts from a language model token by token, and how likely given texts are: the sampler of token mechanisms.

For the logits l of the next token, given the prompt and what was drawn so far, clipped to a public range [low, high],

    P(y) ~ exp(epsilon clip(l_y) / (2 (high - low))),

over the model's whole output vocabulary: a softmax at temperature 2 (high - low) / epsilon, no top-k, no top-p. This is
the exponential mechanism (McSherry and Talwar 2007, definition 2 and theorem 6) with a utility of sensitivity
high - low: for any two prompts the probabilities of a token differ by a factor of at most e^epsilon. Token t of a trial
is drawn by inverse CDF from number t of the trial's own stream, or exactly in a publication (`epsilometer.core.exact`).

Each distinct prompt is read once, for all trials and epsilons, and so is a beginning that several of them have drawn.
Continuations run in batches of one exact length and a fixed number of rows; those that ended leave as soon as the
others fit into fewer batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epsilometer.core.exact import Exact
from epsilometer.core.ragged import Ragged
from epsilometer.models.generator import EQUAL_ROWS, Generator, filled, gather

ROWS = {"cpu": 16, "cuda": 256}  # continuations in every batch
FORCED_ROWS = {"cpu": 4, "cuda": 64}  # given sequences in every batch
BATCHES = 16  # batches side by side: rows that ended leave them, rows of equal length share one
_BUCKET = 4  # given sequences are filled up to a multiple of this length
Tokens: TypeAlias = Sequence[int] | NDArray[np.integer]
_Reading: TypeAlias = tuple[NDArray[np.int64], tuple[Tensor, Any]]  # numbers of prompts; next logits and cache


@dataclass(frozen=True)
class TokenLaw:
    """The law of one token. low, high: clip bounds; top_k: draw among the k likeliest alone (breaks the claim)."""

    low: float
    high: float
    top_k: int | None = None

    def log_weights(self, logits: Tensor, epsilons: Tensor) -> Tensor:
        """logits [n, ..., outputs] and epsilons [n] -> float64, at most 0, up to a term for each distribution."""
        scale = epsilons / (2 * (self.high - self.low))  # 1 / T
        scaled = (logits.double().clip(self.low, self.high) - self.high) * scale.view(-1, *[1] * (logits.dim() - 1))
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            least = scaled.topk(self.top_k).values[..., -1:]
            scaled = scaled.masked_fill(scaled < least, -torch.inf)
        return scaled

    def log_probabilities(self, logits: Tensor, epsilons: Tensor) -> Tensor:
        """As `log_weights`, normalised: natural logarithms."""
        return self.log_weights(logits, epsilons).log_softmax(-1)

    def draw(self, logits: Tensor, epsilons: Tensor, uniforms: Tensor) -> Tensor:
        """One output [n] for each row of logits [n, outputs], from a uniform [n] each."""
        cdf = self.log_weights(logits, epsilons).exp_().cumsum(-1)
        total = cdf[:, -1:]
        # Below the total even after rounding, so that no output of probability 0 is reached.
        at = torch.minimum(uniforms[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
        return torch.searchsorted(cdf, at, right=True)[:, 0]


@dataclass(frozen=True)
class Softmax(TokenLaw):
    """A model's own softmax; epsilon is its temperature. Nothing is clipped, nothing claimed."""

    low: float = -float("inf")
    high: float = float("inf")

    def log_weights(self, logits: Tensor, epsilons: Tensor) -> Tensor:
        """As `TokenLaw.log_weights`, of temperatures."""
        scaled = logits.double() / epsilons.view(-1, *[1] * (logits.dim() - 1))
        return scaled - scaled.amax(-1, keepdim=True)


def generate(
    model: Generator,
    law: TokenLaw,
    prompts: Sequence[Tokens],
    source: NDArray[np.integer],
    epsilons: NDArray[np.floating],
    limits: NDArray[np.integer],
    draws: NDArray[np.floating] | Exact,
) -> Ragged:
    """Continuations of prompts: n rows of vocabulary ids, the end of the sequence included where it was drawn.

    prompts:   token ids; source: [n], the prompt of each row.
    epsilons:  [n]; limits: [n], the most tokens of a row, all >= 1.
    draws:     [n, at least max(limits)] numbers in the open unit interval, one a token; or a publication's exact
    samplers. A row depends on its own prompt, epsilon, limit and draws alone.
    """
    state = _Draws(model, law, epsilons, limits, draws=draws)
    size = BATCHES * ROWS[model.device]
    counts = np.bincount(source, minlength=len(prompts))
    for readings in _together(_read(model, prompts, source), prompts, counts, size):
        slots, logits, caches = _side_by_side(readings, len(prompts), EQUAL_ROWS[model.device])
        rows = np.flatnonzero(slots[source] >= 0)
        rows = rows[np.argsort(slots[source[rows]], kind="stable")]
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            _go_on(state, part, Prefixes(model, logits, caches, slots[source[part]]))
    return state.ragged()


def forced(
    model: Generator, prompts: Sequence[Tokens], source: NDArray[np.integer], sequences: Sequence[Tokens]
) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
    """The logits under which each token of given sequences would be drawn (teacher forcing).

    source: [n], the prompt of each of the n sequences of vocabulary ids, none longer than the model can go on.
    Yields numbers [m] of sequences and logits [m, length, outputs], with a length of at least that of the longest.
    """
    lengths = np.array([len(sequence) for sequence in sequences])
    widths = -(-lengths // _BUCKET) * _BUCKET
    size = FORCED_ROWS[model.device]
    counts = np.bincount(source, minlength=len(prompts))
    for readings in _together(_read(model, prompts, source), prompts, counts, BATCHES * size):
        slots, first, caches = _side_by_side(readings, len(prompts), EQUAL_ROWS[model.device])
        whole = gather(caches, torch.arange(len(first), device=first.device))
        rows = np.flatnonzero(slots[source] >= 0)
        rows = rows[np.lexsort((slots[source[rows]], widths[rows]))]
        room = model.longest(len(prompts[source[rows[0]]]))
        for width, run in groupby(rows, key=lambda row: widths[row]):
            members = np.array(list(run))
            for start in range(0, len(members), size):
                part = members[start : start + size]
                place = model.tensor(filled(slots[source[part]], size))
                tokens = np.full((size, min(int(width), room)), model.end)
                for slot, row in enumerate(part):
                    tokens[slot, : lengths[row]] = sequences[row]
                logits = first[place][:, None]
                if tokens.shape[1] > 1:
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
    """Returns [n]: ln P(sequence | prompt) at each row's epsilon, minus infinity where the sequence cannot occur."""
    total = np.zeros(len(sequences))
    for rows, logits in forced(model, prompts, source, sequences):
        for row, values in zip(rows, logits, strict=True):
            at, known = places(model, sequences[row])
            budgets = torch.full((len(at),), float(epsilons[row]), dtype=torch.float64, device=values.device)
            log_p = law.log_probabilities(values[: len(at)], budgets)
            chosen = log_p[torch.arange(len(at)), model.tensor(at)].cpu().numpy()
            total[row] = np.where(known, chosen, -np.inf).sum()
    return total


def places(model: Generator, tokens: Tokens) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The places of vocabulary ids among the model's outputs, and whether they are among them."""
    ids = np.asarray(tokens, np.int64)
    at = np.minimum(np.searchsorted(model.outputs, ids), len(model.outputs) - 1)
    return at, model.outputs[at] == ids


def _read(model: Generator, prompts: Sequence[Tokens], source: NDArray[np.integer]) -> Iterator[_Reading]:
    """The prompts that are used, by length in batches of a fixed number: their numbers, ascending, and the reading."""
    size = EQUAL_ROWS[model.device]
    used = sorted(np.unique(source).tolist(), key=lambda number: len(prompts[number]))
    for _, run in groupby(used, key=lambda number: len(prompts[number])):
        members = np.array(list(run))
        for start in range(0, len(members), size):
            numbers = members[start : start + size]
            yield numbers, model.read(filled(np.array([prompts[i] for i in numbers]), size))


def _together(
    readings: Iterator[_Reading], prompts: Sequence[Tokens], counts: NDArray[np.integer], size: int
) -> Iterator[list[_Reading]]:
    """Readings of prompts of one length, as many as give at least `size` rows; counts: rows of each prompt."""
    for _, run in groupby(readings, key=lambda reading: len(prompts[reading[0][0]])):
        some: list[_Reading] = []
        for reading in run:
            some.append(reading)
            if sum(int(counts[numbers].sum()) for numbers, _ in some) >= size:
                yield some
                some = []
        if some:
            yield some


def _side_by_side(readings: Sequence[_Reading], prompts: int, size: int) -> tuple[NDArray[np.int64], Tensor, list[Any]]:
    """Readings of `size` rows each as one: each prompt's row (-1: not among them), the next logits, the caches."""
    slots = np.full(prompts, -1)
    for i, (numbers, _) in enumerate(readings):
        slots[numbers] = i * size + np.arange(len(numbers))
    return slots, torch.cat([first for _, (first, _) in readings]), [cache for _, (_, cache) in readings]


class _Draws:
    """The tokens drawn so far: ids [n, longest], and how many of them in each row."""

    def __init__(
        self,
        model: Generator,
        law: TokenLaw,
        epsilons: NDArray[np.floating],
        limits: NDArray[np.integer],
        draws: NDArray[np.floating] | Exact,
    ) -> None:
        self.model, self._law, self._epsilons, self._limits, self._draws = model, law, epsilons, limits, draws
        self.ids = np.zeros((len(limits), int(limits.max(initial=0))), np.int64)
        self._lengths = np.zeros(len(limits), np.int64)

    def put(
        self, rows: NDArray[np.integer], position: int, logits: Tensor, slots: NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Draw the token at a position of rows [n] from logits[slots]; whether each row goes on."""
        size, chosen = ROWS[self.model.device], []
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            epsilons = _tensor(self._epsilons[part], logits.device)
            own = logits[self.model.tensor(slots[start : start + size])]
            if isinstance(self._draws, Exact):
                weights = self._law.log_weights(own, epsilons).cpu().numpy()
                chosen.append(np.array([self._draws.choose(row)[0] for row in weights]))
            else:
                uniforms = _tensor(self._draws[part, position], logits.device)
                chosen.append(self._law.draw(own, epsilons, uniforms).cpu().numpy())
        ids = self.model.outputs[np.concatenate(chosen)]
        self.ids[rows, position] = ids
        self._lengths[rows] = position + 1
        return (ids != self.model.end) & (position + 1 < self._limits[rows])

    def ragged(self) -> Ragged:
        """The drawn ids."""
        written = np.arange(self.ids.shape[1]) < self._lengths[:, None]
        return Ragged.from_lengths(self.ids[written].astype(np.int32), self._lengths)


def _tensor(values: NDArray[np.floating], device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float64)).to(device)


def _go_on(state: _Draws, rows: NDArray[np.integer], prefixes: Prefixes) -> None:
    """Draw rows to their ends. prefixes: of their prompts."""
    position = 0
    while True:
        going = state.put(rows, position, prefixes.logits, prefixes.slots)
        rows = rows[going]
        if not len(rows):
            return
        prefixes.go_on(going, state.ids[rows, position])
        position += 1


def opened(model: Generator, prompts: Sequence[Tokens], source: NDArray[np.integer]) -> Prefixes:
    """Rows that have read their prompts, source [n], all of one length, and drawn nothing."""
    readings = list(_read(model, prompts, source))
    slots, logits, caches = _side_by_side(readings, len(prompts), EQUAL_ROWS[model.device])
    return Prefixes(model, logits, caches, slots[source])


class Prefixes:
    """The text that rows have read: the prompt, and the tokens drawn since. Equal rows share a slot.

    logits: [slots, outputs] of the next token; slots: [rows], counted through the caches.
    """

    def __init__(self, model: Generator, logits: Tensor, caches: list[Any], slots: NDArray[np.int64]) -> None:
        self.logits, self.slots = logits, slots
        self._model, self._caches, self._held, self._read_alone = model, caches, EQUAL_ROWS[model.device], True

    def go_on(self, going: NDArray[np.bool_], tokens: NDArray[np.integer]) -> None:
        """Read one more token, an id [m], of each row that goes on; the others are left out from here on."""
        model, size, caches = self._model, ROWS[self._model.device], self._caches
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
    """A cache of these slots, ascending, filled up to `size`; only the caches that hold some of them are read."""
    first = int(slots[0]) // held
    some = caches[first : int(slots[-1]) // held + 1]
    return gather(some, model.tensor(filled(slots - first * held, size)))
