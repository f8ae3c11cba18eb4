"""The shadow attack: an adversary with query access rewrites the candidates, and compares the rewrites.

Attacks that never call the mechanism miss hidden codes. A code means nothing to a reader, but a comparison with other
rewrites of the same source reveals that source. Examples of codes are a substitution cipher, and bits in letter case or
in zero-width characters. This adversary has the mechanism rewrite each candidate m times. These rewrites are called the
candidate's shadows. They use random streams that no trial uses. The guess is the candidate whose shadows have most in
common with the rewrite.

A view of a text (`shared.views`) is a set of features. Let n(c, f) be the number of the m shadows of candidate c that
have feature f. In view v, rewrite y and candidate c have the score

    score_v(y, c) = sum over features f of y in view v of ln((n(c, f) + a) / a),    a = 1/2.

This score is the log-likelihood of independent features, each present with probability (n + a) / (m + 2a). Absent
features, and a term that is the same for all candidates, are left out. A candidate's total score is a weighted sum over
views. The non-negative weights are fitted by logistic regression, with regularisation towards a small constant. The
regression uses shadows of 32 texts, spread evenly over the audited texts. Each of these shadows is scored against the
other m - 1 shadows of its own text, and against m - 1 shadows of every other text. So no trial is used for fitting, and
no guess depends on other trials.

On average, guesses beat chance only if the output depends on its source. So the lower bound on the loss is valid for
every mechanism that samples each rewrite independently. The attack is not optimal: if it fails, a code may still exist.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.attacks.identification.shared.views import VIEWS, presence
from epsilometer.core.attack import ByScore, Context
from epsilometer.core.component import component
from epsilometer.core.mechanism import Mechanism, Rewrites, RewritesGrid
from epsilometer.core.randomness import Noise

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Array = NDArray[np.float64]
_A = 0.5  # a: added to each count, so that a feature in no shadow is improbable, but not impossible
_TEXTS = 32  # number of texts on whose shadows the weights are fitted
_PRIOR, _STRENGTH = 0.1, 0.02  # regularisation of the weights: the constant they are drawn to, and the strength
_ROWS = 1 << 12


@component
class ShadowAttack(ByScore):
    """The shadow attack. rewrites: m, the number of shadows of each candidate at each epsilon."""

    rewrites: Annotated[int, Field(ge=2)] = 4

    def applies(self, mechanism: Mechanism | None) -> bool:
        """Return True if there is a mechanism to query, and not only recorded rewrites."""
        return mechanism is not None

    def queries(self, texts: Sequence[str], candidates: NDArray[np.integer]) -> list[str]:
        """Return the texts to rewrite at each epsilon, each repeated once per shadow."""
        shown = (texts[i] for i in np.unique(candidates).tolist())
        return [text for text in dict.fromkeys([*_fitted_on(texts), *shown]) for _ in range(self.rewrites)]

    def ask(
        self,
        mechanism: Mechanism,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        epsilons: Sequence[float],
    ) -> None:
        """Have the mechanism write the shadows of these candidates, and cache them."""
        self._draw(mechanism, self.queries(texts, candidates), epsilons)

    def score_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> list[Array]:
        """Score all epsilons at once. If the mechanism can, it writes the shadows of all epsilons in one call."""
        texts, mechanism = contexts[0].texts, cast(Mechanism, contexts[0].mechanism)
        used, place = np.unique(candidates, return_inverse=True)
        fitted_on = _fitted_on(texts)
        shown = [texts[i] for i in used]
        place = place.reshape(candidates.shape)
        by_epsilon = []
        held_at = self._draw(mechanism, [*fitted_on, *shown], [context.epsilon for context in contexts])
        for held, output in zip(held_at, rewrites, strict=True):
            fitted, shadows = (
                [[held[text][j] for text in of] for j in range(self.rewrites)] for of in (fitted_on, shown)
            )
            by_epsilon.append(_scores(_weights(fitted), shadows, output.texts, place))
        return by_epsilon

    @cached_property
    def _held(self) -> dict[tuple[int, float], tuple[Mechanism, dict[str, list[str]]]]:
        """Cached shadows of each text, by the mechanism's `id` and the epsilon.

        The mechanism is cached, too, so that no new object gets its `id`.
        """
        return {}

    def _draw(
        self, mechanism: Mechanism, texts: Sequence[str], epsilons: Sequence[float]
    ) -> list[dict[str, list[str]]]:
        """Return the shadows of these texts at each epsilon. Missing shadows are written and cached."""
        held = [self._held.setdefault((id(mechanism), epsilon), (mechanism, {}))[1] for epsilon in epsilons]
        new = [text for text in dict.fromkeys(texts) if any(text not in each for each in held)]
        if not new:
            return held
        asked_for = [text for text in new for _ in range(self.rewrites)]
        numbers = np.array([_number(text) + j for text in new for j in range(self.rewrites)])
        noises = [Noise.named(numbers, "shadow", epsilon) for epsilon in epsilons]
        if isinstance(mechanism, RewritesGrid):
            outputs = mechanism.rewrite_grid(asked_for, epsilons, noises)
        else:
            outputs = [mechanism.rewrite(list(asked_for), e, noise) for e, noise in zip(epsilons, noises, strict=True)]
        for each, output in zip(held, outputs, strict=True):
            outputs_texts = list(output.texts)
            for i, text in enumerate(new):
                each[text] = outputs_texts[i * self.rewrites : (i + 1) * self.rewrites]
        return held


def _fitted_on(texts: Sequence[str]) -> list[str]:
    """Return the texts on whose shadows the weights are fitted."""
    return [texts[i] for i in np.unique(np.linspace(0, len(texts) - 1, _TEXTS).astype(int))]


def _number(text: str) -> int:
    """Return the number of a text's first random stream. It depends only on the text, so batches share shadows."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=5).digest(), "big") << 16


def _scores(
    weights: Array, shadows: Sequence[Sequence[str]], rewrites: Sequence[str], place: NDArray[np.intp]
) -> Array:
    """Return the weighted scores [n, k].

    weights: one weight per view.
    shadows: m lists, each with one shadow of every candidate.
    place:   [n, k], indices of the trials' candidates.
    """
    scores = np.zeros(place.shape)
    for view, weight in zip(VIEWS, weights, strict=True):
        if weight == 0:
            continue
        typical = _log_counts(sum(presence(view, of) for of in shadows))
        seen = presence(view, rewrites)
        for start in range(0, len(place), _ROWS):
            part = slice(start, start + _ROWS)
            for slot in range(place.shape[1]):
                scores[part, slot] += weight * seen[part].multiply(typical[place[part, slot]]).sum(axis=1).A1
    return scores


def _log_counts(counts: csr_matrix) -> csr_matrix:
    """Return ln((n + a) / a) for each count n; counts of 0 give 0."""
    counts = counts.copy()
    counts.data = np.log1p(counts.data / _A)
    return counts


def _weights(shadows: Sequence[Sequence[str]]) -> Array:
    """Return the fitted weight of each view. shadows: m lists of rewrites of the same texts in the same order."""
    from scipy.optimize import minimize

    margins = np.stack([_margins(view, shadows) for view in VIEWS], axis=-1)  # [samples, views]
    scale = np.sqrt((margins**2).mean(axis=0)) if len(margins) else np.zeros(len(VIEWS))
    scale[scale == 0] = 1.0
    margins = margins / scale

    def loss(weights: Array) -> tuple[float, Array]:
        odds = margins @ weights
        away = weights - _PRIOR
        wrong = np.exp(-np.logaddexp(0.0, odds))
        value = np.logaddexp(0.0, -odds).mean() if len(odds) else 0.0
        slope = -(wrong[:, None] * margins).mean(axis=0) if len(odds) else 0.0
        return value + _STRENGTH / 2 * float(away @ away), slope + _STRENGTH * away

    bounds = [(0.0, None)] * len(VIEWS)
    best = minimize(loss, np.full(len(VIEWS), _PRIOR), jac=True, bounds=bounds, method="L-BFGS-B")
    return cast(Array, best.x / scale)


def _margins(view: str, shadows: Sequence[Sequence[str]]) -> Array:
    """Return the score of each shadow for its own text minus its score for each other text.

    Scores are computed from the remaining m - 1 shadows of every text.
    """
    present = [presence(view, of) for of in shadows]
    every, own = sum(present), np.arange(len(shadows[0]))
    rows = []
    for left_out in present:
        fits = (left_out @ _log_counts(every - left_out).T).toarray()
        margins = fits[own, own][:, None] - fits
        rows.append(margins[~np.eye(len(own), dtype=bool)])
    return np.concatenate(rows)
