"""ADePT: a text goes through one noisy vector (Krishna, Gupta and Dupuy 2021).

In plain words it turns each text into a list of numbers, adds random noise to them, and writes a text from the result.

An LSTM autoencoder reads a text into z = [h; c] of n numbers, which is clipped to an L2 norm C; noise is added, and the
decoder writes a text, greedily, from the result:

    z' = z min(1, C / ||z||) + noise.

Any two clipped vectors are at most 2C apart in L2, and at most 2C sqrt(n) in L1 (Habernal 2021, "When differential
privacy meets NLP: the devil is in the detail"). So with Gaussian noise calibrated to the L2 sensitivity 2C by its
exact profile (`shared/noise.py`) the claim is (epsilon, delta), with Laplace noise of scale 2C sqrt(n) /
epsilon it is epsilon, for whole texts: any two of them, of any lengths, since z' decides the output's length too.

Assumptions: vocabulary, weights and greatest length are public, that is, the autoencoder was not trained on the
protected texts. Its training.json names the training texts, and the stage reports an audited data set that comes from
them. Words outside the vocabulary become one symbol before the noise, and are never released. An output may be empty,
and stays so.

`as_published: true` is the published form: Laplace noise of scale 2C / epsilon after an L2 clip, claimed to be
epsilon-private (an empty output becomes "UNK"). It is not: between z and -z = (C, ..., C) / sqrt(n) the loss at z is
epsilon sqrt(n). The claim is stated so that it can be refuted: by that exact ratio, since the audit of common texts
does not detect it. Over many coordinates of small difference Laplace noise acts as Gaussian noise, and the optimal
adversary's success is near Phi(epsilon ||x - x'|| / 4C), which the claim allows.
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
    """Return the folder of the default autoencoder, of the embedded generators' texts."""
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
    """The mechanism that adds noise to an LSTM autoencoder's latent.

    resource: an autoencoder's folder; clip: C, by default the norm that it was trained with.
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
        """Return the counts of texts longer than the autoencoder reads, and of out-of-vocabulary words."""
        split = [words(text) for text in texts]
        number = self._model.number
        return Unread(
            cut=sum(len(text) > self._model.shape.longest for text in split),
            texts=len(texts),
            unknown=sum(word not in number for text in split for word in text),
            words=sum(map(len, split)),
        )

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon for a whole text, with delta where the noise is Gaussian."""
        delta = self.delta if self.noise == "gaussian" else 0.0
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY, delta=delta)

    def law(self, epsilon: float) -> LatentNoise:
        """Return the noise, calibrated to the L2 sensitivity 2C or the L1 sensitivity 2C sqrt(n)."""
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
        # Slightly less than C, so that rounding to float32 never leaves the ball.
        return (encoded * np.minimum(1, self.norm * (1 - 2.0**-20) / np.maximum(lengths, 1e-300))).astype(np.float32)

    def decoded(self, latents: NDArray[np.float32]) -> list[str]:
        """Return the texts of latents [n, 2 hidden], by the likeliest word at each step."""
        texts = self._model.decode(latents)
        return [text or "UNK" for text in texts] if self.as_published else texts
