"""Three ways to share the labelled texts of a data set: the public, private and held-out texts, and the F1 of each way.

The rows are about data sets that a cell audits and that have a label to learn: the first label that does not identify
authors or pairs (`group`) and is not an attribute to hide (`decide.attributes`). Public texts are those of the public
part or, if there is none, of splits that are not audited. A fifth of the audited texts is held out, in whole groups. A
data set has no rows if it has too few texts, in all or with one of the labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.corpora.checks import FEWEST
from epsilometer.auditing.corpora.ways import Labelled, Ways, loss_of_release
from epsilometer.cells import encoded
from epsilometer.cells.params import TextsParams
from epsilometer.cells.reading import mechanism, rewrites, trials
from epsilometer.core.guarantees import stored
from epsilometer.core.mechanism import is_control
from epsilometer.corpora.parts import GROUP, PUBLIC, places
from epsilometer.mechanisms.selection.shared.public_exemplars import embed
from epsilometer.project.paths import audited, prepared

EPSILONS = (1.0, 2.0)  # of released corpora; at epsilon 2, the average loss between two texts is 1 nat
_HELD_OUT = 0.2
_MOST = 2000  # maximum number of public texts, and of private texts
_OF_LABEL = 10  # minimum number of private texts of a label, on average


def rows(params: TextsParams, dataset: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data set (schema `WAYS`); none if nothing can be learnt."""
    settings = params.datasets[dataset]
    hidden = {*settings.group, *params.decide.attributes.get(dataset, ())}
    splits = (Split.of(params, dataset, label) for label in settings.labels if label not in hidden)
    if (split := next(filter(None, splits), None)) is None:
        return
    named, ways = {"dataset": dataset, "label": split.label}, split.ways
    count, f1 = ways.by_hand()
    yield named | {"way": "public", "texts": count, "f1": f1}
    for name, cell in params.cells.items():
        if cell.dataset != dataset or is_control(mechanism(params, name)):
            continue
        for epsilon in cell.budgets:
            if (labelled := split.rewritten(name, epsilon)) is not None:
                of_cell = {"way": "rewrites", "mechanism": cell.mechanism, "epsilon": stored(epsilon)}
                yield named | of_cell | {"texts": len(labelled), "f1": ways.rewritten(labelled)}
    for epsilon in EPSILONS:
        of_release = {"way": "release", "epsilon": epsilon, "loss": loss_of_release(epsilon)}
        yield named | of_release | {"texts": len(ways.private), "f1": ways.released(epsilon)}


class Split:
    """The public, private and held-out texts of a data set. table: the audited ones, in the order of trials."""

    def __init__(self, params: TextsParams, dataset: str, label: str, table: pl.DataFrame) -> None:
        from epsilometer.models.encoder import Encoder  # loading takes a second, and most audits do not need it

        self._dataset, self.label, self._table = dataset, label, table
        self._encoder = Encoder(params.embedding.model, params.embedding.precision)
        self._vectors = _unit(np.load(f"data/embeddings/{dataset}.npy"))
        public = _public(params, dataset, label)
        self._labels = tuple(sorted(set(public[label])))
        groups = table[GROUP].to_numpy() if GROUP in table.columns else np.arange(len(table))
        held_out = places(groups, params.audit.seed, "ways", dataset) < _HELD_OUT
        usable = table[label].is_in(self._labels).fill_null(False).to_numpy()
        self.private, self.tests = np.flatnonzero(usable & ~held_out), np.flatnonzero(usable & held_out)
        self.ways = Ways(
            Labelled(public["text"].to_list(), embed(self._encoder, public["text"].to_list()), public[label].to_list()),
            self._at(self.private[:_MOST]),
            self._at(self.tests[:_MOST]),
            labels=self._labels,
            seed=params.audit.seed,
        )

    @classmethod
    def of(cls, params: TextsParams, dataset: str, label: str) -> Split | None:
        """Return the split; None if there are too few texts for the number of labels."""
        table, public = audited(params, dataset), _public(params, dataset, label)
        labels = public[label].n_unique()
        usable = int(table[label].is_in(public[label].unique().to_list()).sum())
        if labels < 2 or len(public) < 2 * labels or usable * (1 - _HELD_OUT) < max(FEWEST, _OF_LABEL * labels):
            return None
        split = cls(params, dataset, label, table)
        return split if len(split.private) >= FEWEST and len(split.tests) else None

    def rewritten(self, cell: str, epsilon: float) -> Labelled | None:
        """Return the first rewrite of each trial's text that is not held out; None for fewer than two labels."""
        sources, texts = trials(self._dataset).source.tolist(), rewrites(cell, epsilon)[0].texts
        first: dict[int, str] = {}
        allowed = {*self.private.tolist()}
        for source, text in zip(sources, texts, strict=True):
            if source in allowed:
                first.setdefault(source, text)
        labels = [self._table[self.label][source] for source in first]
        if len(set(labels)) < 2:
            return None
        texts = [*first.values()]
        vectors = encoded.of_cells([cell], texts)
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        vectors |= dict(zip(missing, embed(self._encoder, missing), strict=True)) if missing else {}
        return Labelled(texts, _unit(np.array([vectors[text] for text in texts])), labels)

    def _at(self, rows: NDArray[np.integer]) -> Labelled:
        part = self._table[rows.tolist()]
        return Labelled(part["text"].to_list(), self._vectors[rows], part[self.label].to_list())


def _public(params: TextsParams, dataset: str, label: str) -> pl.DataFrame:
    """Return distinct labelled public texts that are not audited."""
    settings, table = params.datasets[dataset], prepared(dataset)
    is_public = pl.col("split") != settings.use if settings.public_part is None else pl.col("split") == PUBLIC
    return table.filter(is_public).drop_nulls(label).unique("text", keep="first", maintain_order=True).head(_MOST)


def _unit(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the rows rescaled to length 1; a row of zeros stays."""
    wide = vectors.astype(np.float64)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), np.finfo(float).tiny))
