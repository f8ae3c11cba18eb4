"""The layers that private fine-tuning trains on a frozen network, with per-example gradients in closed form.

The layers are the last ones of transformers' `BertForSequenceClassification` and `GPT2ForSequenceClassification`; all
others are frozen (paper: "Empirical Calibration and Metric Differential Privacy in Language Models", IEEE Access 13,
2025).

BERT, with x the last hidden state of the first token and m a dropout mask (1 without dropout):
    p = tanh(W x + b), logits = C (m p) + c.   Width w, k classes: w^2 + w + k w + k parameters, 592,130 in bert-base.
GPT-2, with h the state of the last token before the last norm, standardised by its mean and deviation:
    y = gamma h + beta, logits = S y.          2 w + k w parameters, 3,072 in gpt2.

The loss is the cross-entropy. Let e = softmax(logits) - (1 at the label). An example's gradients (' transposes) are

    BERT:   a = (1 - p^2) m (C' e);  W: a x', b: a, C: e (m p)', c: e
    GPT-2:  gamma: (S' e) h, beta: S' e, S: e y'

These are outer products (`factored`), so norms, sums and inner products do not need the gradients themselves. Hidden
states and the layers' values are float32; losses, probabilities and norms are float64.

Several models of one shape can be stacked in one head, with parameters [models, d]. Each result then has an axis for
the models, such as losses [models, L] of L examples.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.atomic import whole
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.models.locate import locate
from epsilometer.studies.training.runs.factored import Factor, FactoredGradients
from epsilometer.studies.training.runs.gradients import ExampleGradients

BERT, GPT2 = "bert", "gpt2"
KINDS = (BERT, GPT2)
_ABOUT = "about"  # the only key of a file's metadata: several keys would have no fixed order


@dataclass(frozen=True, eq=False)
class Head(ABC):
    """Trainable layers on hidden states.

    vector:  float32 [..., d], all parameters, one tensor after the other; an optimiser may change it in place.
    width:   the number of dimensions of a hidden state.
    classes: the number of classes.
    """

    vector: NDArray[np.float32]
    width: int
    classes: int

    def __post_init__(self) -> None:
        if self.vector.dtype != np.float32 or self.vector.shape[-1:] != (self.size,):
            raise ValueError(f"the vector must be float32 [..., {self.size}], got {self.vector.dtype}")

    @property
    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the tensors by name, with the names and the order of transformers."""

    @abstractmethod
    def logits(self, states: NDArray[np.float32], masks: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return the logits [..., L, classes] for states [..., L, width]; masks: dropout masks [..., L, width]."""

    @abstractmethod
    def gradients(
        self, states: NDArray[np.float32], labels: NDArray[np.integer], masks: NDArray[np.float32] | None = None
    ) -> ExampleGradients:
        """Return the per-example gradients of the losses of L examples.

        states: [..., L, width]; labels: [..., L]; masks: dropout masks [..., L, width], or None for no dropout.
        """

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return the attributes of the head that are not parameters."""

    def masks(self, count: int, generator: np.random.Generator) -> NDArray[np.float32] | None:
        """Return dropout masks [count, width] for a training batch; None if the head has no dropout."""
        return None

    @property
    def size(self) -> int:
        """d, the number of parameters of one model."""
        return sum(self.parts)

    @property
    def parts(self) -> tuple[int, ...]:
        """The lengths of the tensors, in order."""
        return tuple(math.prod(shape) for shape in self.shapes.values())

    @property
    def parameters(self) -> dict[str, NDArray[np.float32]]:
        """Views of `vector`: the tensors [..., *shape] by name, in order."""
        out, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + math.prod(shape)
            out[name] = self.vector[..., start:stop].reshape(*self.vector.shape[:-1], *shape, copy=False)
            start = stop
        return out

    def probabilities(self, states: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the probabilities [..., L, classes] of classes, without dropout."""
        return softmax(self.logits(states))

    def log_probabilities(self, states: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the logarithms [..., L, classes] of `probabilities`; finite even where those underflow."""
        logits = self.logits(states).astype(np.float64)
        logits -= logits.max(axis=-1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return logits

    def losses(self, states: NDArray[np.float32], labels: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the cross-entropies [..., L] in nats, without dropout."""
        log_p = self.log_probabilities(states)
        return -np.take_along_axis(log_p, np.broadcast_to(labels, log_p.shape[:-1])[..., None], axis=-1)[..., 0]

    def save(self, path: Path) -> None:
        """Write the tensors and `about` as safetensors, atomically. Equal heads give equal bytes."""
        about = {**self.about(), "width": self.width, "classes": self.classes}
        _write(self.parameters, about, path)


@dataclass(frozen=True, eq=False)
class BertHead(Head):
    """The pooler and classifier of a BERT. dropout: the share of the pooled state that training sets to 0."""

    dropout: float = 0.0

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of pooler and classifier."""
        return {
            "bert.pooler.dense.weight": (self.width, self.width),
            "bert.pooler.dense.bias": (self.width,),
            "classifier.weight": (self.classes, self.width),
            "classifier.bias": (self.classes,),
        }

    def about(self) -> dict[str, Any]:
        """Return kind and dropout."""
        return {"kind": BERT, "dropout": self.dropout}

    def masks(self, count: int, generator: np.random.Generator) -> NDArray[np.float32] | None:
        """Return masks [count, width]: 0 with probability `dropout`, else 1 / (1 - dropout)."""
        if not self.dropout:
            return None
        stays = generator.random((count, self.width), np.float32) >= self.dropout
        return stays.astype(np.float32) / np.float32(1 - self.dropout)

    def logits(self, states: NDArray[np.float32], masks: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return the same as `Head.logits`."""
        pooled = self._pooled(states)
        return self._classified(pooled if masks is None else pooled * masks)

    def gradients(
        self, states: NDArray[np.float32], labels: NDArray[np.integer], masks: NDArray[np.float32] | None = None
    ) -> FactoredGradients:
        """Return the same as `Head.gradients`."""
        pooled = self._pooled(states)
        shown = pooled if masks is None else pooled * masks
        errors = _errors(self._classified(shown), labels)
        back = (1 - pooled * pooled) * (errors @ self.parameters["classifier.weight"])
        if masks is not None:
            back *= masks
        return FactoredGradients([Factor(back, states), Factor(back), Factor(errors, shown), Factor(errors)])

    def _pooled(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.tanh(_affine(states, *list(self.parameters.values())[:2]))

    def _classified(self, pooled: NDArray[np.float32]) -> NDArray[np.float32]:
        return _affine(pooled, *list(self.parameters.values())[2:])


@dataclass(frozen=True, eq=False)
class GptHead(Head):
    """The last norm and scorer of a GPT-2. epsilon: the number that the norm adds to the variance."""

    epsilon: float = 1e-5

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of norm and scorer."""
        return {
            "transformer.ln_f.weight": (self.width,),
            "transformer.ln_f.bias": (self.width,),
            "score.weight": (self.classes, self.width),
        }

    def about(self) -> dict[str, Any]:
        """Return kind and epsilon."""
        return {"kind": GPT2, "epsilon": self.epsilon}

    def logits(self, states: NDArray[np.float32], masks: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return the same as `Head.logits`; GPT-2 has no dropout here."""
        return self._scored(self._scaled(self._normed(states)))

    def gradients(
        self, states: NDArray[np.float32], labels: NDArray[np.integer], masks: NDArray[np.float32] | None = None
    ) -> FactoredGradients:
        """Return the same as `Head.gradients`."""
        normed = self._normed(states)
        scaled = self._scaled(normed)
        errors = _errors(self._scored(scaled), labels)
        back = errors @ self.parameters["score.weight"]
        return FactoredGradients([Factor(back * normed), Factor(back), Factor(errors, scaled)])

    def _normed(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return standardised states, computed in float64 because some coordinates are in the thousands."""
        exact = states.astype(np.float64)
        exact -= exact.mean(axis=-1, keepdims=True)
        exact /= np.sqrt(np.mean(exact * exact, axis=-1, keepdims=True) + self.epsilon)
        return exact.astype(np.float32)

    def _scaled(self, normed: NDArray[np.float32]) -> NDArray[np.float32]:
        gamma, beta, _ = self.parameters.values()
        return normed * gamma[..., None, :] + beta[..., None, :]

    def _scored(self, scaled: NDArray[np.float32]) -> NDArray[np.float32]:
        return scaled @ self.parameters["score.weight"].swapaxes(-1, -2)


@dataclass(frozen=True)
class LastLayers:
    """A head's layers in a checkpoint, from which heads with any number of classes start.

    kind:      one of KINDS.
    width:     the number of dimensions of a hidden state.
    deviation: the standard deviation of new weights (initializer_range).
    settings:  dropout (BERT) or epsilon (GPT-2).
    tensors:   the head's tensors that the checkpoint contains, named as in `Head.shapes`.
    """

    kind: str
    width: int
    deviation: float
    settings: Mapping[str, float]
    tensors: Mapping[str, NDArray[np.float32]] = field(repr=False)

    def head(self, classes: int, noise: Noise) -> Head:
        """Return an initial head. Tensors come from the checkpoint if their shapes fit; others are initialised.

        New weights are sampled from N(0, deviation^2) with the first stream of `noise`, and new biases are 0, as in
        transformers. A layer for another number of classes does not fit. Raises UserError for fewer than two classes.
        """
        if classes < 2:
            raise UserError(
                f"a head needs at least 2 classes, got {classes}; give labels of two classes or more", "EPS-T011"
            )
        head = _empty(self.kind, self.width, classes, self.settings)
        generator = noise.generator(0)
        for name, tensor in head.parameters.items():
            fresh = generator.standard_normal(tensor.shape, np.float32) * np.float32(self.deviation)
            stored = self.tensors.get(name)
            if stored is not None and stored.shape == tensor.shape:
                tensor[...] = stored
            else:
                tensor[...] = 0 if name.endswith("bias") else fresh
        return head

    def save(self, path: Path) -> None:
        """Write the layers as safetensors, atomically."""
        rest = {"kind": self.kind, "width": self.width, "deviation": self.deviation, "settings": dict(self.settings)}
        _write(self.tensors, rest, path)


def last_layers(model: str | Path) -> LastLayers:
    """Return a checkpoint's last layers: the pooler and classifier of a BERT, or the last norm and scorer of a GPT-2.

    model: anything that `models.locate` finds. Raises UserError for another architecture, and for a GPT-2 without its
    last norm.
    """
    from safetensors import safe_open

    folder = locate(model)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kind, width = kind_of(folder), int(config.get("hidden_size") or config.get("n_embd") or 768)
    wanted, tensors = _empty(kind, width, 2, {}).shapes, {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:  # numpy has no bfloat16
            for stored in file.keys():  # noqa: SIM118  not a mapping
                name = _named(stored)
                if name in wanted:
                    tensors[name] = file.get_tensor(stored).float().numpy()
                    if tensors[name].shape[-1] not in (width, tensors[name].size):
                        raise UserError(
                            f"{path}: {stored} does not fit a width of {width}; give a whole checkpoint", "EPS-T012"
                        )
    if kind == GPT2:
        missing = [name for name in wanted if "ln_f" in name and name not in tensors]
        if missing:
            raise UserError(
                f"model {str(model)!r} has no {missing[0]}, the last norm, which is needed; give a GPT-2", "EPS-T013"
            )
        settings = {"epsilon": float(config.get("layer_norm_epsilon", 1e-5))}
    else:
        stated = config.get("classifier_dropout")
        settings = {"dropout": float(config.get("hidden_dropout_prob", 0.1) if stated is None else stated)}
    deviation = float(config.get("initializer_range", 0.02))
    return LastLayers(kind, width, deviation, settings, tensors=tensors)


def kind_of(folder: Path) -> str:
    """Return the architecture of the model in a folder, one of KINDS. Raises UserError for other architectures."""
    path = folder / "config.json"
    kind = json.loads(path.read_text(encoding="utf-8")).get("model_type") if path.is_file() else None
    if kind not in KINDS:
        raise UserError(
            f"the model in {folder} has the type {kind or '(none)'}, but heads are implemented for "
            f"{' and '.join(KINDS)}; give a BERT or a GPT-2",
            "EPS-T014",
        )
    return str(kind)


def load(path: Path) -> Head:
    """Load a head that `Head.save` wrote. Raises UserError if the file contains no head."""
    about, tensors = _read(path)
    if "classes" not in about:
        raise UserError(f"{path} does not contain a trained head; give a file written by a training", "EPS-T015")
    settings = {str(name): float(about[name]) for name in ("dropout", "epsilon") if name in about}
    leading = tensors["classifier.weight" if about["kind"] == BERT else "score.weight"].shape[:-2]
    head = _empty(about["kind"], about["width"], about["classes"], settings, leading=leading)
    for name, tensor in head.parameters.items():
        tensor[...] = tensors[name]
    return head


def load_last_layers(path: Path) -> LastLayers:
    """Load the layers that `LastLayers.save` wrote. Raises UserError if the file contains no layers."""
    about, tensors = _read(path)
    if "deviation" not in about:
        raise UserError(
            f"{path} does not contain layers of a checkpoint; give a file written by the stage `features`", "EPS-T016"
        )
    return LastLayers(**about, tensors=tensors)


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the softmax along the last axis, in float64."""
    powers = np.exp((logits - logits.max(axis=-1, keepdims=True)).astype(np.float64))
    shares: NDArray[np.float64] = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def _empty(kind: str, width: int, classes: int, settings: Mapping[str, float], leading: tuple[int, ...] = ()) -> Head:
    """Return a head whose parameters are 0. leading: the axes of stacked models."""
    build = BertHead if kind == BERT else GptHead
    size = (width + 1) * (width + classes) if kind == BERT else (2 + classes) * width
    return build(np.zeros((*leading, size), np.float32), width, classes, **settings)


def _affine(rows: NDArray[np.float32], weight: NDArray[np.float32], bias: NDArray[np.float32]) -> NDArray[np.float32]:
    out: NDArray[np.float32] = rows @ weight.swapaxes(-1, -2) + bias[..., None, :]
    return out


def _errors(logits: NDArray[np.float32], labels: NDArray[np.integer]) -> NDArray[np.float32]:
    """Return the gradient of the loss by the logits, [..., L, classes]: the softmax, minus 1 at the label."""
    errors = softmax(logits)
    errors -= np.asarray(labels)[..., None] == np.arange(logits.shape[-1])
    return errors.astype(np.float32)


def _named(stored: str) -> str:
    """Return the current name of a stored tensor. Names in old checkpoints have gamma, beta and no prefix."""
    name = stored.replace(".gamma", ".weight").replace(".beta", ".bias")
    for start, prefix in (("pooler.", "bert."), ("ln_f.", "transformer.")):
        if name.startswith(start):
            return prefix + name
    return name


def _write(tensors: Mapping[str, NDArray[np.float32]], about: Mapping[str, Any], path: Path) -> None:
    from safetensors.numpy import save

    stated = json.dumps(about, sort_keys=True)
    with whole(path) as file:
        file.write(save({name: np.ascontiguousarray(t) for name, t in tensors.items()}, {_ABOUT: stated}))


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            about = json.loads((file.metadata() or {}).get(_ABOUT, "{}"))
            return about, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} cannot be read ({type(error).__name__}); train the head again", "EPS-T017") from error
