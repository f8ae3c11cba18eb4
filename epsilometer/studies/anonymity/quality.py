"""How much changed rewrites keep of their texts: the measures of IDT's tables 3 and 5, but for the judge of grammar.

The cosine and BERTScore are by the embedded encoder, where the paper has the Universal Sentence Encoder and RoBERTa.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from epsilometer.auditing.worth.intervals import mean_interval
from epsilometer.auditing.worth.similarity import Metric, measure
from epsilometer.metrics.bertscore import BertScore
from epsilometer.metrics.cosine import Cosine
from epsilometer.metrics.jaccard import Jaccard
from epsilometer.metrics.levenshtein import Levenshtein
from epsilometer.metrics.meteor import Meteor
from epsilometer.studies.anonymity.released import Released

METRICS: dict[str, Metric] = {
    "cosine": Cosine(),
    "BERTScore": BertScore(),
    "METEOR": Meteor(),
    "Jaccard": Jaccard(),
    "Levenshtein": Levenshtein(),
}


def quality(test: Released, alpha: float) -> Iterator[dict[str, Any]]:
    """Rows of `tables.QUALITY` from `metric` on; alpha: error of each interval, which is over groups of texts."""
    changed = test.take(np.flatnonzero(~test.unchanged))
    groups = np.arange(len(changed)) if changed.groups is None else np.asarray(changed.groups)
    values = measure(changed.originals, changed.rewrites, METRICS)
    for name in METRICS:
        defined = values[name].is_not_null().to_numpy()
        if defined.any():
            mean, low, high = mean_interval(values[name].drop_nulls().to_numpy(), groups[defined], alpha)
            yield {"metric": name, "texts": int(defined.sum()), "mean": mean, "mean_low": low, "mean_high": high}
