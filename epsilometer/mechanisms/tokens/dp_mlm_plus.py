"""DP-MLM with deletions and insertions ("plus" in the code of Meisenbacher et al., Findings of ACL 2024).

In plain words it replaces each word by another that a language model expects in its place, chosen at random, and adds
and leaves out words at random.

For each word i of a text x of n words, two public coins are tossed, independently of the text. The word is deleted with
probability d, else replaced by a sample of DP-MLM's law R_i(y | x). With probability q, a sample of the law I_i(y | x)
is inserted after word i, even if word i is deleted. I_i is the same exponential mechanism as R_i, but its mask stands
between words i and i + 1 of x. So word i yields

    nothing     with probability d (1 - q),
    y           with probability (1 - d) (1 - q) R_i(y) + d q I_i(y),
    y and y'    with probability (1 - d) q R_i(y) I_i(y').

Budget: R_i and I_i both depend on the whole private text and spend epsilon each; the coins do not depend on the text.
Given the coins, an output of L words consists of L samples. The coins have the same distribution for all texts of n
words, so

    P(y | x) <= e^(L epsilon) P(y | x')     for x, x' of n words and y of L words, L <= 2n (L <= n if q = 0).

So the claim for whole texts of n words is 2n epsilon and not n epsilon, since an insertion costs as much as a word.
There is no claim between texts of different lengths. L is random, a sum of n independent terms with mean n (1 - d + q),
so L does not determine n. But L still leaks information about n: a text of n words never yields more than 2n words (n
if q = 0), so a longer output excludes that text. The likelihood below includes this leak.

Likelihood: let f(i, j) be the probability that the first i words yield the first j outputs, and f(0, 0) = 1. Then

    f(i, j) = d (1 - q) f(i - 1, j) + ((1 - d) (1 - q) R_i(y_j) + d q I_i(y_j)) f(i - 1, j - 1)
              + (1 - d) q R_i(y_(j-1)) I_i(y_j) f(i - 1, j - 2)     and     P(y | x) = f(n, L).

Departures from the reference code (sjmeis/DPMLM 3ce9390, where this variant does not work): the context of every sample
is the unchanged private text, so samples are independent given the coins. No part of the text is passed through
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import OneOfGrid, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.tokens.shared.masked import MaskMechanism, word_rows
from epsilometer.text.words import words, write

Probability = Annotated[float, Field(ge=0, lt=1)]


@component
class DPMLMPlus(MaskMechanism, OneOfGrid):
    """DP-MLM with deletions and insertions.

    resource, clip, precision: settings of the masked language model (`MaskMechanism`). delete, insert: public
    probabilities d and q.
    """

    delete: Probability = 0.05
    insert: Probability = 0.15

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon for each sampled word; 2n epsilon for texts of n words (`distance`)."""
        return Guarantee(epsilon, Granularity.TOKEN, Neighbours.SAME_LENGTH)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return the largest number of samples for two texts of equally many words; infinite for other texts."""
        return super().distance(texts, pairs, epsilon) * (2 if self.insert else 1)

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon.

        A word uses four uniforms: for its replacement, for the insertion after it, and for two coins.
        """
        distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        source = np.array([distinct[text] for text in texts], np.int64)
        laws, pieces = self._both(list(distinct)), self._model.outputs
        twice = laws.rows.lengths[source]
        coin = np.repeat(np.tile([False, True], len(texts)), np.repeat(twice, 2))
        results = []
        for slots, noise in zip(sample(laws, source, epsilons, noises), noises, strict=True):
            coins = noise.ragged(2 * twice)[coin, 0].reshape(-1, 2)
            here = np.stack([coins[:, 0] >= self.delete, coins[:, 1] < self.insert], axis=1).ravel()
            units = Ragged.from_lengths(slots.values[here], np.bincount(slots.row_numbers[here], minlength=len(texts)))
            results.append(Rewrites([write(pieces[u] for u in units.row(i)) for i in range(len(texts))], units))
        return results

    def log_likelihoods(
        self,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        rewrites: Sequence[Rewrites],
        epsilons: Sequence[float],
    ) -> list[NDArray[np.float64]]:
        """Return [n, k] per epsilon: ln P(units of rewrite i | text candidates[i, slot]), summed over all alignments.

        Forward passes are computed once per distinct text.
        """
        outputs = [_units(output) for output in rewrites]
        scores = [np.full(candidates.shape, -np.inf) for _ in epsilons]
        order = np.argsort(candidates, axis=None, kind="stable")
        wanted, first = np.unique(candidates.ravel()[order], return_index=True)
        laws = self._both([texts[i] for i in wanted])
        groups = np.split(order, first[1:])
        # Groups texts so that the laws of a group fit in memory.
        part = (laws.rows.offsets[1:] - 1) // laws.chunk()
        for some in np.split(np.arange(len(wanted)), np.flatnonzero(np.diff(part)) + 1):
            rows = laws.rows.take(some)
            for score, units, log_p in zip(scores, outputs, self._tables(laws, rows.values, epsilons), strict=True):
                for number, start, end in zip(some, rows.offsets[:-1], rows.offsets[1:], strict=True):
                    trial, slot = np.unravel_index(groups[number], candidates.shape)
                    score[trial, slot] = self._aligned(log_p[start:end], units.take(trial))
        return scores

    def _both(self, texts: Sequence[str]) -> Laws:
        """Return the laws of replacement and insertion: two rows per word, in this order."""
        split = [words(text) for text in texts]
        rows, places = word_rows(split, 2)

        def log_probabilities(wanted: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            kinds = [wanted % 2 == 0, wanted % 2 == 1]
            parts = [self.log_laws(split, places[wanted[of]], epsilons, i == 1) for i, of in enumerate(kinds)]
            for both in zip(*parts, strict=True):
                law = np.empty((len(wanted), both[0].shape[1]))
                for of, part in zip(kinds, both, strict=True):
                    law[of] = part
                yield law

        return Laws(rows, len(self._model.outputs), log_probabilities)

    def _tables(
        self, laws: Laws, rows: NDArray[np.integer], epsilons: Sequence[float]
    ) -> Iterator[NDArray[np.float64]]:
        """Yield the laws of these rows at each epsilon: [rows, outputs]. Rows are computed in chunks."""
        step = laws.chunk()
        parts = [laws.log_probabilities(rows[i : i + step], epsilons) for i in range(0, len(rows), step)]
        for _ in epsilons:
            yield np.concatenate([np.empty((0, laws.outputs)), *(next(part) for part in parts)])

    def _aligned(self, log_p: NDArray[np.float64], units: Ragged) -> NDArray[np.float64]:
        """Return ln f(n, L) for each row of units. log_p: [2n, outputs], laws of replacement and insertion in turn."""
        lengths = units.lengths
        longest = int(lengths.max(initial=0))
        with np.errstate(divide="ignore"):  # ln 0 for an impossible outcome of a coin
            delete, insert = np.log([self.delete, 1 - self.delete]), np.log([self.insert, 1 - self.insert])
        outputs = np.zeros((len(lengths), longest), np.int64)
        outputs[units.row_numbers, units.positions] = units.values
        f = np.full((len(lengths), longest + 1), -np.inf)
        f[:, 0] = 0
        for word in range(len(log_p) // 2):
            replaced, following = (log_p[2 * word + i][outputs] for i in range(2))
            single = np.logaddexp(delete[1] + insert[1] + replaced, delete[0] + insert[0] + following)
            double = delete[1] + insert[0] + replaced[:, :-1] + following[:, 1:]
            new = delete[0] + insert[1] + f
            new[:, 1:] = np.logaddexp(new[:, 1:], single + f[:, :-1])
            new[:, 2:] = np.logaddexp(new[:, 2:], double + f[:, :-2])
            f = new
        return f[np.arange(len(lengths)), lengths]


def _units(rewrites: Rewrites) -> Ragged:
    if rewrites.units is None:
        raise TypeError("the likelihood of a rewrite needs its units")
    return rewrites.units
