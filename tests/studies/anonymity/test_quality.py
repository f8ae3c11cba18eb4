"""The quality of changed rewrites, with and without a classifier of grammar."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.auditing.attributes.released import Released
from epsilometer.metrics.jaccard import Jaccard
from epsilometer.studies.anonymity import quality


class Length:
    """A judge that looks at the rewrite alone."""

    def __init__(self, model: str) -> None:
        assert model == "judge"

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        return np.array([len(text) for text in rewrites], np.float64)


def test_a_judge_of_grammar_sees_changed_rewrites_and_their_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "Grammaticality", Length)
    assert [*quality.metrics(None)] == [*quality.METRICS]
    judged = quality.metrics("judge")
    assert [*judged] == [*quality.METRICS, "grammatical", "grammatical before"]
    released = Released(["a b", "a b c", "unchanged"], ["a", "a b c d e", "unchanged"], {})
    few = {name: judged[name] for name in ("Jaccard", "grammatical", "grammatical before")}
    rows = {row["metric"]: row for row in quality.quality(released, 0.01, few)}
    assert {name: row["texts"] for name, row in rows.items()} == dict.fromkeys(few, 2)
    assert rows["grammatical"]["mean"] == pytest.approx((1 + 9) / 2)
    assert rows["grammatical before"]["mean"] == pytest.approx((3 + 5) / 2)
    own = Jaccard().measure(["a b", "a b c"], ["a", "a b c d e"]).mean()
    assert rows["Jaccard"]["mean"] == pytest.approx(own)
