"""A small vocabulary: the most frequent pieces of all-MiniLM-L6-v2's WordPiece in a text, with its embeddings.
A third of the pieces covers nearly all running text, and the table of a small model is then not larger than its layers.
A word that is not a piece is written with shorter pieces; all single letters are included.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsilometer.models.locate import ENCODER, locate
from pretraining.texts import digest, texts

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

PIECES = 12_000
COUNTED = 100_000  # texts


class Special(NamedTuple):
    """The numbers of the special pieces."""

    pad: int
    unknown: int
    begin: int
    end: int
    mask: int


def special(tokenizer: Tokenizer) -> Special:
    """Return the numbers of the special pieces in a tokeniser."""
    pieces = tokenizer.get_vocab()
    return Special(*(pieces[piece] for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")))


def full() -> Tokenizer:
    """Return MiniLM's tokeniser, without padding and truncation."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(locate(ENCODER) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def of(folder: Path) -> Tokenizer:
    """Return the tokeniser of a saved model, without the special pieces that `save` adds around a text."""
    from tokenizers import Tokenizer

    state = json.loads((folder / "tokenizer.json").read_text()) | {"post_processor": None}
    return Tokenizer.from_str(json.dumps(state))


def frequent(lines: Iterable[str], pieces: int = PIECES) -> Tokenizer:
    """Return MiniLM's tokeniser with only the special, the single-letter and the most frequent pieces of the texts."""
    base = full()
    numbers: dict[str, int] = base.get_vocab()
    lines = islice(lines, COUNTED)
    counts: Counter[int] = Counter()
    while part := list(islice(lines, 20_000)):
        counts.update(i for encoding in base.encode_batch(part, add_special_tokens=False) for i in encoding.ids)
    letters = {
        i for piece, i in numbers.items() if len(piece.removeprefix("##")) == 1 and (piece.isascii() or counts[i])
    }
    always = letters.union(special(base))
    often = [i for i, _ in counts.most_common() if i not in always][: max(0, pieces - len(always))]
    return _restricted(base, sorted(always.union(often)))


def small(corpus: Path, cache: Path) -> Tokenizer:
    """Return the result of `frequent` for a file of lines, stored in the cache folder."""
    from tokenizers import Tokenizer

    stored = cache / f"vocabulary-{digest(corpus, 1)[:16]}.json"
    if not stored.is_file():
        stored.parent.mkdir(parents=True, exist_ok=True)
        frequent(row[0] for row in texts(corpus, 1)).save(str(stored))
    return Tokenizer.from_file(str(stored))


def embeddings(tokenizer: Tokenizer, width: int) -> Tensor:
    """Return MiniLM's embeddings of a vocabulary's pieces: float32 [pieces, width], of mean length 1.
    If width is smaller than MiniLM's 384, they are projected on their first principal components.
    """
    import torch
    from safetensors import safe_open

    numbers = full().get_vocab()
    with safe_open(locate(ENCODER) / "model.safetensors", "pt") as weights:
        table = weights.get_tensor("embeddings.word_embeddings.weight").float()
    pieces = tokenizer.get_vocab()
    table = table[torch.tensor([numbers[piece] for piece in sorted(pieces, key=pieces.__getitem__)])]
    table = table - table.mean(0)
    _, axes = torch.linalg.eigh(table.T @ table)  # ascending
    table = table @ axes[:, -width:].flip(1)
    return table / table.norm(dim=1).mean()


def continues(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Return whether each piece continues a word, as bool [pieces]."""
    pieces = tokenizer.get_vocab()
    return np.array([piece.startswith("##") for piece in sorted(pieces, key=pieces.__getitem__)])


def save(tokenizer: Tokenizer, folder: Path, start: bool) -> None:
    """Write the tokeniser for `AutoTokenizer`. start: put [CLS] before a text, but no [SEP] after it."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    own = Tokenizer.from_str(tokenizer.to_str())
    own.post_processor = TemplateProcessing(
        single="[CLS] $A" if start else "[CLS] $A [SEP]",
        pair=None if start else "[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", special(own).begin), ("[SEP]", special(own).end)],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=own, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]",
        cls_token="[CLS]", sep_token="[SEP]", bos_token="[CLS]", eos_token="[SEP]",
    ).save_pretrained(folder)  # fmt: skip


def save_half(model: Any, folder: Path) -> None:
    """Write a model of transformers in float16; the model itself is unchanged."""
    from copy import deepcopy

    from epsilometer.models.locate import quiet_loading

    with quiet_loading():
        deepcopy(model).half().save_pretrained(folder)


def padded(rows: Sequence[Sequence[int]], pad: int, device: str) -> Tensor:
    """Return token numbers as one tensor [rows, longest]."""
    import torch

    width = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows], device=device)


def _restricted(base: Tokenizer, pieces: list[int]) -> Tokenizer:
    """Return the tokeniser with only these pieces, renumbered in their order."""
    from tokenizers import Tokenizer

    state = json.loads(base.to_str())
    number = {old: new for new, old in enumerate(pieces)}
    state["model"]["vocab"] = {piece: number[i] for piece, i in state["model"]["vocab"].items() if i in number}
    state["added_tokens"] = [{**token, "id": number[token["id"]]} for token in state["added_tokens"]]
    state["post_processor"] = None  # this depends on the model
    return Tokenizer.from_str(json.dumps(state))
