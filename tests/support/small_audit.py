"""A folder with an audit of 20 texts and two mechanisms. Its stages run in this process."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import epsilometer.pipeline.stages.attack
import epsilometer.pipeline.stages.estimate
import epsilometer.pipeline.stages.prepare
import epsilometer.pipeline.stages.rewrite
import epsilometer.pipeline.stages.trials
from epsilometer.auditing.schemas import CLAIMS
from epsilometer.core import tables
from epsilometer.project.paths import inside
from tests.support.audited import checks

PARAMS = """\
root: .
audit: {{seed: {seed}}}
datasets: {{songs: {{source: songs.txt, use: train, public: true}}}}
embedding: {{model: all-MiniLM-L6-v2}}
trials: {{count: 400, candidates: 2, temperature: 0}}
words: {{sources: {{own: songs.txt}}}}
mechanisms: {{}}
cells:
  songs-mine: {{dataset: songs, mechanism: mine, file: mine.py}}
  songs-same: {{dataset: songs, mechanism: same, file: same.py}}
attacks: {{lexical: {{}}}}
"""
LEAKS = "def rewrite(text, rng):\n    return text if rng.random() < {} else 'play'\n"


def audited(folder: Path, share: float, seed: int = 0) -> Path:
    """Audit two mechanisms, and return the folder. `mine` releases this share of texts unchanged, `same` half."""
    folder.mkdir()
    (folder / "songs.txt").write_text("\n".join(f"please play song {i} by artist {i}" for i in range(20)))
    (folder / "params.yaml").write_text(PARAMS.format(seed=seed))
    for name, share_of in (("mine", share), ("same", 0.5)):
        leaks(folder, name, share_of)
    with inside(folder):
        epsilometer.pipeline.stages.prepare.main("songs")
        tables.write_array(np.eye(20, dtype=np.float32), "data/embeddings/songs.npy")
        epsilometer.pipeline.stages.trials.main("songs")
        for cell in ("songs-mine", "songs-same"):
            epsilometer.pipeline.stages.rewrite.main(cell)
            epsilometer.pipeline.stages.attack.main(cell)
        epsilometer.pipeline.stages.estimate.main()
        tables.write(checks(), "data/claims.parquet", CLAIMS)
    return folder


def leaks(folder: Path, name: str, share: float) -> None:
    """Write a mechanism that releases this share of the texts unchanged."""
    (folder / f"{name}.py").write_text(LEAKS.format(share))
    sys.modules.pop(f"epsilometer_user_{name}", None)  # loaded from another folder, or before an edit
