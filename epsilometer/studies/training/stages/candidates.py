"""Stage candidates@name: guess which of k texts a client's gradient was computed from.

The guess needs only inner products of gradients, so no model is loaded.
"""

from __future__ import annotations

import numpy as np

from epsilometer.core import tables
from epsilometer.studies.training.attacks.reconstruction.candidates import GradientPool
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.results.candidates import table
from epsilometer.studies.training.sending import POOL, choosing, mechanism, noise, texts
from epsilometer.studies.training.tables import CANDIDATES, reconstruction_path, sent_path
from epsilometer.text.words import words


def main(name: str) -> None:
    """Write data/reconstruction/<name>.candidates.parquet."""
    params = read_params()
    attack, of = choosing(params, name), params.reconstruction[name].sent
    entry, about = params.sent[of], tables.read_json(sent_path(of) / "about.json")
    grams = np.load(sent_path(of) / "gram.npy", allow_pickle=False)
    sizes = about["parts"] if entry.noise.parts else [about["size"]]
    pools = [GradientPool.of(gram, size) for gram, size in zip(grams, sizes, strict=True)]
    counts = np.array([len(words(text)) for text in texts(of).filter(use=POOL)["text"]])
    rows = table(
        {"dataset": entry.dataset, "mechanism": mechanism(entry)},
        attack,
        pools,
        {level: noise(entry.noise, level) for level in entry.steps},
        words=counts,
        seed=(params.audit.seed, params.audit.round, of),
        alpha=params.audit.alpha,
    )
    tables.write(rows, reconstruction_path(name, "candidates"), CANDIDATES)
