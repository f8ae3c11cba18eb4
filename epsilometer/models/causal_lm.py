"""Decoder-only language models by id or folder, in safetensors (GPT-2, Qwen, Llama and similar models)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epsilometer.core.errors import UserError
from epsilometer.models.chat_template import encode, frame
from epsilometer.models.generator import Generator
from epsilometer.models.locate import locate


class CausalLM(Generator):
    """A decoder-only model. The output for a row depends only on that row."""

    _kind = "causal"
    _auto = "AutoModelForCausalLM"

    @property
    def chats(self) -> bool:
        """True if the model has a chat template, a sign that it was tuned to follow instructions."""
        return bool(self.tokenizer.chat_template)

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, not truncated.

        Opening special tokens are included. Closing ones are removed, so that the model can continue the text.
        """
        ids = []
        for encoding in self._pieces.encode_batch(list(texts)):
            length = len(encoding.ids)
            while length > 1 and encoding.special_tokens_mask[length - 1]:
                length -= 1
            ids.append(encoding.ids[:length])
        return ids

    def chat_tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text as one message in the chat template. Raises UserError if there is no template."""
        if not self.chats:
            raise UserError(
                f"{self.folder} has no chat template; give an instruction-tuned model, or set chat: false", "EPS-N014"
            )
        before, after = frame(self.tokenizer, self.folder)
        return [before + encode(self.tokenizer, text) + after for text in texts]

    def longest(self, prompt: int) -> int:
        """Return the largest number of tokens that can follow a prompt of this length."""
        return self.window - prompt

    def room(self, new: int) -> int:
        """Return the same as `Generator.room`. Prompt and output share one window."""
        return max(0, self.window - new)

    @torch.inference_mode()
    def read(self, prompts: NDArray[np.integer]) -> tuple[Tensor, Any]:
        """Return the same as `Generator.read`."""
        from transformers import DynamicCache

        cache = DynamicCache(config=self.network.config)
        return self._forward(self.tensor(prompts), cache, 1)[:, 0], cache

    @torch.inference_mode()
    def step(self, tokens: Tensor, cache: Any) -> Tensor:
        """Return the same as `Generator.step`."""
        return self._forward(tokens, cache, 0)

    def _forward(self, tokens: Tensor, cache: Any, last: int) -> Tensor:
        with self._only_outputs():
            out = self.network(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=last)
        return self._rounded(out.logits)


def has_chat_template(model: str | Path) -> bool:
    """Return True if the model's folder has a chat template. Does not load the model."""
    folder = locate(model)
    settings = folder / "tokenizer_config.json"
    stated = json.loads(settings.read_text()) if settings.is_file() else {}
    return (folder / "chat_template.jinja").is_file() or "chat_template" in stated
