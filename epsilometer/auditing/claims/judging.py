"""The overall verdict on each claim of an audit: by the guesses of attacks, and by the worst case under stated laws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from epsilometer.auditing.claims.verdicts import VIOLATED, describe, overall, with_overall
from epsilometer.auditing.claims.worst_case import Extent, check_claim, is_sampled
from epsilometer.auditing.schemas import CLAIMS, OVERALL
from epsilometer.core.guarantees import at_budget, stored
from epsilometer.core.mechanism import HasInputs, Mechanism
from epsilometer.runtime.progress import note

_BY_GUESSES = pl.lit(False)
_EXTENT = Extent(500, entries=2e8, bounded=False)  # takes at most tenths of a second, little compared with an audit


def worst_cases(mechanism: Mechanism | None, epsilons: Sequence[float]) -> pl.DataFrame:
    """Return the worst case of the claim, a row per epsilon (schema `CLAIMS`).

    An epsilon has no row if only draws can check the claim there. The worst case is computed without draws, so it takes
    no part of alpha, the error probability that tests share. Notes on standard error report violated claims. If only
    some inputs were compared, a further note gives their number.
    """
    rows: list[dict[str, Any]] = []
    if mechanism is not None and isinstance(mechanism, HasInputs) and callable(getattr(mechanism, "laws", None)):
        for epsilon in epsilons:
            if is_sampled(mechanism, epsilon):
                continue
            finding = check_claim(mechanism, epsilon, extent=_EXTENT)
            guarantee = mechanism.guarantee(epsilon)
            claim = describe(guarantee)
            rows.append(
                {"epsilon": stored(epsilon), "claim": claim, "verdict": finding.verdict, "reason": finding.reason}
                | {"method": finding.method}
            )
            if finding.verdict == VIOLATED:
                unit = "nats" if guarantee is None or guarantee.curve is None else guarantee.curve.unit
                note(
                    f"the claim is violated{at_budget(epsilon)}: under the stated output distribution, the loss "
                    f"between two of {finding.inputs:,} inputs is {finding.worst:.6g} {unit}, more than the claimed "
                    f"{finding.claimed:.6g}"
                )
        if rows and finding.inputs < (every := len(list(mechanism.inputs))):
            note(
                f"the claim was compared with the stated output distribution for all pairs of {finding.inputs:,} of "
                f"{every:,} inputs; run `epsilometer claims` to compare more inputs"
            )
    return pl.DataFrame(rows, schema=dict(CLAIMS))


def judged(table: pl.DataFrame, worst: pl.DataFrame, computed: pl.Expr = _BY_GUESSES) -> pl.DataFrame:
    """Return the rows of an audit of one mechanism, with the columns `overall` and `overall_by` filled in.

    worst: from `worst_cases`. computed: True for rows whose verdicts were computed from laws; by default, none.
    """
    named = table.drop(OVERALL, strict=False).with_columns(mechanism=pl.lit(None, pl.String))
    tests = named.filter(~computed).with_columns(refutable=pl.lit(None, pl.Float64))
    verdicts = overall(tests, worst, named.filter(computed).with_columns(released=pl.lit(True)))
    return with_overall(named, verdicts).drop("mechanism")
