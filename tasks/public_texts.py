"""Public texts that models are trained on, from wherever they come."""

from __future__ import annotations

from epsilometer.corpora.reading import read
from epsilometer.params import Params, PublicCorpus


def public_texts(params: Params, corpus: PublicCorpus) -> list[str]:
    """The texts of all parts."""
    source = params.path(corpus.source)
    return [
        text
        for part in corpus.parts or (None,)
        for text in read(source, corpus.text, seed=corpus.seed, count=corpus.count, part=part)["text"].drop_nulls()
    ]
