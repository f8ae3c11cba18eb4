"""Base class of encoder-decoders and decoder-only language models: loading, output vocabulary, key-value caches.

Models run on transformers. Batches have one length and a fixed number of rows, and are padded with copies of the last
row. So a row's numbers do not depend on the other rows (see `bert`). Logits are rounded to multiples of 1/1024, so that
small differences between kernels rarely change a sampled token.
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
from epsilometer.models.dense import multiply_by_onednn
from epsilometer.models.devices import resolved
from epsilometer.models.locate import locate, quiet_loading
from epsilometer.models.logits import on_grid
from epsilometer.models.memory import Memory, cached

EQUAL_ROWS = {"cpu": 8, "cuda": 64}  # prompts per batch; fewer if memory is short
KINDS = {
    "masked": "a masked language model",
    "seq2seq": "an encoder-decoder",
    "causal": "a decoder-only language model",
}

# Names of meaningless vocabulary entries that only pad a model's table.
_UNUSED = re.compile(r"\[unused\d+\]|madeupword\d+|<extra_id_\d+>")


class Generator(ABC):
    """A transformers model that generates one token after another.

    network:    the transformers model, in evaluation mode, on `device`.
    memory:     chooses the number of rows per batch.
    tokenizer:  its tokeniser (transformers), without padding or truncation.
    window:     most tokens in a prompt, including special ones.
    end:        id of the end-of-sequence token.
    outputs:    int64, ascending: the ids that may be sampled, a public set. The set contains the end token and all text
                tokens. It omits special and unused entries, and entries that the model's generation settings suppress.

    Raises UserError for a model of another kind, or without a vocabulary head, fast tokeniser or end-of-sequence token.
    """

    _kind: str  # the kind that `architecture` must return
    _auto: str  # name of the transformers class that loads the model

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
        multiply_by_onednn(self.network)
        config = self.network.config
        self.window = int(min(positions(getattr(config, "encoder", config)) or 512, self.tokenizer.model_max_length))
        self.end = self._end()
        self.outputs = self._outputs()

    def _check_tokenizer(self) -> None:
        """Raise UserError for a slow tokeniser, and configure a fast one.

        The configured tokeniser neither pads nor truncates, and encodes "</s>" in a text as plain characters.
        """
        if not hasattr(self.tokenizer, "backend_tokenizer"):
            raise UserError(f"{self.folder} has no tokenizer.json; give a model with a fast tokeniser", "EPS-N041")
        self._pieces = self.tokenizer.backend_tokenizer
        self._pieces.no_padding()
        self._pieces.no_truncation()
        self._pieces.encode_special_tokens = True

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text with the model's special tokens, not truncated."""
        return [encoding.ids for encoding in self._pieces.encode_batch(list(texts))]

    def plain(self, text: str) -> list[int]:
        """Return the token ids of a text without special tokens, in the form in which the model generates texts."""
        ids: list[int] = self._pieces.encode(text, add_special_tokens=False).ids
        return ids

    def text(self, ids: Sequence[int] | NDArray[np.integer]) -> str:
        """Return generated ids as text, without special tokens."""
        written = self.tokenizer.decode(np.asarray(ids), skip_special_tokens=True)
        return " ".join(str(written).split())

    @abstractmethod
    def read(self, prompts: NDArray[np.integer]) -> tuple[Tensor, Any]:
        """Read prompts of one length, int [rows, length]; return the next logits [rows, outputs] and a cache."""

    @abstractmethod
    def step(self, tokens: Tensor, cache: Any) -> Tensor:
        """Read tokens [rows, n], append them to the cache, and return the logits after each: [rows, n, outputs]."""

    @abstractmethod
    def longest(self, prompt: int) -> int:
        """Return the largest number of tokens that can be generated after a prompt of this length."""

    @abstractmethod
    def room(self, new: int) -> int:
        """Return the most tokens that a prompt may have if `new` tokens are generated after it; 0 if none fits."""

    def row_bytes(self, prompt: int, new: int) -> int:
        """Return an estimate of the bytes of a row that continues `prompt` tokens by `new` tokens.

        The estimate counts keys and values three times (the prompt's, the row's, and a copy while rows are regrouped).
        It adds logits in float32 and the token distribution in float64.
        """
        keys = cached(self.network.config) * (prompt + new) * self.network.dtype.itemsize
        return 3 * keys + 40 * len(self.outputs)

    def tensor(self, values: NDArray[np.integer]) -> Tensor:
        """Return ids as a tensor on the model's device."""
        return torch.from_numpy(np.ascontiguousarray(values, np.int64)).to(self.device)

    def _rounded(self, logits: Tensor) -> Tensor:
        return on_grid(logits, self.folder)

    @contextmanager
    def _only_outputs(self) -> Iterator[None]:
        """Restrict the vocabulary head to `outputs`, in float32, within this context.

        Tokens outside `outputs` are never sampled. In bfloat16, logits near 16 would be rounded to multiples of 0.125.
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
                f"{self.folder} has no end-of-sequence token; state it in its generation_config.json", "EPS-N042"
            )
        return int(end)

    def _outputs(self) -> NDArray[np.int64]:
        entries = min(self.network.get_output_embeddings().weight.shape[0], len(self.tokenizer))
        special = set(self.tokenizer.all_special_ids) | set(self.network.generation_config.suppress_tokens or [])
        names = self.tokenizer.convert_ids_to_tokens(list(range(entries)))
        left_out = special | {i for i, name in enumerate(names) if name is None or _UNUSED.fullmatch(name)}
        return np.array(sorted((set(range(entries)) - left_out) | {self.end}), np.int64)


def filled(rows: NDArray[np.integer], size: int) -> NDArray[np.integer]:
    """Return rows [n, ...] padded to [size, ...] with copies of the last row."""
    return np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])


def gather(caches: Sequence[Any], rows: Tensor) -> Any:
    """Return a new key-value cache of some rows. Rows are numbered across all caches. The caches stay unchanged."""
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
    """Return the kind of a language model, one of `KINDS`, from its configuration. Raises UserError for other kinds."""
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
    """Return the most tokens that a configuration allows in a sequence; None for relative positions (no limit)."""
    for name in ("max_position_embeddings", "n_positions"):
        if isinstance(getattr(config, name, None), int):
            return int(getattr(config, name))
    return None
