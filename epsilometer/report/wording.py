"""How the report writes what it counts: shares as guesses out of twenty, names in a row, budgets of mechanisms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from epsilometer.report.figures import budget

_NAMED = 6  # names in one sentence before the rest is counted


def odds(rate: float) -> str:
    """A share of right guesses in plain words: `19 of 20`; `998 of 1,000` where that would round to 20 of 20."""
    for whole, count in ((20, round(20 * rate)), (100, round(100 * rate)), (1000, math.floor(1000 * rate))):
        if count < whole:
            return f"{count} of {whole:,}"
    return "every time" if rate >= 1 else "999 of 1,000"


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """`a, b and c`; a long list is cut and the rest counted."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def at_budget(mechanism: str, epsilon: float | None) -> str:
    """`tem at ε = 5`; the name alone of a mechanism without a budget."""
    return mechanism if epsilon is None else f"{mechanism} at ε = {budget(epsilon)}"


def at_budgets(cells: Iterable[tuple[str, float | None]], audited: Iterable[tuple[str, float | None]]) -> str:
    """`mvc at every ε, tem at ε = 11 and 19`: mechanisms with their budgets, of those that were audited."""
    chosen, every = _by_name(cells), _by_name(audited)
    parts = []
    for name, epsilons in sorted(chosen.items()):
        all_of_them = len(epsilons) > 1 and epsilons >= every.get(name, epsilons)
        at = " at every ε" if all_of_them else f" at ε = {listed([budget(e) for e in sorted(epsilons)])}"
        parts.append(f"{name}{at if epsilons else ''}")
    return listed(parts)


def _by_name(cells: Iterable[tuple[str, float | None]]) -> dict[str, set[float]]:
    """The budgets of each mechanism; none of one without."""
    found: dict[str, set[float]] = {}
    for name, epsilon in cells:
        found.setdefault(name, set()).update(set() if epsilon is None else {epsilon})
    return found
