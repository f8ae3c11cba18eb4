"""Drawing texts from a law between those of two prompts, token by token.

With the laws P_t and P'_t of the next token after either prompt and the same tokens so far, the token is drawn from

    M_t = sqrt(P_t P'_t) / rho_t,    rho_t = sum over tokens of sqrt(P_t P'_t),

so a text y has the probability M(y) = prod sqrt(P_t P'_t) / rho_t and ln sqrt(P P') / M = sum ln rho_t, at most 0,
which depends on y. A token takes two forward passes, while drawing from P takes one. The laws are those of
`generation`, whose code for prompts, caches and batches this module shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epsilometer.models.generation import Prefixes, TokenLaw, Tokens, opened, shape_of
from epsilometer.models.generator import Generator


def generate_between(
    model: Generator,
    law: TokenLaw,
    prompts: Sequence[Tokens],
    pairs: NDArray[np.integer],
    epsilon: float,
    limits: NDArray[np.integer],
    uniforms: NDArray[np.floating],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return sum ln rho_t [n] and the loss ln P / P' [n] of a text drawn between each two prompts.

    prompts:   token ids; pairs: [n, 2], the two prompts of each row.
    limits:    [n, 2], the most tokens after either; a text that ends at one of them without an end of the sequence
               cannot come from a prompt with another limit, and has minus infinity.
    uniforms:  [n, at least the largest limit]. A row depends on its own pair, limits and uniforms alone.
    """
    draws = _Paths(model, law, epsilon, limits, uniforms=uniforms)
    lengths = np.array([len(prompt) for prompt in prompts])[pairs]
    order = np.lexsort((pairs[:, 1], pairs[:, 0], lengths[:, 1], lengths[:, 0]))
    borders = np.flatnonzero(np.diff(lengths[order], axis=0).any(axis=1)) + 1
    for group in np.split(order, borders):
        model.memory.attempt(partial(_draw_group, draws, group, prompts, pairs))
    return draws.log_rho, draws.loss


def _draw_group(
    draws: _Paths, group: NDArray[np.integer], prompts: Sequence[Tokens], pairs: NDArray[np.integer]
) -> None:
    """Draw rows whose prompts have the same two lengths to their ends."""
    if not len(group):
        return
    longest = max(len(prompts[number]) for number in pairs[group[0]])
    shape = shape_of(draws.model, longest, int(draws.limits.max()))
    for start in range(0, len(group), shape.size):
        rows = group[start : start + shape.size]
        draws.go_on(rows, [opened(draws.model, prompts, pairs[rows, side], shape) for side in (0, 1)])


class _Paths:
    """The tokens drawn so far between two laws: for each row the sums of ln rho_t and of the tokens' losses."""

    def __init__(
        self,
        model: Generator,
        law: TokenLaw,
        epsilon: float,
        limits: NDArray[np.integer],
        uniforms: NDArray[np.floating],
    ) -> None:
        self.model, self._law, self._epsilon, self._uniforms = model, law, epsilon, uniforms
        self.limits, self._cut = limits.min(axis=1), limits[:, 0] != limits[:, 1]
        self.log_rho, self.loss = np.zeros((2, len(limits)))

    def go_on(self, rows: NDArray[np.integer], sides: Sequence[Prefixes]) -> None:
        """Draw rows to their ends. sides: their prefixes after the first prompt, and after the second."""
        position = 0
        self.log_rho[rows] = self.loss[rows] = 0
        while len(rows):
            ids = self._put(rows, position, sides)
            position += 1
            ended, full = ids == self.model.end, position == self.limits[rows]
            self.log_rho[rows[full & ~ended & self._cut[rows]]] = -np.inf
            going = ~ended & ~full & np.isfinite(self.log_rho[rows])
            rows = rows[going]
            if len(rows):
                for side in sides:
                    side.go_on(going, ids[going])

    def _put(self, rows: NDArray[np.integer], position: int, sides: Sequence[Prefixes]) -> NDArray[np.int64]:
        """Return the token [n] at a position of each row, drawn between its two laws."""
        size, ids = sides[0].shape.rows, []
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            own = [side.logits[self.model.tensor(side.slots[start : start + size])] for side in sides]
            epsilons = torch.full((len(part),), self._epsilon, dtype=torch.float64, device=own[0].device)
            uniforms = torch.from_numpy(self._uniforms[part, position].copy()).to(own[0].device)
            first, second = (self._law.log_probabilities(logits, epsilons) for logits in own)
            places, log_rho, loss = _draw(first, second, uniforms)
            self.log_rho[part] += log_rho.cpu().numpy()
            self.loss[part] += loss.cpu().numpy()
            ids.append(self.model.outputs[places.cpu().numpy()])
        return np.concatenate(ids)


def _draw(first: Tensor, second: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return one output [n] between log-probabilities [n, outputs], from a uniform each; ln rho [n]; the losses [n].

    Where no output is possible under both, ln rho is minus infinity and the loss 0.
    """
    half = (first + second) / 2
    log_rho = half.logsumexp(-1)
    cdf = (half - log_rho[:, None]).exp().nan_to_num(0.0).cumsum(-1)
    total = cdf[:, -1:]
    # Below the total even after rounding, so that no output of probability 0 is reached.
    at = torch.minimum(uniforms[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    places = torch.searchsorted(cdf, at, right=True).clamp(max=cdf.shape[-1] - 1)
    loss = (first.gather(-1, places) - second.gather(-1, places))[:, 0]
    return places[:, 0], log_rho.clamp(max=0.0), torch.where(log_rho.isneginf(), 0.0, loss)
