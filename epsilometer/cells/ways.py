"""Three ways to share the labelled texts of a data set: the public, private and held-out texts, and the F1 of each way.

The rows are about data sets that a cell audits and that have a label to learn: the first label that does not identify
authors or pairs (`group`) and is not an attribute to hide (`decide.attributes`). Public texts are those of the public
part or, if there is none, of splits that are not audited. A tenth of the audited texts, in whole groups, is for
choosing among mechanisms and budgets. The others are in five folds of whole groups. Each fold is held out once, and F1
on it is of what is learnt from the other four. A data set has no rows if it has too few texts, in all or with one of
the labels.
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
FOLDS = 5
_CHOICE = 0.1  # share of the audited texts that choose
_LEARNT = (1 - _CHOICE) * (1 - 1 / FOLDS)
_MOST = 2000  # maximum number of public texts, and of private texts
_OF_LABEL = 10  # minimum number of private texts of a label, on average


def rows(params: TextsParams, dataset: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data set (schema `WAYS`); none if nothing can be learnt."""
    settings = params.datasets[dataset]
    hidden = {*settings.group, *params.decide.attributes.get(dataset, ())}
    splits = (Split.of(params, dataset, label) for label in settings.labels if label not in hidden)
    if (split := next(filter(None, splits), None)) is None:
        return
    named, folds = {"dataset": dataset, "label": split.label}, split.ways
    counts, f1 = zip(*(ways.by_hand() for ways in folds), strict=True)
    yield named | {"way": "public", "texts": counts[0], "f1": f1}
    for name, cell in params.cells.items():
        if cell.dataset != dataset or is_control(mechanism(params, name)):
            continue
        for epsilon in cell.budgets:
            if (labelled := split.rewritten(name, epsilon)) is not None:
                choice, f1 = zip(*map(Ways.rewritten, folds, labelled), strict=True)
                of_cell = {"way": "rewrites", "mechanism": cell.mechanism, "epsilon": stored(epsilon)}
                about = {"texts": min(map(len, labelled)), "choice": float(np.mean(choice))}
                yield named | of_cell | about | {"f1": f1}
    for epsilon in EPSILONS:
        of_release = {"way": "release", "epsilon": epsilon, "loss": loss_of_release(epsilon)}
        texts = min(len(ways.private) for ways in folds)
        yield named | of_release | {"texts": texts, "f1": [ways.released(epsilon) for ways in folds]}


class Split:
    """The public, private and held-out texts of a data set. table: the audited ones, in the order of trials.

    learnt: for each fold, the rows of the private texts.
    """

    def __init__(self, params: TextsParams, dataset: str, label: str, table: pl.DataFrame) -> None:
        from epsilometer.models.encoder import Encoder  # loading takes a second, and most audits do not need it

        self._dataset, self.label, self._table = dataset, label, table
        self._encoder = Encoder(params.embedding.model, params.embedding.precision)
        self._vectors = _unit(np.load(f"data/embeddings/{dataset}.npy"))
        public = _public(params, dataset, label)
        labels = tuple(sorted(set(public[label])))
        groups = table[GROUP].to_numpy() if GROUP in table.columns else np.arange(len(table))
        at = places(groups, params.audit.seed, "ways", dataset)
        fold = np.where(at < _CHOICE, -1, (at - _CHOICE) / (1 - _CHOICE) * FOLDS // 1)
        usable = table[label].is_in(labels).fill_null(False).to_numpy()
        self.learnt = [np.flatnonzero(usable & (fold >= 0) & (fold != number)) for number in range(FOLDS)]
        texts = public["text"].to_list()
        public_texts = Labelled(texts, embed(self._encoder, texts), public[label].to_list())
        choice = self._at(np.flatnonzero(usable & (fold < 0))[:_MOST])
        self.ways = [
            Ways(
                public_texts,
                self._at(learnt[:_MOST]),
                choice,
                self._at(np.flatnonzero(usable & (fold == number))[:_MOST]),
                labels=labels,
                seed=params.audit.seed + number,
            )
            for number, learnt in enumerate(self.learnt)
        ]

    @classmethod
    def of(cls, params: TextsParams, dataset: str, label: str) -> Split | None:
        """Return the split; None if there are too few texts for the number of labels."""
        table, public = audited(params, dataset), _public(params, dataset, label)
        labels = public[label].n_unique()
        usable = int(table[label].is_in(public[label].unique().to_list()).sum())
        if labels < 2 or len(public) < 2 * labels or usable * _LEARNT < max(FEWEST, _OF_LABEL * labels):
            return None
        split = cls(params, dataset, label, table)
        enough = (len(ways.private) >= FEWEST and len(ways.choice) and len(ways.tests) for ways in split.ways)
        return split if all(enough) else None

    def rewritten(self, cell: str, epsilon: float) -> list[Labelled] | None:
        """Return, for each fold, the first rewrite of each trial's private text.

        None if a fold has rewrites of fewer than two labels.
        """
        first: dict[int, str] = {}
        for source, text in zip(trials(self._dataset).source.tolist(), rewrites(cell, epsilon)[0].texts, strict=True):
            first.setdefault(source, text)
        folds = [[source for source in first if source in allowed] for allowed in map(set, self.learnt)]
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
