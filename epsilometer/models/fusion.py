"""Texts sampled token by token from a mixture of a private and a public distribution, close to the public distribution.

p' and q are the distributions of the next token after a private and a public prompt, given the same tokens so far. The
token is sampled from

    p = lambda p' + (1 - lambda) q,    with the largest lambda <= 1 for which max(D(p || q), D(q || p)) <= bound.

D is the Renyi divergence of order a > 1, D(p || q) = ln(sum p^a q^(1-a)) / (a - 1). The sums in D(p || q) and D(q || p)
are convex in lambda, and have their minimum, 1, at lambda = 0. So both divergences grow with lambda. With
t = 1 + lambda (p' / q - 1) = p / q these sums are sum q t^a and sum q t^(1-a), so p' / q and q are computed once.
Chandrupatla's method brackets lambda (`scipy.optimize.elementwise`). The lambda that is used is the end of the bracket
at which both divergences are within the bound. Computations use float64. p' and q are the model's softmax.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize.elementwise import find_root
from torch import Tensor

from epsilometer.core.exact_samplers import ExactDraws
from epsilometer.core.ragged import Ragged
from epsilometer.models.generation import Prefixes, Tokens, forced, opened, places, shape_of
from epsilometer.models.generator import Generator

_CELLS = 1 << 25  # numbers (logits) in memory at a time, for given sequences
_FAR = 1e6  # nats; larger divergences are clamped to this value, since the solver takes only finite numbers


@dataclass(frozen=True)
class Fusion:
    """The rule that mixes two distributions.

    order: a, the order of the divergence.
    floor: smaller log-probabilities are raised to this value before a divergence is computed; None: no floor.
    steps: number of bisections for lambda. Without a floor, there are no bisections.
    """

    order: float
    floor: float | None = None
    steps: int = 20

    def divergence(self, first: Tensor, second: Tensor) -> Tensor:
        """Return [n]: the larger of D(first || second) and D(second || first). Takes log-probabilities [n, outputs]."""
        if self.floor is not None:
            first, second = first.clamp(min=self.floor), second.clamp(min=self.floor)
        ways = [
            torch.logsumexp(self.order * p - (self.order - 1) * q, -1) / (self.order - 1)
            for p, q in ((first, second), (second, first))
        ]
        return torch.maximum(*ways)

    def mixed(self, private: Tensor, public: Tensor, bounds: Tensor) -> Tensor:
        """Return the mixture's log-probabilities. private, public: log-probabilities [n, outputs]; bounds: [n]."""
        beyond = torch.nonzero(self.divergence(private, public) > bounds)[:, 0]
        if len(beyond):
            some = private[beyond], public[beyond], bounds[beyond]
            share = self._bisected(*some) if self.floor is not None else self._largest(*some)
            private = private.index_copy(0, beyond, _mixture(*some[:2], share))
        return private

    def _largest(self, private: Tensor, public: Tensor, bounds: Tensor) -> Tensor:
        """Return [n]: each row's largest lambda within its bound. At lambda = 1, divergences must exceed bounds."""
        weights, excess = public.exp(), (private - public).expm1()

        def over(shares: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
            at = torch.from_numpy(rows).to(excess.device)
            ratios = 1 + torch.from_numpy(shares).to(excess.device)[:, None] * excess[at]
            sums = [(weights[at] * ratios**power).sum(-1) for power in (self.order, 1 - self.order)]
            divergence = torch.maximum(*sums).log() / (self.order - 1)
            return np.asarray((divergence.clamp(max=_FAR) - bounds[at]).cpu().numpy())

        rows = np.arange(len(bounds))
        solved = find_root(over, (np.zeros(len(rows)), np.ones(len(rows))), args=(rows,))
        ends, values = np.array(solved.bracket), np.array(solved.f_bracket)
        inside = np.where(values <= 0, ends, 0.0).max(axis=0)  # the end within the bound, or an exact root
        return torch.from_numpy(inside).to(bounds.device)

    def _bisected(self, private: Tensor, public: Tensor, bounds: Tensor) -> Tensor:
        """Return a lambda [n] by bisection, as the reference code does."""
        low, high = torch.zeros_like(bounds), torch.ones_like(bounds)
        for _ in range(self.steps):
            middle = (low + high) / 2
            inside = self.divergence(_mixture(private, public, middle), public) <= bounds
            low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
        return low


def _mixture(private: Tensor, public: Tensor, share: Tensor) -> Tensor:
    share = share[:, None]
    return torch.logaddexp(share.log() + private, torch.log1p(-share) + public)


def generate_fused(
    model: Generator,
    fusion: Fusion,
    prompts: Sequence[Tokens],
    pairs: NDArray[np.integer],
    bounds: NDArray[np.floating],
    limit: int,
    draws: NDArray[np.floating] | ExactDraws,
) -> Ragged:
    """Sample continuations: n rows of at most `limit` vocabulary ids, including the end of the sequence if reached.

    prompts: token ids.
    pairs:   [n, 2], indices of the private and the public prompt of each row.
    bounds:  [n], bound on the divergence of each row's token distributions.
    draws:   [n, limit] numbers in the open unit interval, or the exact samplers of a publication.

    A row does not depend on other rows.
    """
    rows = _Rows(model, fusion, bounds, limit, draws=draws)
    lengths = np.array([len(prompt) for prompt in prompts])[pairs]
    order = np.lexsort((pairs[:, 1], pairs[:, 0], lengths[:, 1], lengths[:, 0]))
    borders = np.flatnonzero(np.diff(lengths[order], axis=0).any(axis=1)) + 1
    for group in np.split(order, borders):
        if len(group):
            model.memory.attempt(partial(_draw_group, rows, group, prompts, pairs))
    return Ragged.from_lengths(
        np.array([token for row in rows.tokens for token in row], np.int32), np.array([len(r) for r in rows.tokens])
    )


def _draw_group(rows: _Rows, group: NDArray[np.integer], prompts: Sequence[Tokens], pairs: NDArray[np.integer]) -> None:
    longest = max(len(prompts[number]) for number in pairs[group[0]])
    shape = shape_of(rows.model, longest, rows.limit)
    for start in range(0, len(group), shape.size):
        part = group[start : start + shape.size]
        rows.go_on(part, [opened(rows.model, prompts, pairs[part, side], shape) for side in (0, 1)])


class _Rows:
    """The tokens sampled so far in each row."""

    def __init__(
        self,
        model: Generator,
        fusion: Fusion,
        bounds: NDArray[np.floating],
        limit: int,
        draws: NDArray[np.floating] | ExactDraws,
    ) -> None:
        self.model, self.limit, self._fusion, self._draws = model, limit, fusion, draws
        self._bounds = np.asarray(bounds, np.float64)
        self.tokens: list[list[int]] = [[] for _ in bounds]

    def go_on(self, rows: NDArray[np.integer], sides: Sequence[Prefixes]) -> None:
        """Sample the rest of these rows. sides: the prefixes with the private and with the public prompt."""
        for row in rows:
            self.tokens[row] = []
        for position in range(self.limit):
            ids = self._put(rows, position, sides)
            going = (ids != self.model.end) & (position + 1 < self.limit)
            rows = rows[going]
            if not len(rows):
                return
            for side in sides:
                side.go_on(going, ids[going])

    def _put(self, rows: NDArray[np.integer], position: int, sides: Sequence[Prefixes]) -> NDArray[np.int64]:
        """Sample and return the token [n] at a position of each row."""
        size, ids = sides[0].shape.rows, []
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            slots = np.stack([side.slots[start : start + size] for side in sides])
            bounds, own = np.unique(np.vstack([slots, self._bounds[part]]), axis=1, return_inverse=True)
            law = self._laws(bounds, sides)[own.ravel()]  # rows with equal tokens so far share a distribution
            if isinstance(self._draws, ExactDraws):
                chosen = np.array([self._draws.choose(row - row.max())[0] for row in law])
            else:
                cdf = np.cumsum(np.exp(law), axis=1)
                at = np.minimum(self._draws[part, position] * cdf[:, -1], np.nextafter(cdf[:, -1], 0))
                chosen = np.array([np.searchsorted(*each, side="right") for each in zip(cdf, at, strict=True)])
            ids.append(self.model.outputs[chosen])
        tokens = np.concatenate(ids)
        for row, token in zip(rows, tokens.tolist(), strict=True):
            self.tokens[row].append(token)
        return tokens

    def _laws(self, rows: NDArray[np.float64], sides: Sequence[Prefixes]) -> NDArray[np.float64]:
        """Return the mixtures' log-probabilities [n, outputs]. rows: [3, n]: private slot, public slot, bound."""
        both = [
            side.logits[self.model.tensor(slots.astype(np.int64))] for side, slots in zip(sides, rows[:2], strict=True)
        ]
        private, public = (logits.double().log_softmax(-1) for logits in both)
        bounds = torch.from_numpy(rows[2].copy()).to(private.device)
        return np.asarray(self._fusion.mixed(private, public, bounds).cpu().numpy())


def fused_log_likelihoods(
    model: Generator,
    fusion: Fusion,
    prompts: Sequence[Tokens],
    pairs: NDArray[np.integer],
    bounds: NDArray[np.floating],
    sequences: Sequence[Tokens],
) -> NDArray[np.float64]:
    """Return [n]: the log-probability of each sequence under the mixture of its pair of prompts.

    The computation takes two forward passes per sequence. The result is minus infinity for an impossible sequence.
    """
    total, longest = np.zeros(len(sequences)), max(map(len, sequences), default=1)
    step = max(1, _CELLS // (2 * longest * len(model.outputs)))
    for start in range(0, len(sequences), step):
        some = range(start, min(start + step, len(sequences)))
        logits: list[dict[int, Tensor]] = []
        for side in (0, 1):
            parts = forced(model, prompts, pairs[start : some.stop, side], [sequences[row] for row in some])
            logits.append({start + int(row): values[i] for rows, values in parts for i, row in enumerate(rows)})
        for row in some:
            at, possible = places(model, sequences[row])
            private, public = (side[row][: len(at)].double().log_softmax(-1) for side in logits)
            bound = torch.full((len(at),), float(bounds[row]), dtype=torch.float64, device=private.device)
            law = fusion.mixed(private, public, bound)
            chosen = law[torch.arange(len(at)), model.tensor(at)].cpu().numpy()
            total[row] = np.where(possible, chosen, -np.inf).sum()
    return total
