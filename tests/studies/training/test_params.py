"""Settings of training in params.yaml, and those that are refused before any work."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from epsilometer.accounting.releases import MOST_CONCENTRATED
from epsilometer.pipeline.params import Params, read
from epsilometer.studies.training import trainings
from tests.support.places import ROOT
from tests.support.refusals import refused

SECTIONS: dict[str, Any] = {
    "features": {"reviews": {"dataset": "reviews", "model": "data/models/minilm-mlm", "length": 40}},
    "private_training": {
        "plain": {"features": "reviews", "label": "rating", "noise": "none"},
        "gaussian": {"features": "reviews", "label": "rating", "noise": "gaussian", "levels": [0.5, 1]},
        "vmf": {"features": "reviews", "label": "rating", "noise": {"kind": "vmf", "parts": True}, "levels": [1e4]},
    },
    "references": {"models": {"training": "plain", "features": "reviews", "count": 10}},
    "membership": {
        "losses": {
            "training": "gaussian",
            "features": "reviews",
            "references": "models",
            "attacks": {"population": None, "lira_offline": {"attack": "lira", "online": False}},
        }
    },
    "sent": {"bert": {"dataset": "reviews", "model": "data/models/minilm-mlm", "label": "rating", "noise": "none"}},
    "reconstruction": {"bert": {"sent": "bert", "attacks": {"candidates": {}}}},
}


def written(folder: Path, changes: dict[tuple[str, ...], Any]) -> Params:
    content = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text()) | copy.deepcopy(SECTIONS)
    for place, value in changes.items():
        part = content
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = value
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump(content))
    return read(path)


def test_sections_are_read(tmp_path: Path) -> None:
    params = written(tmp_path, {("private_training", "gaussian", "overfit"): 3})
    assert params.private_training["plain"].steps == (None,)
    assert params.private_training["gaussian"].steps == (0.5, 1.0)
    assert params.private_training["gaussian"].passes == 30
    assert params.private_training["vmf"].noise.parts
    assert params.membership["losses"].modules == {
        "population": ("population", {}),
        "lira_offline": ("lira", {"online": False}),
    }


def test_the_largest_kappa_is_the_accountants(tmp_path: Path) -> None:
    """One that no epsilon is computed for is refused before a training, and one that is not is not."""
    params = written(tmp_path, {("private_training", "vmf", "levels"): [MOST_CONCENTRATED]})
    noise, (level,) = params.private_training["vmf"].noise, params.private_training["vmf"].steps
    assert trainings.noise(noise, level).release([50]) is not None


@pytest.mark.parametrize(
    ("place", "value", "refusal"),
    [
        (("features", "reviews", "dataset"), "review", ("EPS-P060", "features.reviews.dataset", "'review'")),
        (
            ("features", "reviews", "model"),
            "bert-base-uncased",
            ("EPS-P060", "features.reviews.model", "data/models/NAME", "bert-base-uncased"),
        ),
        (("features", "reviews", "model"), "data/models/minilm", ("EPS-P060", "features.reviews.model", "minilm")),
        (
            ("private_training", "plain", "features"),
            "review",
            ("EPS-P060", "private_training.plain.features", "review"),
        ),
        (("private_training", "plain", "label"), "stars", ("EPS-P060", "private_training.plain.label", "stars")),
        (("private_training", "plain", "levels"), [1], ("EPS-P060", "private_training.plain", "none", "levels")),
        (("private_training", "gaussian", "levels"), [], ("EPS-P060", "private_training.gaussian.levels", "1", "[]")),
        (
            ("private_training", "gaussian", "levels"),
            [0],
            ("EPS-P060", "private_training.gaussian", "sigma", "{kind: none, clip: 1}"),
        ),
        (("private_training", "gaussian", "levels"), [-1], ("EPS-P060", "private_training.gaussian.levels[0]", "-1")),
        (
            ("private_training", "gaussian", "levels"),
            [1, 1.0],
            ("EPS-P060", "private_training.gaussian", "levels", "[1.0, 1.0]"),
        ),
        (("private_training", "vmf", "levels"), [0], ("EPS-P060", "private_training.vmf", "kappa", "0")),
        (
            ("private_training", "vmf", "levels"),
            [1e5, 2e9],
            ("EPS-P060", "kappa", "1e+09", "2000000000.0"),
        ),
        (
            ("private_training", "vmf", "noise"),
            {"kind": "vmf", "gamma": 1},
            ("EPS-P060", "private_training.vmf.noise", "gamma", "'vmf'"),
        ),
        (
            ("private_training", "vmf", "noise"),
            "vonmises",
            ("EPS-P060", "private_training.vmf.noise.kind", "gaussian", "'vmf'", "scaled", "none", "vonmises"),
        ),
        (("private_training", "plain", "batch"), 0, ("EPS-P060", "private_training.plain.batch", "0")),
        (("private_training", "plain", "rate"), 0, ("EPS-P060", "private_training.plain.rate", "0")),
        (("references", "models", "level"), 2, ("EPS-P060", "references.models.level", "'2.0'", "None")),
        (
            ("membership", "losses", "training"),
            "x",
            ("EPS-P060", "private_training", "membership.losses.training", "'x'"),
        ),
        (("membership", "losses", "references"), None, ("EPS-P060", "membership.losses.references", "None")),
        (("membership", "losses", "features"), "x", ("EPS-P060", "membership.losses.features", "reviews")),
        (("references", "models", "features"), "x", ("EPS-P060", "references.models.features", "reviews")),
        (
            ("references", "models", "split"),
            "half",
            ("EPS-P060", "references.models.split", "overlapping", "disjoint", "half"),
        ),
        (
            ("private_training", "plain", "texts"),
            500,
            ("EPS-P060", "membership.losses.references", "plain", "500", "None"),
        ),
        (("membership", "losses", "fprs"), [1.5], ("EPS-P060", "membership.losses.fprs[0]", "1.5")),
        (("reconstruction", "bert", "sent"), "gpt2", ("EPS-P060", "reconstruction.bert.sent", "gpt2")),
        (("features", "a/b"), SECTIONS["features"]["reviews"], ("EPS-P060", "features", "'a/b'")),
    ],
)
def test_what_is_wrong_is_named(place: tuple[str, ...], value: Any, refusal: tuple[str, ...], tmp_path: Path) -> None:
    with refused(*refusal) as raised:
        written(tmp_path, {place: value})
    assert ": :" not in str(raised.value)  # an error about the whole file has no place in its message
