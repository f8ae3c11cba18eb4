"""The training loop: it can be resumed at any step, with the same result as without an interruption.
A step's data depend only on the seed and the step's number. The learning rate rises and then stays constant. Instead of
a decay, the final weights are a moving average (Polyak and Juditsky 1992) over the last few hundred steps, so that
training can end, or continue, at any time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from epsilometer.core.atomic import whole
from epsilometer.core.randomness import Noise
from epsilometer.runtime.progress import say

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

WARM_UP = 50  # steps
AVERAGED = 400  # steps in the moving average
SAVED = 150.0  # seconds between two checkpoints
MOMENTS = ("exp_avg", "exp_avg_sq")  # AdamW's state for a weight
SAID = 30.0  # seconds between two lines of progress


@dataclass(frozen=True)
class Progress:
    """The training of a model so far, over all its runs."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Progress) -> Progress:
        return Progress(self.steps + other.steps, self.tokens + other.tokens, self.seconds + other.seconds)

    def __str__(self) -> str:
        return f"{self.steps:,} steps, {self.tokens:,} tokens, {self.seconds / 60:.1f} minutes"


class Recipe(Protocol):
    """The training and evaluation of one model."""

    module: Module
    rate: float  # the highest learning rate

    def loss(self, generator: np.random.Generator) -> tuple[Tensor, int, dict[str, float]]:
        """Return the loss of a batch drawn by the generator, its number of tokens, and figures for the log."""
        ...

    def quality(self) -> dict[str, float]:
        """Return figures on held-out texts for the current weights."""
        ...

    def save(self, folder: Path) -> None:
        """Write the model to a folder, in float16."""
        ...


def train(
    recipe: Recipe, checkpoint: Path, name: str, seed: int, begun: Progress, enough: Callable[[Progress], bool]
) -> Progress:
    """Train until `enough` returns True, and leave the averaged weights in the recipe's module.
    checkpoint: a file. If it exists, training continues from it, otherwise from the module's weights and `begun`.
    """
    import torch

    state = _State(recipe, begun)
    if checkpoint.is_file():
        state.restore(checkpoint)
    recipe.module.train()
    seen: dict[str, float] = {}
    clock = saved = said = time.monotonic()
    while not enough(state.progress):
        stream = Noise.named(np.array([state.progress.steps]), seed, "pretrain", name)
        loss, tokens, figures = recipe.loss(stream.generator(0))
        state.update(loss)
        now = time.monotonic()
        state.progress += Progress(1, tokens, now - clock)
        clock = now
        for figure, value in figures.items():
            seen[figure] = 0.95 * seen.get(figure, value) + 0.05 * value
        if now - said > SAID:
            say(f"{name}: {state.progress}: " + ", ".join(f"{f} {v:.3f}" for f, v in sorted(seen.items())))
            said = now
        if now - saved > SAVED:
            state.store(checkpoint)
            saved = now
    state.store(checkpoint)
    with torch.no_grad():
        for name, weight in state.weights.items():
            weight.copy_(state.average[name])
    recipe.module.eval()
    return state.progress


class _State:
    """The content of a checkpoint: weights, their average, the optimiser's moments, and the progress of training."""

    def __init__(self, recipe: Recipe, begun: Progress) -> None:
        import torch

        self.weights = {name: weight for name, weight in recipe.module.named_parameters() if weight.requires_grad}
        self.average = {name: weight.detach().clone() for name, weight in self.weights.items()}
        self.optimiser = torch.optim.AdamW(self.weights.values(), lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.01)
        self.progress = begun
        self.first = begun.steps  # the step at which the optimiser was created
        self._rate = recipe.rate

    def update(self, loss: Tensor) -> None:
        """Make one step of the optimiser, and update the average."""
        import torch

        run = self.progress.steps - self.first
        for group in self.optimiser.param_groups:
            group["lr"] = self._rate * min(1.0, (run + 1) / WARM_UP)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), 1.0)
        self.optimiser.step()
        decay = min(1 - 1 / AVERAGED, (1 + run) / (10 + run))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.values()), list(self.weights.values()), 1 - decay)

    def store(self, checkpoint: Path) -> None:
        """Write the whole state. An interrupted call leaves no incomplete file."""
        import torch
        from safetensors.torch import save

        tensors: dict[str, Tensor] = {}
        for name, weight in self.weights.items():
            moments = self.optimiser.state.get(weight) or dict.fromkeys(MOMENTS, torch.zeros_like(weight))
            parts = {"weight": weight, "average": self.average[name], **{moment: moments[moment] for moment in MOMENTS}}
            tensors |= {f"{part}.{name}": tensor.detach().cpu().contiguous().clone() for part, tensor in parts.items()}
        with whole(checkpoint) as file:
            file.write(save(tensors, {"progress": json.dumps([asdict(self.progress), self.first])}))

    def restore(self, checkpoint: Path) -> None:
        """Continue from a file that `store` wrote."""
        import torch
        from safetensors import safe_open

        with safe_open(checkpoint, "pt") as file, torch.no_grad():
            progress, self.first = json.loads(file.metadata()["progress"])
            self.progress = Progress(**progress)
            for name, weight in self.weights.items():
                weight.copy_(file.get_tensor(f"weight.{name}"))
                self.average[name].copy_(file.get_tensor(f"average.{name}"))
                moments = {moment: file.get_tensor(f"{moment}.{name}").to(weight.device) for moment in MOMENTS}
                self.optimiser.state[weight] = {
                    "step": torch.tensor(float(self.progress.steps - self.first)),
                    **moments,
                }
