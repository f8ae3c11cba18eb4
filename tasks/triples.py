"""Stage triples@name: a public corpus of triples, what DP-ST draws from.

usage: python -m tasks.triples NAME
"""

from __future__ import annotations

from pathlib import Path

from epsilometer.corpora.reading import read as read_texts
from epsilometer.language.triples import build
from epsilometer.params import read
from tasks.entry import run


def main(name: str) -> None:
    """Write data/triples/<name>."""
    params = read()
    corpus = params.triples[name]
    source = params.path(corpus.source)
    texts = read_texts(source, corpus.text, seed=corpus.seed, count=corpus.count, part=corpus.part)["text"].drop_nulls()
    made = build(
        texts.to_list(),
        Path(f"data/triples/{name}"),
        corpus.clusters,
        corpus.dimensions,
        corpus.threshold,
        corpus.encoder,
        corpus.tagger,
        corpus.seed,
    )
    print(f"triples: {len(made.triples)} from {len(texts)} texts")


if __name__ == "__main__":
    run(main)
