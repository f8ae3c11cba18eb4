"""ADePT: encodes a text as a vector, adds noise, and decodes a text (Krishna, Gupta and Dupuy 2021).

In plain words it turns each text into a list of numbers, adds random noise to them, and writes a text from the result.

An LSTM autoencoder encodes a text as its last hidden and cell states, z = [h; c] of n numbers, clipped to an L2 norm C.
Noise is added, and the decoder greedily writes a text from the result:

    z' = z min(1, C / ||z||) + noise.

Any two clipped vectors are at most 2C apart in L2, and at most 2C sqrt(n) in L1 (Habernal 2021, "When differential
privacy meets NLP: the devil is in the detail"). Gaussian noise is calibrated to the L2 sensitivity 2C by the exact
privacy profile (`shared/noise.py`); the claim is then (epsilon, delta). Laplace noise has the scale
2C sqrt(n) / epsilon; the claim is then epsilon. Both claims are for any two whole texts, of any lengths, since z' also
determines the output's length.

Assumptions: vocabulary, weights and largest length are public, that is, the autoencoder was not trained on the
protected texts. The autoencoder's training.json names its training texts, and stage `build` prints a note if an audited
data set is among them. Out-of-vocabulary words become one symbol before the noise, and are never released. An output
may be empty.

`as_published: true` is the published form: Laplace noise of scale 2C / epsilon after an L2 clip, with an epsilon claim;
an empty output becomes "UNK". The claim is false: between z = (C, ..., C) / sqrt(n) and -z, the loss at the output z is
epsilon sqrt(n). This claim is stated so that it can be refuted. The exact likelihood ratio refutes it, but an audit of
common texts does not. If two clipped vectors x and x' differ a little in each of many coordinates, Laplace noise acts
like Gaussian noise. The optimal adversary's success is then near Phi(epsilon ||x - x'|| / 4C). For epsilon up to 4 the
claim allows this success.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator, model_validator

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import Unread
from epsilometer.mechanisms.latents.shared.base import LatentMechanism
from epsilometer.mechanisms.latents.shared.noise import Gaussian, LatentNoise, gaussian_scale, laplace
from epsilometer.models.embedded import cached
from epsilometer.text.words import words

if TYPE_CHECKING:
    from epsilometer.mechanisms.latents.shared.autoencoder import Autoencoder


def autoencoder() -> Path:
    """Return the folder of the default autoencoder, which is trained on texts of the embedded generators."""
    from epsilometer.corpora.synthetic import generate
    from epsilometer.mechanisms.latents.shared.autoencoder import AutoencoderTraining, Shape, train

    def make(out: Path) -> None:
        texts = [text for part in ("queries", "reviews") for text in generate(part, 12_000, 1)["text"]]
        model, _ = train(texts, Shape(), AutoencoderTraining())
        model.save(out)

    return cached(
        "autoencoder", "ADePT's autoencoder, trained for some minutes on the embedded generators' texts", make
    )


@component
class ADePT(LatentMechanism):
    """ADePT.

    resource: an autoencoder's folder. clip: the norm C, by default the one that the autoencoder was trained with.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(autoencoder)

    noise: Literal["gaussian", "laplace"] = "gaussian"
    clip: float | None = None
    as_published: bool = False

    @field_validator("clip")
    @classmethod
    def _positive(cls, value: float | None) -> float | None:
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ValueError("clip must be a finite number > 0")
        return value

    @model_validator(mode="after")
    def _laplace_as_published(self) -> ADePT:
        if self.as_published and self.noise != "laplace":
            raise ValueError("as_published needs Laplace noise; set noise: laplace")
        return self

    @cached_property
    def _model(self) -> Autoencoder:
        from epsilometer.mechanisms.latents.shared.autoencoder import Autoencoder

        return Autoencoder.load(self.resource)

    @cached_property
    def norm(self) -> float:
        """The clipping norm C."""
        return self.clip or self._model.shape.clip

    def unread(self, texts: Sequence[str]) -> Unread:
        """Return the numbers of truncated texts and of out-of-vocabulary words."""
        split = [words(text) for text in texts]
        number = self._model.number
        return Unread(
            cut=sum(len(text) > self._model.shape.longest for text in split),
            texts=len(texts),
            unknown=sum(word not in number for text in split for word in text),
            words=sum(map(len, split)),
        )

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon for a whole text; (epsilon, delta) with Gaussian noise."""
        delta = self.delta if self.noise == "gaussian" else 0.0
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY, delta=delta)

    def law(self, epsilon: float) -> LatentNoise:
        """Return the noise for L2 sensitivity 2C (Gaussian) or L1 sensitivity 2C sqrt(n) (Laplace; as published 2C)."""
        if self.noise == "gaussian":
            return Gaussian(2 * self.norm * gaussian_scale(epsilon, self.delta))
        return laplace(epsilon, 2 * self.norm * (1 if self.as_published else math.sqrt(self._model.width)))

    def latents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return latents [n, 2 hidden] of L2 norm at most C."""
        encoded = self._model.encode(texts).astype(np.float64)
        lengths = np.linalg.norm(encoded, axis=1, keepdims=True)
        if not np.isfinite(lengths).all():
            raise UserError(
                f"the autoencoder {str(self.resource)!r} returns vectors that are not finite; train it again",
                "EPS-M033",
            )
        # Clips slightly below C, so that norms stay at most C after rounding to float32.
        return (encoded * np.minimum(1, self.norm * (1 - 2.0**-20) / np.maximum(lengths, 1e-300))).astype(np.float32)

    def decoded(self, latents: NDArray[np.float32]) -> list[str]:
        """Return the texts decoded from latents [n, 2 hidden], with the likeliest word at each step."""
        texts = self._model.decode(latents)
        return [text or "UNK" for text in texts] if self.as_published else texts
