"""Bounds on an average over all pairs of texts that trials can draw, as evidence from a mechanism's stated law."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.evidence.evidence import By, Computed, Covers, Evidence
from epsilometer.auditing.evidence.limit import Limit
from epsilometer.auditing.exact_loss.from_texts import TRIALS, chosen
from epsilometer.auditing.exact_loss.measuring import applies, measure
from epsilometer.auditing.exact_loss.pairs import Pairs
from epsilometer.auditing.exact_loss.rows import ALL, ALPHA
from epsilometer.auditing.gate_statistics import BY_LAW, Errors
from epsilometer.auditing.limits.stated_law import law_p_value
from epsilometer.auditing.question import Observed
from epsilometer.auditing.subject import Subject
from epsilometer.core.guarantees import at_budget
from epsilometer.core.likelihood import has_law
from epsilometer.core.randomness import Noise
from epsilometer.runtime.progress import note

_MOST, _FEWEST = 1000, 50  # rewrites compared with the stated law


def average_by_law(
    of: Subject, limit: Limit, budget: int, columns: tuple[str, str], *, errors: Errors
) -> tuple[Observed | None, str | None]:
    """Return the evidence of a law that proves the limit kept, or the reason to ignore the law (`question.ShownByLaw`).

    columns: names of the lower and the upper bound over all pairs, in `schemas.EXACT`. The law is used only if rewrites
    do not refute it. The sources of these rewrites are drawn like those of trials.
    """
    rewrites = min(_MOST, budget // 2)
    lawful = applies(of.mechanism) and has_law(of.mechanism) and errors.beta >= ALPHA / 2
    if of.design.k != 2 or of.pool.groups is not None or rewrites < _FEWEST or not lawful:
        return None, None
    pairs = chosen(of.pool.texts, TRIALS, of.design)
    (row,) = measure(of.mechanism, of.pool.texts, [of.epsilon], pairs).losses.filter(pairs=ALL).to_dicts()
    low, high = (row[name] for name in columns)
    if high is None or high > limit.allowed:
        return None, None
    loss = math.inf if row["all_high"] is None else row["all_high"]
    p = law_p_value(of, of.pool.texts, pairs.numbers[_drawn_places(pairs, rewrites, of)], loss)
    if p is not None and p > errors.alpha:
        by = By.LAW if row["released"] else By.LATENTS
        bounds = Computed(low if row["released"] and low is not None else 0.0, high, ALPHA / 2, row["compared"])
        evidence = Evidence(f"{limit.scale.measure}{BY_LAW}", by, limit.scale, bounds, covers=Covers.EVERYONE)
        return Observed(evidence, row={"unrefuted": rewrites}), None
    why = f"rewrites {'cannot be compared with' if p is None else 'refute'} the stated law"
    note(f"{why}{at_budget(of.epsilon)}, so its bound is ignored and attacks run instead")
    return None, why


def _drawn_places(pairs: Pairs, count: int, of: Subject) -> NDArray[np.int64]:
    """Return the indices of pairs [count], each drawn as trials draw pairs."""
    if pairs.trials is not None:
        return np.resize(pairs.trials, count)
    uniforms = Noise.named(count, of.design.seed, "stated law", "pairs").uniforms()[:, 0]
    return np.searchsorted(np.cumsum(pairs.weights)[:-1], uniforms)
