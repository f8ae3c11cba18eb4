"""The loss of a text under a causal language model: the mean cross-entropy of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.models.devices import resolved
from epsilometer.models.locate import locate, quiet_loading

AT_ONCE = 16  # texts per batch, few enough that their logits fit into the processor's cache


class LanguageModel:
    """A causal language model with any vocabulary, which scores whole texts."""

    def __init__(self, model: str | Path) -> None:
        """Load a model that `models.locate` finds. Raises UserError if it is not a causal language model."""
        from transformers import AutoModelForCausalLM, AutoTokenizer

        folder = locate(model)
        with quiet_loading(folder):
            try:
                self._tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
                self._network = AutoModelForCausalLM.from_pretrained(
                    folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
                )
            except (OSError, ValueError) as error:
                raise UserError(
                    f"model {str(model)!r} cannot be loaded as a causal language model ({type(error).__name__}: "
                    f"{error}); give another model, or set `language: null` for none",
                    "EPS-A032",
                ) from error
        self._network.eval().to(resolved())
        config = self._network.config
        self._open = next(i for i in (config.bos_token_id, config.eos_token_id, 0) if i is not None)

    def losses(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the mean cross-entropy [n] of each text's first 256 tokens in nats; 0 for a text without tokens."""
        rows = [
            self._tokenizer(text, add_special_tokens=False, truncation=True, max_length=256, verbose=False)["input_ids"]
            for text in texts
        ]
        result = np.zeros(len(rows))
        for start in range(0, len(rows), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            result[part] = self._losses(rows[part])
        return result

    @torch.inference_mode()
    def _losses(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        longest = max(1, *map(len, rows), 1)
        wanted = torch.full((len(rows), longest), -100)
        for target, row in zip(wanted, rows, strict=True):
            target[: len(row)] = torch.tensor(row, dtype=torch.int64)
        opened = torch.cat([torch.full((len(rows), 1), self._open), wanted[:, :-1].clamp(min=0)], 1)
        opened, wanted = opened.to(self._network.device), wanted.to(self._network.device)
        # No mask is needed: in a causal model, a text's tokens do not see the padding after it.
        logits = self._network(input_ids=opened, attention_mask=torch.ones_like(opened)).logits
        each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), wanted, reduction="none")
        counts = (wanted >= 0).sum(1).clamp(min=1)
        return np.asarray((each.sum(1) / counts).double().cpu().numpy())
