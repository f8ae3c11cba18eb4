"""Public exemplars: replaces a text by one or several of m public texts, most probably by a similar one.

In plain words it replaces each text by one of a few public sentences, chosen at random near it.

The exemplars c_1..c_m are chosen from public texts only: they are the texts nearest to the centres of k-means on
sentence embeddings. Let e(x) be the unit embedding of a text x, and n(x) = argmax_i <e(x), e(c_i)> the index of its
nearest exemplar. x is replaced by exemplar j, or by a set S of w exemplars in a fixed public order, with probability

    randomized_response:  P(j | x) = e^(epsilon [j = n(x)]) / (e^epsilon + m - 1)
    subset_selection:     P(S | x) ~ e^(epsilon [n(x) in S])
    exponential:          P(j | x) ~ exp(-epsilon ||e(x) - e(c_j)|| / 2)
    levels: 2:            randomised response on about sqrt(m) groups of exemplars, then on the exemplars of the
                          released group, with half of epsilon each.

The first law is generalised randomised response (Kairouz, Bonawitz and Ramage 2016) on the index n(x). The second is
subset selection on n(x) (Ye and Barg 2018; `shared/exemplar_laws.py` defines the sets). The third is an exponential
mechanism (McSherry and Talwar 2007) over public texts.

The claims are for any two whole documents, of any length, without delta:

- randomized_response, subset_selection: epsilon. Only n(x) depends on x, and each weight is 1 or e^epsilon. The
  normaliser is the same for all n(x), since each exemplar is in the same number of sets. The claim is tight between two
  texts with different nearest exemplars.
- levels: 2: epsilon by composition, epsilon/2 for the group and epsilon/2 for the exemplar given the group.
- exponential: the metric claim epsilon ||e(x) - e(x')||. By the triangle inequality each weight and the normaliser
  change by a factor of at most e^(epsilon ||e(x) - e(x')|| / 2). Unit vectors are at most 2 apart, so 2 epsilon holds
  for any two texts.

Every released word is public. Related mechanisms: Meehan, Mrini and Chaudhuri (ACL 2022) choose among public candidates
by an exponential mechanism on Tukey depth; DP-ST (`dp_st`) releases public triples by clusters; PrivRewrite makes its
candidates from the private text.

Assumptions: the public texts, the encoder, m and w are fixed without looking at private texts. Exemplars chosen from
the audited texts would not be public, so an audit refuses public texts that contain audited texts. Except under the
exponential law and `levels: 2`, two texts with the same nearest exemplar have the same output distribution. So the
average loss is below epsilon, but the loss of the worst pair of texts equals epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.exact_samplers import WeightCache
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import TEXT, UNITS, OneOfGrid, Repeated, Rewrites, Unread
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.corpora.files import read
from epsilometer.mechanisms.selection.shared.embedded import exemplars
from epsilometer.mechanisms.selection.shared.exemplar_laws import ExemplarLaw, Kind, law_of
from epsilometer.mechanisms.selection.shared.exemplar_number import best_number
from epsilometer.mechanisms.selection.shared.public_exemplars import ExemplarSet as Chosen
from epsilometer.mechanisms.selection.shared.public_exemplars import choose
from epsilometer.models.locate import ENCODER

_DEFAULT = 64  # default number of exemplars
_FAR = 0.25  # below this cosine, a text has little in common with its nearest exemplar
_BETWEEN = " | "  # separates the exemplars of a set


@component
class Exemplars(OneOfGrid):
    """Public exemplars.

    resource: public texts, as a file that `epsilometer audit` reads or as a list; or a folder of chosen exemplars.
    split:    in a file with a column `split`, the split of public texts, which is not audited; None: all texts.
    m:        number of exemplars, at least 2. `auto`: the number with the highest utility on held-out public texts at
              the loss `target`. None: 64, or the number in a folder.
    law:      randomized_response; subset_selection, which releases `size` exemplars; or exponential, whose claim grows
              with the distance of two texts.
    size:     w, number of exemplars per text under subset selection; about m / (1 + e^epsilon) has the highest utility.
    levels:   2: randomised response on groups of exemplars, then on the exemplars of the group.
    target:   average guess loss in nats, for m: auto.
    encoder:  a public sentence encoder; a folder of exemplars has its own.
    seed:     seed of the clustering.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(exemplars)
    takes_repeated: ClassVar[bool] = True
    releases: ClassVar[frozenset[str]] = frozenset({TEXT, UNITS})  # exemplars differ, so the text identifies them

    resource: Path | tuple[str, ...]
    split: str | None = None
    m: PositiveInt | Literal["auto"] | None = None
    law: Kind = "randomized_response"
    size: PositiveInt | None = None
    levels: Literal[1, 2] = 1
    target: Annotated[float, Field(ge=0.01, le=10)] = 1.0
    encoder: str = ENCODER
    seed: int = 0

    @model_validator(mode="after")
    def _consistent(self) -> Exemplars:
        if self.m == 1:
            raise ValueError("m must be at least 2, got 1: a single exemplar is the same for every text")
        if (self.law == "subset_selection") != (self.size is not None):
            raise ValueError(
                "size (exemplars per text) and law: subset_selection must be set together; a size of about m / (1 + "
                "e^epsilon) has the highest utility"
            )
        if isinstance(self.m, int) and self.size is not None and self.size >= self.m:
            raise ValueError(
                f"size must be below m, got {self.size} of {self.m}: all exemplars together are the same for every text"
            )
        if self.levels == 2 and self.law != "randomized_response":
            raise ValueError(f"levels: 2 is randomised response on two levels, got law: {self.law}; omit law")
        return self

    @cached_property
    def chosen(self) -> Chosen:
        """The exemplars. Raises UserError if they cannot be read or chosen."""
        if self.split is not None and (isinstance(self.resource, tuple) or self.resource.is_dir()):
            raise UserError(
                f"split {self.split!r} needs a resource with a column `split`; omit split, or give a file of texts "
                "with that column",
                "EPS-M053",
            )
        if not isinstance(self.resource, tuple) and self.resource.is_dir():
            return self._stored(self.resource)
        public = self._public()
        search: Mapping[str, Any] = {}
        m = self.m or _DEFAULT
        if m == "auto":
            least = 2 if self.size is None else self.size + 1
            search = best_number(public, self._make, self.target, encoder=self.encoder, seed=self.seed, least=least)
            m = int(search["m"])
        if self.size is not None and self.size >= m:
            raise UserError(
                f"size must be below the number of exemplars, {m}, got {self.size}; give a smaller size", "EPS-M054"
            )
        return choose(public, m, self.encoder, self.seed, source=self.source, search=search)

    def _public(self) -> Sequence[str]:
        if isinstance(self.resource, tuple):
            return self.resource
        table = read(self.resource)
        if "text" not in table.columns:
            raise UserError(
                f"{self.resource} has no column `text`; rename the column of public texts to `text`", "EPS-M055"
            )
        if self.split is not None:
            table = self._of_split(table)
        texts: list[str] = table["text"].drop_nulls().to_list()
        return texts

    def _of_split(self, table: pl.DataFrame) -> pl.DataFrame:
        if "split" not in table.columns or self.split not in table["split"]:
            raise UserError(
                f"{self.resource} has no text in the split {self.split!r}; omit split, or give another split",
                "EPS-M056",
            )
        return table.filter(split=self.split)

    def _stored(self, folder: Path) -> Chosen:
        stored = Chosen.load(folder)
        count = len(stored.texts)
        if count < 2:
            raise UserError(
                f"{folder} contains a single exemplar, which is the same for every text; choose at least 2", "EPS-M057"
            )
        if self.m not in (None, count):
            raise UserError(
                f"m is {self.m}, but {folder} contains {count} exemplars; omit m, or give the public texts as resource",
                "EPS-M058",
            )
        if self.size is not None and self.size >= count:
            raise UserError(
                f"size must be below the number of exemplars in {folder}, {count}, got {self.size}", "EPS-M059"
            )
        return stored

    @property
    def source(self) -> str:
        """Short description of the public texts that the claim assumes."""
        if isinstance(self.resource, tuple):
            return f"{len(set(self.resource)):,} texts"
        if self.resource.is_dir():
            return Chosen.source_of(self.resource)
        return self.resource.name if self.split is None else f"{self.split} of {self.resource.name}"

    @property
    def _make(self) -> Callable[[NDArray[np.float64]], ExemplarLaw]:
        return law_of(self.law, self.size, self.levels)

    @cached_property
    def _law(self) -> ExemplarLaw:
        return self._make(self.chosen.vectors)

    @cached_property
    def _weights(self) -> WeightCache:
        return WeightCache()

    @property
    def public_texts(self) -> Sequence[str]:
        """All texts from which the exemplars were chosen."""
        return self.chosen.public

    @property
    def inputs(self) -> Sequence[str]:
        """Test texts with one unit each: the exemplars."""
        return self.chosen.texts

    @cached_property
    def output_texts(self) -> Sequence[str]:
        """The possible outputs: the exemplars, or sets of exemplars in the order of their indices."""
        texts = self.chosen.texts
        return [_BETWEEN.join(texts[i] for i in np.flatnonzero(shown)) for shown in self._law.shown]

    @property
    def public_releases(self) -> Sequence[str]:
        """The possible releases (`HasPublicReleases` in `auditing.worth.releases`)."""
        return self.output_texts

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon for any two whole texts; under the exponential law, epsilon times their distance."""
        metric = "distance of sentence embeddings" if self.law == "exponential" else None
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY, metric=metric, public=self.source)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return [n]: 1 for two different texts; under the exponential law, the distance of their embeddings."""
        if self.law != "exponential":
            return np.array([float(texts[i] != texts[j]) for i, j in pairs.tolist()])
        vectors = self.chosen.encode(texts)
        apart: NDArray[np.float64] = np.linalg.norm(vectors[pairs[:, 0]] - vectors[pairs[:, 1]], axis=1)
        return apart

    def unread(self, texts: Sequence[str]) -> Unread:
        """Count the texts whose cosines with all exemplars are below .25, such as texts in another language."""
        nearest = (self.chosen.encode(texts) @ self.chosen.vectors.T).max(1) if len(texts) else np.empty(0)
        return Unread(far=int((nearest < _FAR).sum()), compared=len(texts))

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws. A text has one unit.

        There is one row per exemplar if the law depends only on the nearest exemplar, else one row per text.
        """
        nearness = self.chosen.encode(texts) @ self.chosen.vectors.T
        rows, law = np.arange(len(texts)), self._law
        if law.by_nearest:
            rows, nearness = nearness.argmax(1), np.eye(nearness.shape[1])

        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                yield law.log_law(nearness[rows], epsilon)

        units = Ragged.single(rows)
        return Laws(units, len(law.shown), log_probabilities, table=self._weights if law.by_nearest else None)

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon. Each distinct text is embedded once."""
        repeated = texts if isinstance(texts, Repeated) else Repeated(texts, np.arange(len(texts)))
        used, source = np.unique(repeated.numbers, return_inverse=True)
        releases = sample(self.laws([repeated.texts[i] for i in used]), source, epsilons, noises)
        return [Rewrites(Repeated(self.output_texts, units.values), units) for units in releases]
