"""A public list of texts, and the index of a text on it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import Repeated


class PublicList:
    """A public list. resource: a Parquet file with a column `text`, or the texts; equal texts count once."""

    def __init__(self, resource: Path | tuple[str, ...]) -> None:
        self._resource = resource

    @cached_property
    def texts(self) -> list[str]:
        """The distinct texts, in order. Raises UserError for an unreadable file, and for fewer than two texts."""
        resource = self._resource
        if isinstance(resource, tuple):
            texts = list(dict.fromkeys(resource))
        else:
            try:
                texts = pl.read_parquet(resource, columns=["text"])["text"].unique(maintain_order=True).to_list()
            except (pl.exceptions.PolarsError, OSError) as error:
                raise UserError(
                    f"{str(resource)!r} cannot be read as a list of public texts; give a Parquet file with a column "
                    "`text`, or omit resource to use the audited texts",
                    "EPS-M031",
                ) from error
        if len(texts) < 2:
            raise UserError(f"the public list must contain at least 2 distinct texts, got {len(texts)}", "EPS-M032")
        return texts

    @cached_property
    def _number(self) -> dict[str, int]:
        return {text: i for i, text in enumerate(self.texts)}

    def numbers(self, texts: Sequence[str], elsewhere: int) -> NDArray[np.int64]:
        """Return the index of each of n texts on the list, [n]; `elsewhere` for texts that are not on it."""
        if isinstance(texts, Repeated):
            return self.numbers(texts.texts, elsewhere).take(texts.numbers)
        return np.array([self._number.get(text, elsewhere) for text in texts], np.int64)
