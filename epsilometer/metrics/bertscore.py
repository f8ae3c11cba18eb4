"""BERTScore (Zhang et al., ICLR 2020): F1 of greedily matched token states, by the authors' library bert-score.

Scores have no idf weights. They are not rescaled, since rescaling needs a baseline for each model. The default layer is
the one that the library lists for the model's id; for an unlisted model, it is the last layer. With current versions of
transformers the library fails on empty texts, so this module scores them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.models.devices import resolved
from epsilometer.models.locate import ENCODER, hub_id, locate, quiet_loading

if TYPE_CHECKING:
    from torch import Tensor

    from epsilometer.models.memory import Memory

_ROWS = {"cpu": 64, "cuda": 1024}  # most texts in a batch; fewer if memory is short


@component
class BertScore:
    """BERTScore of a rewrite against its text.

    model: an encoder by id or folder. layer: the layer whose states are compared; None: the library's default layer.

    The score is 1 if both texts are empty, and 0 if only one text is empty.
    """

    model: str = ENCODER
    layer: PositiveInt | None = None

    @cached_property
    def _scorer(self) -> Any:
        folder = locate(self.model)
        config = json.loads((folder / "config.json").read_text())
        if "t5" in str(folder) and "t5" not in config.get("model_type", ""):
            raise UserError(
                f"bert-score treats a path that contains 't5' as a T5, but {folder} is not one; rename the folder",
                "EPS-M095",
            )
        with quiet_loading(folder):
            from bert_score import BERTScorer
            from bert_score.utils import model2layers

            layer = self.layer or model2layers.get(hub_id(self.model)[0]) or config.get("num_hidden_layers")
            if layer is None:
                raise UserError(f"{folder} does not state its number of layers; set `layer`", "EPS-M096")
            try:
                scorer = BERTScorer(model_type=str(folder), num_layers=layer, device=resolved())
            except (AssertionError, ValueError) as error:  # no such layer, or the layers above it cannot be removed
                raise UserError(
                    f"bert-score cannot use {self.model!r} up to layer {layer} ({error}); set another layer, or "
                    "another model",
                    "EPS-M097",
                ) from error
        # Some tokenisers state no limit, or a limit above the model's limit.
        window = config.get("max_position_embeddings") or 512
        scorer._tokenizer.model_max_length = min(scorer._tokenizer.model_max_length, window - 2)
        return scorer

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the [n] scores, each between -1 and 1."""
        scores = np.array([float(not a.strip() and not b.strip()) for a, b in zip(originals, rewrites, strict=True)])
        full = [i for i, (a, b) in enumerate(zip(originals, rewrites, strict=True)) if a.strip() and b.strip()]
        if full:
            pairs = [rewrites[i] for i in full], [originals[i] for i in full]
            f1 = self._memory.attempt(partial(self._f1, *pairs))
            scores[full] = f1.double().numpy()
        return scores

    @cached_property
    def _memory(self) -> Memory:
        from epsilometer.models.memory import Memory

        return Memory(resolved(), self.model)

    def _f1(self, rewrites: list[str], originals: list[str]) -> Tensor:
        """Return the [n] scores of non-empty texts."""
        from epsilometer.models.memory import activations

        scorer, texts = self._scorer, [*rewrites, *originals]
        longest = max(map(len, scorer._tokenizer(texts, truncation=True)["input_ids"]))
        rows = self._memory.rows(4 * activations(scorer._model.config, longest), _ROWS[resolved()])
        f1: Tensor = scorer.score(rewrites, originals, batch_size=rows)[2]
        return f1
