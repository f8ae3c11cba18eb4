"""Training of an encoder-decoder for DP-BART's variants PR and PR+ (Igamberdiev and Habernal).

The encoder is frozen. The decoder learns to write a public text from the encoder's states of that text. Texts are
truncated and states are clipped as in the mechanism. For `pr`, each round drops a quarter of the remaining dimensions
before its training steps. For `pr_plus`, the dropped dimensions are those of the starting model, and fresh noise for
one epsilon is added to every text's states at every step.

Departures: the paper also trains the encoder, for 20 epochs of 500 steps of 32 texts. For `pr_plus` the authors chose
the checkpoint by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.mechanisms.latents.shared.noise import gaussian_scale
from epsilometer.mechanisms.latents.shared.pruning import Pruning, prune_round, scores
from epsilometer.models.seq2seq import Seq2Seq
from epsilometer.models.teaching import IGNORED, Targets, embeddings, save
from epsilometer.runtime.progress import track

_HELD_OUT = 64  # texts held out from training


@component
class NoiseAware:
    """Settings of a model's training.

    variant, clip, length: as in `dp_bart`.
    rounds:                number of rounds.
    steps:                 updates per round.
    batch:                 texts per update.
    rate:                  largest learning rate of Adam.
    epsilon, delta:        budget of the noise, only for pr_plus.
    seed:                  seed of all randomness.
    """

    variant: Literal["pr", "pr_plus"]
    clip: PositiveFloat = 0.1
    length: PositiveInt = 20
    rounds: PositiveInt = 1
    steps: PositiveInt = 500
    batch: PositiveInt = 32
    rate: PositiveFloat = 1e-5
    epsilon: PositiveFloat = 1000.0
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    seed: NonNegativeInt = 0


def train(resource: str | Path, texts: Sequence[str], how: NoiseAware, out: Path) -> dict[str, Any]:
    """Train a model on public texts, write it to the folder `out` with pruning.json, and return the training record.

    resource: an encoder-decoder. pr_plus drops the dimensions that the pruning.json of this model lists, and none
    without that file. In the record, loss_before and loss_after are cross-entropies of held-out texts, under the
    starting and the trained model. A model uses only the dimensions that it keeps. The same call gives the same weights
    on one kind of processor with the same number of threads. Raises UserError for a model of another kind, too few
    texts, or a length beyond the window.
    """
    if len(texts) < 2 * _HELD_OUT:
        raise UserError(f"training needs at least {2 * _HELD_OUT} texts, got {len(texts)}; give more texts", "EPS-M047")
    model = Seq2Seq(resource)
    if how.length > model.window:
        raise UserError(
            f"length must be at most the model's window, {model.window} tokens, got {how.length}", "EPS-M048"
        )
    earlier = Pruning.read(model.folder)
    used = np.arange(model.width) if earlier is None else earlier.remaining()
    random = np.random.default_rng(how.seed)
    order = random.permutation(len(texts))
    held, training = [texts[i] for i in order[:_HELD_OUT]], [texts[i] for i in order[_HELD_OUT:]]
    task = _Task(model, how, training)
    before, dimensions = task.measured(held, used), []
    for _ in range(how.rounds):
        if how.variant == "pr":
            used = prune_round(used, scores(model.network, model.width))
        dimensions.append(len(used))
        task.fit(training, used, random, f"train, {len(used)} of {model.width} dimensions")
    pruned = np.setdiff1d(np.arange(model.width), used)
    record = {"loss_before": before, "loss_after": task.measured(held, used), "dimensions": dimensions}
    noisy = how.variant == "pr_plus"
    save(model, out)
    Pruning(
        how.variant,
        tuple(int(i) for i in pruned),
        model.width,
        how.length,
        clip=how.clip,
        epsilon=how.epsilon if noisy else None,
        delta=how.delta if noisy else None,
    ).write(out)
    return {"training_texts": len(training), **asdict(how), **record}


class _Task:
    """The training task: write a text from its encoder states, as the mechanism passes them to the decoder."""

    def __init__(self, model: Seq2Seq, how: NoiseAware, texts: Sequence[str]) -> None:
        self.model, self.how = model, how
        self.noise = torch.Generator().manual_seed(how.seed)
        self.targets = Targets(model, texts)
        model.network.requires_grad_(False)
        shared = {id(p) for p in model.network.get_encoder().parameters()} | embeddings(model)
        self.weights = [p for p in model.network.get_decoder().parameters() if id(p) not in shared]
        for weight in self.weights:
            weight.requires_grad_(True)

    def loss(self, texts: Sequence[str], used_dimensions: NDArray[np.int64], generator: torch.Generator) -> Tensor:
        """Return the mean cross-entropy of the texts' tokens."""
        from transformers.modeling_outputs import BaseModelOutput

        model, how = self.model, self.how
        ids, mask = model.padded(texts, how.length)
        states = model.states(ids, mask).clone()  # leaves inference mode
        used = torch.zeros(model.width)
        used[torch.from_numpy(used_dimensions)] = 1
        states = states.clamp(-how.clip, how.clip)
        if how.variant == "pr_plus":
            reach = 2 * how.clip * (how.length * len(used_dimensions)) ** 0.5
            states += reach * gaussian_scale(how.epsilon, how.delta) * torch.randn(states.shape, generator=generator)
        states = (states * used).to(model.device)
        inputs, wanted = self.targets.of(ids, mask)
        logits = model.network(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=torch.ones(states.shape[:2], dtype=torch.long, device=model.device),
            decoder_input_ids=inputs,
            use_cache=False,
        ).logits
        return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORED)

    def measured(self, texts: Sequence[str], used: NDArray[np.int64]) -> float:
        """Return the loss on texts, with the same noise at every call."""
        with torch.no_grad(), self.model._only_outputs():
            return round(float(self.loss(texts, used, torch.Generator().manual_seed(self.how.seed + 1))), 4)

    def fit(self, texts: Sequence[str], used: NDArray[np.int64], random: np.random.Generator, label: str) -> None:
        """Train by Adam with a learning rate that falls to 0 over the second half."""
        how = self.how
        optimiser = torch.optim.Adam(self.weights, lr=how.rate)
        with self.model._only_outputs():
            for step in track(range(how.steps), how.steps, label):
                for group in optimiser.param_groups:
                    group["lr"] = how.rate * min(1, 2 * (1 - step / how.steps))
                part = [texts[i] for i in random.integers(0, len(texts), how.batch)]
                loss = self.loss(part, used, self.noise)
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
                optimiser.step()
