"""Marian translation models by id or folder (such as Helsinki-NLP/opus-mt-en-fr), in safetensors.

The tokeniser is a pair of SentencePiece models, one per language, with a shared vocabulary. transformers has no fast
version of this tokeniser. Models with several target languages are refused. They need a special token at the start of
the text (">>fra<<"), but here, special tokens in a text are treated as plain text.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epsilometer.core.errors import UserError
from epsilometer.models.seq2seq import Seq2Seq


class Translator(Seq2Seq):
    """A translation model. The translation of a sentence does not depend on other sentences.

    Raises UserError for a model without Marian's tokeniser, or with several target languages.
    """

    def __init__(self, model: str | Path) -> None:
        with warnings.catch_warnings():
            # transformers recommends sacremoses, but no longer calls it.
            warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
            super().__init__(model)

    def _check_tokenizer(self) -> None:
        from transformers import MarianTokenizer

        if not isinstance(self.tokenizer, MarianTokenizer):
            raise UserError(
                f"{self.folder} is not a Marian translation model: its tokeniser is {type(self.tokenizer).__name__}; "
                "give one such as Helsinki-NLP/opus-mt-en-fr",
                "EPS-N078",
            )
        if self.tokenizer.supported_language_codes:
            raise UserError(
                f"{self.folder} translates into several languages ({self.tokenizer.supported_language_codes[0]} ...); "
                "give a model of one target language",
                "EPS-N079",
            )

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the same as `Generator.tokens`, for texts in the source language."""
        return [[*self.plain(text), self.tokenizer.eos_token_id] for text in texts]

    def plain(self, text: str) -> list[int]:
        """Return the same as `Generator.plain`."""
        tokenizer: Any = self.tokenizer
        special, unknown = set(tokenizer.all_special_tokens), tokenizer.unk_token
        pieces = tokenizer.spm_source.encode(text, out_type=str)  # an unknown piece is returned as its characters
        return [int(tokenizer.convert_tokens_to_ids(unknown if piece in special else piece)) for piece in pieces]
