"""ADePT's default resource: an autoencoder of the embedded generators' texts."""

from __future__ import annotations

from pathlib import Path

from epsilometer.models.embedded import cached


def autoencoder() -> Path:
    """Returns the folder of the autoencoder."""
    from epsilometer.corpora.synthetic import generate
    from epsilometer.mechanisms.latents.shared.autoencoder import AutoencoderTraining, Shape, train

    def make(out: Path) -> None:
        texts = [text for part in ("queries", "reviews") for text in generate(part, 12_000, 1)["text"]]
        model, _ = train(texts, Shape(), AutoencoderTraining())
        model.save(out)

    return cached(
        "autoencoder", "ADePT's autoencoder, trained for some minutes on the embedded generators' texts", make
    )
