"""Sentence embeddings: texts as unit vectors (Reimers and Gurevych 2019, mean pooling)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from epsilometer.core.errors import UserError
from epsilometer.models.devices import resolved
from epsilometer.models.locate import loading, locate, quiet_loading
from epsilometer.runtime.progress import note

LONGEST = 1_000_000  # most tokens of a plausible window; a tokeniser without a limit states a far larger number
EQUAL_ROWS = {"cpu": 16, "cuda": 1024}  # texts per batch for sentence-transformers; fewer if memory is short


class _Model(Protocol):
    window: int
    dimensions: int

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        """Return vectors of any norm [texts, dimensions], and the number of truncated texts."""
        ...


class Encoder:
    """A sentence encoder. The vector of a text does not depend on the other texts.

    model:       a model that `models.locate` accepts. A BERT with mean pooling runs on `models.bert`, other models run
                 on sentence-transformers.
    precision:   "float32", "bfloat16", or "auto" (bfloat16 if the hardware supports it; can change results). "float64"
                 takes twice as long. Float64 vectors that are rounded to a grid are equal on every processor.
    window:      most tokens per text. Longer texts are truncated.
    cut:         number of texts truncated so far.
    dimensions:  size of a vector.

    Raises UserError for a model that cannot be fetched, and for an unknown precision.
    """

    def __init__(self, model: str | Path, precision: str = "float32") -> None:
        folder, device = locate(model), resolved()
        with loading(folder):
            if _is_static(folder):
                self._model: _Model = _StaticEncoder(folder)
            else:
                self._model = (_BertEncoder if _is_plain_bert(folder) else _AnyEncoder)(folder, precision, device)
        self.window = self._model.window
        self.dimensions = self._model.dimensions
        self.cut = 0

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return unit vectors, float32 [texts, dimensions]. Pass thousands of distinct texts at once for speed."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        vectors, cut = self._model.encode(texts)
        self.cut += cut
        exact = vectors.astype(np.float64)
        norms = np.linalg.norm(exact, axis=1, keepdims=True)
        return (exact / np.maximum(norms, 1e-12)).astype(np.float32)


def say_cut(encoder: Encoder, cut: int, texts: int) -> None:
    """Print a note with the number of texts that the encoder truncated, if there are any."""
    if cut:
        note(
            f"the sentence encoder truncates texts to {encoder.window} tokens; {cut} of {texts} texts are longer, and "
            "an embedding attack ignores their ends"
        )


class _BertEncoder:
    """A sentence-transformers model that consists of BERT and mean pooling, run by `models.bert`."""

    def __init__(self, folder: Path, precision: str, device: str) -> None:
        from tokenizers import Tokenizer

        from epsilometer.models.bert import Bert

        self._bert = Bert(folder, precision, device)
        stated = _read(folder / "sentence_bert_config.json").get("max_seq_length")
        stated = stated or _read(folder / "tokenizer_config.json").get("model_max_length")
        self.window = min(stated or self._bert.window, self._bert.window)
        self.dimensions = self._bert.width
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.window)

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        encodings = self._tokenizer.encode_batch(list(texts))
        return self._bert.means([encoding.ids for encoding in encodings]), sum(bool(e.overflowing) for e in encodings)


class _AnyEncoder:
    """Any sentence-transformers model. Its batches have one length and a fixed number of rows (see `bert`)."""

    def __init__(self, folder: Path, precision: str, device: str) -> None:
        with quiet_loading(folder):
            from sentence_transformers import SentenceTransformer

            from epsilometer.models.bert import number_type

            kind = number_type(precision, device)
            self._model = SentenceTransformer(
                str(folder),
                device=device,
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"dtype": kind, "use_safetensors": True},
            )
        from epsilometer.models.memory import Memory

        self._device, self._memory = device, Memory(device, folder.name)
        self.tokenizer = self._model.tokenizer
        if not self._model.max_seq_length or self._model.max_seq_length > LONGEST:
            raise UserError(
                f"{folder} does not state the length at which texts are truncated; set max_seq_length in its "
                "sentence_bert_config.json",
                "EPS-N027",
            )
        self.window = self._model.max_seq_length
        self.dimensions = len(self._model.encode("", show_progress_bar=False))

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        lengths = [len(ids) for ids in self.tokenizer(list(texts), verbose=False)["input_ids"]]
        result = np.empty((len(texts), self.dimensions), dtype=np.float32)
        order = sorted(range(len(texts)), key=lengths.__getitem__)
        for length, run in groupby(order, key=lambda i: min(lengths[i], self.window)):
            for members, vectors in self._memory.parts(list(run), partial(self._first_batch, texts, length)):
                result[members] = vectors
        return result, sum(length > self.window for length in lengths)

    def _first_batch(self, texts: Sequence[str], length: int, members: list[int]) -> np.ndarray:
        """Return the vectors of the first batch. members: indices of texts of one length."""
        from epsilometer.models.memory import activations

        config = getattr(getattr(self._model[0], "auto_model", None), "config", None)
        each = 1 if config is None else 4 * activations(config, length)
        size = self._memory.rows(each, EQUAL_ROWS[self._device])
        batch = members[:size]
        filled = [texts[i] for i in batch + [batch[-1]] * (size - len(batch))]
        vectors: np.ndarray = self._model.encode(filled, batch_size=size, show_progress_bar=False)
        return vectors[: len(batch)]


class _StaticEncoder:
    """A table of token vectors. A text's vector is the mean of its tokens' vectors (`StaticEmbedding`, Model2Vec)."""

    def __init__(self, folder: Path) -> None:
        with quiet_loading(folder):
            from sentence_transformers.sentence_transformer.modules import StaticEmbedding

            self._model = StaticEmbedding.load(str(folder), local_files_only=True)
        self.window = LONGEST
        self.dimensions = int(self._model.embedding_dim)

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        vectors = self._model(self._model.preprocess(list(texts)))["sentence_embedding"]
        return vectors.detach().numpy(), 0


def _modules(folder: Path) -> dict[str, Path]:
    """Return the folder of each module of a sentence-transformers model, by the module's kind, in the model's order."""
    if not (folder / "modules.json").is_file():
        return {}
    modules = json.loads((folder / "modules.json").read_text())
    return {module["type"].rpartition(".")[2]: folder / module["path"] for module in modules}


def _is_static(folder: Path) -> bool:
    """Return True if the model is a table of token vectors, without a network."""
    return [*_modules(folder)] in (["StaticEmbedding"], ["StaticEmbedding", "Normalize"])


def _is_plain_bert(folder: Path) -> bool:
    """Return True if `models.bert` supports the model: a BERT, mean pooling, and optionally normalisation."""
    modules = _modules(folder)
    wanted = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
    if [*modules] not in wanted or modules["Transformer"] != folder:
        return False
    pooling = _read(modules["Pooling"] / "config.json")
    modes = [mode for mode, chosen in pooling.items() if mode.startswith("pooling_mode_") and chosen is True]
    means = pooling.get("pooling_mode", modes) in ("mean", ["mean"], ["pooling_mode_mean_tokens"])
    lowered = _read(folder / "sentence_bert_config.json").get("do_lower_case", False)
    prompted = _read(folder / "config_sentence_transformers.json").get("default_prompt_name")
    if not means or lowered or prompted or not (folder / "tokenizer.json").is_file():
        return False
    from epsilometer.models.bert import readable

    return readable(folder)


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.is_file() else {}
