"""Private evolution: rounds of noisy votes for candidate texts, whose winners a public model varies.

The candidates of round 1 are m public exemplars, as in `vote_histogram`. In each round, every counted private text
votes for one cell of a table: its nearest candidate, and its own label. Integer noise is added to every cell. About a
quarter of the candidates win: for each label, those with the most noisy votes. The winners remain candidates, and each
is varied three times by a public language model: a masked language model replaces about half of the words, or an
instruction-tuned model writes a paraphrase. These are the two kinds of variation of Xie et al. 2024 ("Differentially
Private Synthetic Data via Foundation Model APIs 2: Text", arXiv:2403.01749). The last table is post-processed as in
`vote_histogram`, over the public texts and the last candidates.

Claim, pure epsilon, for granularity user or document, as for `vote_histogram`. R tables are released, one per round. In
each table a unit has at most c votes, so the tables of two neighbours differ by at most D in L1 norm, where D is 2 c
(replaced) or c (added or removed). The noise has rate epsilon / (R D), so each table costs epsilon / R, whichever
candidates the earlier tables led to. The pure epsilons of the rounds add up (adaptive composition, Dwork and Roth 2014,
theorem B.1). The candidates of a round depend only on earlier noisy tables, public texts, the public model and the
seed. The exact loss over all rounds is below the pure epsilon for most outputs (`auditing.corpora.rounds_loss`).

Assumptions: those of `vote_histogram`. R is fixed beforehand, and the model was not trained on the private texts. A
model that was trained on them can write a private sentence for which nobody voted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt, model_validator

from epsilometer.core.component import component
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.shared.noisy_table import CellNoise, exact_draws
from epsilometer.mechanisms.corpora.shared.post_processing import VotesForTexts
from epsilometer.mechanisms.corpora.shared.public_cells import nearest
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram
from epsilometer.mechanisms.tokens.dp_mlm import DPMLM
from epsilometer.mechanisms.tokens.dp_prompt import DPPrompt
from epsilometer.models.embedded import masked_lm
from epsilometer.models.generator import architecture
from epsilometer.text.words import words, write

_VARIATIONS = 3  # variations of each winner, so one in 1 + _VARIATIONS candidates wins
_SHARPNESS = 150.0  # DP-MLM's epsilon per word, which sets the sampling temperature; all rewritten texts are public
_REPLACED = 0.5  # share of words that are replaced
_CLIP, _PARAPHRASED = (-100.0, 100.0), 800.0  # clip range and epsilon for DP-Prompt: clips no logit, temperature .5


@component
class PrivateEvolution(VoteHistogram):
    """Public texts and variations of them, labelled and weighted by noisy votes.

    rounds: R, the number of rounds of votes. writer: a public language model by id or folder, either masked or able to
    paraphrase on request; None: the embedded masked one. resource, m, after, encoder, seed, labels, unit, most,
    neighbours: as in `vote_histogram`; delta must be 0.
    """

    rounds: PositiveInt = 2
    writer: str | Path | None = None

    @model_validator(mode="after")
    def _pure(self) -> PrivateEvolution:
        if self.delta:
            raise ValueError(f"delta must be 0, since budgets of rounds are added as pure epsilons, got {self.delta:g}")
        return self

    @property
    def public_sources(self) -> Sequence[str]:
        """Descriptions of the public data that a release uses."""
        model = "the embedded masked language model" if self.writer is None else f"the model {Path(self.writer).name}"
        return [*super().public_sources, model]

    @cached_property
    def _writer(self) -> DPMLM | DPPrompt:
        writer = masked_lm() if self.writer is None else self.writer
        return DPMLM(resource=writer) if architecture(writer) == "masked" else DPPrompt(resource=writer, clip=_CLIP)

    def cell_noise(self, epsilon: float) -> CellNoise:
        """Return the noise of each cell of each round, calibrated to a unit's votes in all rounds."""
        return CellNoise(epsilon, self.most * self.rounds, self.neighbours == "replaced")

    def number(self, units: int, epsilon: float) -> int:
        """Return m by the rule of `vote_histogram`, at the budget of one round."""
        return super().number(units, epsilon / self.rounds)

    def release(self, corpus: PrivateCorpus, epsilon: float, noise: Noise) -> Release:
        """Return a release as in `CorpusMechanism`."""
        draws = exact_draws(noise)
        private, labels = self.voters(corpus, draws.words(4).tobytes())
        votes = np.concatenate([part for _, part in self.public.embedded(private)]), labels
        m, cell_noise = self.number(self.units(corpus), epsilon), self.cell_noise(epsilon)
        candidates = [self.public.texts[place] for place in self.public.exemplars(m)]
        turn = 1
        while True:
            table = self.counts(votes, candidates)
            noisy = table + cell_noise.draw(table.size, draws).reshape(table.shape)
            if turn == self.rounds:
                return self.made_of(candidates, noisy, cell_noise.variance)
            candidates = self.evolved(candidates, noisy, turn)
            turn += 1

    def counts(
        self, votes: tuple[NDArray[np.float64], NDArray[np.int64]], candidates: Sequence[str]
    ) -> NDArray[np.int64]:
        """Return the private table of votes, [candidates, L]. votes: the texts' unit vectors [n, d] and labels [n]."""
        vectors, labels = votes
        table = np.zeros((len(candidates), max(1, len(self.labels))), np.int64)
        np.add.at(table, (nearest(vectors, self.vectors_of(candidates)), labels), 1)
        return table

    def evolved(self, candidates: Sequence[str], table: NDArray[np.int64], turn: int) -> list[str]:
        """Return the next candidates: each label's winners by a noisy table [candidates, L], then their variations."""
        winners = max(1, len(candidates) // (1 + _VARIATIONS) // table.shape[1])
        order = np.argsort(-table, axis=0, kind="stable")[:winners]
        best = [candidates[place] for place in dict.fromkeys(order.ravel().tolist())]
        noise = Noise.named(len(best) * _VARIATIONS, "private evolution", self.seed, turn)
        return list(dict.fromkeys([*best, *self.variations(best * _VARIATIONS, noise)]))

    def variations(self, texts: Sequence[str], noise: Noise) -> list[str]:
        """Return a variation of each text. Text i uses stream i."""
        if isinstance(self._writer, DPPrompt):
            paraphrases = self._writer.rewrite(texts, _PARAPHRASED, noise).texts
            return [new or old for old, new in zip(texts, paraphrases, strict=True)]
        rewritten = self._writer.rewrite(texts, _SHARPNESS, noise)
        coins = Noise.named(len(texts), "private evolution, words", *(noise.key or ()))
        varied = []
        for place, (old, new) in enumerate(zip(texts, rewritten.texts, strict=True)):
            before, after = words(old), new.split(" ")
            goes = coins.generator(place).random(len(before)) < _REPLACED
            chosen = [b if out else a for a, b, out in zip(before, after, goes, strict=False)]
            varied.append(write(chosen) or old)
        return varied

    def made_of(self, candidates: Sequence[str], table: NDArray[np.int64], variance: float) -> Release:
        """Return the release computed from the last noisy table, over the public texts and the last candidates."""
        written = [text for text in candidates if text not in self.places]
        texts = [*self.public.texts, *written]
        place = {text: number for number, text in enumerate(texts)}
        vectors = np.concatenate([self.public.vectors, self.vectors_of(written)]) if written else self.public.vectors
        places = np.array([place[text] for text in candidates])
        return self.processed(VotesForTexts(table.astype(np.float64), places, vectors, variance), texts)
