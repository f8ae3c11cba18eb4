"""Public exemplars: a text is replaced by one of m public texts, most probably by one like it.

The exemplars c_1..c_m are chosen from public texts alone: the text nearest to each centre of k-means on sentence
embeddings. With e(x) the unit embedding of a text, x is released as exemplar j with probability

    randomized_response:  P(j | x) = e^(epsilon [j = n(x)]) / (e^epsilon + m - 1),    n(x) = argmax_i <e(x), e(c_i)>
    exponential:          P(j | x) ~ exp(-epsilon ||e(x) - e(c_j)|| / 2).

The first is generalised randomised response (Kairouz, Bonawitz and Ramage 2016) on the index of the nearest exemplar,
the second an exponential mechanism (McSherry and Talwar 2007) over public texts.

Claims, for whole documents, any two, of any length, without delta. randomized_response: epsilon, since only the index
n(x) depends on x; tight between two texts with different nearest exemplars. exponential: epsilon ||e(x) - e(x')||, a
metric claim: by the triangle inequality each weight and the normaliser change by at most a factor
e^(epsilon ||e(x) - e(x')|| / 2); as unit vectors are at most 2 apart, 2 epsilon for any two texts.

Every word that comes out is public. Relatives: Meehan, Mrini and Chaudhuri (ACL 2022) choose among public candidates by
an exponential mechanism on Tukey depth; DP-ST (`dp_st`) releases public triples by clusters; PrivRewrite makes its
candidates from the private text.

Assumptions: the public texts, the encoder and m are fixed without looking at private texts. Exemplars that are clusters
of the audited texts would be no public ones, so an audit refuses audited texts among the public texts.
Two texts with the same nearest exemplar are never told apart under randomised response: the average loss lies below
epsilon, and the worst pair's does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import PositiveInt, model_validator

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws, log_softmax, sample
from epsilometer.core.mechanism import TEXT, UNITS, Repeated, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.corpora.files import read
from epsilometer.mechanisms.selection.shared.embedded import exemplars
from epsilometer.mechanisms.selection.shared.public_exemplars import Exemplars as Chosen
from epsilometer.mechanisms.selection.shared.public_exemplars import choose
from epsilometer.models.locate import ENCODER

_DEFAULT = 64  # exemplars


@component
class Exemplars:
    """A text becomes one of m public texts.

    resource: public texts, as a file that `epsilometer audit` reads or as a list; or a folder of chosen exemplars.
    split:    of a file with a column `split`, the one whose texts are public: a part that is not audited. None: all.
    m:        how many exemplars are chosen; a folder has its own number. At least 2.
    law:      randomized_response, or exponential, whose claim grows with the distance of two texts.
    encoder:  a public sentence encoder; a folder has its own.
    seed:     of the clustering.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(exemplars)
    takes_repeated: ClassVar[bool] = True
    releases: ClassVar[frozenset[str]] = frozenset({TEXT, UNITS})  # exemplars differ, so the text says which

    resource: Path | tuple[str, ...]
    split: str | None = None
    m: PositiveInt | None = None
    law: Literal["randomized_response", "exponential"] = "randomized_response"
    encoder: str = ENCODER
    seed: int = 0

    @model_validator(mode="after")
    def _several(self) -> Exemplars:
        if self.m is not None and self.m < 2:
            raise ValueError(f"m must be at least 2, got {self.m}: one exemplar for every text tells nothing of any")
        return self

    @cached_property
    def chosen(self) -> Chosen:
        """The exemplars. Raises UserError where they cannot be read or chosen."""
        if self.split is not None and (isinstance(self.resource, tuple) or self.resource.is_dir()):
            raise UserError(f"split is for a file of texts with a column `split`, got {self.split!r}; leave it out")
        if isinstance(self.resource, tuple):
            return choose(self.resource, self.m or _DEFAULT, self.encoder, self.seed)
        if not self.resource.is_dir():
            table = read(self.resource)
            if "text" not in table.columns:
                raise UserError(f"{self.resource} has no column `text`, the public texts; rename the column of texts")
            if self.split is not None:
                table = self._of_split(table)
            return choose(table["text"].drop_nulls().to_list(), self.m or _DEFAULT, self.encoder, self.seed)
        stored = Chosen.load(self.resource)
        if self.m not in (None, len(stored.texts)):
            raise UserError(
                f"m is {self.m}, but {self.resource} holds {len(stored.texts)} exemplars; leave m out, or give the "
                "public texts as resource"
            )
        return stored

    def _of_split(self, table: pl.DataFrame) -> pl.DataFrame:
        if "split" not in table.columns or self.split not in table["split"]:
            raise UserError(
                f"{self.resource} has no text of the split {self.split!r}; leave split out, or name another"
            )
        return table.filter(split=self.split)

    @property
    def public_texts(self) -> Sequence[str]:
        """As `HasPublicTexts`: all texts that the exemplars were chosen among."""
        return self.chosen.public

    @property
    def inputs(self) -> Sequence[str]:
        """The exemplars themselves: texts of one unit each."""
        return self.chosen.texts

    @property
    def output_texts(self) -> Sequence[str]:
        """The exemplars."""
        return self.chosen.texts

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon for whole texts, any two; under the exponential law times their distance."""
        metric = "distance of sentence embeddings" if self.law == "exponential" else None
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY, metric=metric)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """[n]: 1 between different texts, or under the exponential law the Euclidean distance of their embeddings."""
        if self.law == "randomized_response":
            return np.array([float(texts[i] != texts[j]) for i, j in pairs.tolist()])
        vectors = self.chosen.encode(texts)
        apart: NDArray[np.float64] = np.linalg.norm(vectors[pairs[:, 0]] - vectors[pairs[:, 1]], axis=1)
        return apart

    def laws(self, texts: Sequence[str]) -> Laws:
        """One unit a text, the exemplar that is released; a row for each text."""
        vectors = self.chosen.encode(texts)
        nearness = vectors @ self.chosen.vectors.T

        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                yield log_softmax(self._scores(nearness[rows], epsilon))

        rows = Ragged.single(np.arange(len(texts)))
        return Laws(rows, len(self.chosen.texts), log_probabilities)

    def _scores(self, nearness: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
        """ln P up to a term of each row: [n, m], of the inner products [n, m] of unit vectors."""
        if self.law == "randomized_response":
            return epsilon * (np.arange(nearness.shape[1]) == nearness.argmax(1)[:, None])
        return -epsilon / 2 * np.sqrt(np.maximum(2 - 2 * nearness, 0))

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """One uniform a text; a publication draws exactly."""
        return self.rewrite_grid(texts, [epsilon], [noise])[0]

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """As `RewritesGrid`: texts are embedded once."""
        repeated = texts if isinstance(texts, Repeated) else Repeated(texts, np.arange(len(texts)))
        used, source = np.unique(repeated.numbers, return_inverse=True)
        releases = sample(self.laws([repeated.texts[i] for i in used]), source, epsilons, noises)
        return [Rewrites(Repeated(self.chosen.texts, units.values), units) for units in releases]
