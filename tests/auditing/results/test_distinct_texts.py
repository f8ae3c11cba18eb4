"""Mechanisms that notice an audit, and the smallest difference that the test would detect."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import epsilometer
from epsilometer.auditing.results.comparison import Comparison, compare
from epsilometer.auditing.results.detectable import least_difference
from epsilometer.auditing.trials.memory import BY_TEXT, BY_WORD, CONSTANT, FRESH, IDENTITY
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise

NAMES = ["ada", "bea", "cy", "dora", "eve"]
TEXTS = [f"{name} met {other} in town" for name in NAMES for other in NAMES if name != other]
DESIGN = epsilometer.Design(temperature=0)


class OnlyRepeats:
    """Keeps the text unless the batch repeats one: an audit sees a constant."""

    has_budget = False

    def hides(self, texts: Sequence[str], noise: Noise) -> bool:
        return len({*texts}) < len(texts)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return Rewrites(["nothing"] * len(texts) if self.hides(texts, noise) else list(texts))

    def guarantee(self, epsilon: float) -> None:
        return None


class OnlySeeds(OnlyRepeats):
    """Keeps the text unless the noise has a seed."""

    def hides(self, texts: Sequence[str], noise: Noise) -> bool:
        return noise.key is not None


class Never(OnlyRepeats):
    """Keeps the text."""

    def hides(self, texts: Sequence[str], noise: Noise) -> bool:
        return False


@pytest.mark.parametrize(
    ("mechanism", "noticed"),
    [(OnlyRepeats(), True), (OnlySeeds(), True), (Never(), False)],
    ids=["repeats", "seeds", "never"],
)
def test_a_mechanism_that_notices_an_audit_is_named(
    mechanism: OnlyRepeats, noticed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that does not is named with probability .001 at most."""
    epsilometer.audit(TEXTS, mechanism, attacks=["lexical"], trials=300, design=DESIGN)
    said = capsys.readouterr().err
    assert ("can tell an audit from a release" in said) == noticed
    assert ("would have been found with probability .9" in said) != noticed


@pytest.mark.parametrize(("n", "by_chance", "level"), [(200, 0.1, 0.001), (40, 0.0, 0.001), (200, 0.0, 2e-4)])
def test_the_smallest_difference_is_found_in_nine_of_ten(n: int, by_chance: float, level: float) -> None:
    """Of 2,000 runs .9 find it; fewer than .87 happen with probability 1e-5. Half of it is found in fewer than half."""
    alone = int(by_chance * n)
    least = least_difference(Comparison(n, alone, alone, 1.0), level)
    rng = np.random.default_rng(0)

    def found_share(difference: float) -> float:
        u = rng.random((2000, n))
        first, second = u < by_chance, (u >= by_chance) & (u < 2 * by_chance + difference)
        return float(np.mean([compare(a, b).p_value <= level for a, b in zip(first, second, strict=True)]))

    assert 0.87 < found_share(least) < 0.95
    assert found_share(least / 2) < 0.5


def fresh(text: str, rng: np.random.Generator) -> str:
    return " ".join(str(rng.choice(NAMES)) if word in NAMES else word for word in text.split())


ANSWERS: dict[str, str] = {}


def cached(text: str, rng: np.random.Generator) -> str:
    return ANSWERS.setdefault(text, fresh(text, rng))


def pseudonyms(text: str, rng: np.random.Generator) -> str:
    return " ".join(f"nn{NAMES.index(word)}" if word in NAMES else word for word in text.split())


@pytest.mark.parametrize(
    ("mechanism", "kind"),
    [("identity", IDENTITY), ("constant", CONSTANT), (fresh, FRESH), (cached, BY_TEXT), (pseudonyms, BY_WORD)],
    ids=[IDENTITY, CONSTANT, FRESH, BY_TEXT, BY_WORD],
)
def test_an_audit_says_what_its_figures_describe(mechanism: object, kind: str) -> None:
    table = epsilometer.audit(TEXTS, mechanism, attacks=["lexical"], trials=400, design=DESIGN)
    row = table.row(0, named=True)
    assert row["memory"] == kind
    assert (row["loss_of_law"] is not None) == (kind in (IDENTITY, CONSTANT, BY_TEXT))
    if row["loss_of_law"] is not None:
        assert row["loss_of_law"] <= row["loss"]
