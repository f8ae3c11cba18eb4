"""Invalid settings of the leaderboard are reported before any work."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml

from epsilometer.core.errors import UserError
from epsilometer.pipeline.params import read
from tests.support.places import ROOT
from tests.support.refusals import refused

PARAMS: dict[str, Any] = {
    "audit": {"seed": 0},
    "datasets": {"songs": {"source": "songs.csv", "labels": ["mood"], "public_part": 0.2}},
    "leaderboard": {
        "losses": [1, 0.5],
        "datasets": {"songs": {"task": "mood"}},
        "mechanisms": {
            "exemplars": {"resource": "public", "epsilons": [0.1, 9], "settings": {"m": 8}},
            "mine": {"file": "mine.py", "epsilons": [0.1, 9]},
        },
    },
}


def read_with(tmp_path, *changes: tuple[str, Any]) -> Any:
    params = copy.deepcopy(PARAMS)
    for place, value in changes:
        *path, last = place.split(".")
        section = params["leaderboard"]
        for part in path:
            section = section[part]
        section[last] = value
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    return read(tmp_path / "params.yaml")


def test_every_combination_is_a_cell_in_the_order_of_runs(tmp_path) -> None:
    cells = read_with(tmp_path).leaderboard_cells
    assert list(cells) == ["songs-exemplars-1", "songs-mine-1", "songs-exemplars-0_5", "songs-mine-0_5"]
    assert cells["songs-exemplars-0_5"].loss == 0.5
    assert cells["songs-exemplars-1"].resource == "data/leaderboard_parts/songs/public.parquet"


def test_what_stands_spelt_out_is_what_was_spelt_out(tmp_path) -> None:
    """As the copy of a profile in its run's folder has it."""
    params = read_with(tmp_path)
    spelt = {name: json.loads(cell.model_dump_json()) for name, cell in params.leaderboard_cells.items()}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS | {"leaderboard_cells": spelt}))
    assert read(tmp_path / "params.yaml") == params


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("mechanisms.nobody", {"epsilons": [1, 2]}), "unknown mechanism in leaderboard.mechanisms.nobody 'nobody'"),
        (("mechanisms.mine.epsilons", [9, 0.1]), "the smallest and the largest budget"),
        (("mechanisms.mine.epsilons", [0, 1]), "epsilon must be a finite number > 0"),
        (("mechanisms.mine", {"file": "mine.py"}), "epsilons"),
        (("losses", [0]), "greater than 0"),
        (("losses", [-1]), "greater than 0"),
        (("losses", [1, 1]), "twice"),
        (("losses", []), "at least one loss"),
        (("datasets.songs.task", "tempo"), "unknown label in leaderboard.datasets.songs.task 'tempo'"),
        (("datasets.films", {"task": "mood"}), "unknown data set in leaderboard.datasets.films"),
        (("datasets.songs.attribute", "age"), "unknown label in leaderboard.datasets.songs.attribute 'age'"),
        (("mechanisms", {}), "data sets or mechanisms are missing"),
    ],
)
def test_a_mistake_is_named_before_any_work(tmp_path, change: tuple[str, Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        read_with(tmp_path, change)
    assert said in str(error.value)


def test_a_data_set_without_a_public_part_is_refused(tmp_path) -> None:
    params = copy.deepcopy(PARAMS)
    del params["datasets"]["songs"]["public_part"]
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    with refused("EPS-P060"):
        read(tmp_path / "params.yaml")


def test_the_profile_has_every_mechanism_that_rewrites_for_privacy() -> None:
    """All of the package with a budget; anonymisers hide an attribute and claim nothing of the text."""
    families = ("words", "tokens", "latents", "selection")
    folder = ROOT / "epsilometer/mechanisms"
    ours = {path.stem for family in families for path in (folder / family).glob("[!_]*.py")}
    entered = read(ROOT / "profiles/leaderboard.yaml").leaderboard.mechanisms
    assert ours <= {*entered}
    assert "coin" in entered
    assert not [name for name, entry in entered.items() if entry.settings.get("as_published")]
