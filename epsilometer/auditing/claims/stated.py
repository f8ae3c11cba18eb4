"""The statements of a mechanism about itself at an epsilon: its claim, and further facts for estimates and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from epsilometer.auditing.claims.verdicts import describe
from epsilometer.core import tables
from epsilometer.core.curves import Curve, of_plain, plain
from epsilometer.core.guarantees import Granularity, stored
from epsilometer.core.mechanism import TEXT, Mechanism, Unread, is_control, releases

_EVERYTHING_READ = Unread()
_PER_UNIT = (Granularity.TOKEN, Granularity.WORD, Granularity.TRIPLE)


@dataclass(frozen=True)
class Stated:
    """The statements of a mechanism about itself.

    claim: the claim in words. claimed: True if the mechanism has a claim. delta: the claim's delta, 0 without a claim.
    per_unit: the epsilon (nats) of a claim for one token, word or triple; None for other claims, and for a claim that
    grows with a distance.
    control: True if the mechanism is a control. releases: the released views, in alphabetical order. unknown_words,
    cut_texts: the shares of out-of-vocabulary words and of truncated texts among the audited texts, None without a
    vocabulary or a length limit. fit_p: the p-value of the trials' outputs under the stated law (`law_fit`), None
    without a law. curve: the curve of a claim in zCDP, Renyi or GDP, else None.
    """

    claim: str = describe(None)
    claimed: bool = False
    delta: float = 0.0
    per_unit: float | None = None
    control: bool = False
    releases: tuple[str, ...] = (TEXT,)
    unknown_words: float | None = None
    cut_texts: float | None = None
    fit_p: float | None = None
    curve: Curve | None = None


def stated(
    mechanism: Mechanism | None, epsilon: float, left: Unread = _EVERYTHING_READ, fit_p: float | None = None
) -> Stated:
    """Return the statements of a mechanism at an epsilon. mechanism: None for an unknown mechanism, which has no claim.

    left: counts of truncated texts and out-of-vocabulary words (`unread`), the same at every epsilon. fit_p: see
    `Stated`.
    """
    if mechanism is None:
        return Stated()
    guarantee = mechanism.guarantee(epsilon)
    counts_units = guarantee is not None and guarantee.metric is None and guarantee.granularity in _PER_UNIT
    return Stated(
        claim=describe(guarantee),
        claimed=guarantee is not None,
        delta=guarantee.delta if guarantee else 0.0,
        per_unit=guarantee.epsilon if guarantee and counts_units else None,
        control=is_control(mechanism),
        releases=tuple(sorted(releases(mechanism))),
        unknown_words=left.unknown_share,
        cut_texts=left.cut_share,
        fit_p=fit_p,
        curve=None if guarantee is None else guarantee.curve,
    )


def write(statements: Mapping[float, Stated], path: Path) -> None:
    """Write statements by epsilon, as JSON."""
    rows = []
    for epsilon, statement in statements.items():
        row = {"epsilon": stored(epsilon)} | asdict(statement)
        row.pop("curve")
        rows.append(row | _shown(statement.curve))
    tables.write_json(rows, path)


def read(path: Path) -> dict[float | None, Stated]:
    """Return the statements that `write` wrote, by epsilon (None without a privacy budget).

    Raises UserError for a file that is missing or damaged.
    """
    rows: list[dict[str, Any]] = tables.read_json(path)
    return {row.pop("epsilon"): _restored(row) for row in rows}


def _shown(curve: Curve | None) -> dict[str, Any]:
    return {} if curve is None else {"curve": plain(curve)}


def _restored(row: Mapping[str, Any]) -> Stated:
    restored = {**row, "releases": tuple(row["releases"])}
    if "curve" in row:
        restored["curve"] = of_plain(row["curve"])
    return Stated(**restored)
