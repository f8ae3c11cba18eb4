"""LAMP (Balunovic et al. 2022): gradient descent on word embeddings, with moves of tokens guided by a language model.

The server is honest and knows labels and lengths; the model is a classifier. Adam searches for embeddings whose
gradient matches the sent gradient. A penalty pulls the embeddings' mean length towards that of the model's word
embeddings. After a tenth of the steps, moves begin: at regular intervals, each text is replaced by the best of up to
200 rearrangements of its tokens. The criterion is the matching loss plus a weight times a language model's loss on the
nearest words. The result consists of the words nearest to the best embeddings, by cosine.

The constants are those of the released settings for BERT. The learning rate is .01, multiplied by .89 every 50 steps.
There are 2,000 steps, with moves every 75 steps, 500 random starts, and 500 rearrangements of the best start. With the
loss `cos`, the penalty on lengths has weight 1 and the language model has weight .2. With `tag`, these weights are 25
and 60.

Differences from the released code:

- Lengths are pulled towards the mean of the model's words. The released code uses 1.4, the mean of bert-base-uncased.
- A move rearranges only the tokens between a text's special tokens, and the language model reads the current words. In
  the released code, padding moves, too, and the language model reads outdated words of a batch's earlier texts.
- Random starts are compared per text, given the other texts, not for the whole batch at once.
- The best embeddings are the ones whose loss was measured. The released code keeps the embeddings one step later.
- Unused vocabulary entries and special tokens are never part of a result, because the true texts do not contain them.
- The language model may have any vocabulary; the released code uses a GPT-2 trained on BERT's vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.models.embedded import paraphraser
from epsilometer.studies.training.attacks.reconstruction.shared.attack import Knowledge, Prepared, Reconstruction
from epsilometer.studies.training.attacks.reconstruction.shared.language import LanguageModel
from epsilometer.studies.training.attacks.reconstruction.shared.matching import Loss, Matching
from epsilometer.studies.training.runs.sent import Sent
from epsilometer.studies.training.runs.shared_model import SharedModel

EMBEDDED = "embedded"
LENGTH_WEIGHT = {"cos": 1.0, "tag": 25.0}
LANGUAGE_WEIGHT = {"cos": 0.2, "tag": 60.0}
RATE, DECAY, DECAY_EVERY = 0.01, 0.89, 50
WITHOUT_MOVES = 0.1  # share of the steps before moves begin
_UNUSED = re.compile(r"\[unused\d+\]")

Count = Annotated[int, Field(ge=0)]


@component
class Lamp:
    """The LAMP attack.

    loss:       the matching loss, `cos` or `tag`.
    steps:      the number of steps of Adam.
    starts:     the number of random starts.
    rearranged: the number of rearrangements of the best start.
    moves:      the maximum number of rearrangements that a move compares.
    every:      the number of steps between moves.
    language:   the folder of a causal language model, `embedded` for the embedded model, null for none.
    """

    loss: Loss = "cos"
    steps: Annotated[int, Field(ge=1)] = 2000
    starts: Annotated[int, Field(ge=1)] = 500
    rearranged: Count = 500
    moves: Annotated[int, Field(ge=1)] = 200
    every: Annotated[int, Field(ge=1)] = 75
    language: str | None = EMBEDDED

    def prepare(self, model: SharedModel, knowledge: Knowledge) -> Prepared:
        """Return the attack, ready for clients.

        Raises UserError if the model is not a classifier, or if `language` is not a causal language model.
        """
        if model.objective != "classification":
            raise UserError(
                f"lamp attacks classifiers, but the objective is {model.objective}; set objective: classification",
                "EPS-A022",
            )
        language = None
        if self.language is not None:
            language = LanguageModel(paraphraser() if self.language == EMBEDDED else self.language)
        return Descent(model, language, self)


@dataclass(frozen=True)
class Descent:
    """The prepared attack. model: the unchanged model; language: a language model or None."""

    model: SharedModel
    language: LanguageModel | None
    settings: Lamp

    def reconstruct(self, sent: Sent, generator: np.random.Generator) -> Reconstruction:
        """Return the texts of a batch, in the order of their labels and lengths."""
        matching = Matching(self.model, sent, self.settings.loss)
        texts = [self._random_texts(1, length, generator)[0] for length in sent.lengths]
        for number in range(len(texts)):
            texts[number] = self._start(matching, texts, number, generator)
        texts, least = self._search(matching, texts, generator)
        ids = self.nearest(texts)
        return Reconstruction(tuple(map(tuple, ids)), {"loss": least})

    def nearest(self, texts: Sequence[Tensor]) -> list[list[int]]:
        """Return the vocabulary entries nearest to each text's embeddings by cosine, without special tokens.

        texts: embeddings [T, width], which include special tokens.
        """
        first, last = self._ends
        allowed, directions = self._directions
        return [
            allowed[(embeddings[first : len(embeddings) - last] @ directions.T).argmax(1)].tolist()
            for embeddings in texts
        ]

    @cached_property
    def _ends(self) -> tuple[int, int]:
        """The numbers of special tokens before and after a text."""
        frame = self.model.framed([-1])
        return frame.index(-1), len(frame) - 1 - frame.index(-1)

    @cached_property
    def _directions(self) -> tuple[Tensor, Tensor]:
        """The vocabulary entries [v] that may be part of a result, and their unit vectors [v, width]."""
        vocabulary = self.model.tokenizer.get_vocab()
        unused = {number for word, number in vocabulary.items() if _UNUSED.fullmatch(word)}
        left_out = self.model.special | unused
        numbers = [i for i in range(len(self.model.words)) if i not in left_out]
        allowed = torch.tensor(numbers, device=self.model.device)
        return allowed, torch.nn.functional.normalize(self.model.words.detach()[allowed], dim=1)

    @cached_property
    def _length(self) -> float:
        """The mean length of word embeddings."""
        return float(self.model.words.detach()[self._directions[0]].norm(dim=1).mean())

    def _random_texts(self, count: int, length: int, generator: np.random.Generator) -> Tensor:
        """Return random texts [count, length, width]: special tokens, and random vectors of word embeddings' length."""
        first, last = self._ends
        words = self.model.words.detach()
        normal = generator.standard_normal((count, length - first - last, words.shape[1]), np.float32)
        inner = torch.from_numpy(normal).to(self.model.device)
        inner = inner * (self._length / inner.norm(dim=2, keepdim=True))
        frame = self.model.framed([])
        ends = words[torch.tensor(frame, dtype=torch.int64)].expand(count, -1, -1)
        return torch.cat([ends[:, :first], inner, ends[:, first:]], 1)

    def _start(
        self, matching: Matching, texts: Sequence[Tensor], number: int, generator: np.random.Generator
    ) -> Tensor:
        """Return the best rearrangement of the best of several random texts."""
        starts = self._random_texts(self.settings.starts, len(texts[number]), generator)
        best = starts[int(matching.losses(texts, number, starts).argmin())]
        first, last = self._ends
        orders = [np.arange(len(best))]
        for _ in range(self.settings.rearranged):
            inner = generator.permutation(np.arange(first, len(best) - last))
            orders.append(np.concatenate([np.arange(first), inner, np.arange(len(best) - last, len(best))]))
        arranged = best[torch.from_numpy(np.stack(orders))]
        return arranged[int(matching.losses(texts, number, arranged).argmin())]

    def _search(
        self, matching: Matching, texts: list[Tensor], generator: np.random.Generator
    ) -> tuple[list[Tensor], float]:
        """Return the texts of smallest loss over all steps, and their loss."""
        first, last = self._ends
        inner = [embeddings[first : len(embeddings) - last].clone().requires_grad_() for embeddings in texts]
        before, after = texts[0][:first], texts[0][len(texts[0]) - last :]
        optimiser = torch.optim.Adam(inner, RATE)
        schedule = torch.optim.lr_scheduler.StepLR(optimiser, DECAY_EVERY, DECAY)
        best, least = [embeddings.clone() for embeddings in texts], np.inf
        for step in range(1, self.settings.steps + 1):
            whole = [torch.cat([before, embeddings, after]) for embeddings in inner]
            loss = matching.loss(whole, create_graph=True) + self._lengths_off(inner)
            if float(loss.detach()) < least:
                best, least = [embeddings.detach().clone() for embeddings in whole], float(loss.detach())
            for embeddings, slope in zip(inner, torch.autograd.grad(loss, inner), strict=True):
                embeddings.grad = slope
            optimiser.step()
            schedule.step()
            if step > WITHOUT_MOVES * self.settings.steps and step % self.settings.every == 1 % self.settings.every:
                self._move(matching, inner, generator)
        return best, float(least)

    def _lengths_off(self, inner: Sequence[Tensor]) -> Tensor:
        """Return the weighted squared difference between the mean lengths of `inner` and of word embeddings."""
        mean = torch.cat([embeddings.norm(dim=1) for embeddings in inner]).mean()
        return LENGTH_WEIGHT[self.settings.loss] * (mean - self._length) ** 2

    def _move(self, matching: Matching, inner: list[Tensor], generator: np.random.Generator) -> None:
        """Replace each text, in place, by the best of several rearrangements of its tokens."""
        first, _ = self._ends
        frame = self.model.words.detach()[torch.tensor(self.model.framed([]), dtype=torch.int64)]
        for number, embeddings in enumerate(inner):
            whole = [torch.cat([frame[:first], other.detach(), frame[first:]]) for other in inner]
            orders = torch.from_numpy(moves(len(embeddings), self.settings.moves, generator))
            arranged = embeddings.detach()[orders]
            ends = frame.expand(len(orders), -1, -1)
            candidates = torch.cat([ends[:, :first], arranged, ends[:, first:]], 1)
            losses = matching.losses(whole, number, candidates).double().cpu().numpy()
            if self.language is not None:
                words = np.array(self.nearest([whole[number]])[0])
                texts = [self.model.decode(words[order]) for order in orders.numpy()]
                losses = losses + LANGUAGE_WEIGHT[self.settings.loss] * self.language.losses(texts)
            with torch.no_grad():
                embeddings.copy_(arranged[int(losses.argmin())])


def moves(length: int, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return at most `count` different rearrangements of positions, [at most count, length]. The first is the identity.

    Each other rearrangement exchanges two positions, moves one position, moves a span, or moves a prefix to the end.
    These four kinds are equally likely. About a third of the samples repeat an earlier one and are left out.
    """
    orders = [np.arange(length)]
    while len(orders) < count:
        order = list(range(length))
        kind = int(generator.integers(4))
        i, j = sorted(map(int, generator.integers(0, length, 2)))
        if kind == 0:
            order[i], order[j] = order[j], order[i]
        elif kind == 1:
            order.insert(int(generator.integers(length)), order.pop(i))
        elif kind == 2:
            span = order[i : j + 1]
            del order[i : j + 1]
            at = int(generator.integers(len(order) + 1))
            order[at:at] = span
        else:
            order = order[i:] + order[:i]
        orders.append(np.array(order))
    return np.array([*dict.fromkeys(tuple(order.tolist()) for order in orders)], np.int64)
