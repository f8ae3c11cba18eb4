"""Stage rewriters@name: train an encoder-decoder to write round trips; its hidden states should hide an attribute.

The encoder-decoder is trained on sentences, because it rewrites sentence by sentence, and only on the auxiliaries'
texts. A stopped run continues after the last slice of round trips, or after the last epoch.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from epsilometer.auditing.trials.rewriting import Job
from epsilometer.core import tables
from epsilometer.core.component import build
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.shared.adversarial_rewriter import AdversarialTraining, Parallel, train
from epsilometer.project import cells
from epsilometer.runtime import checksums
from epsilometer.runtime.progress import say
from epsilometer.runtime.resuming import parts
from epsilometer.studies.anonymity.params import read as read_params
from epsilometer.studies.anonymity.parts import AUXILIARIES, parted
from epsilometer.studies.anonymity.privatizing import collect, privatize
from epsilometer.text.sentences import sentences


def main(name: str) -> None:
    """Write the folder data/rewriters/<name>: the model, rewriter.json, and about.json with its training texts' ids."""
    params = read_params()
    entry = params.rewriters[name]
    how = build(AdversarialTraining, entry.training, f"rewriters.{name}.training")
    cell = entry.cell
    cells.build(params, cell)
    rows = parted(params, entry.dataset).filter(pl.col("split") == AUXILIARIES, pl.col(entry.attribute).is_not_null())
    rows = rows if entry.count is None else rows.head(entry.count)
    labelled = [
        (sentence, label)
        for text, label in rows.select("text", entry.attribute).iter_rows()
        for sentence, _ in sentences(text)
        if any(map(str.isalpha, sentence))
    ]
    texts, labels = ([pair[i] for pair in labelled] for i in (0, 1))
    stream = (params.audit.seed, "round trips", entry.dataset)
    streams = [Noise.named(len(texts), *stream, epsilon) for epsilon in cell.budgets[:1]]
    job = Job(texts, np.arange(len(texts)), cell.budgets[:1], streams)
    with parts() as begun:
        slices = begun.folder / "round_trips"
        privatize(partial(cells.build, params, cell), job, slices, params.runtime.engine)
        round_trips = collect(slices, cell.budgets[0])["text"].to_list()
        out = Path(f"data/rewriters/{name}")
        shutil.rmtree(out, ignore_errors=True)
        record = train(entry.model, Parallel(texts, round_trips, labels), how, out, state=begun.folder)
        tables.write_json({"dataset": entry.dataset, "texts": rows["id"].sort().to_list()}, out / "about.json")
        checksums.write(out)  # the copy included the initial model's checksums
    say(f"rewriter {name}: {record['distinct'][-1]:.0f} distinct outputs for a hundred held-out sentences")
