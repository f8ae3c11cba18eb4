"""Settings of training in params.yaml, and those that are refused before any work."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from epsilometer.accounting.releases import MOST_CONCENTRATED
from epsilometer.core.errors import UserError
from epsilometer.pipeline.params import Params, read
from epsilometer.studies.training import trainings
from tests.support.places import ROOT

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
    ("place", "value", "message"),
    [
        (("features", "reviews", "dataset"), "review", "unknown data set in features.reviews.dataset 'review'; did"),
        (("features", "reviews", "model"), "bert-base-uncased", "must be data/models/NAME, with NAME under `models`"),
        (("features", "reviews", "model"), "data/models/minilm", "unknown model in features.reviews.model 'minilm'; d"),
        (("private_training", "plain", "features"), "review", "unknown entry of features in private_training.plain"),
        (("private_training", "plain", "label"), "stars", "unknown label in private_training.plain.label 'stars'"),
        (("private_training", "plain", "levels"), [1], "noise 'none' has no level; leave `levels` out"),
        (("private_training", "gaussian", "levels"), [], "at least 1 item"),
        (("private_training", "gaussian", "levels"), [0], r"\(sigma\) must be > 0, got 0; use \{kind: none, clip: 1\}"),
        (("private_training", "gaussian", "levels"), [-1], "greater than or equal to 0, got -1"),
        (("private_training", "gaussian", "levels"), [1, 1.0], "levels must differ"),
        (("private_training", "vmf", "levels"), [0], r"\(kappa\) must be > 0"),
        (
            ("private_training", "vmf", "levels"),
            [1e5, 2e9],
            r"\(kappa\) must be at most 1e\+09, got 2000000000.0",
        ),
        (("private_training", "vmf", "noise"), {"kind": "vmf", "gamma": 1}, "gamma is not a setting of 'vmf'"),
        (("private_training", "vmf", "noise"), "vonmises", "'gaussian', 'vmf', 'scaled' or 'none'"),
        (("private_training", "plain", "batch"), 0, "batch: .*greater than 0"),
        (("private_training", "plain", "rate"), 0, "rate: .*greater than 0"),
        (("references", "models", "level"), 2, "unknown level in references.models.level '2.0'; known: None"),
        (("membership", "losses", "training"), "x", "unknown entry of private_training in membership.losses.training"),
        (("membership", "losses", "references"), None, "membership.losses.references: Input should be a valid string"),
        (("membership", "losses", "features"), "x", "membership.losses.features must be those of gaussian, 'reviews'"),
        (("references", "models", "features"), "x", "references.models.features must be those of plain, 'reviews'"),
        (("references", "models", "split"), "half", "'overlapping' or 'disjoint'"),
        (
            ("private_training", "plain", "texts"),
            500,
            "membership.losses.references imitate plain, whose texts is 500, but gaussian has None",
        ),
        (("membership", "losses", "fprs"), [1.5], "fprs.*less than 1"),
        (("reconstruction", "bert", "sent"), "gpt2", "unknown entry of sent in reconstruction.bert.sent"),
        (("features", "a/b"), SECTIONS["features"]["reviews"], "a name in features must be letters, digits"),
    ],
)
def test_what_is_wrong_is_named(place: tuple[str, ...], value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message) as raised:
        written(tmp_path, {place: value})
    assert ": :" not in str(raised.value)  # an error about the whole file has no place in its message
