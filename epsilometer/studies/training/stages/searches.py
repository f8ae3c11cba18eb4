"""Stage searches@search: run the attacks of an entry on all batches of one size at one level."""

from __future__ import annotations

from typing import Any

from epsilometer.core import tables
from epsilometer.runtime.progress import track
from epsilometer.runtime.resuming import parts
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.searching import ReconstructionGame, Recovered
from epsilometer.studies.training.sending import searching
from epsilometer.studies.training.tables import searched_path

RECOVERED = "recovered.json"  # the file of a batch


def main(name: str) -> None:
    """Write data/searched/<entry>/<size>-<level>.json: the texts found in each batch, by attack."""
    params = read_params()
    search = params.searches[name]
    game = ReconstructionGame(params, search.entry)
    # All attacks load and check their models before the first search.
    attacks = searching(params, search.entry)
    every = {attack: game.prepared(attack, built, search.level) for attack, built in attacks.items()}
    batches = range(params.sent[search.sent].texts // search.size)
    with parts() as begun:
        by_attack: dict[str, list[Recovered]] = {}
        for number, (attack, ready) in enumerate(every.items()):
            results = []
            for batch in track(batches, len(batches), f"{name}: {attack}"):
                if (part := f"{number}-{batch}") not in begun:
                    others = [some[batch]["ids"] for some in by_attack.values() if some[batch]["honest"]]
                    at: Any = {"size": search.size, "level": search.level, "batch": batch}
                    with begun.part(part) as folder:
                        tables.write_json(game.recovered(attack, ready, others, **at), folder / RECOVERED)
                results.append(tables.read_json(begun.folder / part / RECOVERED))
            by_attack[attack] = results
        tables.write_json(by_attack, searched_path(search.entry, search.size, search.level))
