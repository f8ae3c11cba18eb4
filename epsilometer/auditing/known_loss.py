"""The known-loss check: an audit of a mechanism whose loss is known.

Randomised response on a list of two texts keeps the text with probability e^epsilon / (e^epsilon + 1), and the optimal
adversary guesses the text that it sees, so the loss is exactly epsilon (Warner 1965). The whole audit, from trials to
estimate, must give a loss at or slightly below epsilon.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from epsilometer.auditing.text_audit import audit
from epsilometer.auditing.trials.design import Design
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse


def check(epsilons: Sequence[float], trials: int, alpha: float, seed: int) -> pl.DataFrame:
    """Return the audit's table for two-text randomised response at these epsilons, by the likelihood attack."""
    texts = ["the meeting is on", "the meeting is off"]
    with tempfile.TemporaryDirectory() as folder:
        public = Path(folder) / "texts.parquet"
        pl.DataFrame({"text": texts}).write_parquet(public)
        mechanism = RandomizedResponse(resource=public)
        design = Design(temperature=0, alpha=alpha, seed=seed)
        return audit(texts, mechanism, epsilons, ["likelihood"], trials=trials, design=design)
