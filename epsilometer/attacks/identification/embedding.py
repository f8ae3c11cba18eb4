"""The external embedding attack: guesses the candidate whose sentence embedding has the largest cosine (TeDA eq. 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.attack import ByScore, Context
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites
from epsilometer.models.encoder import Encoder, say_cut
from epsilometer.models.locate import ENCODER
from epsilometer.runtime.progress import track

_CHUNK = 2048  # distinct rewrites encoded at a time
_KEPT = 1 << 14  # largest number of cached vectors (25 MB)


@component
class EmbeddingAttack(ByScore):
    """The embedding attack. model: a sentence-transformers model by id or path."""

    extra: ClassVar[str] = "models"

    model: str = ENCODER
    precision: Literal["float32", "bfloat16", "auto"] = "float32"

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self.model, self.precision)

    @cached_property
    def encoded(self) -> dict[str, NDArray[np.float32]]:
        """Cached vectors of rewrites that are not audited texts."""
        return {}

    @cached_property
    def _encode_once(self) -> Callable[[tuple[str, ...]], NDArray[np.float32]]:
        """A function that encodes the candidates' texts, and caches its last result for later trials."""

        def encode(texts: tuple[str, ...]) -> NDArray[np.float32]:
            encoder, before = self._encoder, self._encoder.cut
            vectors = encoder.encode(texts)
            say_cut(encoder, encoder.cut - before, len(texts))
            return vectors

        return lru_cache(maxsize=1)(encode)

    def score_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> list[NDArray[np.float64]]:
        """Score all epsilons at once. Candidates are encoded once, unless the context already has their vectors."""
        texts, embedded = contexts[0].texts, contexts[0].embedded
        if embedded is not None and (embedded.model, embedded.precision) == (self.model, self.precision):
            vectors = embedded.vectors
        else:
            touched, places = np.unique(candidates, return_inverse=True)
            texts, candidates = [texts[i] for i in touched], places.reshape(candidates.shape)
            vectors = self._encode_once(tuple(texts))
        number = {text: i for i, text in enumerate(texts)}
        return [self._cosines(output.texts, candidates, vectors, number) for output in rewrites]

    def _cosines(
        self,
        rewrites: Sequence[str],
        candidates: NDArray[np.integer],
        of_candidates: NDArray[np.float32],
        number: Mapping[str, int],
    ) -> NDArray[np.float64]:
        """Return the cosines [n, k] of rewrites and candidates. Distinct rewrites without a vector are encoded once."""
        scores = np.empty(candidates.shape)
        trials: dict[str, list[int]] = {}
        for trial, text in enumerate(rewrites):
            trials.setdefault(text, []).append(trial)
        new = []
        for text, at in trials.items():
            if text in number:
                scores[at] = of_candidates[candidates[at]] @ of_candidates[number[text]]
            else:
                new.append(text)
        new.sort(key=len)
        starts = range(0, len(new), _CHUNK)
        for start in track(starts, len(starts), "encode rewrites"):
            part = new[start : start + _CHUNK]
            places = [trials[text] for text in part]
            rows = np.concatenate(places)
            vectors = np.repeat(self._vectors(part), [len(p) for p in places], axis=0)
            if 2 * candidates.shape[1] > len(of_candidates):  # for more than half of the texts, one product is faster
                scores[rows] = np.take_along_axis(vectors @ of_candidates.T, candidates[rows].astype(np.int64), axis=1)
            else:
                scores[rows] = np.einsum("nkd,nd->nk", of_candidates[candidates[rows]], vectors)
        return scores

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of distinct texts [n, d]. Only texts without a cached vector are encoded."""
        new = [text for text in texts if text not in self.encoded]
        vectors = dict(zip(new, self._encoder.encode(new), strict=True)) if new else {}
        if len(self.encoded) + len(new) <= _KEPT:
            self.encoded.update(vectors)
        return np.stack([vectors[text] if text in vectors else self.encoded[text] for text in texts])
