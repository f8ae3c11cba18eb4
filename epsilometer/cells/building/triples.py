"""A public corpus of (subject, relation, object) triples, which DP-ST reads."""

from __future__ import annotations

from pathlib import Path

from epsilometer.cells.params import TextsParams
from epsilometer.cells.public_texts import public_texts
from epsilometer.mechanisms.selection.shared.triples import Clustering, build
from epsilometer.runtime.progress import say


def make(params: TextsParams, name: str) -> None:
    """Write data/triples/<name>."""
    entry = params.triples[name]
    corpus = build(
        public_texts(params, entry.corpus),
        Path(f"data/triples/{name}"),
        Clustering(
            clusters=entry.clusters,
            dimensions=entry.dimensions,
            threshold=entry.threshold,
            encoder=entry.encoder,
            tagger=entry.tagger,
            seed=entry.corpus.seed,
        ),
    )
    say(f"triples: {len(corpus.triples)}")
