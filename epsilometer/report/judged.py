"""A gate's result on a limit in words: the counts, the figure at the observed rate, and the allowed value.

Losses are shown as right guesses of 100 between two options, with the nats in brackets, as in the report. Each measure
has a sentence. A measure of a user's own question gets a neutral sentence, which depends on the kind of data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from epsilometer.auditing.evidence.evidence import AtLeast, By, Computed, Means
from epsilometer.auditing.gate_statistics import Judged
from epsilometer.core.rounding import DOWN, NEAREST
from epsilometer.report.wording import CHANCE, guesses, guesses_beside, in_guesses

_UNLIMITED = (
    "no limit follows from the baseline, in which the attack was right in every trial; give one (--limit which_text=1)"
)


def seen(judged: Judged) -> str:
    """Return a sentence on the result and the limit, which states if missing answers leave the result open."""
    said = _SENTENCES.get(judged.measure, _neutral)(judged)
    return f"{said}; {_allowance(judged)}" + ("; open, since answers are missing" if judged.unanswered else "")


def source(judged: Judged) -> str:
    """Return the source of a limit, and a remark if the stated law shows that the limit is kept."""
    if judged.limit is None:
        return _UNLIMITED
    shown = f", kept by its stated law, {_unrefuted(judged)}" if by_law(judged) and judged.status.passes else ""
    return judged.limit.source + shown


def by_law(judged: Judged) -> bool:
    """Return True if the figure is computed from the stated law, without trials of an attack."""
    return judged.evidence.by is By.LAW


def right(judged: Judged) -> int | None:
    """Return the number of right trials; None for means of numbers, and for a computation without trials."""
    data = judged.evidence.data
    if isinstance(data, Computed):
        return judged.row.get("right")
    return None if isinstance(data, Means) and data.each == 1 else judged.successes


def counted(judged: Judged) -> str:
    """Return `right` and the number of trials, for a table; without `right`, only the number of trials or pairs."""
    if (hits := right(judged)) is not None:
        return f"{hits:,} of {judged.trials:,}"
    if by_law(judged):
        return _pairs(judged)
    return f"{judged.trials:,} {'texts' if judged.measure in ('unit', 'similarity') else 'trials'}"


def allowed(judged: Judged) -> str:
    """Return the allowed value, for a table."""
    if judged.limit is None:
        return "-"
    return ("at least " if judged.limit.at_least else "") + number(judged.limit.allowed)


def allowed_guesses(loss: float) -> str:
    """Return a limit in nats as right guesses of 100, never rounded to 50: `73.1`, `50.02`."""
    return guesses_beside(loss, 0.0, NEAREST)


def allowed_nats(loss: float) -> str:
    """Return a limit in nats, with two digits if it is small: `1.00 nats`, `0.001 nats`."""
    return f"{loss:.2f} nats" if loss >= 0.01 else f"{loss:.2g} nats"


def amount(judged: Judged, value: float) -> str:
    """Return a value with the name or scale of its measure: `a share of 0.02`, `71.1 of 100 guesses (0.90 nats)`."""
    named = {"identifiers": "a share", "delta_at_4": "a delta at 4 nats", "similarity": "a mean"}
    if (name := named.get(judged.measure)) is not None:
        return f"{name} of {value:.3g}"
    return in_guesses(value, NEAREST) if _in_nats(judged) else f"{value:.3g}"


def on_scale(judged: Judged) -> str:
    """Return a loss as right guesses, for a table; empty for other figures.

    Example: `63.7 of 100 guesses (0.56 nats; 50 is chance, 66.8 is allowed)`.
    """
    limit = judged.limit
    if not _in_nats(judged) or limit is None or limit.at_least or math.isnan(judged.point):
        return ""
    said = f"{CHANCE:g} is chance, {allowed_guesses(limit.allowed)} is allowed"
    return f"{_right_of_100(judged)} of 100 guesses ({_nats(judged.point)}{said})"


def number(value: float) -> str:
    """Return a number for a table; a dash if it is not finite."""
    return f"{value:.2f}" if math.isfinite(value) else "-"


def _pairs(judged: Judged) -> str:
    return f"{judged.trials:,} pair{'s' * (judged.trials != 1)}"


def _in_nats(judged: Judged) -> bool:
    return judged.evidence.scale.options is not None


def _right_of_100(judged: Judged) -> str:
    """Return the right guesses of 100 at the observed rate, never rounded across the limit."""
    if judged.limit is None:
        return f"{guesses(judged.point, NEAREST):g}"
    return guesses_beside(judged.point, judged.limit.allowed, NEAREST)


def _nats(loss: float) -> str:
    """Return `0.56 nats; `; empty for an unbounded loss, at which every guess is right."""
    return f"{loss:.2f} nats; " if math.isfinite(loss) else ""


def _allowance(judged: Judged) -> str:
    limit = judged.limit
    if limit is None:
        return _UNLIMITED
    if judged.measure == "claim":
        return f"no violation is allowed ({limit.source})"
    if limit.at_least:
        return f"at least {limit.allowed:g} is required ({limit.source})"
    if judged.measure == "identifiers":
        return f"a share of at most {limit.allowed:g} is allowed ({limit.source})"
    if _in_nats(judged):
        most = f"at most {allowed_guesses(limit.allowed)} of 100 are allowed, and {CHANCE:g} are chance"
        return f"{most} ({allowed_nats(limit.allowed)}: {limit.source})"
    return f"at most {limit.allowed:g} is allowed ({limit.source})"


def _at_rate(judged: Judged) -> str:
    """Return the figure at the observed rate, which is a point estimate and not a bound."""
    if _in_nats(judged) and not math.isnan(judged.point):
        nats = f" ({judged.point:.2f} nats)" if math.isfinite(judged.point) else ""
        return f", as in {_right_of_100(judged)} of 100 guesses between two{nats}"
    return f", {judged.point:.3g} at that rate" if math.isfinite(judged.point) else ""


def _loss(judged: Judged) -> str:
    trials = "texts" if judged.measure == "attribute" else "trials"
    turned = (
        ", less often than by chance: it tells the candidates apart and picks the wrong one" if judged.turned else ""
    )
    hits = f"{judged.successes:,} of {judged.trials:,} {trials}"
    return f"{judged.attack} was right in {hits}{_at_rate(judged)}{turned}"


def _tail(judged: Judged) -> str:
    if judged.limit is None:
        return _loss(judged)
    return (
        f"{judged.attack}: beyond a threshold of its score it named the source in {judged.successes:,} of "
        f"{judged.trials:,} trials and another candidate in {judged.misses:,}, "
        f"{amount(judged, judged.point)} at these rates"
    )


def _identifiers(judged: Judged) -> str:
    partly = judged.row.get("partly")
    of_them = "of them" if judged.evidence.scale.partly else "more"
    in_part = f" ({partly:,} {of_them} in part)" if partly else ""
    return f"{judged.attack}: {judged.successes:,} of {judged.trials:,} survived{in_part}"


def _attribute(judged: Judged) -> str:
    if not by_law(judged):
        return _loss(judged)
    return (
        f"{judged.attack}, {_unrefuted(judged)}, any attacker is right in at most {in_guesses(judged.point)} between "
        f"two classes ({_pairs(judged)} of texts)"
    )


def _linking(judged: Judged) -> str:
    among = f"{judged.trials:,} people among {judged.evidence.scale.options} rewrites"
    return f"{judged.attack} named the rewrites of {judged.successes:,} of {among}{_at_rate(judged)}"


def _unit(judged: Judged) -> str:
    data = judged.evidence.data
    share = data.mean if isinstance(data, Means) else judged.successes / judged.trials
    return (
        f"{judged.attack} guessed {share:.1%} of a text's words right, the mean of {judged.trials:,} texts"
        f"{_at_rate(judged)}"
    )


def _worst_pair(judged: Judged) -> str:
    data = judged.evidence.data
    if isinstance(data, Computed):
        most = "" if not math.isfinite(data.high) else f" and at most {in_guesses(data.high)}"
        return (
            f"{judged.attack}, {_unrefuted(judged)}, the best adversary is right in at least "
            f"{in_guesses(data.low, DOWN)}{most} for the worst of {_pairs(judged)} of texts"
        )
    pair = f"texts {judged.row['x'] + 1} and {judged.row['other'] + 1}"
    return (
        f"{judged.attack}, the worst of {judged.row['compared']:,} pairs: {judged.row['attack']} told {pair} apart in "
        f"{judged.successes:,} of {judged.trials:,} fresh trials{_at_rate(judged)}"
    )


def _claim(judged: Judged) -> str:
    data = judged.evidence.data
    assert isinstance(data, Computed)
    if not by_law(judged):
        row = judged.row
        return (
            f"{judged.attack} was right in {row['right']:,} of {data.n:,} trials; the claim allows "
            f"{row['expected']:,.1f} on average, p-value {row['p_value']:.2g}"
        )
    if data.low:
        return f"{judged.attack}, the loss between the worst of {_pairs(judged)} of inputs exceeds the claim"
    if data.high:
        return f"{judged.attack}, no violation among {_pairs(judged)} of inputs; other pairs were not compared"
    return f"{judged.attack}, {_unrefuted(judged)}, the worst of all {_pairs(judged)} of inputs is within the claim"


def _similarity(judged: Judged) -> str:
    without = judged.row.get("without_value")
    lowest = f" ({without:,} without a value count as the lowest)" if without else ""
    return f"{judged.attack} has a mean of {judged.point:.3g} over {judged.trials:,} rewritten texts{lowest}"


def _neutral(judged: Judged) -> str:
    """Return the sentence of a measure that this module does not know."""
    data = judged.evidence.data
    if isinstance(data, Computed):
        unit = " nats" if _in_nats(judged) else ""
        upper = f"{data.high:.3g}" if math.isfinite(data.high) else "no upper bound"
        return f"{judged.attack}: between {data.low:.3g} and {upper}{unit} ({data.n:,} compared)"
    if isinstance(data, Means):
        at_rate = _at_rate(judged) if _in_nats(judged) else ""
        return f"{judged.attack}: a mean of {data.mean:.3g} over {len(data.shares):,} trials{at_rate}"
    of_one = " of one case" if isinstance(data, AtLeast) else ""
    return f"{judged.attack}: {judged.successes:,} of {judged.trials:,} trials{of_one}{_at_rate(judged)}"


def _unrefuted(judged: Judged) -> str:
    return f"which {judged.row['unrefuted']:,} rewrites did not refute"


_SENTENCES: Mapping[str, Callable[[Judged], str]] = {
    "loss": _loss,
    "delta_at_4": _tail,
    "identifiers": _identifiers,
    "attribute": _attribute,
    "linking": _linking,
    "unit": _unit,
    "worst_pair": _worst_pair,
    "claim": _claim,
    "similarity": _similarity,
}
