"""Noisy votes for public exemplars: replaces a corpus by public texts, labelled and weighted by votes of private texts.

Public exemplars e_1..e_m are chosen from public texts only. A private text votes for one cell of a table: the exemplar
nearest to the text, and the text's own label. At most c texts of a person count, selected by a keyed hash. H is the
table of votes. H + Z is released, with independent integer noise Z in every cell (`shared/noisy_table.py`). Everything
else is computed from H + Z and public texts (`shared/post_processing.py`), so it costs no budget.

Claim, pure epsilon (Laplace noise) or (epsilon, delta) (Gaussian noise), for granularity user or document:

    replaced:          neighbours differ in the texts of one unit. Their tables differ by at most 2 c in L1 norm and
                       sqrt(2) c in L2 norm, so Laplace noise has scale b = 2 c / epsilon. The number of people is
                       public.
    added or removed:  neighbours differ by one added unit. Their tables differ by at most c in both norms, so
                       b = c / epsilon. The number of people is private, and the release does not depend on it.

Histograms are those of Dwork, McSherry, Nissim and Smith 2006. Private texts vote for public ones as in private
evolution (Xie et al. 2024, arXiv:2403.01749), but in one round and without a generator.

Assumptions: public texts, encoder, m, c, and the list of labels are fixed without looking at private texts. Labels that
are not in the list cast no vote. m may depend on the number of people only if that number is public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from epsilometer.core.component import component
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.mechanisms.corpora.shared import post_processing
from epsilometer.mechanisms.corpora.shared.base import NoisyVotes
from epsilometer.mechanisms.corpora.shared.post_processing import PostProcessing, VotesForTexts
from epsilometer.mechanisms.corpora.shared.public_cells import ByEncoder, PublicTexts, described, on_grid, texts_of
from epsilometer.models.locate import ENCODER

# Rule for m, as pairs (limit, m). The first pair with limit >= number of people * epsilon gives m.
# Above all limits _LARGE is used; if the number of people is private, _USUAL is used.
_NUMBERS = ((400.0, 16), (1500.0, 64))
_LARGE, _USUAL = 252, 64
_EACH = 4  # fewest public texts per exemplar, by the rule
_OF_LABEL = 2  # fewest exemplars per label, by the rule


@component
class VoteHistogram(NoisyVotes):
    """Noisy votes for public exemplars.

    resource: public texts: a file with a column `text`, or a list.
    m:        number of exemplars. None: 64 if the number of people is private (neighbours: added or removed). If it is
              public (replaced): 16 if the number of people times epsilon is at most 400, 64 up to 1,500, and 252 above.
              m is then raised to at least two per label, and lowered to at most one per four public texts.
    after:    post-processing: spread, ridge or plain (`shared/post_processing.py`); without labels always plain.
    encoder, seed: a public sentence encoder; seed of the clustering.
    labels, unit, most, neighbours, delta: as in `shared/base.py` and `shared/counting.py`.
    """

    resource: Path | tuple[str, ...]
    m: PositiveInt | None = None
    after: PostProcessing = "spread"
    encoder: str = ENCODER
    seed: int = 0

    @property
    def public_sources(self) -> Sequence[str]:
        """Descriptions of the public data that a release uses."""
        return [described(self.resource), *super().public_sources]

    @cached_property
    def public(self) -> PublicTexts:
        """The public texts. Raises UserError if there are none."""
        return PublicTexts.of(texts_of(self.resource), ByEncoder(self.encoder), self.seed)

    def on(self, public: PublicTexts) -> VoteHistogram:
        """Return a copy of the mechanism that uses these already embedded and clustered public texts."""
        same = replace(self)
        vars(same)["public"] = public
        return same

    @property
    def public_texts(self) -> Sequence[str]:
        """All public texts."""
        return self.public.texts

    def vectors_of(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the unit vectors [n, d] of released texts; those of public texts are embedded already."""
        place = self.places
        written = [text for text in texts if text not in place]
        new = dict(zip(written, on_grid(self.public.encode(written)), strict=True)) if written else {}
        return np.array([new[text] if text in new else self.public.vectors[place[text]] for text in texts])

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each public text."""
        return {text: place for place, text in enumerate(self.public.texts)}

    def number(self, units: int, epsilon: float) -> int:
        """Return m. units: number of people, or of texts for unit: document; used only if that number is public."""
        if self.m is not None:
            return self.m
        by_rule = _USUAL
        if self.neighbours == "replaced":
            by_rule = next((m for most, m in _NUMBERS if units * epsilon <= most), _LARGE)
        return max(1, min(max(by_rule, _OF_LABEL * len(self.labels)), len(self.public) // _EACH))

    def cells(self, epsilon: float) -> int:
        """Return the smallest possible m. Raises UserError if it exceeds the number of public texts."""
        m = self.number(0, epsilon)
        self.public.check(m)
        return m

    def votes(self, corpus: PrivateCorpus, epsilon: float, key: bytes) -> NDArray[np.int64]:
        """Return the private table of votes H [m, L]."""
        texts, labels = self.voters(corpus, key)
        m = self.number(self.units(corpus), epsilon)
        table = np.zeros((m, max(1, len(self.labels))), np.int64)
        np.add.at(table, (self.public.nearest(texts, m), labels), 1)
        return table

    def published(self, table: NDArray[np.int64], epsilon: float) -> Release:
        """Return the release for a noisy table [m, L]."""
        return self.labelled(table.astype(np.float64), self.cell_noise(epsilon).variance)

    def labelled(self, counts: NDArray[np.float64], variance: float) -> Release:
        """Return the release for noisy counts [m, L]. variance: variance of a cell's noise."""
        votes = VotesForTexts(counts, self.public.exemplars(len(counts)), self.public.vectors, variance)
        return self.processed(votes, self.public.texts)

    def processed(self, votes: VotesForTexts, texts: Sequence[str]) -> Release:
        """Return the release that post-processing computes from votes. texts: one for each row of `votes.vectors`."""
        rows, labels, weights = getattr(post_processing, self.after if self.labels else "plain")(votes)
        named = [self.labels[label] for label in labels.tolist()] if self.labels else None
        return Release([texts[row] for row in rows.tolist()], weights, named)
