"""The reconstruction game: the gradients that an entry's clients send, the attacks' results, and the blind baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epsilometer.auditing.worth.leakage import Identifier
from epsilometer.core import tables
from epsilometer.core.randomness import Noise
from epsilometer.studies.training.attacks.reconstruction.shared.attack import (
    Explains,
    Knowledge,
    Prepared,
    Reconstruction,
    ReconstructionAttack,
    Starts,
)
from epsilometer.studies.training.params import TrainingParams
from epsilometer.studies.training.reconstruction import BLIND, assigned, public_text
from epsilometer.studies.training.runs.sent import Sent, send
from epsilometer.studies.training.runs.shared_model import SharedModel
from epsilometer.studies.training.sending import ATTACKED, PUBLIC, model, noise, texts
from epsilometer.studies.training.tables import RECONSTRUCTED, sent_path

Recovered = dict[str, Any]
"""An attack's result for one batch, as JSON.

Keys: `ids` and `notes` as in `Reconstruction`; `honest`: whether the attack left the model unchanged; `true`: the
result of `explain` for the true texts, if the attack has this method.
"""

COLUMNS = dict(list(RECONSTRUCTED.items())[: list(RECONSTRUCTED).index("rouge_l")])  # the columns before the measures
_NATS = ("log_likelihood", "log_prior")


class ReconstructionGame:
    """The texts, the model and the random streams of an entry.

    identifiers: the identifiers in each attacked text, by row.
    """

    def __init__(self, params: TrainingParams, name: str) -> None:
        self._params, of = params, params.reconstruction[name].sent
        self._entry = params.sent[of]
        table, about = texts(of), tables.read_json(sent_path(of) / "about.json")
        self._attacked = table.filter(use=ATTACKED)
        self._public: list[str] = table.filter(use=PUBLIC)["text"].to_list()
        self._model: SharedModel = model(params, of, len(about["classes"]))
        self._ids = self._model.encode(self._attacked["text"].to_list())
        self.identifiers: dict[int, list[Identifier]] = {
            row: [Identifier(kind, text, True) for kind, text in zip(kinds, some, strict=True)]
            for row, kinds, some in self._attacked.select("row", "kinds", "identifiers").iter_rows()
        }

    def blind(self, size: int) -> list[dict[str, Any]]:
        """Return the blind baseline's rows for batches of this size. Each text gets a public text of nearest length.

        Within a batch, the public texts are assigned to the true texts like any attack's texts.
        """
        public = [self._model.plain(ids) for ids in self._model.encode(self._public)]
        count = self._entry.texts // size
        stream = Noise.named(count, self._params.audit.seed, self._params.audit.round, "blind", size)
        batches = []
        for batch in range(count):
            generator = stream.generator(batch)
            batches.append(
                {"ids": [public[public_text(len(ids), public, generator)] for ids in self._plain(size, batch)]}
            )
        return self.rows(BLIND, size, None, batches)

    def prepared(self, attack: str, built: ReconstructionAttack, level: float | None) -> Prepared:
        """Return an attack that is ready to search. Raises UserError if the attack cannot use the model."""
        generator = Noise.named(1, *self._named(attack)).generator(0)
        return built.prepare(self._model, Knowledge(self._public, noise(self._entry.noise, level), generator))

    def recovered(
        self,
        attack: str,
        ready: Prepared,
        others: Sequence[Sequence[Sequence[int]]],
        *,
        size: int,
        level: float | None,
        batch: int,
    ) -> Recovered:
        """Return an attack's result for one batch. others: results of earlier attacks, as possible starts."""
        generator = Noise.named(self._entry.texts // size, *self._named(attack), size).generator(batch)
        sent = self._sent(ready.model, size, level, batch)
        tries = [ready.reconstruct(sent, generator)]
        if isinstance(ready, Starts):
            begun = [Reconstruction(tuple(tuple(ids) for ids in some)) for some in others]
            tries += [ready.improve(sent, start, generator) for start in begun]
        best = max(tries, key=lambda reconstruction: sum(reconstruction.notes.get(name, 0.0) for name in _NATS))
        result: Recovered = {"ids": [list(ids) for ids in best.ids], "notes": dict(best.notes)}
        if isinstance(ready, Explains):
            result["true"] = dict(ready.explain(sent, self._plain(size, batch)))
        return result | {"honest": ready.model is self._model}

    def rows(
        self, attack: str, size: int, level: float | None, batches: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return a row per text with the columns of COLUMNS, such as the true text and its recovered text."""
        rows = []
        for batch, result in enumerate(batches):
            truths = self._plain(size, batch)
            written = [self._model.decode(ids) for ids in truths], [self._model.decode(ids) for ids in result["ids"]]
            places = self._attacked["row"][batch * size : (batch + 1) * size]
            nats = {name: result.get("notes", {}).get(name) for name in _NATS}
            nats |= {f"true_{name}": result.get("true", {}).get(name) for name in _NATS}
            for i, j in enumerate(assigned(*written)):
                named = {"level": level, "size": size, "attack": attack, "batch": batch, "row": places[i]}
                texts_of = {"truth": written[0][i], "found": written[1][j]}
                rows.append(named | texts_of | {"true_ids": truths[i], "found_ids": list(result["ids"][j])} | nats)
        return rows

    def _named(self, attack: str) -> tuple[Any, ...]:
        """Return the name of an attack's streams."""
        return self._params.audit.seed, self._params.audit.round, "reconstruction", attack

    def _sent(self, of: SharedModel, size: int, level: float | None, batch: int) -> Sent:
        """Return the gradient that a client sends. All attacks and levels have equal texts and normal numbers."""
        part = slice(batch * size, (batch + 1) * size)
        seed = self._params.audit.seed, self._params.audit.round, "sent", size
        generator = Noise.named(batch + 1, *seed).generator(batch)
        labels = self._attacked["label"][part].to_list()
        return send(of, self._ids[part], labels, noise(self._entry.noise, level), generator=generator)

    def _plain(self, size: int, batch: int) -> list[list[int]]:
        """Return the tokens of a batch's texts, without special tokens."""
        return [self._model.plain(ids) for ids in self._ids[batch * size : (batch + 1) * size]]
