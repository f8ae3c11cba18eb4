"""The base of encoder-decoders and decoder-only language models: loading, output vocabulary, key-value caches.

Everything runs by transformers in batches of one exact length and a fixed number of rows, filled up where rows are
missing, so the numbers of a row do not depend on the rest of the batch (see `bert`). Logits are rounded to
multiples of 1/1024, so small differences between kernels hardly ever change a drawn token.
"""

from __future__ import annotations

import copy
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epsilometer.core.errors import UserError
from epsilometer.models.bert import number_type
from epsilometer.models.devices import resolved
from epsilometer.models.locate import locate, quiet_loading
from epsilometer.models.logits import on_grid
from epsilometer.models.memory import Memory, cached

EQUAL_ROWS = {"cpu": 8, "cuda": 64}  # prompts in every batch, if memory holds them
KINDS = {
    "masked": "a masked language model",
    "seq2seq": "an encoder-decoder",
    "causal": "a decoder-only language model",
}

# Vocabulary entries that fill up a model's table and have no meaning.
_UNUSED = re.compile(r"\[unused\d+\]|madeupword\d+|<extra_id_\d+>")


class Generator(ABC):
    """A transformers model that generates one token after another.

    network:    the transformers model, in evaluation mode, on `device`; memory: of the rows of its batches.
    tokenizer:  its tokeniser (transformers), without padding or truncation.
    window:     longest prompt in tokens, special ones included.
    end:        the id of the end-of-sequence token.
    outputs:    int64, ascending: the ids that may be drawn, a public set: all that are text, and the end, without
                special and unused entries and those that the model's generation settings suppress.

    Raises UserError for a model of another kind, without a vocabulary head, a fast tokeniser or an end of sequence.
    """

    _kind: str  # the kind in `architecture`
    _auto: str  # the class of transformers that loads it

    def __init__(self, model: str | Path, precision: str = "float32") -> None:
        self.folder = locate(model)
        self.device = device = resolved()
        self.memory = Memory(device, str(self.folder.name))
        if (actual := architecture(self.folder)) != self._kind:
            raise UserError(f"model {str(model)!r} is {KINDS[actual]}; give {KINDS[self._kind]}", "EPS-N038")
        kind = number_type(precision, device)
        with quiet_loading(self.folder):
            import transformers

            try:
                self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder, trust_remote_code=False)
                self.network, report = getattr(transformers, self._auto).from_pretrained(
                    self.folder, dtype=kind, use_safetensors=True, trust_remote_code=False, output_loading_info=True
                )
            except (OSError, ValueError, KeyError) as error:
                raise UserError(
                    f"{self.folder} does not load as {KINDS[self._kind]}: {str(error)[:300]}", "EPS-N039"
                ) from error
        if report["missing_keys"]:
            raise UserError(
                f"{self.folder} is not {KINDS[self._kind]}: its weights lack {min(report['missing_keys'])}; give a "
                "checkpoint with a vocabulary head",
                "EPS-N040",
            )
        self._check_tokenizer()
        self.network.eval().to(device)
        config = self.network.config
        self.window = int(min(positions(getattr(config, "encoder", config)) or 512, self.tokenizer.model_max_length))
        self.end = self._end()
        self.outputs = self._outputs()

    def _check_tokenizer(self) -> None:
        """Refuse a slow tokeniser; a fast one must neither pad nor truncate, and read "</s>" in a text as text."""
        if not hasattr(self.tokenizer, "backend_tokenizer"):
            raise UserError(f"{self.folder} has no tokenizer.json; give a model with a fast tokeniser", "EPS-N041")
        self._pieces = self.tokenizer.backend_tokenizer
        self._pieces.no_padding()
        self._pieces.no_truncation()
        self._pieces.encode_special_tokens = True

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return token ids with the model's special tokens; not truncated."""
        return [encoding.ids for encoding in self._pieces.encode_batch(list(texts))]

    def plain(self, text: str) -> list[int]:
        """Return token ids of a text alone, as the model would generate it."""
        ids: list[int] = self._pieces.encode(text, add_special_tokens=False).ids
        return ids

    def text(self, ids: Sequence[int] | NDArray[np.integer]) -> str:
        """Return generated ids as text, without special tokens."""
        written = self.tokenizer.decode(np.asarray(ids), skip_special_tokens=True)
        return " ".join(str(written).split())

    @abstractmethod
    def read(self, prompts: NDArray[np.integer]) -> tuple[Tensor, Any]:
        """Read prompts of one length, int [rows, length]; return next logits [rows, outputs], and the cache."""

    @abstractmethod
    def step(self, tokens: Tensor, cache: Any) -> Tensor:
        """Read tokens [rows, n] after those in the cache (which grows); return next logits [rows, n, outputs]."""

    @abstractmethod
    def longest(self, prompt: int) -> int:
        """Return the most tokens that can be generated after a prompt of this length."""

    @abstractmethod
    def room(self, new: int) -> int:
        """Return the longest prompt that leaves room for `new` generated tokens; 0 where they are too many."""

    def row_bytes(self, prompt: int, new: int) -> int:
        """Return about the bytes of a row that continues `prompt` tokens by `new`.

        Keys and values count three times (of the prompt, of the row, and of a copy while rows are regrouped), with
        logits in float32, and the row's law in float64.
        """
        keys = cached(self.network.config) * (prompt + new) * self.network.dtype.itemsize
        return 3 * keys + 40 * len(self.outputs)

    def tensor(self, values: NDArray[np.integer]) -> Tensor:
        """Return ids on the model's device."""
        return torch.from_numpy(np.ascontiguousarray(values, np.int64)).to(self.device)

    def _rounded(self, logits: Tensor) -> Tensor:
        return on_grid(logits, self.folder)

    @contextmanager
    def _only_outputs(self) -> Iterator[None]:
        """Limit the vocabulary head to `outputs`, since others are never drawn, in float32.

        At bfloat16 two logits near 16 are distinguished only if they differ by 0.125.
        """
        head = self.network.get_output_embeddings()
        whole = head.weight, head.bias, getattr(self.network, "final_logits_bias", None)
        if not hasattr(self, "_head"):
            chosen = torch.from_numpy(self.outputs).to(self.device)
            weight, bias, added = whole
            self._head = (
                torch.nn.Parameter(weight[chosen].detach().float(), requires_grad=False),
                None if bias is None else torch.nn.Parameter(bias[chosen].detach().float(), requires_grad=False),
                None if added is None else added[:, chosen].float(),
            )
        hook = head.register_forward_pre_hook(lambda _, inputs: (inputs[0].float(),))
        try:
            self._put(head, *self._head)
            yield
        finally:
            self._put(head, *whole)
            hook.remove()

    def _put(self, head: Any, weight: Tensor, bias: Tensor | None, added: Tensor | None) -> None:
        head.weight, head.bias = weight, bias
        if added is not None:
            self.network.final_logits_bias = added

    def _end(self) -> int:
        end = self.network.generation_config.eos_token_id
        end = self.tokenizer.eos_token_id if end is None else end
        end = end[0] if isinstance(end, list) else end
        if end is None:
            raise UserError(
                f"{self.folder} has no end-of-sequence token; name one in its generation_config.json", "EPS-N042"
            )
        return int(end)

    def _outputs(self) -> NDArray[np.int64]:
        entries = min(self.network.get_output_embeddings().weight.shape[0], len(self.tokenizer))
        special = set(self.tokenizer.all_special_ids) | set(self.network.generation_config.suppress_tokens or [])
        names = self.tokenizer.convert_ids_to_tokens(list(range(entries)))
        left_out = special | {i for i, name in enumerate(names) if name is None or _UNUSED.fullmatch(name)}
        return np.array(sorted((set(range(entries)) - left_out) | {self.end}), np.int64)


def filled(rows: NDArray[np.integer], size: int) -> NDArray[np.integer]:
    """Return rows [n, ...] filled up to `size` of them with copies of the last one."""
    return np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])


def gather(caches: Sequence[Any], rows: Tensor) -> Any:
    """Return a new key-value cache of these rows of some caches, numbered across them; the caches stay unchanged."""
    first = caches[0]
    gathered = copy.copy(first)
    if hasattr(first, "cross_attention_cache"):
        gathered.self_attention_cache = gather([c.self_attention_cache for c in caches], rows)
        gathered.cross_attention_cache = gather([c.cross_attention_cache for c in caches], rows)
        gathered.is_updated = dict(first.is_updated)
        return gathered
    gathered.layers = []
    for layers in zip(*(cache.layers for cache in caches), strict=True):
        if not isinstance(getattr(layers[0], "keys", None), Tensor):
            raise UserError(
                f"the model caches {type(layers[0]).__name__} instead of keys and values; give another model",
                "EPS-N043",
            )
        layer = copy.copy(layers[0])
        single = len(layers) == 1
        layer.keys = (layers[0].keys if single else torch.cat([part.keys for part in layers]))[rows]
        layer.values = (layers[0].values if single else torch.cat([part.values for part in layers]))[rows]
        gathered.layers.append(layer)
    return gathered


def architecture(model: str | Path) -> str:
    """Return the kind of a language model by its configuration: one of `KINDS`.

    Raises UserError for any other.
    """
    path = locate(model) / "config.json"
    if not path.is_file():
        raise UserError(
            f"model {str(model)!r} has no config.json of a language model; give the folder of one", "EPS-N044"
        )
    config = json.loads(path.read_text())
    named = " ".join(config.get("architectures") or [])
    if config.get("is_encoder_decoder"):
        return "seq2seq"
    if "MaskedLM" in named:
        return "masked"
    if "CausalLM" in named or "LMHeadModel" in named:
        return "causal"
    raise UserError(
        f"model {str(model)!r} is not a language model with a vocabulary head, but {named or 'unnamed'}; give a "
        "language model",
        "EPS-N045",
    )


def positions(config: Any) -> int | None:
    """Return the longest sequence in tokens by a configuration; None for relative positions without a limit."""
    for name in ("max_position_embeddings", "n_positions"):
        if isinstance(getattr(config, name, None), int):
            return int(getattr(config, name))
    return None
