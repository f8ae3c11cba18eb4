"""A sequence autoencoder (ADePT's model): one LSTM encodes a text as one vector, another decodes a text from it.

The model follows Krishna, Gupta and Dupuy 2021, "ADePT: auto-encoder based differentially private text transformation".
Encoder and decoder have one unidirectional layer each. The latent is [h; c] at the end of the text, clipped to an L2
norm. To train in minutes, this model departs from the paper in four ways. The text is read backwards (Sutskever et al.
2014). The decoder gets a projection of the latent at every step. Words are dropped from the decoder's input, so that
the decoder relies on the latent. Input and output words share their vectors.

A text is the list of its words (`epsilometer.text.words`), truncated to a public length. Out-of-vocabulary words become
one symbol. The vocabulary and the weights come from the training texts, which must be public.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from epsilometer.core import atomic
from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.models.devices import resolved
from epsilometer.models.memory import Memory
from epsilometer.runtime.progress import track
from epsilometer.text.vectors import WordVectors
from epsilometer.text.words import words, write

UNKNOWN, START, END = 0, 1, 2
SYMBOLS = 3  # number of special symbols, which are numbered before the words
EQUAL_ROWS = {"cpu": 64, "cuda": 1024}  # rows per batch outside training; fewer if memory is short
_FILES = ("config.json", "vocabulary.json", "model.safetensors")
_HELD_OUT = 20  # one text in 20 is held out, at most 500 texts
_WARM_UP = 50  # number of steps over which the learning rate rises


@component
class Shape:
    """The sizes of an autoencoder.

    hidden:     hidden size of both LSTMs.
    dimensions: size of word vectors.
    longest:    most words of a text.
    clip:       largest L2 norm of a latent.
    """

    hidden: PositiveInt = 256
    dimensions: PositiveInt = 128
    longest: PositiveInt = 20
    clip: PositiveFloat = 5.0


@component
class AutoencoderTraining:
    """Settings of an autoencoder's training.

    words:   size of the vocabulary.
    steps:   number of updates.
    batch:   texts per update.
    rate:    largest learning rate of Adam.
    dropped: share of the decoder's input words that are hidden from it.
    seed:    seed of all randomness.
    """

    words: PositiveInt = 2000
    steps: PositiveInt = 4000
    batch: PositiveInt = 32
    rate: PositiveFloat = 4e-3
    dropped: Annotated[float, Field(ge=0, lt=1)] = 0.4
    seed: NonNegativeInt = 0


class Autoencoder(nn.Module):
    """An LSTM encoder and an LSTM decoder with shared word vectors.

    vocabulary: the words, most frequent first; vectors: fixed word vectors [words, dimensions]; None: learnt vectors.
    """

    def __init__(self, shape: Shape, vocabulary: Sequence[str], vectors: NDArray[np.float32] | None = None) -> None:
        super().__init__()
        self.shape, self.vocabulary = shape, list(vocabulary)
        self._memory = Memory("cpu", "the autoencoder")
        self.number = {word: i for i, word in enumerate(self.vocabulary, SYMBOLS)}
        entries, wide = SYMBOLS + len(self.vocabulary), 2 * shape.hidden
        self.words = nn.Embedding(entries, shape.dimensions)
        self.encoder = nn.LSTM(shape.dimensions, shape.hidden, batch_first=True)
        self.decoder = nn.LSTM(shape.dimensions, shape.hidden, batch_first=True)
        self.projection = nn.Linear(wide, shape.dimensions)
        self.head = nn.Linear(shape.hidden, shape.dimensions)
        self.bias = nn.Parameter(torch.zeros(entries))
        nn.init.normal_(self.words.weight, 0, shape.dimensions**-0.5)
        if vectors is not None:
            with torch.no_grad():
                self.words.weight[SYMBOLS:] = torch.from_numpy(vectors * (shape.dimensions**-0.5 / vectors.std()))
            self.words.weight.requires_grad_(False)
        for lstm in (self.encoder, self.decoder):
            # At first the LSTM remembers everything: orthogonal recurrence, open forget gates.
            weights = dict(lstm.named_parameters())
            with torch.no_grad():
                for gate in weights["weight_hh_l0"].split(shape.hidden):
                    nn.init.orthogonal_(gate)
                weights["bias_ih_l0"][shape.hidden : wide] += 1

    @classmethod
    def load(cls, folder: Path | str) -> Autoencoder:
        """Read a folder that `save` wrote. Raises UserError for any other folder."""
        from safetensors.torch import load_file

        folder = Path(folder)
        missing = [name for name in _FILES if not (folder / name).is_file()]
        if missing:
            raise UserError(
                f"{str(folder)!r} is not an autoencoder: {missing[0]} is missing; give a folder written by stage "
                "`build` (epsilometer pipeline stage build autoencoders-NAME)",
                "EPS-M039",
            )
        try:
            shape = Shape(**json.loads((folder / "config.json").read_text()))
            model = cls(shape, json.loads((folder / "vocabulary.json").read_text()))
            model.load_state_dict(load_file(folder / "model.safetensors"))
        except (TypeError, ValueError, RuntimeError) as error:
            raise UserError(
                f"{str(folder)!r} cannot be read as an autoencoder of epsilometer ({str(error)[:200]}); train it again "
                "(epsilometer pipeline stage build autoencoders-NAME)",
                "EPS-M040",
            ) from error
        return model.eval().placed(resolved())

    def placed(self, device: str) -> Autoencoder:
        """Move the model to a device and return it."""
        self._memory = Memory(device, "the autoencoder")
        return self.to(device)

    def save(self, folder: Path) -> None:
        """Write config.json, vocabulary.json and model.safetensors."""
        from safetensors.torch import save

        atomic.write_json(asdict(self.shape), folder / "config.json")
        atomic.write_text(json.dumps(self.vocabulary, ensure_ascii=False) + "\n", folder / "vocabulary.json")
        with atomic.whole(folder / "model.safetensors") as file:
            file.write(save({k: v.cpu().contiguous() for k, v in self.state_dict().items()}))

    @property
    def width(self) -> int:
        """The number of coordinates of a latent."""
        return 2 * self.shape.hidden

    def ids(self, text: str) -> list[int]:
        """Return the word ids of a text, truncated."""
        return [self.number.get(word, UNKNOWN) for word in words(text)[: self.shape.longest]]

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the unclipped latents [n, width] of n texts. A text's latent does not depend on other texts."""
        numbers = [self.ids(text) for text in texts]
        out = np.empty((len(texts), self.width), np.float32)

        def some(rest: Sequence[int]) -> Iterator[Sequence[int]]:
            rows = self._rows(EQUAL_ROWS[self.bias.device.type])
            for members in _by_length(numbers, rows, rest):
                filled = members + members[-1:] * (rows - len(members))
                out[members] = self._read([numbers[i] for i in filled])[: len(members)].cpu().numpy()
                yield members

        self._memory.work_off(range(len(texts)), some)
        return out

    @torch.inference_mode()
    def decode(self, latents: NDArray[np.float32]) -> list[str]:
        """Return the texts decoded greedily from latents [n, width], up to the end symbol or the largest length."""

        def first(rest: NDArray[np.float32]) -> list[list[int]]:
            rows = self._rows(EQUAL_ROWS[self.bias.device.type])
            part = torch.from_numpy(np.array(rest[:rows])).to(self.bias.device)
            chosen: list[list[int]] = self._write(F.pad(part, (0, 0, 0, rows - len(part))))[: len(part)].tolist()
            return chosen

        return [
            write(self.vocabulary[i - SYMBOLS] for i in row[: row.index(END) if END in row else None])
            for _, chosen in self._memory.parts(latents, first)
            for row in chosen
        ]

    def set_gradients(self, parameters: Sequence[Tensor], numbers: Sequence[Sequence[int]], dropped: float) -> None:
        """Set the gradients of parameters to those of the mean cross-entropy of texts of one length.

        numbers: word ids of the texts; dropped: share of preceding words hidden from the decoder. If the texts do not
        fit in memory together, the gradients of parts are summed.
        """
        hide = torch.rand(len(numbers), len(numbers[0]) + 1) < dropped
        done = 0

        def first() -> tuple[int, tuple[Tensor, ...]]:
            part = slice(done, done + self._rows(len(numbers)))
            share = len(numbers[part]) / len(numbers)
            return len(numbers[part]), torch.autograd.grad(self.loss(numbers[part], hide[part]) * share, parameters)

        while done < len(numbers):
            count, slopes = self._memory.attempt(first)
            for parameter, slope in zip(parameters, slopes, strict=True):
                parameter.grad = parameter.grad + slope if done and parameter.grad is not None else slope
            done += count

    def loss(self, numbers: Sequence[Sequence[int]], hide: Tensor) -> Tensor:
        """Return the mean cross-entropy of texts of one length, when the decoder reads the preceding words.

        numbers: word ids of the texts; hide: bool [n, length + 1], True for words hidden from the decoder.
        """
        target = torch.tensor([[*row, END] for row in numbers], device=self.bias.device)
        inputs = F.pad(target[:, :-1], (1, 0), value=START)
        hide = hide.to(inputs.device)
        hide[:, 0] = False
        latent = clipped(self._read(numbers), self.shape.clip)
        states, _ = self._step(inputs.masked_fill(hide, UNKNOWN), latent, self._start(latent))
        return F.cross_entropy(self._logits(states).flatten(0, 1), target.flatten())

    def _rows(self, most: int) -> int:
        """Return the number of texts per batch that fit in memory, at most `most`."""
        numbers = (self.shape.longest + 1) * (16 * self.shape.hidden + 4 * self.shape.dimensions + 3 * len(self.bias))
        return self._memory.rows(4 * numbers, most)

    def _read(self, numbers: Sequence[Sequence[int]]) -> Tensor:
        """Return the latents of texts. A text is read backwards and then a start symbol, so a text may be empty."""
        ids = torch.tensor([[*reversed(row), START] for row in numbers], device=self.bias.device)
        _, (hidden, cell) = self.encoder(self.words(ids))
        return torch.cat([hidden[0], cell[0]], dim=1)

    def _write(self, latent: Tensor) -> Tensor:
        word, state, chosen = torch.full((len(latent), 1), START, device=latent.device), self._start(latent), []
        for _ in range(self.shape.longest):
            states, state = self._step(word, latent, state)
            logits = self._logits(states)
            logits[..., [UNKNOWN, START]] = -math.inf
            word = logits.argmax(dim=-1)
            chosen.append(word)
        return torch.cat(chosen, dim=1)

    def _start(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cell = latent.split(self.shape.hidden, dim=1)
        return hidden.contiguous()[None], cell.contiguous()[None]

    def _step(self, ids: Tensor, latent: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        states: tuple[Tensor, tuple[Tensor, Tensor]]
        states = self.decoder(self.words(ids) + self.projection(latent)[:, None], state)
        return states

    def _logits(self, states: Tensor) -> Tensor:
        return F.linear(self.head(states), self.words.weight, self.bias)


def clipped(latents: Tensor, norm: float) -> Tensor:
    """Return the vectors [n, d], clipped to L2 norm `norm` (ADePT eq. 1)."""
    return latents * (norm / latents.norm(dim=1, keepdim=True).clamp(min=1e-12)).clamp(max=1)


def train(
    texts: Sequence[str], shape: Shape, how: AutoencoderTraining, vectors: WordVectors | None = None
) -> tuple[Autoencoder, dict[str, Any]]:
    """Train an autoencoder on public texts; return it with a record of sizes and of its quality on held-out texts.

    vectors: fixed word vectors, which limit the vocabulary to their words; None: learnt vectors. The same call gives
    the same weights on one kind of processor with the same number of threads. Raises UserError for too few texts, for
    vectors without `shape.dimensions` columns, and if no training word has a vector.
    """
    if vectors is not None and vectors.vectors.shape[1] != shape.dimensions:
        raise UserError(
            f"dimensions must equal the {vectors.vectors.shape[1]} dimensions of the word vectors, got "
            f"{shape.dimensions}",
            "EPS-M041",
        )
    random = np.random.default_rng(how.seed)
    order = random.permutation(len(texts))
    apart = min(500, len(texts) // _HELD_OUT)
    if not apart:
        raise UserError(
            f"an autoencoder needs at least {_HELD_OUT} texts, got {len(texts)}; give more texts", "EPS-M042"
        )
    held, training = [texts[i] for i in order[:apart]], [texts[i] for i in order[apart:]]
    vocabulary, start = _vocabulary(training, how.words, vectors)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(how.seed)
        model = Autoencoder(shape, vocabulary, start).placed(resolved())
        _fit(model, [model.ids(text) for text in training], how, random)
    model.eval()
    return model, {
        "training_texts": len(training),
        "vocabulary": len(vocabulary),
        **asdict(how),
        **quality(model, held),
    }


def quality(model: Autoencoder, texts: Sequence[str]) -> dict[str, float]:
    """Return three shares: words rebuilt in the right position, words rebuilt in any position, texts rebuilt exactly.

    No noise is added. Out-of-vocabulary words count as not rebuilt.
    """
    latent = clipped(torch.from_numpy(model.encode(texts)), model.shape.clip).numpy()
    rebuilt = [text.split(" ") for text in model.decode(latent)]
    sources = [words(text)[: model.shape.longest] for text in texts]
    count = sum(map(len, sources))
    placed = sum(a == b for s, m in zip(sources, rebuilt, strict=True) for a, b in zip(s, m, strict=False))
    recovered = sum((Counter(s) & Counter(m)).total() for s, m in zip(sources, rebuilt, strict=True))
    exact = sum(s == m for s, m in zip(sources, rebuilt, strict=True))
    return {
        "held_out_texts": len(texts),
        "word_accuracy": round(placed / count, 4),
        "words_kept": round(recovered / count, 4),
        "exact": round(exact / len(texts), 4),
    }


def _vocabulary(
    texts: Sequence[str], size: int, vectors: WordVectors | None
) -> tuple[list[str], NDArray[np.float32] | None]:
    counts = Counter(word for text in texts for word in words(text))
    if vectors is None:
        return [word for word, _ in counts.most_common(size)], None
    row = {word: i for i, word in enumerate(vectors.words)}
    chosen = [word for word, _ in counts.most_common() if word in row][:size]
    if not chosen:
        raise UserError(
            "all words of the training text are outside the vocabulary of the word vectors; give vectors of its "
            "language",
            "EPS-M043",
        )
    return chosen, vectors.vectors[[row[word] for word in chosen]]


def _fit(model: Autoencoder, numbers: list[list[int]], how: AutoencoderTraining, random: np.random.Generator) -> None:
    """Train by Adam, with a short warm-up and a learning rate that falls to 0 over the second half."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.Adam(parameters, lr=how.rate)
    batches = _endless(numbers, how.batch, random)
    for step in track(range(how.steps), how.steps, "train autoencoder"):
        for group in optimiser.param_groups:
            group["lr"] = how.rate * min((step + 1) / _WARM_UP, 1, 2 * (1 - step / how.steps))
        model.set_gradients(parameters, [numbers[i] for i in next(batches)], how.dropped)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()


def _endless(numbers: Sequence[Sequence[int]], size: int, random: np.random.Generator) -> Iterator[list[int]]:
    """Yield batches of texts of one length, in a new random order each epoch."""
    while True:
        order = random.permutation(len(numbers)).tolist()
        batches = list(_by_length(numbers, size, order))
        for i in random.permutation(len(batches)):
            yield batches[i]


def _by_length(numbers: Sequence[Sequence[int]], size: int, order: Sequence[int] | None = None) -> Iterator[list[int]]:
    """Yield batches of indices, each of at most `size` rows of one length."""
    places = range(len(numbers)) if order is None else order
    for _, run in groupby(sorted(places, key=lambda i: len(numbers[i])), key=lambda i: len(numbers[i])):
        members = list(run)
        yield from (members[i : i + size] for i in range(0, len(members), size))
