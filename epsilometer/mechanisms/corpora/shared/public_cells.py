"""Public texts and the exemplars among them, for which private texts vote.

The exemplars are the public texts nearest to the centres of k-means on the public texts' embeddings. A private text
votes for the exemplar with the largest inner product; ties go to the first. Vectors are rounded to multiples of 2^-24.
Inner products of unit vectors are then sums of integers below 2^53, which are exact in any order. The embedding of a
text does not depend on its batch (`models.encoder`). So a vote depends only on its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.corpora.files import read
from epsilometer.mechanisms.selection.shared.public_exemplars import central, embed, usable
from epsilometer.models.encoder import Encoder
from epsilometer.runtime.scaling import HERE, Engine, run

Array = NDArray[np.float64]

GRID = 2.0**24
_CHUNK = 4096  # private texts embedded at a time, to limit memory


@dataclass(frozen=True)
class PublicTexts:
    """Distinct public texts, in order.

    encode: function that returns unit vectors [n, d] of n texts, each independent of the other texts. seed: seed of the
    clustering. engine: where private texts are embedded; it does not change a vector. `encode` must be picklable unless
    the engine is this process.
    """

    texts: Sequence[str]
    encode: Callable[[Sequence[str]], Array]
    seed: int = 0
    engine: Engine = HERE
    _exemplars: dict[int, NDArray[np.int64]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, texts: Sequence[str], encode: Callable[[Sequence[str]], Array], seed: int) -> PublicTexts:
        """Return the distinct non-empty texts among these as public texts. Raises UserError if there are none."""
        return cls(distinct(texts), encode, seed)

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def vectors(self) -> Array:
        """Unit vectors [p, d] of the public texts."""
        return on_grid(self.encode(self.texts))

    def check(self, m: int) -> None:
        """Raise UserError for fewer texts than m."""
        if m > len(self):
            raise UserError(
                f"m is {m}, but there are only {len(self)} distinct public texts; give a smaller m, or more public "
                "texts",
                "EPS-M104",
            )

    def exemplars(self, m: int) -> NDArray[np.int64]:
        """Return the indices [m] of m exemplars among the public texts. Raises UserError for fewer texts than m."""
        self.check(m)
        if m not in self._exemplars:
            self._exemplars[m] = np.array(central(self.vectors, m, self.seed))
        return self._exemplars[m]

    def embedded(self, texts: Sequence[str]) -> Iterator[tuple[slice, Array]]:
        """Yield the unit vectors of private texts, in slices."""
        parts = [slice(start, start + _CHUNK) for start in range(0, len(texts), _CHUNK)]
        vectors = run(partial(_on_grid_by, self.encode), [texts[part] for part in parts], self.engine, "embed")
        yield from zip(parts, vectors, strict=True)

    def nearest(self, texts: Sequence[str], m: int) -> NDArray[np.int64]:
        """Return the index of the nearest of m exemplars to each of n texts, [n]."""
        chosen = self.vectors[self.exemplars(m)]
        parts = [nearest(vectors, chosen) for _, vectors in self.embedded(texts)]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)


def distinct(texts: Sequence[str]) -> Sequence[str]:
    """Return the distinct non-empty texts among public texts. Raises UserError if there are none."""
    if not (some := usable(texts)):
        raise UserError(
            "there are no public texts; give a file of texts that were collected separately (--public)", "EPS-M103"
        )
    return some


def texts_of(resource: Path | tuple[str, ...]) -> Sequence[str]:
    """Return the texts of a file of public texts, or of a list. Raises UserError for a file without a column `text`."""
    if isinstance(resource, tuple):
        return resource
    table = read(resource)
    if "text" not in table.columns:
        raise UserError(f"{resource} has no column `text`; rename the column of public texts to `text`", "EPS-M105")
    return table["text"].drop_nulls().to_list()


def described(resource: Path | tuple[str, ...]) -> str:
    """Return a description of public texts: their number, or their file's name."""
    if isinstance(resource, tuple):
        return f"{len(set(resource)):,} texts"
    return f"the texts of {resource.name}"


@dataclass(frozen=True)
class ByEncoder:
    """A function that embeds texts by the sentence encoder of this name, which a process loads at its first call."""

    name: str

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self.name)

    def __call__(self, texts: Sequence[str]) -> Array:
        """Return the unit vectors [n, d] of n texts."""
        return embed(self._encoder, texts)

    def __getstate__(self) -> dict[str, str]:
        """Leave the loaded encoder out of a copy for another process."""
        return {"name": self.name}


def _on_grid_by(encode: Callable[[Sequence[str]], Array]) -> Callable[[Sequence[str]], Array]:
    return lambda texts: on_grid(encode(texts))


def on_grid(vectors: Array) -> Array:
    """Return the vectors rounded to multiples of 2^-24."""
    rounded: Array = np.rint(vectors * GRID) / GRID
    return rounded


def nearest(vectors: Array, chosen: Array) -> NDArray[np.int64]:
    """Return the index [n] of the chosen vector [m, d] nearest to each vector [n, d]; ties go to the first.

    All vectors must be on the grid.
    """
    return (vectors @ chosen.T).argmax(1)
