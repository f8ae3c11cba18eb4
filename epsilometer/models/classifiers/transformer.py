"""Fine-tuned transformer with a head for the classes of one label (as in TeDA, arXiv:2603.22968, section 4.1).

The optimiser is AdamW. Its learning rate rises over the first tenth of the steps and then falls linearly. Gradients are
clipped at length 1, and classes are not weighted. After more than one epoch, the weights of the epoch with the smallest
mean cross-entropy on the validation texts are restored. Of epochs with equal cross-entropy, the first is restored.

Training batches contain texts of similar length, padded to multiples of 4 pieces. As a result, batches have only a few
distinct shapes, and little padding is computed. `precision: auto` computes in bfloat16 if the device multiplies it
natively. Weights are stored in float32. Only the tokeniser's separator divides the two texts of a pair; there are no
segment ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.models.classifier import TRANSFORMER, Examples, FineTuning, Text, each_once, write_about
from epsilometer.models.locate import locate, quiet_loading
from epsilometer.models.logits import probabilities_on_grid

if TYPE_CHECKING:
    from torch import Tensor

WARM_UP = 0.1  # share of the steps over which the learning rate rises
MULTIPLE = 4  # texts are padded to a multiple of this number of pieces
JITTER = 4.0  # largest random number of pieces added to lengths before sorting, so that batches differ between seeds
_ROWS = {"cpu": 16, "cuda": 1024}  # most texts in an inference batch; fewer if memory is short


class Transformer:
    """A transformer with a head for the classes of one label.

    classes: the sorted names of the classes. A prediction is an index into this list.
    network, tokenizer: from transformers.
    losses: mean cross-entropy on the validation texts after each epoch.
    """

    kind = TRANSFORMER

    def __init__(self, folder: Path, classes: Sequence[str], settings: FineTuning) -> None:
        """Load the model in a folder. If its head has another number of classes, torch initialises a random one."""
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        from epsilometer.models.bert import number_type
        from epsilometer.models.dense import multiply_by_onednn
        from epsilometer.models.devices import resolved
        from epsilometer.models.memory import Memory

        self.classes = sorted(classes)
        self.settings = settings
        self.losses: list[float] = []
        self._device = resolved()
        self.memory = Memory(self._device, folder.name)
        self._half = number_type(settings.precision, self._device) is torch.bfloat16
        with quiet_loading(folder):
            try:
                self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
                self.network: Any = AutoModelForSequenceClassification.from_pretrained(
                    folder,
                    num_labels=len(self.classes),
                    dtype=torch.float32,
                    use_safetensors=True,
                    trust_remote_code=False,
                ).to(self._device)
            except (OSError, ValueError) as error:
                raise UserError(
                    f"model {settings.model!r} cannot be loaded as a classifier ({type(error).__name__}: {error}); "
                    "give a model with a tokeniser that transformers' AutoModelForSequenceClassification knows",
                    "EPS-N020",
                ) from error
        multiply_by_onednn(self.network)
        limits = (self.tokenizer.model_max_length, getattr(self.network.config, "max_position_embeddings", None))
        self.longest = min(settings.longest, *(int(limit) for limit in limits if limit))

    def predict(self, texts: Sequence[Text]) -> NDArray[np.int64]:
        """Return [n]: the index of the class with the largest logit of each text. Logits are not rounded."""
        import torch

        pieces, classes = self.pieces(texts), np.zeros(len(texts), np.int64)
        with torch.inference_mode():
            for rows in _batches(list(map(len, pieces)), 2 * self.settings.batch):
                classes[rows] = self._logits([pieces[i] for i in rows]).argmax(-1).cpu().numpy()
        return classes

    def probabilities(self, texts: Sequence[Text]) -> NDArray[np.float64]:
        """Return [n, c]: each text's probability of each class.

        A text is padded to a width that depends only on its length. The number of rows in a batch depends only on that
        width. So a text's result does not depend on other texts.
        """
        return each_once(texts, lambda distinct: probabilities_on_grid(self._each(distinct)), len(self.classes))

    def cuts(self, texts: Sequence[Text]) -> NDArray[np.bool_]:
        """Return [n]: True for each text that is truncated."""
        pieces = self.tokenizer(*_sides(texts), verbose=False)["input_ids"]
        return np.array([len(ids) > self.longest for ids in pieces], bool)

    def save(self, folder: Path) -> None:
        """Write a model folder with weights in float16. The weights in memory are rounded in the same way."""
        import torch

        self.network.to(torch.float16).save_pretrained(folder)
        self.network.to(torch.float32)
        self.tokenizer.save_pretrained(folder)
        rest = {"longest": self.longest, "precision": self.settings.precision}
        write_about(folder, self.kind, self.classes, rest)

    @classmethod
    def load(cls, folder: Path, about: Mapping[str, Any]) -> Transformer:
        """Return the classifier in a folder."""
        settings = FineTuning(str(folder), longest=about["longest"], precision=about["precision"])
        return cls(folder, about["classes"], settings)

    def train(self, examples: Examples, generator: np.random.Generator, validation: Examples | None = None) -> None:
        """Train for `settings.epochs` epochs. `generator` draws the batches and their order anew in each epoch."""
        import torch
        from transformers import get_linear_schedule_with_warmup

        if self.settings.layers is not None:
            self._freeze_all_but(self.settings.layers)
        wanted, pieces = self._numbers(examples), self.pieces(examples.texts)
        steps = self.settings.epochs * -(-len(pieces) // self.settings.batch)
        weights = [weight for weight in self.network.parameters() if weight.requires_grad]
        optimiser = torch.optim.AdamW(weights, lr=self.settings.rate, weight_decay=self.settings.decay, fused=True)
        schedule = get_linear_schedule_with_warmup(optimiser, int(WARM_UP * steps), steps)
        best: dict[str, Tensor] = {}
        for _ in range(self.settings.epochs):
            self.network.train()
            blurred = np.array(list(map(len, pieces))) + JITTER * generator.random(len(pieces))
            parts = _batches(blurred, self.settings.batch)
            for number in generator.permutation(len(parts)):
                rows = parts[number]
                logits = self._logits([pieces[i] for i in rows])
                loss = torch.nn.functional.cross_entropy(logits, wanted[rows].to(logits.device))
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(weights, 1.0)
                optimiser.step()
                schedule.step()
            self.network.eval()
            if validation is not None and self.settings.epochs > 1:
                self.losses.append(self._loss(validation))
                if self.losses[-1] == min(self.losses) and self.losses.count(self.losses[-1]) == 1:
                    best = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        if best:
            self.network.load_state_dict(best)

    def _freeze_all_but(self, last: int) -> None:
        """Freeze all weights except those of the last layers, the pooling and the head. last: number of layers."""
        from torch.nn import ModuleList

        body = self.network.base_model
        layers = max((part for part in body.modules() if isinstance(part, ModuleList)), key=len)
        if last > len(layers):
            raise UserError(
                f"layers must be at most {len(layers)}, the number in {self.settings.model!r}, got {last}", "EPS-N021"
            )
        body.requires_grad_(False)
        for part in (*layers[-last:], getattr(body, "pooler", None)):
            if part is not None:
                part.requires_grad_(True)

    def _loss(self, examples: Examples) -> float:
        """Return the mean cross-entropy on examples, in float64."""
        logits = self._each(examples.texts).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        chosen = logits[np.arange(len(logits)), self._numbers(examples).numpy()]
        return float(np.mean(np.log(np.exp(logits).sum(axis=1)) - chosen))

    def _numbers(self, examples: Examples) -> Tensor:
        """Return the index of each example's class, [n]."""
        import torch

        numbers = {name: i for i, name in enumerate(self.classes)}
        return torch.tensor([numbers[name] for name in examples.labels])

    def _each(self, texts: Sequence[Text]) -> NDArray[np.float32]:
        """Return the logits [n, c] of texts. A batch has one width, which determines its number of rows."""
        import torch

        pieces = self.pieces(texts)
        widths = np.array([self._width(len(ids)) for ids in pieces])
        logits = np.empty((len(pieces), len(self.classes)), np.float32)
        with torch.inference_mode():
            for width in np.unique(widths):
                first = partial(self._first_batch, pieces, int(width))
                for members, some in self.memory.parts(np.flatnonzero(widths == width), first):
                    logits[members] = some
        return logits

    def _first_batch(self, pieces: list[list[int]], width: int, members: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the logits of the first batch. members: indices of texts of one width."""
        from epsilometer.models.memory import activations

        rows = self.memory.rows(4 * activations(self.network.config, width), _ROWS[self._device])
        batch = members[:rows]
        logits = self._logits([pieces[i] for i in np.resize(batch, rows)])
        some: NDArray[np.float32] = logits[: len(batch)].cpu().numpy()
        return some

    def _width(self, length: int) -> int:
        """Return the number of pieces that a text of this length is padded to."""
        return min(self.longest, -(-length // MULTIPLE) * MULTIPLE)

    def pieces(self, texts: Sequence[Text]) -> list[list[int]]:
        """Return the piece ids of each text, truncated, with special tokens."""
        ids: list[list[int]] = self.tokenizer(*_sides(texts), truncation=True, max_length=self.longest)["input_ids"]
        return ids

    def _logits(self, pieces: Sequence[Sequence[int]]) -> Tensor:
        """Return the [n, classes] logits, in float32."""
        import torch

        width = self._width(max(map(len, pieces)))
        ids = np.full((len(pieces), width), self.network.config.pad_token_id or 0)
        attend = np.zeros_like(ids)
        for row, text in enumerate(pieces):
            ids[row, : len(text)], attend[row, : len(text)] = text, 1
        device = self.network.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self._half):
            output = self.network(
                input_ids=torch.from_numpy(ids).to(device), attention_mask=torch.from_numpy(attend).to(device)
            )
        logits: Tensor = output.logits.float()
        return logits


def fine_tune(
    examples: Examples,
    classes: Sequence[str],
    settings: FineTuning,
    noise: Noise,
    *,
    validation: Examples | None = None,
) -> Transformer:
    """Return a classifier fine-tuned on these examples.

    classes:    the examples' classes, and possibly more.
    noise:      one stream of random numbers for the head's initial weights, dropout and the order of batches; torch's
                global generator is restored.
    validation: texts that select the best of several epochs.

    Raises UserError for fewer texts than a batch.
    """
    import torch

    if len(examples) < settings.batch:
        raise UserError(
            f"{len(examples)} training texts are fewer than a batch of {settings.batch}; give more texts, or a smaller "
            "batch",
            "EPS-N022",
        )
    generator = noise.generator(0)
    folder = locate(settings.model)
    with torch.random.fork_rng(enabled=True):
        torch.manual_seed(int(generator.integers(1 << 62)))
        classifier = Transformer(folder, classes, settings)
        classifier.train(examples, generator, validation)
    return classifier


def _sides(texts: Sequence[Text]) -> list[list[str]]:
    """Return the texts as arguments of a tokeniser: one list of texts, or two lists for pairs."""
    if not texts or isinstance(texts[0], str):
        return [[text for text in texts if isinstance(text, str)]]
    return [[text[side] for text in texts] for side in (0, 1)]


def _batches(lengths: Sequence[float] | NDArray[np.float64], size: int) -> list[NDArray[np.int64]]:
    """Return indices sorted by length, divided into batches of `size`."""
    order = np.argsort(np.asarray(lengths), kind="stable").astype(np.int64)
    return [order[start : start + size] for start in range(0, len(order), size)]
