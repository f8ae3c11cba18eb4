"""Gates on deployments that cache their answers: the printed probabilities are valid for the deployment."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.question import question
from epsilometer.auditing.subject import subject
from epsilometer.auditing.trials.design import Design
from epsilometer.doors.gate import Rules, gate
from epsilometer.report.gate import Decision, Result, lines, result

TEXTS = ["tea at noon", "an umbrella"]
LIMIT, BETA = 1.0, 0.05
KEEPS = float(np.exp(2) / (1 + np.exp(2)))  # randomised response at 2 nats on two texts


def remembering(seed: int) -> dict[str, str]:
    """One draw of randomised response for each text, which is the answer for good."""
    rng = np.random.default_rng(seed)
    return {text: text if rng.random() < KEEPS else other for text, other in zip(TEXTS, TEXTS[::-1], strict=True)}


def judged(rewrite: Callable[[str, np.random.Generator], str], seed: int) -> tuple[Result, str]:
    of = subject(TEXTS, rewrite, attacks=["lexical"], design=Design(temperature=0, seed=seed))
    rules = Rules([(question("which_text"), LIMIT)], budget=1000)
    decision = Decision.of(of, rules.errors, gate(of, rules))
    return result(decision), lines(decision)[2]


def test_of_remembered_answers_a_gate_judges_the_deployment_and_says_so() -> None:
    """The law's loss is 2 nats, and deployments whose two answers are equal lose nothing: .21 of them, far more than
    the .05 that hold for a law. Of 400 fewer than 41 would pass with probability 1e-9. Every pass is of a deployment
    within the limit, and every verdict says that its probabilities are of the deployment.
    """
    passed = 0
    for seed in range(400):
        answers = remembering(seed)
        of_gate, promise = judged(lambda text, rng, answers=answers: answers[text], seed)
        within = len({*answers.values()}) == 1
        passed += of_gate.passed
        assert of_gate.passed <= within
        assert (of_gate.status == Status.BEYOND) <= (not within)
        assert of_gate.probabilities_of == "deployment"
        assert "deployment with these answers" in promise
        assert "a mechanism within its limits" not in promise
    assert passed > 2 * BETA * 400


@pytest.mark.parametrize("seed", range(10))
def test_of_fresh_answers_a_gate_judges_the_law_and_says_so(seed: int) -> None:
    """The same law drawn anew in each trial never passes here; it may at .05."""

    def fresh(text: str, rng: np.random.Generator) -> str:
        return text if rng.random() < KEEPS else next(other for other in TEXTS if other != text)

    of_gate, promise = judged(fresh, seed)
    assert not of_gate.passed
    assert of_gate.probabilities_of == "law"
    assert "deployment" not in promise
