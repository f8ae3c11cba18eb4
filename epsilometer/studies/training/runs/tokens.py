"""Tokenisation of texts for a BERT or GPT-2, with truncation, padding and attention masks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.models.locate import loading, locate
from epsilometer.studies.training.runs.heads import BERT, kind_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TEXTS = 512  # texts whose encodings are in memory at a time
NONE = -1  # marks positions after a text's end


class Tokens:
    """A model's tokeniser.

    model:  anything that `models.locate` finds.
    length: the maximum number of tokens read from a text, including special tokens.
    kind:   one of `heads.KINDS`.

    A special token that is written in a text counts as plain characters. Raises UserError for another architecture, and
    for a length that exceeds the model's window or leaves no room for text.
    """

    def __init__(self, model: str | Path, length: int) -> None:
        self.folder = locate(model)
        self.kind, self.length = kind_of(self.folder), length
        self.tokenizer = _tokenizer(self.folder)
        longest, special = window(self.folder), self.tokenizer.num_special_tokens_to_add(is_pair=False)
        if not special < length <= longest:
            raise UserError(
                f"length must be {special + 1} to {longest} tokens for the model in {self.folder}, got {length}",
                "EPS-T044",
            )
        self.tokenizer.enable_truncation(length)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, truncated at `length`. Raises UserError if a text has no tokens."""
        return [encoding.ids for encoding in self._encodings(texts)]

    def lengths(self, texts: Sequence[str], place: str = "") -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the number of tokens read from each text [n], and whether the text was truncated [n].

        Raises UserError as `ids` does. place: the texts' origin for messages, such as " of train".
        """
        lengths, cut = np.zeros(len(texts), np.int64), np.zeros(len(texts), bool)
        for start in range(0, len(texts), _TEXTS):
            for row, encoding in enumerate(self._encodings(texts[start : start + _TEXTS], start, place), start):
                lengths[row], cut[row] = len(encoding.ids), bool(encoding.overflowing)
        return lengths, cut

    def padded(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return the token ids [n, length], with NONE after a text's end. Raises UserError as `ids` does."""
        padded = np.full((len(texts), self.length), NONE, np.int64)
        for row, ids in zip(padded, self.ids(texts), strict=True):
            row[: len(ids)] = ids
        return padded

    def _encodings(self, texts: Sequence[str], first: int = 0, place: str = "") -> list[Any]:
        encodings: list[Any] = self.tokenizer.encode_batch(list(texts))
        for row, encoding in enumerate(encodings, first):
            if len(encoding.ids) == sum(encoding.special_tokens_mask):
                raise UserError(
                    f"text {row}{place} has no tokens; leave out texts that are empty or only white space", "EPS-T045"
                )
        return encodings


def window(folder: Path) -> int:
    """Return the maximum number of tokens in a sequence, from the configuration in a model's folder."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    stated = [config[name] for name in ("max_position_embeddings", "n_positions", "n_ctx") if name in config]
    return int(min(stated)) if stated else (512 if kind_of(folder) == BERT else 1024)


def padding(folder: Path) -> int:
    """Return the id of the padding token in the configuration, or else the id of the end token.

    Raises UserError if the configuration has neither.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for name in ("pad_token_id", "eos_token_id"):
        stated = config.get(name)
        stated = stated[0] if isinstance(stated, list) else stated
        if stated is not None:
            return int(stated)
    raise UserError(
        f"the model in {folder} has neither a padding nor an end token; set one in its config.json", "EPS-T046"
    )


def last_place(ids: Sequence[int], pad: int) -> int:
    """Return the index of the last token before padding, as transformers' classifiers do; 0 if all are padding."""
    return max((place for place, token in enumerate(ids) if token != pad), default=0)


def attention(there: NDArray[np.bool_], causal: bool) -> NDArray[np.float32]:
    """Return the bias on attention scores, [n, 1, t, t]: 0 for visible tokens, the smallest float32 for others.

    there: [n, t], whether each position is text; causal: whether a token sees only earlier tokens. transformers uses a
    mask with four axes unchanged. With two axes, the mask's values could change the kernel that transformers chooses.
    """
    count, length = there.shape
    seen = np.broadcast_to(there[:, None, None, :], (count, 1, length, length))
    if causal:
        seen = seen & np.tri(length, dtype=bool)
    return np.where(seen, np.float32(0), np.finfo(np.float32).min)


def _tokenizer(folder: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UserError(f"{folder} has no tokenizer.json; give a model with a fast tokeniser", "EPS-T047")
    with loading(folder):
        tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True  # from here on "[SEP]" written in a text is text
    return tokenizer
