"""Rows for three ways to share a data set's labelled texts, from its public, private and held-out texts.

Rows are made for each data set that a cell audits and that has a label to learn. The label to learn is the data set's
first label with enough texts, in all and per class. Labels that identify authors or pairs (`group`) and attributes to
hide (`decide.attributes`) are skipped. Public texts are those of the public part. Without a public part, they are those
of splits that are not audited. The audited texts form folds (`auditing.corpora.folds`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.corpora.checks import FEWEST
from epsilometer.auditing.corpora.folds import CHOICE, FOLDS, Folds
from epsilometer.auditing.corpora.ways import Labelled, loss_of_release
from epsilometer.cells import encoded
from epsilometer.cells.params import TextsParams
from epsilometer.cells.reading import mechanism, rewrites, trials
from epsilometer.core.guarantees import stored
from epsilometer.core.mechanism import is_control
from epsilometer.corpora.parts import GROUP, PUBLIC
from epsilometer.mechanisms.selection.shared.public_exemplars import embed
from epsilometer.project.paths import audited, prepared

EPSILONS = (1.0, 2.0)  # budgets of released corpora; at epsilon 2, the guess loss between two texts is 1 nat
_LEARNT = (1 - CHOICE) * (1 - 1 / FOLDS)
_MOST = 2000  # maximum number of public texts
_OF_LABEL = 10  # minimum number of private texts per class, on average


def rows(params: TextsParams, dataset: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data set (schema `WAYS`); no rows if no label can be learnt."""
    settings = params.datasets[dataset]
    hidden = {*settings.group, *params.decide.attributes.get(dataset, ())}
    splits = (Split.of(params, dataset, label) for label in settings.labels if label not in hidden)
    if (split := next(filter(None, splits), None)) is None:
        return
    named, folds = {"dataset": dataset, "label": split.label}, split.folds
    yield named | {"way": "public"} | folds.by_hand()
    for name, cell in params.cells.items():
        if cell.dataset != dataset or is_control(mechanism(params, name)):
            continue
        for epsilon in cell.budgets:
            if (labelled := split.rewritten(name, epsilon)) is not None:
                of_cell = {"way": "rewrites", "mechanism": cell.mechanism, "epsilon": stored(epsilon)}
                yield named | of_cell | folds.rewritten(labelled)
    for epsilon in EPSILONS:
        of_release = {"way": "release", "epsilon": epsilon, "loss": loss_of_release(epsilon)}
        yield named | of_release | folds.released(epsilon)


class Split:
    """The public, private and held-out texts of a data set. table: the audited texts, in the order of their numbers."""

    def __init__(self, params: TextsParams, dataset: str, label: str, table: pl.DataFrame) -> None:
        from epsilometer.models.encoder import Encoder  # loading takes a second, and most audits do not need it

        self._dataset, self.label, self._table = dataset, label, table
        self._encoder = Encoder(params.embedding.model, params.embedding.precision)
        public = _public(params, dataset, label)
        texts, own = public["text"].to_list(), _unit(np.load(f"data/embeddings/{dataset}.npy"))
        self.folds = Folds(
            Labelled(texts, embed(self._encoder, texts), public[label].to_list()),
            Labelled(table["text"].to_list(), own, table[label].to_list()),
            table[GROUP].to_numpy() if GROUP in table.columns else np.arange(len(table)),
            seed=params.audit.seed,
            name=dataset,
        )

    @classmethod
    def of(cls, params: TextsParams, dataset: str, label: str) -> Split | None:
        """Return the split; None if there are too few texts, in all or for the number of classes."""
        table, public = audited(params, dataset), _public(params, dataset, label)
        labels = public[label].n_unique()
        usable = int(table[label].is_in(public[label].unique().to_list()).sum())
        if labels < 2 or len(public) < 2 * labels or usable * _LEARNT < max(FEWEST, _OF_LABEL * labels):
            return None
        split = cls(params, dataset, label, table)
        enough = (len(ways.private) >= FEWEST and len(ways.choice) and len(ways.tests) for ways in split.folds.ways)
        return split if all(enough) else None

    def rewritten(self, cell: str, epsilon: float) -> list[Labelled] | None:
        """Return, for each fold, the first rewrite of each private text that trials rewrite.

        Returns None if a fold has rewrites of fewer than two classes.
        """
        first: dict[int, str] = {}
        for source, text in zip(trials(self._dataset).source.tolist(), rewrites(cell, epsilon)[0].texts, strict=True):
            first.setdefault(source, text)
        folds = [[source for source in first if source in allowed] for allowed in map(set, self.folds.learnt)]
        labels = [[self._table[self.label][source] for source in sources] for sources in folds]
        if any(len(set(of_fold)) < 2 for of_fold in labels):
            return None
        texts = [*dict.fromkeys(first[source] for sources in folds for source in sources)]
        vectors = encoded.of_cells([cell], texts)
        missing = [text for text in texts if text not in vectors]
        vectors |= dict(zip(missing, embed(self._encoder, missing), strict=True)) if missing else {}
        shown = [[first[source] for source in sources] for sources in folds]
        each = [_unit(np.array([vectors[text] for text in of_fold])) for of_fold in shown]
        return list(map(Labelled, shown, each, labels))


def _public(params: TextsParams, dataset: str, label: str) -> pl.DataFrame:
    """Return at most _MOST distinct, labelled public texts. None of them is audited."""
    settings, table = params.datasets[dataset], prepared(dataset)
    is_public = pl.col("split") != settings.use if settings.public_part is None else pl.col("split") == PUBLIC
    return table.filter(is_public).drop_nulls(label).unique("text", keep="first", maintain_order=True).head(_MOST)


def _unit(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the rows rescaled to length 1. Rows of zeros are unchanged."""
    wide = vectors.astype(np.float64)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), np.finfo(float).tiny))
