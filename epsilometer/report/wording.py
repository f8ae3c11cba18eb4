"""The report's notation for numbers, budgets and names in sentences, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Context
from typing import Any

from numpy.typing import ArrayLike

from epsilometer.auditing.estimation.runs import mean_and_reach
from epsilometer.auditing.estimation.successes import success_bound
from epsilometer.core.rounding import DOWN, NEAREST, NOT_TESTABLE, UP, beside, rounded

CHANCE = 50.0  # right guesses of 100 between two texts by chance
FEW = 30  # a share of fewer cases is shown as a count
_NAMED = 6  # maximum number of names in a sentence; further names are only counted
_APART = 1.01  # if the upper bound is less than this times the lower bound, only one of them is shown


def nats(value: float, ceiling: float = math.inf, way: str = NEAREST) -> str:
    """Return a loss with two decimals; `above CEILING` for an infinite loss. way: as in `rounding.rounded`."""
    return f"{rounded(value, 2, way):.2f}" if math.isfinite(value) else f"above {rounded(ceiling, 2, DOWN):.2f}"


def proved(loss: float, ceiling: float = math.inf) -> str:
    """Return a lower bound on a loss, never rounded up; `above CEILING` for an infinite bound."""
    return nats(loss, ceiling, DOWN)


def bounded(loss: float, ceiling: float = math.inf) -> str:
    """Return an upper bound on a loss, never rounded down."""
    return nats(loss, ceiling, UP)


def unbounded(loss: float | None, way: str = NEAREST) -> str:
    """Return a loss with two decimals: `∞` if some output is possible under only one input, `–` for None."""
    if loss is None:
        return "–"
    if abs(loss) < 1e300:
        return f"{rounded(loss, 2, way):,.2f}"
    return "−∞" if loss < 0 else "∞"


def loss_between(row: Mapping[str, Any] | None, end: str = "ceiling") -> str:
    """Return the bounds of a loss, `0.71 to 0.82`; "not testable" if the ceiling is 0.

    If every guess was right, there is no upper bound. Then the result is `end`, with the lower bound in place of {}.
    """
    if row is None:
        return ""
    if row["ceiling"] == 0:
        return NOT_TESTABLE
    if math.isfinite(row["upper"]):
        return f"{proved(row['loss'])} to {bounded(row['upper'])}"
    return end.format(proved(row["loss"]))


def loss_interval(row: Mapping[str, Any]) -> str:
    """Return `0.71 to 0.82`, `5.23 to above 5.23`, or "not testable" if the ceiling is 0."""
    if row["ceiling"] == 0:
        return NOT_TESTABLE
    return f"{proved(row['loss'])} to {bounded(row['upper'], row['ceiling'])}"


def as_number(value: float | None) -> str:
    """Return a number with four digits; a dash for None."""
    if value is None:
        return "–"
    return f"{value:.4g}" if math.isfinite(value) else "∞"


def mean_interval(values: ArrayLike, digits: str = ".3f", *, shared: float = 0) -> str:
    """Return `0.834 ± 0.039`: the mean of runs and the half-width of its interval, as in `mean_and_reach`."""
    mean, reach = mean_and_reach(values, shared=shared)
    return f"{mean:{digits}} ± {reach:{digits}}"


def rough(value: float) -> str:
    """Return a number with two decimals, `0.71`, or without decimals from 100 on, `1,234`."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def budget(epsilon: float | None) -> str:
    """Return a nominal epsilon: `0.5`, `2,500`; a dash for a mechanism without a budget."""
    if epsilon is None:
        return "–"
    return f"{epsilon:,.6f}".rstrip("0").rstrip(".") if epsilon >= 1e-4 else f"{epsilon:g}"


def share(part: float, way: str = NEAREST) -> str:
    """Return a share in percent with one decimal: `57.4 %`, without a line break. way: as in `rounding.rounded`."""
    return f"{rounded(100 * part, 1, way):.1f}\N{NO-BREAK SPACE}%"


def share_proved(part: float) -> str:
    """Return a lower bound on a share, never rounded up."""
    return share(part, DOWN)


def tail_words(low: float | None, high: float | None) -> str:
    """Return the bounds on delta at 4 nats: `0.18`, `0.1 to 0.3`, `≥ 0.12`, `≤ 0.3` or `not testable`.

    low, high: lower and upper bound; None if unknown.
    """
    if high is None:
        return NOT_TESTABLE if low is None else f"≥ {_digits(low, DOWN)}"
    if 0 < high < 1e-6:
        return "< 10⁻⁶"
    if low is not None and high > _APART * low:
        return f"{_digits(low, DOWN)} to {_digits(high, UP)}"
    return f"{'≤ ' if low is None else ''}{_digits(high, UP)}"


def _digits(part: float, way: str) -> str:
    """Return a probability with three digits, rounded in a direction. The float's last bits have no effect."""
    slack = {DOWN: 1 + 1e-9, UP: 1 - 1e-9}[way]
    return f"{float(Context(3, way).create_decimal_from_float(part * slack)):.3g}"


def p_value(p: float) -> str:
    """Return a p-value: `0.013`, `3 × 10⁻¹²`."""
    if p >= 0.001:
        return f"{p:.3f}".rstrip("0").rstrip(".")
    if p == 0:
        return "< 10⁻³⁰⁰"
    digit, power = f"{p:.0e}".split("e-")
    return f"{digit} × 10⁻{str(int(power)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def confidence(alpha: float, sides: int = 1) -> str:
    """Return the confidence of one bound of an interval with error alpha, or of both (sides=2): `99.5 %`."""
    return f"{100 * (1 - sides * alpha / 2):g} %"


def per_100(chance: float, way: str = UP) -> float:
    """Return a probability as right guesses of 100, with one decimal, or two significant digits below 1."""
    guesses = 100 * chance
    return rounded(guesses, 1 if guesses >= 1 or not guesses else 1 - math.floor(math.log10(guesses)), way)


def of_100(chance: float, way: str = UP) -> str:
    """Return a probability in words: `73.2 of 100`, `0.067 of 100`. An upper bound is rounded UP."""
    return f"{per_100(chance, way):g} of 100"


def guesses(loss: float, way: str = UP) -> float:
    """Return the right guesses of 100 between two texts at a loss in nats. An upper bound is rounded UP."""
    return per_100(success_bound(loss, 2), way)


def guesses_beside(loss: float, allowed: float, way: str) -> str:
    """Return the right guesses of 100 at a loss: `71.4`.

    Rounding never moves this number to the number of the allowed loss, or across it.
    """
    shown, limit = (100 * success_bound(nats, 2) for nats in (loss, allowed))
    return beside(shown, limit, way, 1).removesuffix(".0")


def in_guesses(loss: float, way: str = UP) -> str:
    """Return a loss as `73.2 of 100 guesses (1.00 nats)`. way: UP for an upper bound."""
    return f"{guesses(loss, way):g} of 100 guesses ({unbounded(loss, way)} nats)"


def survived(count: int, of: int, high: float | None = None) -> str:
    """Return a share of cases; for fewer than FEW cases, counts: `0 of 3; up to 83 % cannot be ruled out`.

    high: the upper bound of the share; None if unknown.
    """
    if of >= FEW:
        return share(count / of)
    ruled = "" if high is None else f"; up to {math.ceil(100 * high - 1e-9)}\N{NO-BREAK SPACE}% cannot be ruled out"
    return f"{count:,} of {of:,}{ruled}"


def inflected(number: float, singular: str, plural: str) -> str:
    """Return the word that agrees with this number: `nat` or `nats`, `is` or `are`."""
    return singular if number == 1 else plural


def plural(noun: str) -> str:
    """Return the plural of a kind of identifier: names, e-mail addresses."""
    return noun + ("es" if noun.endswith("s") else "s")


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """Return `a, b and c`; a long list is truncated and the rest counted."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def at_budget(mechanism: str, epsilon: float | None) -> str:
    """Return `tem at ε = 5`; only the name for a mechanism without a budget."""
    return mechanism if epsilon is None else f"{mechanism} at ε = {budget(epsilon)}"


def at_budgets(cells: Iterable[tuple[str, float | None]], audited: Iterable[tuple[str, float | None]]) -> str:
    """Return mechanisms with their budgets: `mvc at every ε, tem at ε = 11 and 19`. audited: all audited cells.

    Budgets that all mechanisms share are written once: `mvc and tem at every ε`.
    """
    chosen, every = _by_name(cells), _by_name(audited)
    at = {}
    for name, epsilons in sorted(chosen.items()):
        all_of_them = len(epsilons) > 1 and epsilons >= every.get(name, epsilons)
        some = f" at ε = {listed([budget(e) for e in sorted(epsilons)])}" if epsilons else ""
        at[name] = " at every ε" if all_of_them else some
    shared = {*at.values()}
    return f"{listed([*at])}{shared.pop()}" if len(shared) == 1 else listed([name + each for name, each in at.items()])


def _by_name(cells: Iterable[tuple[str, float | None]]) -> dict[str, set[float]]:
    """Return the budgets of each mechanism; none for a mechanism without a budget."""
    budgets: dict[str, set[float]] = {}
    for name, epsilon in cells:
        budgets.setdefault(name, set()).update(set() if epsilon is None else {epsilon})
    return budgets
