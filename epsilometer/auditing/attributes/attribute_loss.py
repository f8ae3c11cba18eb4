"""The attribute loss: the loss of a mechanism, in nats, that an attacker proves by inferring an attribute.

Let x_1, ..., x_k be texts, one from each of the k classes, and let the loss between any two of these texts be at most
c: P(M(x_a) in S) <= e^c P(M(x_b) in S) + delta for every S. If an attacker h was chosen before the rewrites M(x_1),
..., M(x_k) were sampled, its probability of being right satisfies

    (1/k) sum over a of P(h(M(x_a)) = a)  <=  (e^c + (k - 1) delta) / (e^c + k - 1),

as for any adversary who sees the rewrite of one of k equally likely texts (TeDA, arXiv:2603.22968, eq. 10). Test texts,
equally many of each class, form rows of k texts, one of each class, in an order that does not depend on the rewrites.
The expected number of successes is at most k times the sum over rows of the bound on the right side, for any texts.
Here c is the largest claimed loss between two texts of a row, which is epsilon if the claim is epsilon-DP for
documents. If an attacker reads n texts of one author together, the rewrites of these texts have independent noise, so
their losses and their deltas add up.

Assumptions: each text is rewritten with independent noise; the attacker learned only from rewrites of other texts, and
was not selected on the test rewrites. Then successes are a sum of independent Bernoulli variables, and a claim is
tested as in `claims`. `estimate(successes, trials, candidates=k)` gives the loss and its interval over the noise. If
test texts share a group (an author, a pair), the interval is widened to cover the variation between groups as well;
this matters most for a mechanism without randomness. The attackers `clean` and `detector` read texts that the mechanism
did not release, so they have a loss but no claim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.attributes.attackers import AUTHOR, CLEAN, DETECTOR, Inferred
from epsilometer.auditing.claims.verdicts import (
    NO_CLAIM,
    describe,
    divisor,
    expected_successes,
    p_value,
    smallest_p_value,
    trial_claims,
    verdict,
)
from epsilometer.auditing.estimation.successes import Estimate, estimate, loss_at
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.auditing.worth.intervals import clustered_share
from epsilometer.core.mechanism import Mechanism
from epsilometer.core.randomness import Noise


@dataclass(frozen=True)
class Claimed:
    """The claim on the rewrites of test texts.

    claim: the claim in words. pairs: a function of indices of texts [m, k], one text of each class in every row. It
    returns [m], the largest claimed loss between two texts of each row (infinite if no loss is claimed). `pairs` is
    None without a claim. delta: the delta of the claim for one text.
    """

    claim: str = NO_CLAIM
    pairs: Callable[[NDArray[np.integer]], NDArray[np.float64]] | None = None
    delta: float = 0.0


NOTHING_CLAIMED = Claimed()


def claimed(mechanism: Mechanism, epsilon: float, texts: Sequence[str]) -> Claimed:
    """Return the claim of a mechanism on the rewrites of these texts."""
    if (guarantee := mechanism.guarantee(epsilon)) is None:
        return NOTHING_CLAIMED
    return Claimed(describe(guarantee), partial(trial_claims, mechanism, epsilon, texts), guarantee.delta)


def rows(
    inferred: Sequence[Inferred], groups: Sequence[str] | None, claimed: Claimed, *, alpha: float, noise: Noise
) -> list[dict[str, Any]]:
    """Return one row per attacker, and the row `strongest`. A row has the columns of `ATTACKERS` from `attacker` on.

    inferred: the inferences of one label's attackers. groups: [test texts], None if all are independent. alpha: error
    of each interval, and of all verdicts of the label together (`verdicts.divisor`). noise: one stream, which samples
    texts in equal number from each class; attackers that read the same number of texts get the same sample. The row
    `strongest` is about the attacker with most successes among the m attackers that read one released text. Its level
    is alpha / m, and its verdict is that of this attacker.
    """
    own = [_row(inference, groups, claimed, alpha=alpha, noise=noise) for inference in inferred]
    among = [(inference, row) for inference, row in zip(inferred, own, strict=True) if _competes(inference)]
    if among:
        best, row = max(among, key=lambda pair: pair[1]["successes"])
        chosen = _row(best, groups, claimed, alpha=alpha / len(among), noise=noise)
        own.append(chosen | {"attacker": STRONGEST, "best_attacker": row["attacker"]})
    tests = [smallest_p_value(row["trials"], row["expected"]) for row in own if _is_test(row)]
    level = alpha / divisor(tests, alpha)
    return [row | {"verdict": _verdict(row, level)} for row in own]


def even_trials(truth: NDArray[np.integer], classes: int, noise: Noise) -> NDArray[np.int64]:
    """Return [m, k]: indices of distinct units, one unit of each class per row. m is the size of the rarest class.

    truth: [n] indices of classes, each present; noise: one stream.
    """
    shuffled = noise.uniforms(len(truth))[0].argsort(kind="stable")
    of_class = [shuffled[truth[shuffled] == number] for number in range(classes)]
    return np.stack([units[: min(map(len, of_class))] for units in of_class], axis=1)


def _row(
    inference: Inferred, groups: Sequence[str] | None, claimed: Claimed, *, alpha: float, noise: Noise
) -> dict[str, Any]:
    group = np.arange(inference.units.max() + 1) if groups is None else np.asarray(groups)
    of_unit = group[inference.units[:, 0]]
    right, classes = inference.guesses == inference.truth, len(inference.classes)
    accuracy, low, high = clustered_share(right, of_unit, alpha)
    trials = even_trials(inference.truth, classes, noise)
    hits = inference.even_guesses[trials.ravel()] == inference.truth[trials.ravel()]
    pairs = None if inference.attacker in (CLEAN, DETECTOR) else claimed.pairs
    each = inference.units.shape[1]
    loss = _estimate(hits, of_unit[trials.ravel()], classes, alpha=alpha)
    expected = None
    if pairs is not None:
        losses = np.sum([pairs(inference.units[trials, place]) for place in range(each)], axis=0)
        expected = classes * expected_successes(losses, classes, min(each * claimed.delta, 1.0))
    return {
        "attacker": inference.attacker,
        "kind": inference.kind,
        "seed": inference.learned.seed if inference.learned else 0,
        "best_attacker": None,
        "texts_each": each,
        "training": inference.learned and inference.learned.training,
        "trained_on": len(inference.learned.examples) if inference.learned else 0,
        "classes": classes,
        "texts": len(inference.units),
        "accuracy": accuracy,
        "low": low,
        "high": high,
        **_class_scores(inference),
        "unusable": float((inference.guesses < 0).mean()),
        "trials": loss.trials,
        "successes": loss.successes,
        "hits": hits.tolist(),
        "loss": loss.loss,
        "point": loss.point,
        "upper": loss.upper,
        "ceiling": loss.ceiling,
        "claim": NO_CLAIM if pairs is None else claimed.claim,
        "expected": expected,
        "p_value": None if expected is None else p_value(loss.successes, loss.trials, expected),
    }


def _class_scores(inference: Inferred) -> dict[str, float | None]:
    """Return balanced accuracy, macro F1, the accuracy of the most frequent training class, and top-3 accuracy.

    Balanced accuracy uses guesses that assume equally likely classes, as the trials do. Macro F1, like accuracy, uses
    guesses that assume classes as frequent as in the training texts. These guesses seldom name a rare class, so they
    would lower balanced accuracy.
    """
    from sklearn.metrics import f1_score

    every = range(len(inference.classes))
    recalls = [float((inference.even_guesses[inference.truth == number] == number).mean()) for number in every]
    most = int(
        np.bincount(inference.truth).argmax() if inference.learned is None else inference.learned.log_shares.argmax()
    )
    top = (
        None
        if inference.top is None
        else [y in first for y, first in zip(inference.truth.tolist(), inference.top, strict=True)]
    )
    return {
        "balanced_accuracy": float(np.mean(recalls)),
        "macro_f1": float(
            f1_score(inference.truth, inference.guesses, labels=list(every), average="macro", zero_division=0)
        ),
        "majority": float((inference.truth == most).mean()),
        "top_3": None if top is None else float(np.mean(top)),
    }


def _estimate(hits: NDArray[np.bool_], groups: NDArray[Any], classes: int, *, alpha: float) -> Estimate:
    over_noise = estimate(int(hits.sum()), len(hits), classes, alpha)
    if len(np.unique(groups)) == len(groups):
        return over_noise
    _, low, high = clustered_share(hits, groups, alpha)
    loss, upper = (loss_at(end, classes) for end in (low, high))
    return replace(over_noise, loss=min(over_noise.loss, loss), upper=max(over_noise.upper, upper))


def _competes(inference: Inferred) -> bool:
    """Return True if an attacker infers the attribute from one released text."""
    return inference.attacker not in (CLEAN, AUTHOR, DETECTOR)


def _is_test(row: Mapping[str, Any]) -> bool:
    return row["expected"] is not None and row["attacker"] != STRONGEST


def _verdict(row: Mapping[str, Any], level: float) -> str:
    if row["expected"] is None:
        return NO_CLAIM
    return verdict(row["p_value"], level, smallest_p_value(row["trials"], row["expected"]))
