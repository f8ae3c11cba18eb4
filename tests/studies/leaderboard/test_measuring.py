"""The class of a claim: mechanisms are ranked only among claims of the same kind, unit and neighbours."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.studies.leaderboard.measuring import (
    APPROXIMATE,
    EQUAL_LENGTH,
    METRIC,
    NO_CLAIM,
    PURE,
    claim_class,
)

WORD, TEXT, PERSON = Granularity.WORD, Granularity.DOCUMENT, Granularity.USER
ANY, SAME = Neighbours.ANY, Neighbours.SAME_LENGTH


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (None, NO_CLAIM),
        (Guarantee(1.0, TEXT, ANY), PURE),
        (Guarantee(1.0, PERSON, ANY), PURE),
        (Guarantee(1.0, TEXT, ANY, delta=0.01), APPROXIMATE),
        (Guarantee.zcdp(0.5), APPROXIMATE),
        (Guarantee(1.0, TEXT, SAME), EQUAL_LENGTH),
        (Guarantee(1.0, TEXT, SAME, delta=0.01), EQUAL_LENGTH),
        (Guarantee(1.0, TEXT, ANY, metric="L2 distance"), METRIC),
        (Guarantee(1.0, WORD, SAME), METRIC),
    ],
)
def test_a_claim_has_the_class_of_its_kind_unit_and_neighbours(claim: Guarantee | None, expected: str) -> None:
    mechanism = SimpleNamespace(guarantee=lambda epsilon: claim)
    assert claim_class(mechanism, 1.0) == expected  # type: ignore[arg-type]
