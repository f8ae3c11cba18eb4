"""Choice of the number of exemplars with the highest utility on held-out public texts at a target loss.

With more exemplars the nearest exemplar is more similar to the text, but a larger epsilon is needed to release it with
the same probability. For each number m, a search finds the epsilon at which the average loss of guessing between two
held-out texts equals the target. The chosen m has the largest expected cosine between a text and its release at the
epsilon found for m. Held-out texts are used because the clustered texts would favour too large an m. Private texts are
not used, so the claim does not depend on the choice.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.selection.shared.exemplar_laws import ExemplarLaw
from epsilometer.mechanisms.selection.shared.public_exemplars import central, embed, usable
from epsilometer.models.encoder import Encoder

Array = NDArray[np.float64]
NUMBERS = (8, 16, 32, 64, 128, 256, 512)
_HELD_OUT = 5  # about one public text in 5 is held out
_PAIRS = 300  # number of pairs of held-out texts for the average loss
_RANGE = (1e-3, 100.0)  # range of epsilon


def best_number(
    public: Sequence[str], law: Callable[[Array], ExemplarLaw], target: float, encoder: str, seed: int, least: int = 2
) -> Mapping[str, Any]:
    """Return the best number of exemplars `m`, the `epsilon` at the target, the expected `cosine`, and the search.

    law:    function that builds the law from the exemplars' vectors [m, d].
    target: average guess loss in nats.
    least:  fewest exemplars that the law allows.

    Raises UserError if no number can be tried, or if none meets the target.
    """
    texts = usable(public)
    apart = np.array([int(hashlib.sha256(text.encode()).hexdigest(), 16) % _HELD_OUT == 0 for text in texts], bool)
    numbers = [m for m in NUMBERS if least <= m <= (~apart).sum() / 4]
    if not numbers or apart.sum() < 2:
        raise UserError(
            f"m: auto needs more than {len(texts)} public texts: it holds out one text in {_HELD_OUT}, and needs 4 of "
            f"the others per exemplar, for at least {NUMBERS[0]} exemplars; give more public texts, or set m to a "
            "number",
            "EPS-M060",
        )
    vectors = embed(Encoder(encoder), texts)
    rows = [row for m in numbers if (row := _tried(vectors[~apart], vectors[apart], m, law, target=target, seed=seed))]
    if not rows:
        raise UserError(
            f"no number of exemplars up to {numbers[-1]} reaches an average loss of {target:g} nats between public "
            "texts at any epsilon; give a smaller target",
            "EPS-M061",
        )
    best = max(rows, key=lambda row: row["cosine"])
    return {**best, "target": target, "held_out": int(apart.sum()), "tried": rows}


def _tried(
    learn: Array, held: Array, m: int, law: Callable[[Array], ExemplarLaw], target: float, seed: int
) -> dict[str, Any] | None:
    """Return m, epsilon and cosine for one number of exemplars at the target; None if no epsilon meets it."""
    vectors = learn[central(learn, m, seed)]
    chosen_law, nearness = law(vectors), held @ vectors.T
    pairs = np.stack([Noise.named(_PAIRS, "held out", side, seed).uniforms()[:, 0] for side in (0, 1)], axis=1)
    pairs = (pairs * [len(held), len(held) - 1]).astype(np.int64)
    pairs[:, 1] += pairs[:, 1] >= pairs[:, 0]

    def excess(log_epsilon: float) -> float:
        laws = np.exp(chosen_law.log_law(nearness, math.exp(log_epsilon)))
        success = np.mean([np.maximum(laws[a], laws[b]).sum() / 2 for a, b in pairs.tolist()])
        return float(success) - 1 / (1 + math.exp(-target))

    low, high = (math.log(end) for end in _RANGE)
    if excess(high) < 0:
        return None
    epsilon = math.exp(brentq(excess, low, high, xtol=1e-3))
    shown = chosen_law.shown @ vectors
    shown /= np.maximum(np.linalg.norm(shown, axis=1, keepdims=True), 1e-12)
    laws = np.exp(chosen_law.log_law(nearness, epsilon))
    return {"m": m, "epsilon": epsilon, "cosine": float((laws * (held @ shown.T)).sum(1).mean())}
