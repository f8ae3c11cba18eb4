"""Texts sampled token by token from a distribution between the model's distributions after two prompts.

P_t and P'_t are the distributions of the next token after the first and the second prompt, given the same tokens so
far. The token is sampled from

    M_t = sqrt(P_t P'_t) / rho_t,    rho_t = sum over tokens of sqrt(P_t P'_t),

so a text y has the probability M(y) = prod over t of (sqrt(P_t P'_t) / rho_t). With P = prod P_t and P' = prod P'_t,
ln(sqrt(P P') / M) = sum ln rho_t. This sum depends on y and is at most 0. Sampling a token takes two forward passes,
while sampling from P takes one. `generation` defines the distributions and the code for prompts, caches and batches.
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
    """Sample a text for each pair of prompts; return its sum of ln rho_t [n] and its loss ln(P / P') [n].

    prompts:   token ids.
    pairs:     [n, 2], indices of the two prompts of each row.
    limits:    [n, 2], most tokens after the first and after the second prompt. If the limits differ, a text without an
               end token at the smaller limit is impossible after the other prompt. Its sum is then minus infinity.
    uniforms:  [n, at least the largest limit]. A row depends only on its pair, limits and uniforms.
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
    """Sample the texts of a group of rows. All first prompts have one length, and so have all second prompts."""
    if not len(group):
        return
    longest = max(len(prompts[number]) for number in pairs[group[0]])
    shape = shape_of(draws.model, longest, int(draws.limits.max()))
    for start in range(0, len(group), shape.size):
        rows = group[start : start + shape.size]
        draws.go_on(rows, [opened(draws.model, prompts, pairs[rows, side], shape) for side in (0, 1)])


class _Paths:
    """For each row, the sums of ln rho_t and of the losses over the tokens sampled so far."""

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
        """Sample the rest of these rows' texts. sides: the prefixes with the first and with the second prompt."""
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
        """Return the token [n] sampled at a position of each row."""
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
    """Sample an output per row from M, between two distributions; return outputs, ln rho and losses, each [n].

    first, second: log-probabilities [n, outputs]; uniforms: [n]. If no output is possible under both, ln rho is minus
    infinity and the loss 0.
    """
    half = (first + second) / 2
    log_rho = half.logsumexp(-1)
    cdf = (half - log_rho[:, None]).exp().nan_to_num(0.0).cumsum(-1)
    total = cdf[:, -1:]
    # `at` stays below the total after rounding, so that no output of probability 0 is sampled.
    at = torch.minimum(uniforms[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    places = torch.searchsorted(cdf, at, right=True).clamp(max=cdf.shape[-1] - 1)
    loss = (first.gather(-1, places) - second.gather(-1, places))[:, 0]
    return places[:, 0], log_rho.clamp(max=0.0), torch.where(log_rho.isneginf(), 0.0, loss)
