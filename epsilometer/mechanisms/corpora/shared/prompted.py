"""A causal language model that continues a vector, the soft prompt, by a text (Lester et al. 2021, arXiv:2104.08691).

The prompt replaces the first token's embedding. `adapt` trains all weights on public texts. The prompt of a text is
then its topic: the mean token embedding of the public texts most like this text. So a prompt says what a text is about,
and not its words. The weights are then frozen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from epsilometer.models.causal_lm import CausalLM
from epsilometer.runtime.progress import track

LONGEST = 32  # most tokens of a text
_ALIKE = 30  # public texts that make a topic
_EPOCHS, _RATE, _BATCH = 3, 1e-3, 50  # of the adaptation
_ROWS = 64  # texts at a time

Tokens = list[int]


class Prompted:
    """A causal language model with soft prompts. model: its id or folder."""

    def __init__(self, model: str | Path) -> None:
        self.model = CausalLM(model)
        self.network: Any = self.model.network.float()
        self.network.requires_grad_(False)
        self._words: Tensor = self.network.get_input_embeddings().weight.detach().clone()

    @property
    def width(self) -> int:
        """The number of dimensions of a prompt."""
        return self._words.shape[1]

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text, at most LONGEST with the closing end token."""
        return [[*self.model.plain(text)[: LONGEST - 1], self.model.end] for text in texts]

    def means(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the mean token embedding [n, width] of each text, by the weights before `adapt`."""
        return np.stack([self._words[ids[:-1] or ids].mean(0).cpu().numpy() for ids in self.tokens(texts)])

    def adapt(self, texts: Sequence[str], generator: np.random.Generator) -> None:
        """Train the model on public texts. generator: shuffles them."""
        means = self.means(texts)
        around = means - means.mean(0)
        around /= np.maximum(np.linalg.norm(around, axis=1, keepdims=True), 1e-12)
        near = np.argsort(-(around @ around.T), axis=1, kind="stable")[:, :_ALIKE]
        rows = self.tokens(texts)
        self.network.requires_grad_(True)
        optimiser = torch.optim.AdamW(self.network.parameters(), lr=_RATE)
        for batch in track(
            list(_shuffled(rows, generator)), _EPOCHS * -(-len(rows) // _BATCH), "adapt to public texts"
        ):
            loss = self.losses(self._on_device(means[near[batch]].mean(1)), [rows[i] for i in batch]).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        self.network.requires_grad_(False)

    def gradients(self, prompts: NDArray[np.float32], rows: Sequence[Tokens]) -> NDArray[np.float32]:
        """Return the gradient [n, width] of each text's mean loss with respect to its own prompt [n, width]."""
        out = np.empty_like(prompts)
        for some, own, tokens in self.batches(prompts, rows):
            losses = self.losses(own.requires_grad_(True), tokens)
            out[some] = torch.autograd.grad(losses.sum(), own)[0].cpu().numpy()
        return out

    def batches(
        self, prompts: NDArray[np.float32], rows: Sequence[Tokens]
    ) -> Iterator[tuple[NDArray[np.int64], Tensor, list[Tokens]]]:
        """Yield the indices, prompts and tokens of texts, in batches of similar length."""
        order = np.argsort([len(row) for row in rows], kind="stable")
        for start in range(0, len(rows), _ROWS):
            some = order[start : start + _ROWS]
            yield some, self._on_device(prompts[some]), [rows[i] for i in some]

    @torch.inference_mode()
    def write(self, prompts: NDArray[np.float32], generator: np.random.Generator) -> list[str]:
        """Return a text for each prompt [n, width], sampled from the model's distribution."""
        texts = list[str]()
        for start in track(range(0, len(prompts), _ROWS), -(-len(prompts) // _ROWS), "write"):
            inputs = {"inputs_embeds": self._on_device(prompts[start : start + _ROWS])[:, None]}
            cache, columns = None, list[NDArray[np.int64]]()
            live = np.ones(len(inputs["inputs_embeds"]), bool)
            while live.any() and len(columns) < LONGEST:
                out = self.network(**inputs, past_key_values=cache, use_cache=True)
                chosen = self._sampled(out.logits[:, -1], generator)
                columns.append(np.where(live, chosen, self.model.end))
                live &= chosen != self.model.end
                inputs, cache = (
                    {"input_ids": torch.from_numpy(chosen)[:, None].to(self.model.device)},
                    out.past_key_values,
                )
            texts += [self.model.text(row) for row in np.stack(columns, 1)]
        return texts

    def _sampled(self, logits: Tensor, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return a token [n] for each row of logits, among the tokens that may be written."""
        allowed = logits[:, torch.from_numpy(self.model.outputs).to(logits.device)]
        ends = functional.softmax(allowed.double(), 1).cumsum(1).cpu().numpy()
        at = generator.random(len(ends))[:, None] * ends[:, -1:]
        return self.model.outputs[np.minimum((ends <= at).sum(1), ends.shape[1] - 1)]

    def losses(self, prompts: Tensor, rows: Sequence[Tokens]) -> Tensor:
        """Return the mean loss [n] of the tokens of each text after its prompt [n, width]."""
        longest = max(map(len, rows))
        there = torch.tensor([[i < len(row) for i in range(longest)] for row in rows], device=prompts.device)
        ids = torch.tensor([row + [self.model.end] * (longest - len(row)) for row in rows], device=prompts.device)
        read = torch.cat([prompts[:, None], self.network.get_input_embeddings()(ids[:, :-1])], 1)
        states = self.network.base_model(inputs_embeds=read).last_hidden_state[there]
        losses = functional.cross_entropy(self.network.get_output_embeddings()(states), ids[there], reduction="none")
        number = torch.arange(len(rows), device=prompts.device)[:, None].expand_as(there)[there]
        return torch.zeros(len(rows), device=prompts.device).index_add(0, number, losses) / there.sum(1)

    def _on_device(self, array: NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.model.device)


def _shuffled(rows: Sequence[Tokens], generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield the batches of all epochs, each of texts of similar length."""
    for _ in range(_EPOCHS):
        order = generator.permutation(len(rows))
        order = order[np.argsort([len(rows[i]) for i in order], kind="stable")]
        batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
        yield from (batches[i] for i in generator.permutation(len(batches)))
