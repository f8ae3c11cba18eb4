"""Which mechanisms a leaderboard takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from epsilometer.project.sections import Dataset
from epsilometer.studies.leaderboard.building import build
from epsilometer.studies.leaderboard.params import Leaderboard, LeaderboardParams
from tests.support.refusals import refused

ENDPOINT = """
from epsilometer.core.component import component
from epsilometer.core.errors import UserError

@component
class Endpoint:
    def check(self, public):
        if not public:
            raise UserError("an endpoint sees public texts alone", "OWN-1")

    def guarantee(self, epsilon):
        return None

    def rewrite(self, texts, epsilon, noise):
        raise AssertionError("never asked")
"""


@pytest.mark.parametrize("public", [True, False])
def test_a_mechanism_that_must_not_see_private_texts_is_refused_before_it_does(public: bool, tmp_path: Path) -> None:
    (tmp_path / "endpoint.py").write_text(ENDPOINT)
    params = LeaderboardParams(
        audit={"seed": 0},
        datasets={"songs": Dataset(source="songs.csv", labels=["mood"], public_part=0.2, public=public)},
        leaderboard=Leaderboard(
            losses=[1],
            datasets={"songs": {"task": "mood"}},
            mechanisms={"endpoint": {"file": str(tmp_path / "endpoint.py"), "epsilons": [1, 2]}},
        ),
    )
    if public:
        build(params, "songs-endpoint-1")
    else:
        with refused("OWN-1"):
            build(params, "songs-endpoint-1")
