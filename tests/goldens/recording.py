"""The guesses of attacks, recorded where `core.attack.guess_and_score` returns them.

Guesses are stored by class of the attack and by epsilon, in the order of calls. Calls that split the same trials
differently give the same record.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Any

import numpy as np

from epsilometer.core import attack
from tests.goldens.system_words import restart
from tests.goldens.values import digest

_PART = 100  # trials per digest
Recorded = dict[tuple[str, float], list[attack.Guesses]]


_records: Recorded = defaultdict(list)
_guess_and_score = attack.guess_and_score


def _recording(by: attack.Attack, rewrites: Any, candidates: Any, contexts: Any) -> list[attack.Guesses]:
    guesses = _guess_and_score(by, rewrites, candidates, contexts)
    for guess, context in zip(guesses, contexts, strict=True):
        _records[type(by).__name__, context.epsilon].append(guess)
    return guesses


for module in [*sys.modules.values()]:  # some modules have imported the function by name
    if vars(module).get("guess_and_score") is _guess_and_score:
        vars(module)["guess_and_score"] = _recording


def recorded() -> Recorded:
    """Return the guesses from here on, until the next call; what is drawn from the system starts over."""
    restart()
    _records.clear()
    return _records


def shown(records: Recorded) -> dict[str, Any]:
    return {
        f"{name} {epsilon:g}": {
            field: _digests([getattr(guess, field) for guess in guesses]) for field in ("slots", "scores", "posteriors")
        }
        for (name, epsilon), guesses in sorted(records.items())
    }


def _digests(arrays: list[np.ndarray | None]) -> str:
    """Return the number of trials, the first values, and a digest of each hundred."""
    present = [array for array in arrays if array is not None]
    if not present:
        return f"none in {len(arrays)} calls"
    every = np.concatenate(present)
    parts = [digest(every[start : start + _PART].tobytes())[:8] for start in range(0, len(every), _PART)]
    return f"{every.dtype} {len(every)}: {every[:5].tolist()} " + " ".join(parts)
