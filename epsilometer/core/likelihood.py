"""The likelihood of a mechanism's output under each candidate, from its law or its own likelihood method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import ne
from typing import cast

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.cases import ByCase, Table, cases
from epsilometer.core.errors import LawError
from epsilometer.core.guarantees import at_budget
from epsilometer.core.laws import log_likelihood
from epsilometer.core.mechanism import LATENTS, TEXT, HasLaws, HasLikelihood, Mechanism, Rewrites, Writes, law_of

_ROWS = 1 << 14  # rows at a time; if candidates are few, the working arrays stay in the processor's cache
_MOST = 64  # most candidates for which the n x k likelihoods of an epsilon are stored


def has_law(mechanism: Mechanism | None) -> bool:
    """Return True if the mechanism states its law, or the likelihood of its outputs."""
    # A mechanism whose settings rule out a law has None as the method.
    return any(callable(getattr(mechanism, power, None)) for power in ("laws", "log_likelihoods"))


def covers(mechanism: Mechanism | None, seen: str) -> bool:
    """Return True if the likelihood covers everything that an adversary with this view (TEXT, UNITS, ...) sees.

    The law describes units or latents. The text is a function of these alone, or of these and the source (`Writes`). In
    the second case the likelihood accounts for the text, too.
    """
    return has_law(mechanism) and seen in (TEXT, law_of(mechanism))


def shows_more(mechanism: Mechanism | None) -> bool:
    """Return True if the released text may reveal more about its source than the law's units do (`Writes`)."""
    shown: object = mechanism
    return isinstance(shown, Writes) and not getattr(shown, "text_is_units", False)


def log_likelihoods(
    mechanism: Mechanism,
    texts: Sequence[str],
    candidates: NDArray[np.integer],
    rewrites: Sequence[Rewrites],
    *,
    epsilons: Sequence[float],
) -> list[NDArray[np.float64]]:
    """Return ln P(rewrite i | candidate), [n, k] for each epsilon, up to a term that is the same for all candidates.

    It is the likelihood of the view that the law describes (`law_of`), and of the text if the text reveals more
    (`Writes`). candidates: [n, k] numbers of texts; rewrites: n for each epsilon. Computations that do not depend on
    epsilon run once for all epsilons. Raises TypeError for rewrites without the units that the law describes. Raises
    LawError if a mechanism's own table has another shape, or contains NaN or plus infinity.
    """
    if isinstance(mechanism, HasLikelihood):
        tables = mechanism.log_likelihoods(texts, candidates, rewrites, epsilons)
        for table, epsilon in zip(tables, epsilons, strict=True):
            _check(table, candidates, epsilon)
        return tables
    return _by_laws(cast(HasLaws, mechanism), texts, candidates, rewrites, epsilons=epsilons)


def computed(
    mechanism: Mechanism | None,
    texts: Sequence[str],
    candidates: NDArray[np.integer],
    rewrites: Sequence[Rewrites],
    *,
    epsilons: Sequence[float],
) -> Sequence[Table | None]:
    """Return `log_likelihoods` to share among attacks; None without a law, or for more than 64 candidates.

    Also None if a rewrite lacks the units or latents that the law describes. With more than 64 candidates, the hits of
    the optimal attack prove nearly as much as posteriors do, and this attack computes the likelihoods in parts.
    """
    behind = [output.latents if law_of(mechanism) == LATENTS else output.units for output in rewrites]
    if (
        mechanism is None
        or not has_law(mechanism)
        or candidates.shape[1] > _MOST
        or any(values is None for values in behind)
    ):
        return [None] * len(epsilons)
    few = [each for each in (cases(output, candidates) for output in rewrites) if each is not None]
    if len(few) < len(rewrites):
        return log_likelihoods(mechanism, texts, candidates, rewrites, epsilons=epsilons)
    tables: list[Table | None] = []
    for each, epsilon in zip(few, epsilons, strict=True):
        (table,) = log_likelihoods(mechanism, texts, each.candidates, [each.rewrites], epsilons=[epsilon])
        tables.append(ByCase(table, each.number))
    return tables


def posteriors(log_likelihoods: Table, slots: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the posterior probability [n] of the candidate in each trial's slot, under a uniform prior.

    log_likelihoods: [n, k]; slots: [n]. NaN if the output is impossible under every candidate.
    """
    if isinstance(log_likelihoods, ByCase):
        return log_likelihoods.of_slots(posteriors, slots)
    likely = np.empty(len(slots))
    for part, columns in by_column(log_likelihoods):
        with np.errstate(invalid="ignore"):
            odds = np.exp(columns - columns.max(axis=0))
            named = in_slots(odds, slots[part]) / odds.sum(axis=0)
        np.round(named, 9, out=likely[part])  # a sum's last bits may depend on how trials are split into blocks
    return likely


def by_column(table: NDArray[np.floating]) -> Iterator[tuple[slice, NDArray[np.floating]]]:
    """Yield slices of the rows of a table [n, k], each with its transpose [k, rows], which is faster to reduce."""
    for start in range(0, len(table), _ROWS):
        part = slice(start, start + _ROWS)
        yield part, np.ascontiguousarray(table[part].T)


def in_slots(columns: NDArray[np.floating], slots: NDArray[np.integer]) -> NDArray[np.floating]:
    """Return the number in each row's slot, [rows]. columns: the transpose [k, rows], contiguous; slots: [rows]."""
    rows = columns.shape[1]
    return columns.ravel().take(slots * np.int64(rows) + np.arange(rows))


def _check(table: NDArray[np.float64], candidates: NDArray[np.integer], epsilon: float) -> None:
    if table.shape != candidates.shape:
        raise LawError(
            f"log_likelihoods must return a table of the candidates' shape, {candidates.shape}; got one of "
            f"{table.shape}",
            "EPS-C044",
        )
    if not (table < np.inf).all():
        row, slot = np.argwhere(~(table < np.inf))[0]
        raise LawError(
            f"log_likelihoods returns {table[row, slot]} for rewrite {row} under input {candidates[row, slot]} "
            f"(counted from 0){at_budget(epsilon)}; it must be a number, or minus infinity for an impossible rewrite",
            "EPS-C045",
        )


def _by_laws(
    mechanism: HasLaws,
    texts: Sequence[str],
    candidates: NDArray[np.integer],
    rewrites: Sequence[Rewrites],
    epsilons: Sequence[float],
) -> list[NDArray[np.float64]]:
    """Return log-likelihoods, [n, k] for each epsilon, as sums over the units, which are drawn independently."""
    units = [output.units for output in rewrites if output.units is not None]
    if len(units) < len(rewrites):
        raise TypeError("the likelihood needs the privatised units of every rewrite")
    laws = mechanism.laws(texts)
    fits = laws.rows.lengths[candidates] == units[0].lengths[:, None]
    # A trial needs no law if only one of its candidates has the right length.
    trial, slot = np.nonzero(fits & (fits.sum(axis=1, keepdims=True) > 1))
    scores = []
    for likelihood in log_likelihood(laws, candidates[trial, slot], [u.take(trial) for u in units], epsilons):
        score = np.where(fits, 0.0, -np.inf)
        score[trial, slot] = likelihood
        scores.append(score)
    writer: object = mechanism
    if isinstance(writer, Writes) and shows_more(cast(Mechanism, mechanism)):
        for score, output in zip(scores, rewrites, strict=True):
            _rule_out(writer, texts, candidates, output, score=score)
    return scores


def _rule_out(
    mechanism: Writes,
    texts: Sequence[str],
    candidates: NDArray[np.integer],
    rewrites: Rewrites,
    score: NDArray[np.float64],
) -> None:
    """Set scores [n, k] to minus infinity, in place, where the candidate with these units gives another text."""
    assert rewrites.units is not None
    for slot in range(candidates.shape[1]):
        rows = np.flatnonzero(np.isfinite(score[:, slot]))
        written = mechanism.write([texts[i] for i in candidates[rows, slot]], rewrites.units.take(rows))
        released = map(rewrites.texts.__getitem__, rows.tolist())
        differs = np.fromiter(map(ne, released, written), bool, len(rows))
        score[rows[differs], slot] = -np.inf
