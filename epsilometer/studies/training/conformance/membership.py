"""Conformance tests of a membership attack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu, spearmanr

from epsilometer.auditing.conformance.rules import FALSE_ALARM, TEXTS, Check, Rule, checked, lacks
from epsilometer.core.randomness import Noise
from epsilometer.studies.training.membership import Decides, Evidence, MembershipAttack

_EXAMPLES, _ASKED, _TARGETS, _REFERENCES, _CLASSES = 300, 200, 2, 24, 3  # attack `neighbours` scores 200 by default
_BOOST = 3.0  # increase of a label's logit for an example of the training set
_ALIKE = 0.9  # minimum rank correlation of two scorings, which differ only by the attack's randomness


def check_membership(attack: MembershipAttack) -> list[Check]:
    """Check a membership attack on random numbers, which replace models' answers.

    Every example is in the training sets of half of the references. The targets were trained on the first half of the
    asked examples, so an attack that uses the examples' order is detected.
    """
    return checked(_Checks(attack).rules())


@dataclass(frozen=True)
class _Checks:
    attack: MembershipAttack

    @cached_property
    def _telling(self) -> Evidence:
        """Evidence from targets that are more confident on their members."""
        return _evidence(_BOOST)

    @cached_property
    def _scores(self) -> NDArray[np.float64]:
        return self.attack.score(self._telling)

    def rules(self) -> Iterator[Rule]:
        yield "score exists and returns a number for each target and example", self._interface
        yield "scores of ordinary examples are finite", self._finite
        yield "equal streams give equal scores", self._deterministic
        yield "scores depend on the example, not on its position", self._unordered
        yield "each target's scores depend on that target alone", self._alone
        if isinstance(self.attack, Decides):
            yield "thresholds returns a number per target", self._decided
        yield "membership is inferred from the targets' outputs alone", self._blind
        yield "larger scores mean that an example was trained on", self._direction

    def _interface(self) -> str | None:
        if problem := lacks(self.attack, "score", 1):
            return problem
        if not isinstance(self._scores, np.ndarray) or self._scores.dtype.kind != "f":
            return "score must return an array of floating-point numbers"
        if self._scores.shape != (_TARGETS, _ASKED):
            return f"score must return [targets, examples], ({_TARGETS}, {_ASKED}), got {self._scores.shape}"
        return None

    def _finite(self) -> str | None:
        if (bad := int((~np.isfinite(self._scores)).sum())) == 0:
            return None
        return (
            f"{bad} of {self._scores.size} scores are not finite although no probability is near 0 or 1; return NaN "
            "only for examples that the attack skips"
        )

    def _deterministic(self) -> str | None:
        if np.array_equal(self.attack.score(self._telling), self._scores):
            return None
        return "two calls with the same evidence differ; draw from evidence.noise alone"

    def _unordered(self) -> str | None:
        order = np.random.default_rng(1).permutation(_EXAMPLES)
        questioned = np.random.default_rng(2).permutation(_ASKED)
        again = self.attack.score(_reordered(self._telling, order, questioned))
        alike = [spearmanr(row, other)[0] for row, other in zip(again, self._scores[:, questioned], strict=True)]
        if min(alike) >= _ALIKE:
            return None
        return (
            f"scores change with the order of examples (rank correlation {min(alike):.2f}); return the score of "
            "example evidence.asked[i] at position i, from that example alone"
        )

    def _alone(self) -> str | None:
        single = replace(
            self._telling,
            targets=self._telling.targets[:1],
            training_losses=self._telling.training_losses[:1],
            answers=lambda texts: self._telling.answers(texts)[:1],
        )
        if np.allclose(self.attack.score(single)[0], self._scores[0], rtol=1e-9, atol=1e-9):
            return None
        return "the first target's scores change without the second target; score each target separately"

    def _decided(self) -> str | None:
        assert isinstance(self.attack, Decides)
        thresholds = np.asarray(self.attack.thresholds(self._telling))
        if thresholds.shape == (_TARGETS,) and not np.isnan(thresholds).any():
            return None
        return f"thresholds must return a number for each of {_TARGETS} targets"

    def _blind(self) -> str | None:
        """Check that members and others score alike, up to chance, if the targets' answers ignore membership."""
        scores = self.attack.score(_evidence(0.0))
        if min(_p(row, "two-sided") for row in scores) >= FALSE_ALARM / _TARGETS:
            return None
        return (
            "members are recognised although the target's outputs do not depend on membership, so by position or by "
            "hidden data; use the target's outputs alone"
        )

    def _direction(self) -> str | None:
        if min(_p(row, "less") for row in self._scores) >= FALSE_ALARM / _TARGETS:
            return None
        return "members of a target that is more confident on them score lower than others; flip the sign"


def _p(scores: NDArray[np.float64], side: str) -> float:
    """Return the Mann-Whitney p-value of members' scores, the first half, against others'. side: the alternative."""
    half = _ASKED // 2
    return float(mannwhitneyu(scores[:half], scores[half:], alternative=side).pvalue)


def _evidence(boost: float) -> Evidence:
    rng = np.random.default_rng(0)
    labels = np.arange(_EXAMPLES) % _CLASSES
    questioned = rng.permutation(_EXAMPLES)[:_ASKED]
    inside = np.isin(np.arange(_EXAMPLES), questioned[: _ASKED // 2])
    cuts = rng.permuted(np.tile(np.arange(_EXAMPLES) % 2 == 0, (_REFERENCES // 2, 1)), axis=1)
    members = np.concatenate([cuts, ~cuts])
    typical = rng.normal(0, 0.7, (_EXAMPLES, _CLASSES))  # difficulty of an example, for all models
    targets = _answers(typical, labels, np.tile(boost * inside, (_TARGETS, 1)), rng)
    return Evidence(
        texts=[f"{TEXTS[i % len(TEXTS)]} {i}" for i in range(_EXAMPLES)],
        labels=labels,
        targets=targets,
        training_losses=np.full(_TARGETS, 0.5),
        asked=questioned,
        references=_answers(typical, labels, _BOOST * members, rng),
        members=members,
        answers=_of_text,
        noise=Noise.named(_ASKED, "conformance", "membership"),
    )


def _answers(
    typical: NDArray[np.float64], labels: NDArray[np.integer], boosts: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return log probabilities [models, examples, classes].

    typical: [examples, classes], logits common to all models; boosts: [models, examples], added to the label's logit.
    """
    logits = typical + rng.normal(0, 0.5, (*boosts.shape, _CLASSES))
    logits += boosts[..., None] * (labels[:, None] == np.arange(_CLASSES))
    return _normalised(logits)


def _of_text(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return pseudorandom answers of the targets on any texts; equal texts get equal answers."""
    logits = [np.random.default_rng(crc32(text.encode())).normal(size=(_TARGETS, _CLASSES)) for text in texts]
    return _normalised(np.array(logits).reshape(len(texts), _TARGETS, _CLASSES).swapaxes(0, 1))


def _normalised(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    normalised: NDArray[np.float64] = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    return normalised


def _reordered(evidence: Evidence, order: NDArray[np.integer], questioned: NDArray[np.integer]) -> Evidence:
    """Return the evidence with its examples in `order`, and the asked examples in the order `questioned`."""
    assert evidence.references is not None
    assert evidence.members is not None
    return replace(
        evidence,
        texts=[evidence.texts[i] for i in order],
        labels=evidence.labels[order],
        targets=evidence.targets[:, order],
        asked=np.argsort(order)[evidence.asked[questioned]],
        references=evidence.references[:, order],
        members=evidence.members[:, order],
        noise=evidence.noise[questioned],
    )
