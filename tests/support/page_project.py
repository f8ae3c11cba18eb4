"""A project of reviews, two word mechanisms and sent gradients, in which the commands of the docs can be run.

Its stages ran in this process. Gradients and the scores of their reconstructions are written by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from epsilometer.core import tables
from epsilometer.corpora.synthetic import generate
from epsilometer.pipeline.params import read
from epsilometer.pipeline.stages import attack, estimate, prepare, rewrite, trials, vectors
from epsilometer.project.paths import audited, inside
from epsilometer.studies.anonymity.stages import classifiers
from tests.support.places import ROOT
from tests.support.sent import write_scores, write_sent

LABELS = {"tasks": ["rating"], "attributes": ["gender"]}
SENT: dict[str, Any] = {
    "dataset": "reviews", "model": "data/models/minilm-mlm", "label": "rating", "noise": "gaussian", "levels": [0.1, 1],
    "texts": 4, "pool": 40,
}  # fmt: skip


def write_project(folder: Path) -> Path:
    """Write the project, with an audit of `tem` at 1 and 11 and `mvc` at 1 and 70, and return the folder."""
    folder.mkdir()
    reviews = generate("reviews", 800, 1)
    reviews.select("text", "rating", "gender").write_csv(folder / "reviews.csv")
    words = sorted({word.strip(".,!?") for text in reviews["text"] for word in text.lower().split()})
    normal = np.random.default_rng(0).standard_normal((len(words), 10)) / 8
    lines = (f"{word} {' '.join(f'{x:.3f}' for x in row)}\n" for word, row in zip(words, normal, strict=True))
    (folder / "vectors.txt").write_text("".join(lines))
    (folder / "params.yaml").write_text(yaml.safe_dump(_params()))
    with inside(folder):
        prepare.main("reviews")
        vectors.main("own")
        count = len(audited(read(), "reviews"))
        tables.write_array(np.eye(count, dtype=np.float32), "data/embeddings/reviews.npy")
        trials.main("reviews")
        for cell in ("reviews-tem", "reviews-mvc"):
            rewrite.main(cell)
            attack.main(cell)
        estimate.main()
        classifiers.main()
        generator = np.random.default_rng(0)
        write_sent("reviews-gaussian", generator.standard_normal(80) + generator.standard_normal((40, 80)))
        write_scores(
            "reviews-one", {level: generator.beta(8 * m, 8 - 8 * m, 120) for level, m in ((0.1, 0.9), (1, 0.05))}
        )
    return folder


def _params() -> dict[str, Any]:
    raw: dict[str, Any] = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    words = {"tem": [1, 11], "mvc": [1, 70]}
    kinds = {
        name: {"mechanism": name, "resource": "data/vectors/own.npz", "epsilons": at} for name, at in words.items()
    }
    cells = {f"reviews-{name}": {**kind, "dataset": "reviews"} for name, kind in kinds.items()}
    return raw | {
        "datasets": {
            "reviews": {
                "source": "reviews.csv", "labels": ["rating", "gender"], "use": "test", "match": "words",
                "public": True, "resplit": {"validation": 0.1, "test": 0.3},
            }
        },
        "trials": {"count": 200, "candidates": 2, "temperature": 0},
        "words": {"sources": {"own": "vectors.txt"}, "lists": 1},
        "mechanisms": kinds,
        "cells": cells,
        "anonymity": {"reviews-tem": cells["reviews-tem"]},
        "attacks": {"lexical": {}, "length": {}, "likelihood": {}},
        "ablations": {},
        "exemplars": {},
        "decide": {},
        "classification": {
            "labels": {"reviews": LABELS}, "kinds": ["linear"], "texts": {"train": 200, "test": 200},
            "training": {"batch": 8},
        },
        "sent": {"reviews-gaussian": SENT},
        "reconstruction": {"reviews-one": {"sent": "reviews-gaussian", "attacks": {"likelihood": {}}}},
    }  # fmt: skip
