"""Stage leaderboard_parts@dataset: the public part, splits and sets of a data set, their ceiling, and the plain rows.

Plain rows have no mechanism: classifiers learn from clean texts, one sentence for all texts, or labelled public texts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from epsilometer.auditing.ceilings.frontier import TextSet
from epsilometer.auditing.ceilings.share import Sets, best_text
from epsilometer.core import tables
from epsilometer.corpora.parts import PUBLIC
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER
from epsilometer.project.paths import prepared
from epsilometer.studies.leaderboard.measuring import Parts
from epsilometer.studies.leaderboard.params import read as read_params
from epsilometer.studies.leaderboard.parts import divided, sets_of
from epsilometer.studies.leaderboard.plain import plain_rows
from epsilometer.studies.leaderboard.tables import (
    FRONTIERS,
    PLAIN,
    SETS,
    TEXTS,
    TRAIN,
    parts_folder,
    public_path,
    texts_path,
)


def main(dataset: str) -> None:
    """Write the folder data/leaderboard_parts/<dataset>."""
    params = read_params()
    entry, folder = params.leaderboard.datasets[dataset], Path(parts_folder(dataset))
    texts = divided(prepared(dataset), entry.task, entry.attribute, params.parts(dataset), name=dataset)
    rewritten = texts.filter(part=TRAIN)["text"].to_list()
    sets = sets_of(rewritten, entry.sets, params.audit.seed)
    vectors = Encoder(ENCODER).encode(texts["text"].to_list())
    of_part = {part: vectors[(texts["part"] == part).to_numpy()].astype(np.float64) for part in (PUBLIC, TRAIN)}
    rows = []
    for (lengths,), group in sets.group_by("lengths", maintain_order=True):
        served = [TextSet.of_all_pairs(of_part[TRAIN][numbers]) for numbers in group["texts"].to_list()]
        whole = Sets(served, best_text(of_part[PUBLIC], served))
        ends = {name: getattr(whole.whole, name).tolist() for name in ("at", "upper", "lower")}
        rows.append({"lengths": lengths, "one_text": whole.one_text, **ends})
    frontiers = pl.DataFrame(rows, schema=dict(FRONTIERS))
    plain = plain_rows(Parts(texts, vectors.astype(np.float64), sets, frontiers))
    for part, path in ((PUBLIC, public_path(dataset)), (TRAIN, texts_path(dataset))):
        tables.write(texts.filter(part=part).select("text"), path, {"text": pl.String})
    tables.write(texts, folder / "parts.parquet", TEXTS)
    tables.write(sets, folder / "sets.parquet", SETS)
    tables.write(frontiers, folder / "frontiers.parquet", FRONTIERS)
    tables.write(pl.DataFrame(plain, schema=dict(PLAIN)), folder / "plain.parquet", PLAIN)
    tables.write_array(vectors, folder / "vectors.npy")
