"""The quality of changed rewrites relative to their texts, by the metrics of IDT's tables 3 and 5.

The cosine and BERTScore use the embedded encoder; the paper uses the Universal Sentence Encoder and RoBERTa. Grammar is
the mean probability of "acceptable" by a classifier that the settings name, for rewrites and for their texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.attributes.released import Released
from epsilometer.auditing.worth.intervals import mean_interval
from epsilometer.auditing.worth.similarity import Metric, measure
from epsilometer.metrics.bertscore import BertScore
from epsilometer.metrics.cosine import Cosine
from epsilometer.metrics.grammaticality import Grammaticality
from epsilometer.metrics.jaccard import Jaccard
from epsilometer.metrics.levenshtein import Levenshtein
from epsilometer.metrics.meteor import Meteor

METRICS: dict[str, Metric] = {
    "cosine": Cosine(),
    "BERTScore": BertScore(),
    "METEOR": Meteor(),
    "Jaccard": Jaccard(),
    "Levenshtein": Levenshtein(),
}


@dataclass(frozen=True)
class OfOriginals:
    """A metric of single texts, such as grammaticality, applied to the originals instead of the rewrites."""

    metric: Metric

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the values [n] of the originals."""
        return self.metric.measure(rewrites, originals)


def metrics(grammar: str | None) -> dict[str, Metric]:
    """Return the metrics by column name. grammar: a classifier of grammar, by id or folder; None for none."""
    if grammar is None:
        return METRICS
    judge = Grammaticality(model=grammar)
    return {**METRICS, "grammatical": judge, "grammatical before": OfOriginals(judge)}


def quality(test: Released, alpha: float, metrics: Mapping[str, Metric] = METRICS) -> Iterator[dict[str, Any]]:
    """Yield a row per metric, with the columns of `tables.QUALITY` from `metric` on.

    test: all test texts; only texts with a changed rewrite count.
    alpha: the error probability of each interval. Intervals account for the choice of the groups of texts.
    """
    changed = test.take(np.flatnonzero(~test.unchanged))
    groups = np.arange(len(changed)) if changed.groups is None else np.asarray(changed.groups)
    values = measure(changed.originals, changed.rewrites, metrics)
    for name in metrics:
        defined = values[name].is_not_null().to_numpy()
        if defined.any():
            mean, low, high = mean_interval(values[name].drop_nulls().to_numpy(), groups[defined], alpha)
            yield {"metric": name, "texts": int(defined.sum()), "mean": mean, "mean_low": low, "mean_high": high}
