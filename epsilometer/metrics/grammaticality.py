"""Grammaticality: the probability that a classifier trained on CoLA (Warstadt et al., TACL 2019) gives to "acceptable".

There is no default model: give any text classifier with two classes that transformers can load. "Acceptable" is the
class named acceptable, grammatical or correct, or else the second class, as in CoLA (label 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.models.devices import resolved
from epsilometer.models.locate import locate, quiet_loading

_NAMES = ("acceptable", "grammatical", "correct")
_ROWS = {"cpu": 16, "cuda": 256}  # most texts in a batch; fewer if memory is short


@component
class Grammaticality:
    """The probability that a rewrite is grammatically acceptable.

    model: a text classifier by id or folder. It sees the rewrite alone.
    """

    model: str

    @cached_property
    def _loaded(self) -> tuple[Any, Any, int]:
        """Return the tokeniser, the network, and the index of the acceptable class."""
        folder = locate(self.model)
        with quiet_loading(folder):
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            try:
                tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
                network, report = AutoModelForSequenceClassification.from_pretrained(
                    folder, use_safetensors=True, trust_remote_code=False, output_loading_info=True
                )
            except (OSError, ValueError, KeyError) as error:
                raise UserError(
                    f"{folder} does not load as a text classifier: {str(error)[:300]}; give a classifier that "
                    "transformers can load",
                    "EPS-M098",
                ) from error
        names = {i: str(name).lower() for i, name in network.config.id2label.items()}
        if report["missing_keys"] or len(names) != 2:
            raise UserError(
                f"{self.model!r} is not a classifier of two classes ({len(names)} classes, "
                f"{len(report['missing_keys'])} weights missing); give a model trained on CoLA",
                "EPS-M099",
            )
        chosen = next((i for i, name in names.items() if name in _NAMES), 1)
        return tokenizer, network.eval().to(resolved()), chosen

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the [n] probabilities, 0 to 1; NaN for an empty rewrite."""
        import torch

        from epsilometer.models.memory import Memory, activations

        tokenizer, network, chosen = self._loaded
        longest = min(tokenizer.model_max_length, getattr(network.config, "max_position_embeddings", 512) - 2)
        probabilities = np.full(len(rewrites), np.nan)
        each, most = 4 * activations(network.config, longest), _ROWS[network.device.type]
        memory = Memory(network.device.type, self.model)

        def some(rest: Sequence[int]) -> Iterator[Sequence[int]]:
            rows = memory.rows(each, most)
            for start in range(0, len(rest), rows):
                part = rest[start : start + rows]
                batch = tokenizer(
                    [rewrites[i] for i in part], padding=True, truncation=True, max_length=longest, return_tensors="pt"
                )
                with torch.inference_mode():
                    logits = network(**batch.to(network.device)).logits
                probabilities[part] = logits.double().softmax(-1)[:, chosen].cpu().numpy()
                yield part

        filled = (i for i, text in enumerate(rewrites) if text.strip())
        memory.work_off(sorted(filled, key=lambda i: len(rewrites[i])), some)
        return probabilities
