"""Stage reconstruction@name: what attacks read off the gradients that clients send, and which of k texts it was.

The stage writes the results of an attack at one batch size and level to a file of their own after every batch, with a
record of all that they depend on. It continues a file whose record still holds, so that an added level or a killed
stage repeats no finished search. Which of k texts a gradient came from follows from inner products alone: without
another attack the stage loads no model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from epsilometer.attacks.reconstruction.candidates import Candidates, GradientPool
from epsilometer.attacks.reconstruction.shared.attack import (
    Attack,
    Explains,
    Knowledge,
    Prepared,
    Reconstruction,
    Starts,
)
from epsilometer.auditing.claims.reconstruction_bounds import information
from epsilometer.auditing.results.candidates import table as candidates_table
from epsilometer.auditing.schemas import CANDIDATES
from epsilometer.auditing.worth.leakage import Identifier
from epsilometer.core import tables
from epsilometer.core.randomness import Noise
from epsilometer.runtime.progress import track
from epsilometer.studies.training.params import TrainingParams
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.reconstruction import BLIND, assigned, averages, measured, public_text
from epsilometer.studies.training.sending import ATTACKED, POOL, PUBLIC, built, mechanism, model, noise, texts
from epsilometer.studies.training.tables import (
    RECONSTRUCTED,
    RECONSTRUCTION,
    reconstruction_path,
    searched_path,
    sent_path,
)
from epsilometer.text.words import words
from epsilometer.training.sent import Sent, send
from epsilometer.training.shared_model import SharedModel

Batch = dict[str, Any]
"""What was found for one batch: `ids`, `notes`, and what `explain` says of the truth, `true`."""

_NATS = ("log_likelihood", "log_prior")


def main(name: str) -> None:
    """Write data/reconstruction/<name>.parquet, <name>.texts.parquet and <name>.candidates.parquet."""
    params = read_params()
    entry = params.reconstruction[name]
    attacks, candidates = built(params, name)
    folder = reconstruction_path(name).with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".keep").touch()  # DVC warns of empty folders
    every = _texts_of(params, name, attacks) if attacks else pl.DataFrame(schema=dict(RECONSTRUCTED))
    tables.write(every, reconstruction_path(name, "texts"), RECONSTRUCTED)
    summary = [*averages(every, params.audit.alpha), *_bounds(params, entry.sent)]
    tables.write(pl.DataFrame(summary, schema=dict(RECONSTRUCTION)), reconstruction_path(name), RECONSTRUCTION)
    tables.write(_candidates(params, name, candidates), reconstruction_path(name, "candidates"), CANDIDATES)


def _texts_of(params: TrainingParams, name: str, attacks: Mapping[str, Attack]) -> pl.DataFrame:
    """What every attack, and the blind baseline, found for every text, with its measures (schema RECONSTRUCTED)."""
    sent = params.sent[params.reconstruction[name].sent]
    game = _Game(params, name)
    work = list(product(sent.sizes, sent.steps))
    rows = [row for size in sent.sizes for row in game.blind(size)]
    for size, level in track(work, len(work), name):
        # Each loads its models, and refuses them, before any searches.
        every = {attack: game.prepared(attack, built, size, level) for attack, built in attacks.items()}
        earlier: dict[str, list[Batch]] = {}
        for attack, ready in every.items():
            batches = game.searched(attack, ready, size, level, earlier=earlier)
            rows += game.rows(attack, size, level, batches)
            earlier[attack] = batches
    return measured(pl.DataFrame(rows, schema=_schema()), game.identifiers)


class _Game:
    """An entry's texts, model and streams. identifiers: by row, of each attacked text."""

    def __init__(self, params: TrainingParams, name: str) -> None:
        self._params, self._name, self._of = params, name, params.reconstruction[name].sent
        self._entry = params.sent[self._of]
        table, about = texts(self._of), tables.read_json(sent_path(self._of) / "about.json")
        self._attacked = table.filter(use=ATTACKED)
        self._public: list[str] = table.filter(use=PUBLIC)["text"].to_list()
        self._record = about["of"]
        self._model: SharedModel = model(params, self._of, len(about["classes"]))
        self._ids = self._model.encode(self._attacked["text"].to_list())
        self.identifiers: dict[int, list[Identifier]] = {
            row: [Identifier(kind, text, True) for kind, text in zip(kinds, some, strict=True)]
            for row, kinds, some in self._attacked.select("row", "kinds", "identifiers").iter_rows()
        }

    def blind(self, size: int) -> list[dict[str, Any]]:
        """The rows of the baseline: a public text of each text's length, matched within batches as any."""
        public = [self._model.plain(ids) for ids in self._model.encode(self._public)]
        count = self._entry.texts // size
        stream = Noise.named(count, self._params.audit.seed, self._params.audit.round, "blind", size)
        batches = []
        for batch in range(count):
            generator = stream.generator(batch)
            plain = [self._model.plain(ids) for ids in self._batch(size, batch)[0]]
            batches.append({"ids": [public[public_text(len(ids), public, generator)] for ids in plain]})
        return self.rows(BLIND, size, None, batches)

    def prepared(self, attack: str, built: Attack, size: int, level: float | None) -> Prepared | None:
        """An attack that is ready to search; None where what it found is all here, and still right."""
        if len(self._stored(attack, size, level)) == self._entry.texts // size:
            return None
        generator = Noise.named(1, *self._named(attack)).generator(0)
        return built.prepare(self._model, Knowledge(self._public, noise(self._entry.noise, level), generator))

    def searched(
        self, attack: str, ready: Prepared | None, size: int, level: float | None, *, earlier: Mapping[str, list[Batch]]
    ) -> list[Batch]:
        """What an attack finds in every batch of a size at a level; without a ready one, from its file."""
        results = self._stored(attack, size, level)
        if ready is None:
            return results
        count = self._entry.texts // size
        streams = Noise.named(count, *self._named(attack), size)
        left = range(len(results), count)
        for batch in track(left, len(left), f"{attack}, {size} texts, {level}"):
            sent = self._sent(ready.model, size, level, batch)
            others = [some[batch]["ids"] for some in earlier.values() if some[batch].get("honest")]
            results.append(self._reconstructed(ready, sent, others, streams.generator(batch), size=size, batch=batch))
            record = {"of": self._of_search(attack, size, level), "batches": results}
            tables.write_json(record, searched_path(self._name, attack, size, level))
        return results

    def _stored(self, attack: str, size: int, level: float | None) -> list[Batch]:
        """What an attack found before, as far as it came; empty where that depends on something else now."""
        path = searched_path(self._name, attack, size, level)
        if not path.is_file():
            return []
        stored = tables.read_json(path)
        batches: list[Batch] = stored["batches"] if stored["of"] == self._of_search(attack, size, level) else []
        return batches

    def _named(self, attack: str) -> tuple[Any, ...]:
        """The name of an attack's streams."""
        return self._params.audit.seed, self._params.audit.round, "reconstruction", attack

    def rows(self, attack: str, size: int, level: float | None, batches: Sequence[Batch]) -> list[dict[str, Any]]:
        """A row a text: the true one, and that which was found for it."""
        rows = []
        for batch, result in enumerate(batches):
            truths = [self._model.plain(ids) for ids in self._batch(size, batch)[0]]
            written = [self._model.decode(ids) for ids in truths], [self._model.decode(ids) for ids in result["ids"]]
            places = self._attacked["row"][batch * size : (batch + 1) * size]
            nats = {name: result.get("notes", {}).get(name) for name in _NATS}
            nats |= {f"true_{name}": result.get("true", {}).get(name) for name in _NATS}
            for i, j in enumerate(assigned(*written)):
                named = {"level": level, "size": size, "attack": attack, "batch": batch, "row": places[i]}
                texts_of = {"truth": written[0][i], "found": written[1][j]}
                rows.append(named | texts_of | {"true_ids": truths[i], "found_ids": list(result["ids"][j])} | nats)
        return rows

    def _reconstructed(
        self,
        ready: Prepared,
        sent: Sent,
        others: Sequence[Sequence[Sequence[int]]],
        generator: np.random.Generator,
        *,
        size: int,
        batch: int,
    ) -> Batch:
        tries = [ready.reconstruct(sent, generator)]
        if isinstance(ready, Starts):
            begun = [Reconstruction(tuple(tuple(ids) for ids in some)) for some in others]
            tries += [ready.improve(sent, start, generator) for start in begun]
        best = max(tries, key=lambda reconstruction: sum(reconstruction.notes.get(name, 0.0) for name in _NATS))
        result: Batch = {"ids": [list(ids) for ids in best.ids], "notes": dict(best.notes)}
        if isinstance(ready, Explains):
            truths = [self._model.plain(ids) for ids in self._batch(size, batch)[0]]
            result["true"] = dict(ready.explain(sent, truths))
        return result | {"honest": ready.model is self._model}

    def _sent(self, of: SharedModel, size: int, level: float | None, batch: int) -> Sent:
        """What a client sends. All attacks and levels see the same texts with the same normal numbers."""
        ids, labels = self._batch(size, batch)
        seed = self._params.audit.seed, self._params.audit.round, "sent", size
        generator = Noise.named(batch + 1, *seed).generator(batch)
        return send(of, ids, labels, noise(self._entry.noise, level), generator=generator)

    def _batch(self, size: int, batch: int) -> tuple[list[list[int]], list[int]]:
        part = slice(batch * size, (batch + 1) * size)
        return self._ids[part], self._attacked["label"][part].to_list()

    def _of_search(self, attack: str, size: int, level: float | None) -> dict[str, Any]:
        """All that a search depends on; where it may go on from what others found, their settings too."""
        entry = self._params.reconstruction[self._name]
        before = list(entry.attacks)[: list(entry.attacks).index(attack) + 1]
        code = Path(f"data/code/reconstruction/{self._name}.json")
        return {
            "sent": self._record,
            "noise": self._entry.noise.model_dump(mode="json"),
            "attacks": {name: dict(entry.attacks[name]) for name in before if name != "candidates"},
            "at": [attack, size, level],
            "seed": [self._params.audit.seed, self._params.audit.round],
            "code": hashlib.blake2b(code.read_bytes() if code.is_file() else b"", digest_size=16).hexdigest(),
        }


def _bounds(params: TrainingParams, name: str) -> list[dict[str, Any]]:
    """The most nats that one text's gradient tells, a row a level; none where the noise has no law that bounds it."""
    entry = params.sent[name]
    parts = tables.read_json(sent_path(name) / "about.json")["parts"]
    rows = []
    for level in entry.steps:
        release = noise(entry.noise, level).release(parts)
        if release is not None:
            shared = {"level": level, "size": 1, "attack": "bound", "measure": "information", "texts": None}
            rows.append(shared | {"value": information(release), "low": None, "high": None})
    return rows


def _candidates(params: TrainingParams, name: str, attack: Candidates | None) -> pl.DataFrame:
    """Which of k texts it was, at every level; without rows unless `candidates` is asked for."""
    if attack is None:
        return pl.DataFrame(schema=dict(CANDIDATES))
    of = params.reconstruction[name].sent
    entry, about = params.sent[of], tables.read_json(sent_path(of) / "about.json")
    grams = np.load(sent_path(of) / "gram.npy", allow_pickle=False)
    sizes = about["parts"] if entry.noise.parts else [about["size"]]
    pools = [GradientPool.of(gram, size) for gram, size in zip(grams, sizes, strict=True)]
    counts = np.array([len(words(text)) for text in texts(of).filter(use=POOL)["text"]])
    return candidates_table(
        {"dataset": entry.dataset, "mechanism": mechanism(entry)},
        attack,
        pools,
        {level: noise(entry.noise, level) for level in entry.steps},
        words=counts,
        seed=(params.audit.seed, params.audit.round, of),
        alpha=params.audit.alpha,
    )


def _schema() -> dict[str, Any]:
    """The columns of RECONSTRUCTED up to the measures."""
    columns = list(RECONSTRUCTED)
    return {name: RECONSTRUCTED[name] for name in columns[: columns.index("rouge_l")]}
