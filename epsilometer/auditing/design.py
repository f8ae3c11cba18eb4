"""The design of an audit's trials: what a result depends on besides texts, mechanism and attacks."""

from __future__ import annotations

from dataclasses import dataclass

from epsilometer.core.errors import UserError


@dataclass(frozen=True)
class Design:
    """How trials are drawn and judged.

    candidates: size k of a candidate set; temperature: of Probabilistic Transition Sampling (TeDA App. C), below 0
    distant candidates, above 0 similar ones, 0 uniform ones without embeddings; alpha: error of each interval; seed:
    names every random stream. Raises UserError for values outside their range; whether k fits the texts is seen when
    sets are drawn.
    """

    candidates: int = 2
    temperature: float = -10_000
    alpha: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        if self.candidates < 2:
            raise UserError(f"candidates (k) must be between 2 and the number of texts, got {self.candidates}")
        if not 0 < self.alpha < 1:
            raise UserError(f"alpha must be in (0, 1), got {self.alpha}")


STANDARD = Design()
