"""A check that a claim for texts of one unit also holds for longer texts. Losses are in nats.

Units are drawn independently of each other (`Laws`), so the losses of a text's units add up, while a claim for whole
texts stays the same. Anyone who sees the units also sees their number, so the loss between texts with different numbers
of units is infinite, unless some output is the empty text. If the law of a unit depends on neighbouring units, a claim
that counts only the units in which two texts differ is too small.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from itertools import combinations

import numpy as np

from epsilometer.auditing.claims.finding import Finding
from epsilometer.auditing.claims.verdicts import VIOLATED, loss_at_delta, pair_claims, rounding
from epsilometer.core.mechanism import HasInputs, HasLaws, Mechanism

MOST = 1000  # largest number of repetitions
_POWERS = tuple(2**i for i in range(1, 9))  # tested numbers of repetitions, as a claim may stop growing at some length
_OUTPUTS = 1 << 22  # largest number of joint outputs of all units that are enumerated
_NEVER = -1e300  # replaces ln 0, so that differences stay finite


def against_longer(mechanism: Mechanism, finding: Finding) -> Finding:
    """Return the finding, or a violated finding if the claim fails between repetitions of the witness's inputs.

    finding: the result of a check that the claim passed for inputs of one unit; its `witness` is the pair of inputs
    nearest to the claim, and an output. The finding is returned unchanged if a longer text has no more units.
    """
    if not isinstance(mechanism, HasLaws) or not isinstance(mechanism, HasInputs) or finding.witness is None:
        return finding
    first, second, output = finding.witness
    rows = mechanism.laws([first, second, _repeated(first, 2), _repeated(second, 2)]).rows
    units = int(rows.lengths[0])
    if rows.lengths.tolist() != [units, units, 2 * units, 2 * units]:
        return finding
    if "" not in mechanism.output_texts:
        twice = _repeated(first, 2)
        claimed = _claimed(mechanism, finding.epsilon, first, twice)
        if math.isfinite(claimed):
            reason = f"the release shows whether a text has {units} or {2 * units} units"
            return _violated(finding, reason, (first, twice, output), claimed=claimed, worst=math.inf)
    delta = claim.delta if (claim := mechanism.guarantee(finding.epsilon)) else 0.0
    same_laws = all(np.array_equal(rows.row(i + 2), np.tile(rows.row(i), 2)) for i in range(2))
    for count in _repetitions(finding) if same_laws and not delta else [2]:
        longer = _repeated(first, count), _repeated(second, count)
        claimed = _claimed(mechanism, finding.epsilon, *longer)
        if same_laws and not delta and count * (finding.worst or 0.0) <= claimed + rounding(claimed):
            continue
        # Each length has its own computed loss, since a mechanism may truncate texts.
        loss = _loss(mechanism, finding.epsilon, *longer, delta=delta)
        if loss > claimed + rounding(claimed):
            reason = f"units are drawn independently, so the losses of {count * units} units add up"
            witness = *longer, _repeated(output, count)
            return _violated(finding, reason, witness, claimed=claimed, worst=loss)
    finding = _of_neighbours(mechanism, finding, units=units, delta=delta)
    if delta and finding.verdict != VIOLATED:
        compared = 2 * units if mechanism.laws([first]).outputs ** (2 * units) <= _OUTPUTS else units
        reason = f"deltas were compared between texts of at most {compared} unit{'s' * (compared > 1)}"
        return replace(finding, reason="; ".join(filter(None, (finding.reason, reason))))
    return finding


def _of_neighbours(mechanism: Mechanism, finding: Finding, *, units: int, delta: float) -> Finding:
    """Return the finding, or a violated finding if two texts made of the witness's two inputs lose more than claimed.

    Such texts may violate a claim if the law of a unit depends on its place, or on neighbouring units.
    """
    assert isinstance(mechanism, HasLaws)
    assert finding.witness is not None
    first, second, output = finding.witness
    texts = [f"{left} {right}" for left in (first, second) for right in (first, second)]
    if mechanism.laws(texts).rows.lengths.tolist() != [2 * units] * len(texts):
        return finding
    for text, other in combinations(texts, 2):
        claimed = _claimed(mechanism, finding.epsilon, text, other)
        if math.isfinite(claimed):
            loss = _loss(mechanism, finding.epsilon, text, other, delta=delta)
            if loss > claimed + rounding(claimed):
                reason = (
                    f"the loss between two texts of {2 * units} units exceeds the claim; the law of a unit may depend "
                    "on other units"
                )
                return _violated(finding, reason, (text, other, _repeated(output, 2)), claimed=claimed, worst=loss)
    return finding


def _repetitions(finding: Finding) -> list[int]:
    """Return numbers of repetitions, ascending, chosen to violate a claim that does not grow with length."""
    if not finding.worst or not math.isfinite(finding.worst):
        return list(_POWERS)
    return sorted({*_POWERS, min(math.floor((finding.claimed or 0.0) / finding.worst) + 1, MOST)})


def _violated(finding: Finding, reason: str, witness: tuple[str, str, str], *, claimed: float, worst: float) -> Finding:
    return replace(finding, verdict=VIOLATED, reason=reason, witness=witness, claimed=claimed, worst=worst)


def _claimed(mechanism: Mechanism, epsilon: float, first: str, second: str) -> float:
    return float(pair_claims(mechanism, epsilon, [first, second], np.array([[0, 1]]))[0])


def _loss(mechanism: HasLaws, epsilon: float, first: str, second: str, *, delta: float) -> float:
    """Return the largest loss of any output between two texts with equally many units.

    With a delta, return the loss of the whole texts at that delta, or 0 if there are too many joint outputs.
    """
    laws = mechanism.laws([first, second])
    both = np.stack([laws.rows.row(0), laws.rows.row(1)], axis=1)
    pairs, often = np.unique(both, axis=0, return_counts=True)
    here, there = (np.maximum(next(laws.log_probabilities(pairs[:, i], [epsilon])), _NEVER) for i in range(2))
    if delta:
        if laws.outputs ** len(both) > _OUTPUTS:
            return 0.0
        repeated = np.repeat(np.arange(len(pairs)), often)
        left, right = (reduce(np.multiply.outer, np.exp(table[repeated])).ravel() for table in (here, there))
        return max(loss_at_delta(left, right, delta), loss_at_delta(right, left, delta))
    difference = here - there
    loss = float(max(often @ difference.max(axis=1), -(often @ difference.min(axis=1))))
    return math.inf if loss > -_NEVER / 2 else loss


def _repeated(text: str, count: int) -> str:
    return " ".join([text] * count)
