"""The attacks in params.yaml."""

from __future__ import annotations

from epsilometer.cells.params import TextsParams
from epsilometer.core.attack import Attack
from epsilometer.core.component import IDENTIFICATION, build, find


def attacks(params: TextsParams) -> dict[str, Attack]:
    """Return the attacks by name, in the order of params.yaml. The models of an attack load at first use."""
    named = params.attacks.items()
    return {name: build(find(IDENTIFICATION, name, "guess"), settings, f"attacks.{name}") for name, settings in named}
