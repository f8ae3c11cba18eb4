"""LAMP's two matching losses: distances between the sent gradient and the gradient of texts, given as embeddings.

`cos`: the mean over tensors of 1 - cosine. Inner products and lengths suffice. They are computed from activations
(`runs.inner_products`), and no weight matrix's gradient is formed.

`tag` (Deng et al. 2021): the sum of squared differences plus TAG_FACTOR times the sum of absolute differences. Absolute
differences need every number, so gradients are formed.

Two kinds of tensors are left out: the embedding table, and BERT's key biases. The gradient of key biases is only
rounding error, because a constant added to all keys does not change attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from epsilometer.studies.training.runs.inner_products import Summed, mean_products, products, products_beside, summed
from epsilometer.studies.training.runs.sent import Sent
from epsilometer.studies.training.runs.shared_model import SharedModel

Loss = Literal["cos", "tag"]
TAG_FACTOR = 0.01
AT_ONCE = 50  # candidates per pass
TINY = 1e-12  # a tensor's gradient counts as zero if it is shorter than this


@dataclass(frozen=True)
class Matching:
    """A matching loss. model: the model with which the client computed its gradient; kind: `cos` or `tag`."""

    model: SharedModel
    sent: Sent = field(repr=False)
    kind: Loss

    @cached_property
    def target(self) -> list[Tensor]:
        """The sent gradient, by tensor."""
        return [part.detach() for part in self.model.split(torch.from_numpy(self.sent.update).to(self.model.device))]

    @cached_property
    def _compared(self) -> Tensor:
        """A mask of the m tensors that are compared, bool [m]."""
        table = next((n for n, p in self.model.network.named_parameters() if p is self.model.words), "")
        left_out = [
            name == table or name.endswith("attention.self.key.bias") or not bool(torch.any(part != 0))
            for name, part in zip(self.model.names, self.target, strict=True)
        ]
        return ~torch.tensor(left_out, device=self.model.device)

    @cached_property
    def _lengths(self) -> Tensor:
        return torch.stack([part.norm() for part in self.target])

    def loss(self, texts: Sequence[Tensor], *, create_graph: bool = False) -> Tensor:
        """Return the loss of a whole batch. texts: embeddings [T, width] of each text's T tokens, with special ones."""
        labels = self.sent.labels
        if self.kind == "cos":
            of = mean_products(self.model, texts, labels, self.target, create_graph=create_graph)
            return self._cosines(of.inner, of.squares)[0]
        gradients = [
            self.model.gradient(text, label, create_graph=create_graph)
            for text, label in zip(texts, labels, strict=True)
        ]
        return self._tag([sum(same[1:], same[0]) / len(texts) for same in zip(*gradients, strict=True)])

    def losses(self, texts: Sequence[Tensor], number: int, candidates: Tensor) -> Tensor:
        """Return the losses [n] of the batch with one text replaced by each of n candidates.

        texts: as for `loss`; number: the index of the text to replace; candidates: [n, T, width].
        """
        others = [i for i in range(len(texts)) if i != number]
        rest, labels = [texts[i].detach() for i in others], [self.sent.labels[i] for i in others]
        if self.kind == "tag":
            formed = self._formed(rest, labels)
            return torch.stack([self._tag_beside(formed, candidate, number) for candidate in candidates])
        other = summed(self.model, rest, labels, self.target) if others else None
        return torch.cat([self._cosines_beside(other, part, number) for part in candidates.split(AT_ONCE)])

    def _cosines_beside(self, other: Summed | None, candidates: Tensor, number: int) -> Tensor:
        labels, count = [self.sent.labels[number]] * len(candidates), len(self.sent.labels)
        if other is None:
            of = products(self.model, candidates, labels, self.target)
        else:
            of = products_beside(self.model, candidates, labels, self.target, other=other)
        return self._cosines(of.inner / count, of.squares / count**2).detach()

    def _formed(self, texts: Sequence[Tensor], labels: Sequence[int]) -> list[Tensor]:
        """Return the sum of the texts' gradients, by tensor."""
        total = [torch.zeros_like(part) for part in self.target]
        for text, label in zip(texts, labels, strict=True):
            for part, more in zip(total, self.model.gradient(text, label), strict=True):
                part += more
        return total

    def _tag_beside(self, rest: Sequence[Tensor], candidate: Tensor, number: int) -> Tensor:
        own = self.model.gradient(candidate, self.sent.labels[number])
        return self._tag([(a + b) / len(self.sent.labels) for a, b in zip(own, rest, strict=True)]).detach()

    def _cosines(self, inner: Tensor, squares: Tensor) -> Tensor:
        """Return the mean [n] of 1 - cosine over the compared tensors. inner, squares: [n, m], by tensor."""
        lengths = squares[:, self._compared].clamp(min=TINY**2).sqrt() * self._lengths[self._compared]
        return (1 - inner[:, self._compared] / lengths).mean(1)

    def _tag(self, gradients: Sequence[Tensor]) -> Tensor:
        total = torch.zeros((), device=self.model.device)
        for gradient, other, compared in zip(gradients, self.target, self._compared.tolist(), strict=True):
            if compared:
                apart = gradient - other
                total = total + apart.square().sum() + TAG_FACTOR * apart.abs().sum()
        return total
