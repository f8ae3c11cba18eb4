"""Training of an encoder-decoder to write round trips of texts from states that hide an attribute (Xu 2019).

The training follows appendix C of IDT's paper. A round trip is a rewrite by one or two models, such as a
back-translation. The model reads a text and learns to write its round trip (cross-entropy L). The adversary, a
classification head like BART's, infers the attribute (cross-entropy A) from the decoder state at the end of the round
trip. In the last phase the model descends along the gradient of L - alpha A, by gradient reversal.

As published, 10 epochs train only the adversary, 10 only the model, and 14 both. The optimiser is Adam at rate 1e-5
with batches of 32, alpha is 1.0, and the model is facebook/bart-base or similar. Departures: word embeddings are not
trained (`models/teaching.py`), and gradients are clipped at length 1.

Such training tends to collapse: for every input the model writes one of the same few texts, which reveal nothing and
are useless. So after every epoch that changes the model, the model rewrites held-out texts. If fewer than 30 of 100
outputs are distinct, training ends with an error.

The state after every epoch is saved to a folder. Interrupted training resumes from that state and gives the same bytes,
since every epoch has its own random stream.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from epsilometer.core import tables
from epsilometer.core.atomic import whole
from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.models.beam_search import rewritten
from epsilometer.models.seq2seq import Seq2Seq
from epsilometer.models.teaching import IGNORED, Targets, embeddings, save
from epsilometer.runtime.progress import track

HELD_OUT = 100  # most held-out texts, to measure collapse and the adversary; at most a fifth of all texts
LEAST_DISTINCT = 30  # fewest distinct outputs per 100 inputs
RECORD = "rewriter.json"
_DROPOUT = 0.1


@component
class AdversarialTraining:
    """Settings of a rewriter's training.

    adversary_epochs, rewriter_epochs, joint_epochs: number of epochs of each phase.
    rate:   learning rate of both Adam optimisers.
    batch:  texts per step.
    alpha:  weight of the adversary's loss.
    length: most tokens of a text and of its round trip; longer ones are truncated.
    seed:   seed of all randomness.
    """

    adversary_epochs: NonNegativeInt = 10
    rewriter_epochs: NonNegativeInt = 10
    joint_epochs: NonNegativeInt = 14
    rate: PositiveFloat = 1e-5
    batch: PositiveInt = 32
    alpha: NonNegativeFloat = 1.0
    length: PositiveInt = 64
    seed: NonNegativeInt = 0

    @model_validator(mode="after")
    def _changes_the_model(self) -> AdversarialTraining:
        if not self.rewriter_epochs + self.joint_epochs:
            raise ValueError(
                "rewriter_epochs and joint_epochs are both 0, so nothing is learnt; set one of them to 1 or more"
            )
        return self

    @property
    def phases(self) -> list[tuple[bool, bool]]:
        """Two flags per epoch: True if the adversary learns, True if the rewriter learns."""
        alone = [(True, False)] * self.adversary_epochs + [(False, True)] * self.rewriter_epochs
        return alone + [(True, True)] * self.joint_epochs


@dataclass(frozen=True)
class Parallel:
    """n texts, their round trips, and the class of each text."""

    texts: Sequence[str]
    round_trips: Sequence[str]
    classes: Sequence[str]


def train(resource: str | Path, parallel: Parallel, how: AdversarialTraining, out: Path, state: Path) -> dict[str, Any]:
    """Train a model, write it to the folder `out` with the record rewriter.json, and return the content of the record.

    resource: an encoder-decoder; state: folder for the state after the last epoch. In the record, `distinct` is the
    number of distinct outputs per 100 held-out inputs, after each epoch that changes the model. `adversary` is the
    adversary's accuracy on held-out texts, after each epoch that trains the adversary. `commonest` is the share of the
    most frequent class. Raises UserError for too few texts, a single class, a length beyond the model's window, and
    collapsed outputs.
    """
    held = min(HELD_OUT, len(parallel.texts) // 5)
    if len(parallel.texts) - held < how.batch or not held:
        raise UserError(
            f"training needs more than {how.batch} texts (one batch, and a fifth held out), got {len(parallel.texts)}; "
            "give more texts, or a smaller batch",
            "EPS-M010",
        )
    if len({*parallel.classes}) < 2:
        raise UserError(
            "the texts have a single class, and an adversary needs two; give more texts, or another attribute",
            "EPS-M011",
        )
    model = Seq2Seq(resource)
    if how.length > model.window:
        raise UserError(
            f"length must be at most the model's window, {model.window} tokens, got {how.length}", "EPS-M012"
        )
    with torch.random.fork_rng():
        training = _Training(model, parallel, how, held)
        training.run(state / "state.safetensors")
    save(model, out)
    commonest = max(parallel.classes.count(name) for name in {*parallel.classes}) / len(parallel.classes)
    record = {"texts": len(parallel.texts) - held, **asdict(how), "commonest": commonest, **training.measured}
    tables.write_json(record, out / RECORD)
    return record


def trained(folder: str | Path) -> Seq2Seq:
    """Return the trained model in a folder. Raises UserError if the folder does not contain one."""
    if not (Path(folder) / RECORD).is_file():
        raise UserError(
            f"{folder} does not contain a trained rewriter ({RECORD} is missing); set `resource` to a folder written "
            "by stage rewriters, data/rewriters/NAME",
            "EPS-M013",
        )
    return Seq2Seq(folder)


class _Reversed(torch.autograd.Function):
    """Gradient reversal: the identity in the forward pass; gradients are multiplied by -alpha in the backward pass."""

    @staticmethod
    def forward(context: Any, states: Tensor, alpha: float) -> Tensor:
        context.alpha = alpha
        return states.view_as(states)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -context.alpha * gradients[0], None


class _Training:
    """A rewriter, its adversary, and the progress of their training."""

    def __init__(self, model: Seq2Seq, parallel: Parallel, how: AdversarialTraining, held: int) -> None:
        torch.manual_seed(how.seed)
        self.model, self.how, self.parallel = model, how, parallel
        order = np.random.default_rng(how.seed).permutation(len(parallel.texts))
        self.held, self.training = order[:held], order[held:]
        names = sorted({*parallel.classes})
        self.truth = torch.tensor([names.index(name) for name in parallel.classes], device=model.device)
        self.targets = Targets(model, parallel.round_trips)
        width = model.network.get_output_embeddings().weight.shape[1]
        self.adversary = nn.Sequential(
            nn.Dropout(_DROPOUT), nn.Linear(width, width), nn.Tanh(), nn.Dropout(_DROPOUT), nn.Linear(width, len(names))
        ).to(model.device)
        model.network.requires_grad_(False)
        shared = embeddings(model)
        self.weights = [p for p in model.network.parameters() if id(p) not in shared]
        self.optimisers = [
            torch.optim.Adam(part, lr=how.rate) for part in (list(self.adversary.parameters()), self.weights)
        ]
        self.done = 0
        self.measured: dict[str, list[float]] = {"distinct": [], "adversary": []}

    def run(self, state: Path) -> None:
        """Run the remaining epochs. The state is written atomically after each."""
        if state.exists():
            self._restore(state)
        phases = self.how.phases
        for epoch in range(self.done, len(phases)):
            self._epoch(epoch, *phases[epoch])
            self.done = epoch + 1
            self._keep(state)

    def _epoch(self, epoch: int, adversary: bool, rewriter: bool) -> None:
        torch.manual_seed(self.how.seed + (epoch + 1 << 32))
        order = np.random.default_rng([self.how.seed, epoch]).permutation(self.training)
        self.model.network.train(rewriter)
        self.adversary.train(adversary)
        for weight in self.weights:
            weight.requires_grad_(rewriter)
        starts = range(0, len(order) - self.how.batch + 1, self.how.batch)
        learners = [
            optimiser for optimiser, learns in zip(self.optimisers, (adversary, rewriter), strict=True) if learns
        ]
        for start in track(starts, len(starts), f"train rewriter, epoch {epoch + 1} of {len(self.how.phases)}"):
            written, inferred = self._losses(order[start : start + self.how.batch])
            loss = written * rewriter + inferred * adversary
            for optimiser in self.optimisers:
                optimiser.zero_grad()
            loss.backward()
            for optimiser in learners:
                nn.utils.clip_grad_norm_(optimiser.param_groups[0]["params"], 1.0)
                optimiser.step()
        self._measure(adversary, rewriter)

    def _losses(self, rows: NDArray[np.integer]) -> tuple[Tensor, Tensor]:
        """Return two cross-entropies: of the round trips' tokens, and of the attribute."""
        logits, wanted, states = self._forward(rows)
        written = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORED)
        reversed_states: Tensor = _Reversed.apply(states, self.how.alpha)
        return written, F.cross_entropy(self.adversary(reversed_states), self.truth[rows])

    def _forward(self, rows: NDArray[np.integer]) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits [n, length, outputs], targets [n, length], and decoder states [n, width] at the last token."""
        model, parallel = self.model, self.parallel
        ids, mask = self._ids([parallel.texts[i] for i in rows])
        inputs, wanted = self.targets.of(*self._ids([parallel.round_trips[i] for i in rows]))
        read_by_head: list[Tensor] = []
        head = model.network.get_output_embeddings()
        hook = head.register_forward_pre_hook(lambda _, inputs: read_by_head.append(inputs[0]))
        with model._only_outputs():
            logits = model.network(
                input_ids=model.tensor(ids),
                attention_mask=model.tensor(mask),
                decoder_input_ids=inputs,
                use_cache=False,
            ).logits
        hook.remove()
        ends = (wanted != IGNORED).long().mul(torch.arange(1, wanted.shape[1] + 1, device=wanted.device)).argmax(1)
        return logits, wanted, read_by_head[0][torch.arange(len(rows)), ends].float()

    def _ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return token ids and mask of texts, truncated to `length` and padded to the longest text."""
        longest = max(len(ids) for ids in self.model.tokens(texts))
        return self.model.padded(texts, min(longest, self.how.length))

    def _measure(self, adversary: bool, rewriter: bool) -> None:
        """Measure the adversary and the rewriter on held-out texts. Raises UserError if the outputs have collapsed."""
        self.model.network.eval()
        self.adversary.eval()
        if adversary:
            with torch.no_grad():
                named = self.adversary(self._forward(self.held)[2]).argmax(1)
            self.measured["adversary"].append(float((named == self.truth[self.held]).float().mean()))
        if rewriter:
            inputs = list(dict.fromkeys(self.parallel.texts[i] for i in self.held))
            distinct = 100 * len({*rewritten(self.model, inputs, self.how.length, beams=1)}) / len(inputs)
            self.measured["distinct"].append(distinct)
            if distinct < LEAST_DISTINCT:
                raise UserError(
                    f"the rewriter collapsed: after epoch {self.done + 1} it writes {distinct:.0f} distinct texts per "
                    f"100 held-out texts, fewer than {LEAST_DISTINCT}; lower alpha or rate, train for fewer joint "
                    "epochs, or give more texts",
                    "EPS-M014",
                )

    def _keep(self, state: Path) -> None:
        from safetensors.torch import save

        tensors = {f"weights.{i}": weight.detach() for i, weight in enumerate(self.weights)}
        tensors |= {f"adversary.{name}": value for name, value in self.adversary.state_dict().items()}
        for number, optimiser in enumerate(self.optimisers):
            for i, values in optimiser.state_dict()["state"].items():
                tensors |= {f"optimisers.{number}.{i}.{name}": value for name, value in values.items()}
        about = {"done": str(self.done), "measured": json.dumps(self.measured)}
        with whole(state) as file:
            file.write(save({name: value.contiguous() for name, value in tensors.items()}, about))

    def _restore(self, state: Path) -> None:
        from safetensors import safe_open

        with safe_open(state, framework="pt") as opened:
            about, tensors = opened.metadata(), {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        self.done, self.measured = int(about["done"]), json.loads(about["measured"])
        with torch.no_grad():
            for i, weight in enumerate(self.weights):
                weight.copy_(tensors[f"weights.{i}"])
        self.adversary.load_state_dict({name: tensors[f"adversary.{name}"] for name in self.adversary.state_dict()})
        for number, optimiser in enumerate(self.optimisers):
            values: dict[int, dict[str, Tensor]] = {}
            for name, tensor in tensors.items():
                if name.startswith(f"optimisers.{number}."):
                    _, _, i, part = name.split(".")
                    values.setdefault(int(i), {})[part] = tensor
            optimiser.load_state_dict({**optimiser.state_dict(), "state": values})
