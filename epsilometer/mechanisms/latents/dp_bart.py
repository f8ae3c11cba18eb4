"""DP-BART: adds noise to an encoder-decoder's states and decodes a text (Igamberdiev, Habernal, Findings of ACL 2023).

In plain words it turns each text into lists of numbers, adds random noise to them, and writes a text from the result.

A text is truncated or padded to L tokens. Each of the L x d numbers of the encoder's last hidden state is clipped to
[-c, c], and noise is added. The decoder attends to all L positions, and writes a text of at most L tokens by beam
search of width 3. Two clipped states of k coordinates are at most 2 c sqrt(k) apart in L2. The Gaussian noise is
calibrated to that distance by the exact privacy profile (`shared/noise.py`). The claim is (epsilon, delta) for any two
whole texts, of any lengths.

`variant`: `clv` uses all d dimensions. `pr` uses only the dimensions that remain after pruning (`shared/pruning.py`);
pruned dimensions are 0 and need no noise. `pr_plus` is `pr` with a model that was trained with noise. `pr` and
`pr_plus` need a model trained for that variant (stage `build`), with the record pruning.json.

Assumptions: weights, L, c and the pruned dimensions are public, and the model was not trained on the protected texts.
The paper's values of epsilon start at 10. The claim also holds below 10, but the output is then independent of the text
in practice, so the mechanism warns.

`as_published: true` uses the noise of the reference scripts (trusthlt/dp-bart-private-rewriting e31c972): the classical
Gaussian sqrt(2 ln(1.25 / delta)) / epsilon at any epsilon. The proof of this formula needs epsilon < 1. At delta = 1e-5
the noise for a nominal epsilon of 250 has epsilon 1,550 by the exact profile. The claim is stated so that it can be
refuted. A later version (sjmeis/DPMLM 3ce9390) adds the same noise vector to all positions; a copy is in
`tests/support/broken/shared_noise.py`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt, field_validator

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.latents import slices
from epsilometer.core.mechanism import Unread
from epsilometer.mechanisms.latents.shared.base import LatentMechanism
from epsilometer.mechanisms.latents.shared.noise import Gaussian, LatentNoise, classical_gaussian_scale, gaussian_scale
from epsilometer.mechanisms.latents.shared.pruning import Pruning
from epsilometer.models.embedded import seq2seq
from epsilometer.runtime.progress import track

if TYPE_CHECKING:
    from epsilometer.models.seq2seq import Seq2Seq

BEAMS = 3
LOWEST = 10.0  # smallest epsilon in the paper


@component
class DPBART(LatentMechanism):
    """DP-BART.

    resource: an encoder-decoder by id or folder.
    length:   L, in tokens.
    clip:     c; the default is the published value for facebook/bart-base. States of other models have other
              magnitudes, and need another c.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(seq2seq)

    variant: Literal["clv", "pr", "pr_plus"] = "clv"
    clip: float = 0.1
    length: PositiveInt = 20
    as_published: bool = False
    precision: Literal["float32", "bfloat16", "auto"] = "float32"

    @field_validator("clip")
    @classmethod
    def _positive(cls, value: float) -> float:
        if not (value > 0 and math.isfinite(value)):
            raise ValueError("clip must be a finite number > 0")
        return value

    @cached_property
    def _model(self) -> Seq2Seq:
        from epsilometer.models.seq2seq import Seq2Seq

        model = Seq2Seq(self.resource, self.precision)
        if self.length > model.window:
            raise UserError(
                f"length must be at most the window of {str(self.resource)!r}, {model.window} tokens, got "
                f"{self.length}",
                "EPS-M034",
            )
        return model

    @cached_property
    def dimensions(self) -> NDArray[np.int64]:
        """The indices of the encoder's dimensions that are used."""
        from epsilometer.models.locate import locate

        record = Pruning.read(locate(self.resource))
        if self.variant == "clv":
            if record is not None:
                raise UserError(
                    f"{str(self.resource)!r} was trained with pruned dimensions; use variant: {record.variant}, or the "
                    "model that it was trained from",
                    "EPS-M035",
                )
            return np.arange(self._model.width)
        if record is None or record.variant != self.variant:
            there = f"one for {record.variant}" if record else "none"
            raise UserError(
                f"variant {self.variant} needs a model with a pruning.json for it, but {str(self.resource)!r} has "
                f"{there}; train the model (epsilometer pipeline stage build noise_aware-NAME), or use variant: clv",
                "EPS-M036",
            )
        if record.width != self._model.width:
            raise UserError(
                f"the pruning.json in {str(self.resource)!r} is for {record.width} dimensions, but the model has "
                f"{self._model.width}; train the model again",
                "EPS-M037",
            )
        return record.remaining()

    @property
    def bound(self) -> float:
        """The bound c rounded to float32, so that clipping and sensitivity use exactly the same number."""
        return float(np.float32(self.clip))

    @property
    def sensitivity(self) -> float:
        """The largest L2 distance of two clipped latents."""
        return 2 * self.bound * math.sqrt(self.length * len(self.dimensions))

    def unread(self, texts: Sequence[str]) -> Unread:
        """Return the number of truncated texts, those with more than L tokens."""
        return Unread(cut=sum(len(ids) > self.length for ids in self._model.tokens(texts)), texts=len(texts))

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon and delta for a whole text."""
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY, delta=self.delta)

    def law(self, epsilon: float) -> LatentNoise:
        """Return the Gaussian noise, calibrated to the L2 sensitivity."""
        if epsilon < LOWEST:
            warnings.warn(
                f"dp_bart at epsilon {epsilon:g} is below the paper's range, which starts at {LOWEST:g}: the claim "
                "holds, but outputs hardly depend on their texts; choose a larger epsilon for usable texts",
                stacklevel=2,
            )
        scale = classical_gaussian_scale(epsilon, self.delta, True) if self.as_published else None
        return Gaussian(self.sensitivity * (scale or gaussian_scale(epsilon, self.delta)))

    def latents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return latents [n, length * number of used dimensions], with all values in [-c, c]."""
        used = self.dimensions
        states = self._model.states(*self._model.padded(texts, self.length)).numpy()
        if not np.isfinite(states).all():
            raise UserError(
                f"the encoder of {str(self.resource)!r} returns values that are not finite; use float32", "EPS-M038"
            )
        return states[:, :, used].clip(-self.bound, self.bound).reshape(len(texts), self.length * len(used))

    def decoded(self, latents: NDArray[np.float32]) -> list[str]:
        """Return the texts decoded from latents by beam search, with pruned dimensions set to 0."""
        import torch

        from epsilometer.models.beam_search import beam_search

        used, width = self.dimensions, self._model.width
        parts = slices(len(latents), self.length * width)
        texts: list[str] = []
        for part in track(parts, len(parts), "decode latents"):
            noisy = np.asarray(latents[part]).reshape(-1, self.length, len(used))
            states = np.zeros((*noisy.shape[:2], width), np.float32)
            states[:, :, used] = noisy
            texts += beam_search(self._model, torch.from_numpy(states), self.length, BEAMS)
        return texts
