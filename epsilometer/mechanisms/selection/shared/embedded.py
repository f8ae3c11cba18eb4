"""Default resources, made from texts of the embedded generators: a corpus of triples (DP-ST), and public exemplars."""

from __future__ import annotations

from pathlib import Path

from epsilometer.models.embedded import cached


def triples() -> Path:
    """Return the folder of the default corpus of triples."""
    from epsilometer.corpora.synthetic import generate
    from epsilometer.mechanisms.selection.shared.triples import Clustering, build

    def make(out: Path) -> None:
        texts = [text for part in ("queries", "reviews") for text in generate(part, 1500, 1)["text"]]
        build(texts, out, Clustering([50, 200], seed=1))

    return cached("triples", "a public corpus of triples, from the embedded generators' texts", make)


def exemplars() -> Path:
    """Return the folder of 64 exemplars, chosen from 2,000 public texts."""
    from epsilometer.corpora.synthetic import generate
    from epsilometer.mechanisms.selection.shared.public_exemplars import choose

    def make(out: Path) -> None:
        texts = [text for part in ("queries", "reviews") for text in generate(part, 1000, 1)["text"]]
        choose(texts, 64, source=f"{len(set(texts)):,} texts of the embedded generators").save(out)

    return cached("exemplars-64", "64 exemplars among public texts of the embedded generators", make)
