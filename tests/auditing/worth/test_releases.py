"""The identifiers that a mechanism's outputs can contain."""

from __future__ import annotations

import pytest

from epsilometer.auditing.worth.leakage import Identifier
from epsilometer.auditing.worth.releases import HasPublicReleases, check_released, standing
from epsilometer.mechanisms.controls.constant import Constant
from epsilometer.mechanisms.controls.identity import Identity
from epsilometer.mechanisms.selection.exemplars import Exemplars
from tests.support.refusals import refused

PUBLIC = ("May I pay by card?", "Ann Lee rang.", "Where is my parcel?", "It is broken.")


def test_identifiers_of_all_texts_are_looked_for_in_all_releases() -> None:
    texts = [
        [Identifier("name", "Ann Lee", True), Identifier("order number", "7055095", False)],
        [Identifier("name", "Bo Ek", True)],
        [],
    ]
    rows = {row["kind"]: row for row in standing(texts, PUBLIC).to_dicts()}
    assert rows["name"] == {"kind": "name", "identifiers": 2, "recorded": 2, "standing": 1}
    assert rows["order number"] == {"kind": "order number", "identifiers": 1, "recorded": 0, "standing": 0}
    assert standing([[], []], PUBLIC).is_empty()
    mentions = [[Identifier("name", "Ann Lee", True, "1"), Identifier("name", "A. Lee", True, "1")]]
    assert standing(mentions, PUBLIC).select("identifiers", "standing").row(0) == (1, 1), "one entity, two mentions"


@pytest.mark.parametrize("settings", [{}, {"law": "subset_selection", "size": 2}])
def test_exemplars_release_nothing_else(settings: dict[str, object]) -> None:
    chosen = Exemplars(resource=PUBLIC, m=3, **settings)  # type: ignore[arg-type]
    assert isinstance(chosen, HasPublicReleases)
    check_released(chosen, chosen.output_texts)
    with refused("EPS-A193", "1", "public_releases"):
        check_released(chosen, [*chosen.output_texts, "Ann Lee rang twice."])


def test_one_text_for_all_is_all_that_is_released() -> None:
    assert isinstance(Constant(text="nothing"), HasPublicReleases)
    assert list(Constant(text="nothing").public_releases) == ["nothing"]
    assert not isinstance(Identity(), HasPublicReleases)
