"""DP-ST's default resource: a public corpus of triples, from the embedded generators' texts."""

from __future__ import annotations

from pathlib import Path

from epsilometer.models.embedded import cached


def triples() -> Path:
    """Returns the folder of the corpus."""
    from epsilometer.corpora.synthetic import generate
    from epsilometer.mechanisms.selection.shared.triples import Clustering, build

    def make(out: Path) -> None:
        texts = [text for part in ("queries", "reviews") for text in generate(part, 1500, 1)["text"]]
        build(texts, out, Clustering([50, 200], seed=1))

    return cached("triples", "a public corpus of triples, from the embedded generators' texts", make)
