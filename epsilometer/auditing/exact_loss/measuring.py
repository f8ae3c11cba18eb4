"""The choice of the method that computes a mechanism's exact loss, and the tables of the results."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from epsilometer.auditing.claims.verdicts import NOT_CHECKED, NOT_REFUTED, pair_claims
from epsilometer.auditing.exact_loss import by_draws, by_laws, directions, latents
from epsilometer.auditing.exact_loss.all_pairs import LOWER_BOUND, Relative, is_quick, raised, relative
from epsilometer.auditing.exact_loss.candidate_sets import among_sets
from epsilometer.auditing.exact_loss.importance import AT_LEAST
from epsilometer.auditing.exact_loss.losses import ALONE, FULL, Crew, Effort, PairLosses, Request
from epsilometer.auditing.exact_loss.pairs import Pairs
from epsilometer.auditing.exact_loss.rows import EQUAL, Group, curve, enumerated, groups, relative_row, row, tail
from epsilometer.auditing.schemas import EXACT, EXACT_CURVES
from epsilometer.core.errors import UserError
from epsilometer.core.likelihood import shows_more
from epsilometer.core.mechanism import HasLaws, Mechanism

_OF_CELL = ("dataset", "mechanism")  # columns that a stage adds


@dataclass(frozen=True)
class ExactTables:
    """Two tables: `losses` has the columns of `EXACT` from `epsilon` on, `curves` those of `EXACT_CURVES`."""

    losses: pl.DataFrame
    curves: pl.DataFrame


def applies(mechanism: Mechanism) -> bool:
    """Return True if the loss of a mechanism can be computed, or estimated by importance sampling."""
    return pairwise(mechanism) or by_draws.applies(mechanism)


def pairwise(mechanism: Mechanism) -> bool:
    """Return True if the exact losses of single pairs can be computed (`pair_losses`)."""
    if callable(getattr(mechanism, "laws", None)):
        return True
    return latents.applies(mechanism) or directions.applies(mechanism)


def request(
    mechanism: Mechanism,
    texts: Sequence[str],
    epsilons: Sequence[float],
    pairs: Pairs,
    effort: Effort = FULL,
    crew: Crew = ALONE,
) -> Request:
    """Return the request for these pairs, with their claims."""
    claims = [pair_claims(mechanism, epsilon, texts, pairs.numbers) for epsilon in epsilons]
    return Request(mechanism, texts, pairs.numbers, epsilons, claims=claims, width=effort.width, crew=crew)


def pair_losses(request: Request) -> list[PairLosses]:
    """Return the losses of the pairs at every budget, by the mechanism's laws, noisy latents or directions.

    Raises UserError for a mechanism without any of these.
    """
    if isinstance(request.mechanism, HasLaws):
        return by_laws.losses(request)
    if latents.applies(request.mechanism):
        return latents.losses(request)
    if directions.applies(request.mechanism):
        return directions.losses(request)
    raise UserError(
        "the mechanism states no output distribution, which the exact loss needs; add `laws` "
        "(docs/how-to/your-own-mechanism.md), or run an audit",
        "EPS-A090",
    )


def measure(
    mechanism: Mechanism,
    texts: Sequence[str],
    epsilons: Sequence[float],
    pairs: Pairs,
    effort: Effort = FULL,
    crew: Crew = ALONE,
) -> ExactTables:
    """Return the exact losses of pairs of texts at every budget, and the relative epsilon of the texts.

    texts: distinct. crew: the engine that compares the pairs of a mechanism with laws. Raises UserError for a mechanism
    whose law is not known.
    """
    begun = time.perf_counter()
    comparison = request(mechanism, texts, epsilons, pairs, effort=effort, crew=crew)
    sampled = not pairwise(mechanism) and by_draws.applies(mechanism)
    losses, curves = (
        by_draws.tables(comparison, pairs, effort.draws) if sampled else _tables(comparison, pairs, effort.all_pairs)
    )
    if pairs.sets is not None:
        losses = [among_sets(each, comparison, pairs.sets, effort) for each in losses]
    losses = [each | enumerated(each) for each in losses]
    if shows_more(mechanism):
        losses = [_as_lower_ends(each) for each in losses]
        curves = [each | {"delta_high": 1.0, "worst_high": 1.0} for each in curves]
    seconds = (time.perf_counter() - begun) / len(epsilons)
    losses = [each | {"seconds": seconds} for each in losses]
    columns, of_curves = ({k: v for k, v in schema.items() if k not in _OF_CELL} for schema in (EXACT, EXACT_CURVES))
    return ExactTables(
        pl.DataFrame(losses, schema=columns, orient="row"), pl.DataFrame(curves, schema=of_curves, orient="row")
    )


def _as_lower_ends(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of units' exact losses as lower bounds for the released text, which may reveal more than units."""
    changed: dict[str, Any] = {"average_high": math.inf, "delta_at_4": 1.0, "all_high": math.inf, "all_delta_at_4": 1.0}
    changed |= dict.fromkeys(("median", "q95", "worst", "worst_x", "worst_other", "above_4", "error"))
    changed |= {"relative_method": LOWER_BOUND} if row.get("relative_method") else {}
    if row.get("verdict") == NOT_REFUTED:
        changed |= {"verdict": NOT_CHECKED, "delta_at_claim": None}
    there = {name: value for name, value in changed.items() if name in row}
    return row | there | {"average": row["average_low"], "method": AT_LEAST}


def _tables(request: Request, pairs: Pairs, all_pairs: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of both tables, from the losses of single pairs."""
    by_epsilon, losses, curves = pair_losses(request), [], []
    relatives: Sequence[tuple[Relative | None, Relative | None]] = [(None, None)] * len(by_epsilon)
    if isinstance(request.mechanism, HasLaws) and (all_pairs or is_quick(request.mechanism, request.texts)):
        relatives = relative(request.mechanism, request.texts, request.epsilons)
    for number, (losses_of, bounds) in enumerate(zip(by_epsilon, relatives, strict=True)):
        for group in groups(request, pairs, number):
            largest = _relative(group, losses_of, bounds[group.name == EQUAL])
            of_group = curve(group, losses_of)
            losses.append(row(group, losses_of) | tail(of_group) | ({} if largest is None else relative_row(largest)))
            curves += of_group
    return losses, curves


def _relative(group: Group, losses: PairLosses, bound: Relative | None) -> Relative | None:
    """Return the relative epsilon, or the compared pairs' largest pure loss if that is a larger lower bound."""
    request, pure = group.request, losses.pure
    if pure is None:
        return bound
    some, pure = request.pairs[group.places], pure[group.places]
    if isinstance(request.mechanism, HasLaws):
        bound = bound or Relative(0.0, method=LOWER_BOUND)
        return raised(bound, request, group.epsilon, (some, pure))
    x, other = some[int(pure.argmax())].tolist()
    return Relative(float(pure.max()), (x, other), None, LOWER_BOUND)
