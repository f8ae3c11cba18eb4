"""What rewritten texts are still good for: a classifier fine-tuned on them (TeDA, arXiv:2603.22968, section 4.1).

One epoch of AdamW at a rate that rises over a tenth of the steps and then falls linearly, gradients clipped at length
1, no class weights. Batches hold texts of about one length and are padded to multiples of 4 pieces, so that few shapes
occur and little padding is computed. Where the device multiplies bfloat16 natively, `precision: auto` computes in it
and keeps weights in float32.

The same classifier is an adversary where the label is a private attribute: *static*, trained on clean texts and tested
on rewritten ones (1-Diffractor's setting), or *adaptive*, trained and tested on rewritten texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.models.locate import locate, quiet_loading
from epsilometer.utility.labelled import Examples

if TYPE_CHECKING:
    from torch import Tensor

WARM_UP = 0.1  # of the steps
MULTIPLE = 4  # pieces
JITTER = 4.0  # pieces by which lengths are blurred before sorting, so that batches differ between seeds


@dataclass(frozen=True)
class FineTuning:
    """How a classifier is fine-tuned.

    model: a folder, a pin or a hub id; rate: the highest; batch: texts; longest: pieces of a text that are read.

    precision: "float32", "bfloat16" or "auto"; device: "cpu" or "cuda". Both can change a result.
    """

    model: str
    rate: float = 2e-5
    batch: int = 32
    longest: int = 256
    precision: str = "float32"
    device: str = "cpu"


@dataclass(frozen=True)
class Scores:
    """macro_f1: mean F1 of all classes; binary_f1: of the last class by name, where there are two; accuracy."""

    macro_f1: float
    binary_f1: float | None
    accuracy: float

    def row(self) -> dict[str, float | None]:
        """The scores as columns of a table."""
        return asdict(self)


class Classifier:
    """A transformer with a head for the classes of one label.

    classes: by name, sorted; the predictions number them.
    """

    def __init__(self, folder: Path, classes: Sequence[str], settings: FineTuning) -> None:
        """The model of a folder; its head is drawn anew (torch's generator) unless it has one of so many classes."""
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        from epsilometer.models.bert import number_type

        self.classes = sorted(classes)
        self.settings = settings
        self._half = number_type(settings.precision, settings.device) is torch.bfloat16
        with quiet_loading():
            try:
                self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
                self._network: Any = AutoModelForSequenceClassification.from_pretrained(
                    folder,
                    num_labels=len(self.classes),
                    dtype=torch.float32,
                    use_safetensors=True,
                    trust_remote_code=False,
                ).to(settings.device)
            except (OSError, ValueError) as error:
                raise UserError(
                    f"model {settings.model!r} cannot be loaded as a classifier ({type(error).__name__}: {error}); "
                    "give a model with a tokeniser that transformers' AutoModelForSequenceClassification knows"
                ) from error
        limits = (self._tokenizer.model_max_length, getattr(self._network.config, "max_position_embeddings", None))
        self._longest = min(settings.longest, *(int(limit) for limit in limits if limit))

    def predict(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Returns [n]: the number of the likeliest class."""
        import torch

        pieces, classes = self._pieces(texts), np.zeros(len(texts), np.int64)
        with torch.inference_mode():
            for rows in _batches(list(map(len, pieces)), 2 * self.settings.batch):
                classes[rows] = self._logits([pieces[i] for i in rows]).argmax(-1).cpu().numpy()
        return classes

    def save(self, folder: Path) -> None:
        """Write a model folder, weights in float16."""
        import torch

        self._network.to(torch.float16).save_pretrained(folder)
        self._network.to(torch.float32)
        self._tokenizer.save_pretrained(folder)

    def train(self, examples: Examples, generator: np.random.Generator) -> None:
        """Train for one epoch; the generator gives the order of the batches."""
        import torch
        from transformers import get_linear_schedule_with_warmup

        numbers = {name: i for i, name in enumerate(self.classes)}
        wanted = torch.tensor([numbers[name] for name in examples.labels])
        pieces = self._pieces(examples.texts)
        blurred = np.array(list(map(len, pieces))) + JITTER * generator.random(len(pieces))
        parts = _batches(blurred, self.settings.batch)
        weights = [weight for weight in self._network.parameters() if weight.requires_grad]
        optimiser = torch.optim.AdamW(weights, lr=self.settings.rate, weight_decay=0.01, fused=True)
        schedule = get_linear_schedule_with_warmup(optimiser, int(WARM_UP * len(parts)), len(parts))
        self._network.train()
        for number in generator.permutation(len(parts)):
            rows = parts[number]
            logits = self._logits([pieces[i] for i in rows])
            loss = torch.nn.functional.cross_entropy(logits, wanted[rows].to(logits.device))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimiser.step()
            schedule.step()
        self._network.eval()

    def _pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text with its special tokens; for an empty text these alone."""
        ids: list[list[int]] = self._tokenizer(list(texts), truncation=True, max_length=self._longest)["input_ids"]
        return ids

    def _logits(self, pieces: Sequence[Sequence[int]]) -> Tensor:
        """The [n, classes] logits, in float32."""
        import torch

        width = min(self._longest, -(-max(map(len, pieces)) // MULTIPLE) * MULTIPLE)
        ids = np.full((len(pieces), width), self._network.config.pad_token_id or 0)
        attend = np.zeros_like(ids)
        for row, text in enumerate(pieces):
            ids[row, : len(text)], attend[row, : len(text)] = text, 1
        device = self._network.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self._half):
            output = self._network(
                input_ids=torch.from_numpy(ids).to(device), attention_mask=torch.from_numpy(attend).to(device)
            )
        logits: Tensor = output.logits.float()
        return logits


def fine_tune(examples: Examples, classes: Sequence[str], settings: FineTuning, noise: Noise) -> Classifier:
    """A classifier after one epoch on these examples.

    classes: at least those of the examples. noise: one stream, from which the head's first weights, dropout and the
    order of the batches come; torch's own generator is left as it was. Raises UserError for fewer texts than a batch.
    """
    import torch

    if len(examples) < settings.batch:
        raise UserError(
            f"there are {len(examples)} texts to train on, fewer than a batch of {settings.batch}; give more texts "
            "or a smaller batch"
        )
    generator = noise.generator(0)
    folder = locate(settings.model)
    with torch.random.fork_rng(enabled=True):
        torch.manual_seed(int(generator.integers(1 << 62)))
        classifier = Classifier(folder, classes, settings)
        classifier.train(examples, generator)
    return classifier


def scores(truth: NDArray[np.integer], guessed: NDArray[np.integer], classes: Sequence[str]) -> Scores:
    """Scores of guesses. truth, guessed: [n] numbers of classes. A class that is never guessed has an F1 of 0."""
    from sklearn.metrics import f1_score

    every = range(len(classes))
    return Scores(
        macro_f1=float(f1_score(truth, guessed, labels=list(every), average="macro", zero_division=0)),
        binary_f1=float(f1_score(truth, guessed, pos_label=1, zero_division=0)) if len(classes) == 2 else None,
        accuracy=float(np.mean(np.asarray(truth) == np.asarray(guessed))),
    )


def majority(train: Examples, test: Examples) -> NDArray[np.int64]:
    """Returns [n] guesses of the commonest class of the training texts; of equally common ones the first by name."""
    classes = sorted({*train.labels})
    counts = Counter(train.labels)
    commonest = max(range(len(classes)), key=lambda i: counts[classes[i]])
    return np.full(len(test), commonest)


def _batches(lengths: Sequence[float] | NDArray[np.float64], size: int) -> list[NDArray[np.int64]]:
    """Positions, sorted by length and cut into batches."""
    order = np.argsort(np.asarray(lengths), kind="stable").astype(np.int64)
    return [order[start : start + size] for start in range(0, len(order), size)]
