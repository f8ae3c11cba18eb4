"""The worst-case check of one mechanism's claim, at one or several epsilons."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsilometer.auditing import text_audit
from epsilometer.auditing.claims.finding import Finding
from epsilometer.auditing.claims.largest_loss import largest_losses
from epsilometer.auditing.claims.verdicts import VIOLATED, describe
from epsilometer.auditing.claims.worst_case import USUAL, Extent, check_claim, extra_epsilons
from epsilometer.core.component import find
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import check_epsilons
from epsilometer.core.mechanism import HasInputs, budgets, has_budget
from epsilometer.mechanisms.words.shared.embedded import over_words
from epsilometer.runtime.progress import note, track

BUDGETS = (0.1, 0.5, 1, 2, 5, 10, 20, 50)  # checked if no epsilon is given


@dataclass(frozen=True)
class Checked:
    """The outcome of a check.

    worst: the finding at the requested epsilon; if none is requested, the most relevant finding (`_telling`). findings:
    the finding at the requested epsilon; if none is requested, the findings at all BUDGETS, or at NO_BUDGET for a
    mechanism without a budget. added: findings at further epsilons, small enough for draws to refute the claim. claim:
    the claim in words, at the epsilon of `worst`. largest: the largest loss of one unit (nats) and its evidence
    (`largest_losses`), None if it is unknown.
    """

    worst: Finding
    findings: list[Finding]
    added: list[Finding]
    claim: str
    largest: tuple[float, str] | None


@dataclass(frozen=True)
class Inputs:
    """The inputs that a check compares.

    vectors, vocabulary: a mechanism on words is checked over the first `vocabulary` words of the file `vectors`, by
    default the embedded vectors. If the mechanism's settings name its resource, `vocabulary` has no effect and
    `vectors` is an error. compared: the largest number of inputs to compare, chosen among all inputs; None for the
    usual numbers (`worst_case.Extent`).
    """

    vectors: Path | None = None
    vocabulary: int = 1000
    compared: int | None = None

    def __post_init__(self) -> None:
        if self.vocabulary < 2:
            raise UserError(f"--vocabulary must be at least 2 words, got {self.vocabulary}", "EPS-A130")
        if self.compared is not None and self.compared < 2:
            raise UserError(
                f"--inputs must be at least 2, because a claim compares two, got {self.compared}", "EPS-A231"
            )


ALL = Inputs()


def check(
    mechanism: str,
    settings: Mapping[str, Any],
    epsilon: float | None,
    inputs: Inputs = ALL,
    *,
    alpha: float = 0.01,
    seed: int = 0,
) -> Checked:
    """Run the strongest possible check of a mechanism's claim. mechanism: its name or path.

    epsilon: if None, BUDGETS are checked, or NO_BUDGET alone for a mechanism that takes no budget. alpha: the error of
    all sampled checks together. seed: the seed of these checks. Raises UserError for values outside their range, an
    epsilon for a mechanism that takes none, and vectors that the mechanism cannot read.
    """
    if epsilon is not None:
        check_epsilons([epsilon], "--epsilon")
    vectors, vocabulary = inputs.vectors, inputs.vocabulary
    default = getattr(find("mechanisms", mechanism, "rewrite"), "default_resource", None)
    with tempfile.TemporaryDirectory() as folder:
        few = over_words(default, vectors, vocabulary, Path(folder)) if "resource" not in settings else None
        if few is None and vectors is not None:
            raise UserError(
                f"--vectors is for mechanisms on word vectors; {mechanism} takes --set resource=...", "EPS-A131"
            )
        built = text_audit.mechanism(mechanism, settings if few is None else {**settings, "resource": few})
        grid = BUDGETS if has_budget(built) else None
        at = budgets(built, grid if epsilon is None else (epsilon,), "--epsilon")
        if few is not None and isinstance(built, HasInputs) and len(built.inputs) < vocabulary:
            note(f"--vocabulary {vocabulary} exceeds the number of whole words; all {len(built.inputs)} are checked")
        extra = extra_epsilons(built, min(at), seed) if has_budget(built) else []
        checked = dict.fromkeys([*at, *extra])
        extent = USUAL if inputs.compared is None else Extent.of(inputs.compared)
        findings = [
            check_claim(built, budget, alpha / len(checked), seed, extent=extent)
            for budget in track(checked, len(checked), "budgets checked")
        ]
        named, added = findings[: len(at)], findings[len(at) :]
        worst = min(named, key=_telling)
        claim, (largest,) = describe(built.guarantee(worst.epsilon)), largest_losses(built, [worst])
    return Checked(worst, named, added, claim, largest=largest)


def _telling(finding: Finding) -> tuple[bool, float]:
    """Return the sort key: violated claims first, then the smallest slack (by laws) or the largest claim (by draws).

    If a mechanism keeps its claim, draws prove almost no loss. The slack is then about equal to the claim, so the
    smallest slack would only select the smallest claim.
    """
    if finding.slack is None or finding.claimed is None:
        return True, math.inf
    return finding.verdict != VIOLATED, finding.slack if finding.draws is None else -finding.claimed
