"""The LSTM autoencoder for ADePT, trained on public texts."""

from __future__ import annotations

from pathlib import Path

from epsilometer.cells.params import TextsParams
from epsilometer.cells.public_texts import public_texts
from epsilometer.core import tables
from epsilometer.core.component import build
from epsilometer.mechanisms.latents.shared.autoencoder import AutoencoderTraining, Shape, train
from epsilometer.runtime.progress import say
from epsilometer.text.vectors import WordVectors


def make(params: TextsParams, name: str) -> None:
    """Train an autoencoder and write it to data/autoencoders/<name>.

    training.json has the settings of the training corpus, and the reconstruction quality.
    """
    chosen = params.autoencoders[name]
    corpus = chosen.corpus
    audited = [
        dataset
        for dataset, entry in params.datasets.items()
        if entry.source == corpus.source and entry.part in (corpus.parts or (None,))
    ]
    if audited:
        say(
            f"note: {', '.join(audited)} come from {corpus.source} too; ADePT's claim assumes that its training texts "
            "are public"
        )
    vectors = None if chosen.vectors is None else WordVectors.load(params.path(chosen.vectors)).whole_words()
    model, record = train(
        public_texts(params, corpus),
        build(Shape, chosen.shape, f"autoencoders.{name}.shape"),
        build(AutoencoderTraining, chosen.training, f"autoencoders.{name}.training"),
        vectors,
    )
    out = Path(f"data/autoencoders/{name}")
    model.save(out)
    tables.write_json({"corpus": corpus.model_dump(), **record}, out / "training.json")
    say(f"autoencoder {name}: reconstructs {record['word_accuracy']:.1%} of held-out words at their positions")
