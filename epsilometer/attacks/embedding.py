"""The external embedding attack: the candidate nearest in a sentence encoder's space (TeDA eq. 3, cosine)."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.attack import Context, choose
from epsilometer.component import component
from epsilometer.language.encoder import Encoder
from epsilometer.mechanism import Rewrites
from epsilometer.progress import track

_CHUNK = 2048  # distinct rewrites encoded at a time; their embeddings are not kept


@component
class EmbeddingAttack:
    """model: a sentence-transformers model by id or path."""

    model: str = "all-MiniLM-L6-v2"
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    device: str = "cpu"

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self.model, self.precision, self.device)

    def _known(self, context: Context) -> NDArray[np.float32]:
        found = context.embedded
        if found is not None and (found.model, found.precision) == (self.model, self.precision):
            return found.vectors
        return self._encoder.encode(context.texts)

    def guess(self, rewrites: Rewrites, candidates: NDArray[np.integer], context: Context) -> NDArray[np.int8]:
        """The candidate with the largest cosine; each distinct rewrite is encoded once, an audited text never again."""
        known = self._known(context)
        number = {text: i for i, text in enumerate(context.texts)}
        scores = np.empty(candidates.shape)
        trials: dict[str, list[int]] = {}
        for trial, text in enumerate(rewrites.texts):
            trials.setdefault(text, []).append(trial)
        new = []
        for text, at in trials.items():
            if text in number:
                scores[at] = known[candidates[at]] @ known[number[text]]
            else:
                new.append(text)
        new.sort(key=len)
        starts = range(0, len(new), _CHUNK)
        for start in track(starts, len(starts), "encode rewrites"):
            part = new[start : start + _CHUNK]
            places = [trials[text] for text in part]
            rows = np.concatenate(places)
            vectors = np.repeat(self._encoder.encode(part), [len(p) for p in places], axis=0)
            scores[rows] = np.einsum("nkd,nd->nk", known[candidates[rows]], vectors)
        return choose(scores, context.noise)
