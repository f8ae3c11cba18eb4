"""Public texts that resources of mechanisms are made from, out of any kind of source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from epsilometer.cells.params import PublicCorpus, TextsParams
from epsilometer.corpora.parts import PUBLIC
from epsilometer.corpora.reading import GeneratorRequest, read
from epsilometer.project.corpora import corpus as audited_corpus


def public_texts(params: TextsParams, corpus: PublicCorpus) -> list[str]:
    """Return public texts: the first `count` texts of each given part of a source, or a data set's public part.

    A generator writes some texts under more than one seed. A text that the generator also writes for an audited data
    set is left out, so that no model is audited on its training texts.
    """
    if corpus.dataset is not None:
        texts: list[str] = audited_corpus(params, corpus.dataset).table.filter(split=PUBLIC)["text"].to_list()
        return texts
    source = params.path(corpus.source)
    if not source.endswith(".py"):
        parts = [
            read(source, corpus.text, request=GeneratorRequest(part=part))["text"].drop_nulls()
            for part in corpus.parts or (None,)
        ]
        return [text for part in parts for text in (part if corpus.count is None else part.head(corpus.count))]
    audited = {text.lower() for text in _audited(params, corpus)}
    generated = (
        text
        for part in corpus.parts or (None,)
        for text in read(source, corpus.text, request=GeneratorRequest(corpus.seed, corpus.count, part))[
            "text"
        ].drop_nulls()
    )
    return [text for text in generated if text.lower() not in audited]


def source_of(corpus: PublicCorpus) -> str:
    """Return a short description of the source of public texts, for claims."""
    if corpus.dataset is not None:
        return f"the public part of {corpus.dataset}"
    return " ".join([Path(corpus.source).name, *corpus.parts])


def _audited(params: TextsParams, corpus: PublicCorpus) -> Iterator[str]:
    """Yield the generator's texts for data sets, generated again because this stage cannot read prepared texts."""
    for entry in params.datasets.values():
        if entry.source == corpus.source and entry.part in corpus.parts:
            request = GeneratorRequest(params.audit.seed, entry.count, entry.part)
            table = read(params.path(entry.source), entry.text, request=request)
            yield from table["text"].drop_nulls()
