"""Public exemplars, chosen without looking at any audited text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from epsilometer.cells.params import TextsParams
from epsilometer.cells.public_texts import public_texts, source_of
from epsilometer.core.component import build
from epsilometer.mechanisms.selection.exemplars import Exemplars
from epsilometer.runtime.progress import say


def make(params: TextsParams, name: str) -> None:
    """Write data/exemplars/<name> with checksums, the source of the exemplars and the method that chose them."""
    entry = params.exemplars[name]
    texts = tuple(public_texts(params, entry.corpus))
    mechanism = build(Exemplars, {**entry.settings, "resource": texts}, f"exemplars.{name}.settings")
    chosen = replace(mechanism.chosen, source=f"{len(mechanism.public_texts):,} texts, {source_of(entry.corpus)}")
    chosen.save(Path(f"data/exemplars/{name}"))
    say(f"exemplars {name}: {len(chosen.texts)} of {chosen.source}")
