"""Similarity of rewrites and their texts: the mean of a metric, whose limit is the smallest mean allowed.

A trial is a uniformly drawn text and one fresh rewrite of it. The value of a trial is the metric of text and rewrite
(`epsilometer.metrics`), which lies in [0, 1]. A metric x in [-1, 1], such as a cosine, is rescaled to (1 + x) / 2, and
the mean is reported in the metric's own unit. The mean has an interval by betting (`auditing/estimation/betting.py`),
which assumes only independent trials with values in [0, 1]. No adversary is involved, so both bounds cover every
adversary. A trial without a value counts as the lowest value.

Metrics without such a range, and metrics that grow as texts differ, are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from epsilometer.auditing.evidence.evidence import By, Covers, Evidence, Means
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.gate_statistics import Errors, fewest_sets
from epsilometer.auditing.question import Gives, Need, Observed
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.worth.similarity import Metric, measure, metric
from epsilometer.core.component import component, file
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise

_AMPLE = 2  # texts to rewrite, as a multiple of the fewest that can show that the limit is kept
_SIGNED = ("bertscore", "cosine")  # metrics from -1 to 1
_REFUSED = {
    "changed": "is larger for less similar texts; use jaccard or levenshtein",
    "perplexity": "has no upper bound, so no number of texts bounds its mean; use grammaticality",
}
_ROUNDING = 1e-6  # a computed cosine may be this far outside its range


@component
class Similarity:
    """metric: a name in `epsilometer.metrics`, or the path of a file; values lie in [0, 1] and grow with similarity
    (cosine and bertscore lie in [-1, 1]). settings: the settings of the metric.
    """

    metric: str | Path = "jaccard"
    settings: Mapping[str, Any] = field(default_factory=dict)

    needs: ClassVar[frozenset[Need]] = frozenset()
    gives: ClassVar[frozenset[Gives]] = frozenset({Gives.LOW, Gives.HIGH, Gives.OUTCOMES})
    columns: ClassVar[Sequence[str]] = ()
    usual: ClassVar[int] = 200

    @property
    def components(self) -> Sequence[Path]:
        """The file of the metric."""
        return [file("metrics", str(self.metric))]

    def limit(self, of: Subject, allowed: float) -> Limit:
        """Return the limit: the smallest mean allowed."""
        self._built()
        lowest = self._scale.lowest
        if not lowest < allowed < 1:
            raise UserError(
                f"the limit of similarity, the smallest mean of {self.metric} allowed, must be in ({lowest:g}, 1), got "
                f"{allowed}: no number of texts can show a mean at or beyond these bounds",
                "EPS-Q035",
            )
        return Limit(allowed, self._scale, "the smallest mean allowed", at_least=True)

    def tests(self, of: Subject) -> Sequence[str]:
        """Return the name of the figure."""
        return [self._name]

    def amount(self, of: Subject, limit: Limit, budget: int, tests: int, *, errors: Errors) -> int:
        """Return a number of texts from `usual` to `budget`, if possible twice the fewest that can show the limit kept.

        The fewest show it if every rewrite equals its text.
        """
        fewest = fewest_sets(1 - limit.rate, tests, expected=0.0, spread=0.0, errors=errors)
        if fewest is None or fewest > budget:
            needed = "more than a million" if fewest is None else f"{fewest:,}"
            raise UserError(
                f"a mean {self.metric} of {limit.allowed:g} takes {needed} rewrites to test, and {budget:,} are left; "
                "give a larger budget (--budget), or a limit farther from the ends of the range",
                "EPS-Q036",
            )
        return min(max(self.usual, _AMPLE * fewest), budget)

    def observe(self, of: Subject, count: int) -> Sequence[Observed]:
        """Return the evidence of the mean over this number of drawn texts."""
        texts, seed = of.pool.texts, of.design.seed
        chosen = (Noise.named(count, seed, "similarity", "text").uniforms()[:, 0] * len(texts)).astype(np.int64)
        stream = Noise.named(count, seed, "similarity", "rewrite", of.epsilon)
        (rewrites,) = rewrite_all(of.mechanism, Job(texts, chosen, [of.epsilon], [stream], tally=of.tally), paced=True)
        table = measure([texts[i] for i in chosen.tolist()], rewrites.texts, {self._name: self._built()})
        lowest, measured = self._scale.lowest, table[self._name]
        values = measured.fill_null(lowest).to_numpy()
        if values.min() < lowest - _ROUNDING or values.max() > 1 + _ROUNDING:
            raise UserError(
                f"metric {self.metric} has values from {values.min():.3g} to {values.max():.3g}; similarity takes a "
                f"metric from {lowest:g} to 1",
                "EPS-Q037",
            )
        shares = np.clip((values - lowest) / (1 - lowest), 0.0, 1.0)
        evidence = Evidence(self._name, By.COUNT, self._scale, Means(shares.tolist()), covers=Covers.EVERYONE)
        return [Observed(evidence, shares, row={"without_value": measured.null_count()})]

    @property
    def _name(self) -> str:
        return f"similarity: {Path(self.metric).stem}"

    @property
    def _scale(self) -> Scale:
        return Scale("similarity", lowest=-1.0 if str(self.metric) in _SIGNED else 0.0)

    def _built(self) -> Metric:
        if (name := str(self.metric)) in _REFUSED:
            raise UserError(f"similarity has no limit on {name}: it {_REFUSED[name]}", "EPS-Q038")
        return metric(name, self.settings)
