"""Conformance tests of membership attacks: shipped attacks pass, and attacks that are broken on purpose do not.

Random numbers are fixed. Each statistical rule fails a correct attack with probability at most 1e-6.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.core.component import build, find
from epsilometer.studies.training.conformance.membership import check_membership
from epsilometer.studies.training.membership import Evidence, losses
from epsilometer.studies.training.params import MEMBERSHIP
from tests.support.commands import app

OWN = """
from epsilometer.core.component import component
from epsilometer.studies.training.membership import losses

@component
class Mine:
    def score(self, evidence):
        return SIGN * losses(evidence.targets, evidence.labels)[:, evidence.asked]
"""


def failed(attack: Any) -> list[str]:
    return [check.rule for check in check_membership(attack) if check.problem is not None]


class ByLoss:
    """An attack as it should be; those below break a rule each."""

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        return -losses(evidence.targets, evidence.labels)[:, evidence.asked]


class OfAllExamples(ByLoss):
    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        return -losses(evidence.targets, evidence.labels)


class Infinite(ByLoss):
    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            return np.where(super().score(evidence) > -0.1, np.inf, super().score(evidence))


class Global(ByLoss):
    rng = np.random.default_rng(0)

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        scores = super().score(evidence)
        return scores + self.rng.normal(size=scores.shape)


class ByOrder(ByLoss):
    """Takes what is asked first for the members."""

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        return super().score(evidence) - np.arange(len(evidence.asked))


class Unaligned(ByLoss):
    """Scores the first examples instead of those that are asked about."""

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        return -losses(evidence.targets, evidence.labels)[:, : len(evidence.asked)]


class Together(ByLoss):
    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        scores = super().score(evidence)
        return scores - scores.mean(axis=0)


class Reversed(ByLoss):
    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        return -super().score(evidence)


class OneThreshold(ByLoss):
    def thresholds(self, evidence: Evidence) -> NDArray[np.float64]:
        return np.zeros(1)


@pytest.mark.parametrize(
    ("attack", "rule"),
    [
        (object(), "score exists"),
        (OfAllExamples(), "score exists"),
        (Infinite(), "scores of ordinary examples are finite"),
        (Global(), "equal streams"),
        (ByOrder(), "scores depend on the example"),
        (ByOrder(), "membership is inferred"),
        (Unaligned(), "scores depend on the example"),
        (Together(), "each target's scores depend"),
        (Reversed(), "larger scores mean that an example"),
        (OneThreshold(), "thresholds returns"),
    ],
)
def test_what_is_broken_is_caught(attack: Any, rule: str) -> None:
    assert any(rule_failed.startswith(rule) for rule_failed in failed(attack))


def test_a_sound_attack_passes() -> None:
    assert failed(ByLoss()) == []


@pytest.mark.parametrize("name", ["lira", "population", "reference", "rmia"])
def test_shipped_attacks_pass(name: str) -> None:
    assert failed(build(find(MEMBERSHIP, name, "score"), {}, name)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["neighbours", "shadow"])
def test_shipped_attacks_that_learn_or_ask_pass(name: str) -> None:
    assert failed(build(find(MEMBERSHIP, name, "score"), {}, name)) == []


@pytest.mark.parametrize(("sign", "code"), [("-1", 0), ("1", 1)])
def test_the_command_finds_out_what_a_file_holds(
    sign: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(f"by_loss_{code}.py")
    path.write_text(OWN.replace("SIGN", sign))
    assert app(["check", "attack", str(path)]) == code
    assert ("FAILED  larger scores" in capsys.readouterr().out) == bool(code)
