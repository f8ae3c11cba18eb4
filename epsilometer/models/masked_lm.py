"""Logits of a masked language model at one word of a text, from which DP-MLM samples.

The input is a pair (Meisenbacher et al. 2024, "DP-MLM"): the whole text, a separator, and the text again with one word
replaced by one mask token. If the pair does not fit the model's window, each half is truncated to a window of subwords
around the word. (The reference code counts words, not subwords. In long texts, the window of the reference code
therefore does not contain the mask.)

Only the hidden state at the mask goes through the vocabulary head. Logits are rounded to multiples of 1/1024, so that
small differences between processors rarely change a sampled word.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from epsilometer.core.atomic import whole, write_text
from epsilometer.core.errors import UserError
from epsilometer.models.devices import resolved
from epsilometer.models.locate import loading, locate, quiet_loading
from epsilometer.models.logits import on_grid

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

EQUAL_ROWS = {"cpu": 8, "cuda": 1024}  # inputs per batch for transformers; fewer if memory is short
REMEMBERED = 1 << 16  # most cached states at masks, about 100 MB
TOKENISER_FILES = ("tokenizer_config.json", "special_tokens_map.json", "vocab.txt")

# Names of meaningless vocabulary entries that only pad a model's table.
_UNUSED = re.compile(r"\[unused\d+\]|madeupword\d+")


class MaskedLM:
    """A masked language model that predicts single words. The prediction for a row depends only on that row.

    model:       a model that `models.locate` accepts. A BERT runs on `models.bert`, other models on transformers.
    precision:   "float32", "bfloat16", or "auto" (bfloat16 if the hardware supports it; can change results).
    token_types: True to give the tokens of the second half another token type, as in training.
    outputs:     the output vocabulary: the string of each allowed vocabulary entry, without the tokeniser's mark for
                 the start or the inside of a word. Two entries may have the same string. Special and unused entries,
                 white space, and parts of characters are left out; this choice does not depend on private texts.
    output_ids:  ids of the outputs in the model's vocabulary, ascending.
    window:      most tokens in an input. Both halves and the separators count.

    Raises UserError for an unknown precision, and for a model that cannot be loaded or has no vocabulary head.
    """

    def __init__(self, model: str | Path, precision: str = "float32", token_types: bool = True) -> None:
        from epsilometer.models.bert import readable

        self.device = device = resolved()
        self._folder = folder = locate(model)
        own = readable(folder) and (folder / "tokenizer.json").is_file()
        with loading(folder):
            self._model = (_BertMaskedLM if own else _AnyMaskedLM)(folder, precision, device)
        self.window = self._model.window
        self._tokenizer: Tokenizer = self._model.tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        if self._model.mask is None:
            raise UserError(f"the tokeniser in {folder} has no mask token; give a masked language model", "EPS-N055")
        self._frame = _frame(self._tokenizer, self._model.mask)
        if not token_types:
            self._frame = self._frame._replace(kinds=[0] * len(self._frame.kinds))
        # From here on, "[MASK]" written in a text is encoded as plain text.
        self._tokenizer.encode_special_tokens = True
        self.output_ids, self.outputs = _output_vocabulary(self._tokenizer, self._model.entries)
        self._model.choose(self.output_ids)

    def mask_logits(self, texts_words: Sequence[Sequence[str]], rows: np.ndarray, inserted: bool = False) -> np.ndarray:
        """Return the logits at the mask: float32 [rows, outputs], multiples of 1/1024.

        texts_words:  the words of each text; the model reads them joined by spaces.
        rows:         int [rows, 2]: index of the text, and of the masked word in it.
        inserted:     True to insert the mask after that word instead of replacing it.

        Raises UserError if a logit is not finite.
        """
        rows = np.asarray(rows, dtype=np.int64).reshape(-1, 2)
        result = np.empty((len(rows), len(self.outputs)), dtype=np.float32)
        for members, logits in self.parts(texts_words, rows, inserted):
            result[members] = logits.cpu().numpy()
        return result

    def parts(
        self, texts_words: Sequence[Sequence[str]], rows: np.ndarray, inserted: bool = False
    ) -> Iterator[tuple[list[int], Tensor]]:
        """Yield `mask_logits` in parts, on the model's device: indices of rows, and their logits."""
        for members, logits in self._model.logits(list(self.inputs(texts_words, rows, inserted))):
            yield members, on_grid(logits, self._folder)

    def states(self, texts_words: Sequence[Sequence[str]], rows: np.ndarray) -> np.ndarray:
        """Return the hidden state at the mask of each row, float32 [rows, width]: the expensive part of `mask_logits`.

        To reuse the states, pass them to `recall`, in this or another process. For a model that runs on transformers
        the result is empty.
        """
        if not isinstance(self._model, _BertMaskedLM):
            return np.empty((0, 0), np.float32)
        return self._model.states(list(self.inputs(texts_words, rows))).cpu().numpy()

    def recall(self, texts_words: Sequence[Sequence[str]], rows: np.ndarray, states: np.ndarray) -> None:
        """Use `states` as the cached result of the method `states` for these rows. Results must not change."""
        if isinstance(self._model, _BertMaskedLM):
            self._model.recall(list(self.inputs(texts_words, rows)), states)

    def inputs(
        self, texts_words: Sequence[Sequence[str]], rows: np.ndarray, inserted: bool = False
    ) -> Iterator[PairInput]:
        """Yield the model's input for each row. The arguments are those of `mask_logits`."""
        for text, word in rows:
            if not 0 <= word < len(texts_words[text]):
                raise IndexError(f"row ({text}, {word}) is out of range: the text has {len(texts_words[text])} words")
        wanted = sorted({int(text) for text, _ in rows})
        encodings = self._tokenizer.encode_batch([" ".join(texts_words[i]) for i in wanted], add_special_tokens=False)
        subwords = {
            i: (encoding.ids, _word_of_each(encoding.offsets, texts_words[i]))
            for i, encoding in zip(wanted, encodings, strict=True)
        }
        for text, word in rows:
            ids, owners = subwords[int(text)]
            first, last = np.searchsorted(owners, (word + inserted, word + 1))
            yield self._pair(ids, int(first), int(last))

    def _pair(self, ids: list[int], first: int, last: int) -> PairInput:
        """Return the input with one mask for subwords first to last (exclusive). If first = last, insert a mask."""
        before, between, after = self._frame.ids
        masked = [*ids[:first], self._frame.mask, *ids[last:]]
        mask = first
        room = self.window - len(before) - len(between) - len(after)
        if len(ids) + len(masked) > room:
            ids = ids[_centred(len(ids), (first + last) // 2, room // 2)]
            part = _centred(len(masked), first, room // 2)
            masked, mask = masked[part], mask - part.start
        tokens = [*before, *ids, *between, *masked, *after]
        kinds = np.repeat(self._frame.kinds, [len(before), len(ids), len(between), len(masked), len(after)])
        return PairInput(tokens, kinds, len(before) + len(ids) + len(between) + mask)


class PairInput(NamedTuple):
    """Token ids, token types, and the position of the mask."""

    ids: list[int]
    kinds: np.ndarray
    mask: int

    @property
    def digest(self) -> bytes:
        """Return a hash of the input."""
        whole = np.concatenate([self.ids, self.kinds, [self.mask]]).astype(np.int64)
        return hashlib.blake2b(whole.tobytes(), digest_size=16).digest()


class _Frame(NamedTuple):
    """Special tokens before, between and after the halves of a pair, and the token types of all five parts."""

    ids: tuple[list[int], list[int], list[int]]
    kinds: list[int]
    mask: int


class _BertMaskedLM:
    """A BERT run by `models.bert`.

    On the CPU, hidden states at masks are cached, so a search over budgets computes them once. A full cache keeps its
    oldest states, since repeated calls mostly use the same rows in the same order.
    """

    def __init__(self, folder: Path, precision: str, device: str) -> None:
        from tokenizers import Tokenizer

        from epsilometer.models.bert import Bert

        self._bert = Bert(folder, precision, device)
        self.window = self._bert.window
        self.entries = self._bert.entries
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.mask: int | None = self.tokenizer.token_to_id("[MASK]")
        self._recalled: dict[bytes, np.ndarray] = {}

    def choose(self, output_ids: np.ndarray) -> None:
        self._head = self._bert.head(output_ids)

    def recall(self, inputs: list[PairInput], states: np.ndarray) -> None:
        self._recalled |= zip((row.digest for row in inputs), states, strict=True)

    def states(self, inputs: list[PairInput]) -> Tensor:
        """Return the hidden state at the mask of each input, float32 [inputs, width], from the cache if possible."""
        recalled = [self._recalled.get(row.digest) for row in inputs]
        new = [row for row, state in zip(inputs, recalled, strict=True) if state is None]
        computed = self._bert.states([row.ids for row in new], [row.kinds for row in new], [row.mask for row in new])
        if computed.device.type == "cpu" and (room := REMEMBERED - len(self._recalled)) > 0:
            self.recall(new[:room], computed[:room].numpy())
        if len(new) == len(inputs):
            return computed
        at = np.array([state is None for state in recalled])
        states = computed.new_empty(len(inputs), self._bert.width)
        states[np.flatnonzero(at)] = computed
        states[np.flatnonzero(~at)] = computed.new_tensor(np.array([s for s in recalled if s is not None]))
        return states

    def logits(self, inputs: list[PairInput]) -> Iterator[tuple[list[int], Tensor]]:
        start = 0
        for part in self._bert.logits(self._head, self.states(inputs)):
            yield list(range(start, start + len(part))), part
            start += len(part)


class _AnyMaskedLM:
    """Any masked language model, run by transformers. Batches have one length and a fixed size (see `bert`)."""

    def __init__(self, folder: Path, precision: str, device: str) -> None:
        with quiet_loading(folder):
            from transformers import AutoModelForMaskedLM, AutoTokenizer

            from epsilometer.models.bert import number_type
            from epsilometer.models.dense import multiply_by_onednn
            from epsilometer.models.memory import Memory

            kind = number_type(precision, device)
            try:
                tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
                self._model, report = AutoModelForMaskedLM.from_pretrained(
                    folder, dtype=kind, use_safetensors=True, trust_remote_code=False, output_loading_info=True
                )
            except (OSError, ValueError) as error:
                raise UserError(f"{folder} does not load as a masked language model: {error}", "EPS-N056") from error
        if report["missing_keys"]:
            raise UserError(
                f"{folder} is not a masked language model: its weights lack {min(report['missing_keys'])}; give a "
                "checkpoint with a vocabulary head",
                "EPS-N057",
            )
        self._model.eval().to(device)
        multiply_by_onednn(self._model)
        self._device, self._memory = device, Memory(device, folder.name)
        self._takes_kinds = "token_type_ids" in tokenizer.model_input_names
        if not hasattr(tokenizer, "backend_tokenizer"):
            raise UserError(f"{folder} has no tokenizer.json; give a model with a fast tokeniser", "EPS-N058")
        self.tokenizer = tokenizer.backend_tokenizer
        self.mask: int | None = tokenizer.mask_token_id
        self.window = int(min(_positions(self._model), tokenizer.model_max_length))
        self.entries = int(self._model.config.vocab_size)

    def choose(self, output_ids: np.ndarray) -> None:
        """Restrict the head to these outputs, in float32. In bfloat16, logits near 16 would be multiples of 0.125."""
        import torch

        self._chosen = torch.from_numpy(output_ids).to(self._device)
        head = self._model.get_output_embeddings()
        bias = getattr(head, "bias", None)
        self._head = head.weight[self._chosen].detach().float(), None if bias is None else bias[self._chosen].float()

    def logits(self, inputs: list[PairInput]) -> Iterator[tuple[list[int], Tensor]]:
        """Yield indices of inputs and their logits."""
        order = sorted(range(len(inputs)), key=lambda i: len(inputs[i].ids))
        for length, run in groupby(order, key=lambda i: len(inputs[i].ids)):
            yield from self._memory.parts(list(run), partial(self._first_batch, inputs, length))

    def _first_batch(self, inputs: list[PairInput], length: int, members: list[int]) -> Tensor:
        """Return the logits of the first batch. members: indices of inputs of one length."""
        import torch

        from epsilometer.models.memory import activations

        each = self._model.dtype.itemsize * activations(self._model.config, length) + 8 * len(self._chosen)
        size = self._memory.rows(each, EQUAL_ROWS[self._device])
        batch = members[:size]
        filled = batch + [batch[-1]] * (size - len(batch))
        with torch.inference_mode():
            return self._at_masks([inputs[i] for i in filled])[: len(batch)]

    def _at_masks(self, inputs: list[PairInput]) -> Tensor:
        """Return the logits at the mask, [rows, outputs].

        Hooks restrict the head to the mask's hidden state, in float32. If the hooks have no effect on this model, the
        logits at the mask are selected after the forward pass.
        """
        import torch

        masks = torch.tensor([row.mask for row in inputs], device=self._device)
        each = torch.arange(len(inputs), device=self._device)

        def only_masks(_: Any, arguments: tuple[Tensor, ...]) -> tuple[Tensor]:
            return (arguments[0][each, masks][:, None],)

        def in_float32(_: Any, arguments: tuple[Tensor, ...], __: Tensor) -> Tensor:
            return torch.nn.functional.linear(arguments[0].float(), *self._head)

        extra = {}
        if self._takes_kinds:
            extra["token_type_ids"] = torch.from_numpy(np.stack([row.kinds for row in inputs])).to(self._device)
        ids = torch.tensor([row.ids for row in inputs], device=self._device)
        decoder = self._model.get_output_embeddings()
        hooks = decoder.register_forward_pre_hook(only_masks), decoder.register_forward_hook(in_float32)
        try:
            logits = self._model(input_ids=ids, attention_mask=torch.ones_like(ids), **extra).logits
        finally:
            for hook in hooks:
                hook.remove()
        return logits[:, 0] if logits.shape[1] == 1 else logits[each, masks][:, self._chosen]


def assemble(delta_folder: Path, encoder_folder: Path, out: Path) -> None:
    """Write one masked language model: a sentence encoder joined with layers and a head that were trained on top of it.

    delta_folder:    delta.safetensors (trained parameters, float16) and bounds.json (measured on the joined model).
    encoder_folder:  a BERT without a head, with its tokeniser.
    out:             the folder to write: a BertForMaskedLM (output tied to the word embeddings) in float32.
    """
    from safetensors.numpy import load_file, save

    weights = {
        f"bert.{name}": tensor
        for name, tensor in load_file(encoder_folder / "model.safetensors").items()
        if not name.startswith("pooler.") and not name.endswith("position_ids")
    }
    trained = load_file(delta_folder / "delta.safetensors")
    unknown = [name for name in trained if name not in weights and not name.startswith("cls.predictions.")]
    if unknown:
        raise UserError(
            f"{delta_folder} was not trained on {encoder_folder}: the encoder has no {unknown[0]}; give the encoder "
            "that it was trained on",
            "EPS-N059",
        )
    weights |= {name: tensor.astype(np.float32) for name, tensor in trained.items()}
    config = json.loads((encoder_folder / "config.json").read_text())
    config.pop("_name_or_path", None)
    config |= {"architectures": ["BertForMaskedLM"], "tie_word_embeddings": True}
    # The encoder's settings of truncation and padding are for sentences, not for pairs.
    tokenizer = json.loads((encoder_folder / "tokenizer.json").read_text()) | {"truncation": None, "padding": None}
    with whole(out / "model.safetensors") as file:
        file.write(save(weights, metadata={"format": "pt"}))
    write_text(json.dumps(config, indent=2) + "\n", out / "config.json")
    write_text(json.dumps(tokenizer, ensure_ascii=False), out / "tokenizer.json")
    for name in TOKENISER_FILES:
        shutil.copyfile(encoder_folder / name, out / name)
    shutil.copyfile(delta_folder / "bounds.json", out / "bounds.json")


def _frame(tokenizer: Tokenizer, mask: int) -> _Frame:
    """Return the frame of a pair, taken from the tokeniser's encoding of the pair ("a", "b")."""
    pair = tokenizer.encode("a", "b")
    halves = np.array([-1 if half is None else half for half in pair.sequence_ids])
    first, second = np.flatnonzero(halves == 0), np.flatnonzero(halves == 1)
    edges = [0, first[0], first[-1] + 1, second[0], second[-1] + 1, len(halves)]
    parts = [slice(*edge) for edge in pairwise(edges)]
    kinds = [(pair.type_ids[part] or [0])[0] for part in parts]
    return _Frame((pair.ids[parts[0]], pair.ids[parts[2]], pair.ids[parts[4]]), kinds, mask)


def _output_vocabulary(tokenizer: Tokenizer, entries: int) -> tuple[np.ndarray, list[str]]:
    """Return the ids and strings of the vocabulary entries that are text."""
    from tokenizers.models import WordPiece

    count = min(entries, tokenizer.get_vocab_size())
    special = tokenizer.get_added_tokens_decoder()
    if isinstance(tokenizer.model, WordPiece):
        prefix = tokenizer.model.continuing_subword_prefix
        surfaces = [(tokenizer.id_to_token(i) or "").removeprefix(prefix) for i in range(count)]
    else:
        surfaces = [text.strip() for text in tokenizer.decode_batch([[i] for i in range(count)])]
    allowed = [
        i
        for i, text in enumerate(surfaces)
        if text.strip() and "\ufffd" not in text and i not in special and not _UNUSED.fullmatch(text)
    ]
    return np.array(allowed, dtype=np.int64), [surfaces[i] for i in allowed]


def _word_of_each(offsets: Sequence[tuple[int, int]], words: Sequence[str]) -> np.ndarray:
    """Return the index of each subword's word, ascending: int [subwords]. offsets: character range of each subword."""
    ends = np.cumsum([len(word) + 1 for word in words]) - 1  # words are joined by one space
    spans = np.array(offsets, dtype=np.int64).reshape(-1, 2)
    # The last character of a subword decides, since a tokeniser may add the space before a word to the subword.
    last = np.maximum(spans[:, 0], spans[:, 1] - 1)
    return np.maximum.accumulate(np.searchsorted(ends, last, side="right"))


def _centred(length: int, middle: int, size: int) -> slice:
    """Return a slice of at most `size` of `length` positions. It is centred on `middle`, unless an end is near."""
    start = max(0, min(middle - size // 2, length - size))
    return slice(start, start + size)


def _positions(model: Any) -> int:
    """Return the most tokens in an input. RoBERTa and similar models reserve the first positions for padding."""
    tables = [part for name, part in model.named_modules() if name.endswith("position_embeddings")]
    reserved = [part.padding_idx + 1 for part in tables if getattr(part, "padding_idx", None) is not None]
    return model.config.max_position_embeddings - max(reserved, default=0)
