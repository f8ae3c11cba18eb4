"""Public texts that models are trained on, from wherever they come."""

from __future__ import annotations

from epsilometer.corpora.reading import read
from epsilometer.params import Params, PublicCorpus


def public_texts(params: Params, corpus: PublicCorpus) -> list[str]:
    """The texts of all parts; of a file or a data set of the hub the first `count`."""
    source = params.path(corpus.source)
    count = corpus.count if source.endswith(".py") else None  # a generator makes as many
    parts = [
        read(source, corpus.text, seed=corpus.seed, count=count, part=part)["text"].drop_nulls()
        for part in corpus.parts or (None,)
    ]
    return [text for part in parts for text in (part if corpus.count is None else part.head(corpus.count))]
