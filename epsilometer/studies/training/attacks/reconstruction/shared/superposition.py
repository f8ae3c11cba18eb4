"""Decoding of words from noisy sums of codewords, by a matched filter, grouping, and alternating estimates.

At position p, the rows of the k gates (`gates`) are Y_p = sum over sentences s of G_s code(w_sp)' + noise. G_s [k] is
the opening of each gate for sentence s, equal at all positions. w_sp is the word of sentence s at position p, and
code(w_sp) is its codeword. The words w and the openings G are unknown.

1. The k rows are projected on the directions with the largest energy over all positions, one direction per sentence.
   This removes the noise in the other directions.
2. Matching pursuit finds, at each position, one codeword for each sentence that reaches this position. It chooses the
   codeword with the largest inner product, refits all amplitudes of the position, and repeats.
3. The amplitudes are grouped into sentences by their directions, with at most one amplitude per sentence and position
   (`linear_sum_assignment`).
4. Two estimates alternate. G is fitted by least squares, given the words. Then each word is set to the w that maximises
   <G_s, R> code(w) / noise^2 + ln prior(w), where R is Y_p without the other sentences' terms.

No estimate in step 4 decreases likelihood times prior. Sentences of different lengths are distinguished by the position
at which their energy ends, and sentences of different labels by the gradient's sign.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

TURNS = 12  # maximum number of alternations of step 4
LEAST_NOISE = 1e-6  # minimum deviation as a share of a codeword's amplitude, which keeps likelihoods finite


@dataclass(frozen=True)
class WordsRead:
    """The input for decoding words.

    rows:    float32 [positions, k, D], the rows of each position's gates.
    codes:   float32 [V, D], the codewords of +-1.
    prior:   [V], the log probabilities of words, -inf for words that cannot occur.
    noise:   the standard deviation of the noise in one number of `rows`.
    lengths: the length of each sentence, in positions.
    signs:   the sign of each sentence's gradient, 0 if unknown.
    """

    rows: NDArray[np.float32] = field(repr=False)
    codes: NDArray[np.float32] = field(repr=False)
    prior: NDArray[np.float64] = field(repr=False)
    noise: float
    lengths: tuple[int, ...]
    signs: tuple[int, ...]


def read(reading: WordsRead) -> list[NDArray[np.int64]]:
    """Decode the words of each sentence. Returns a sentence's word indices in the order of `lengths`."""
    rows = reading.rows.astype(np.float64)
    lengths = np.array(reading.lengths)
    if not np.any(rows):
        return [np.full(n, int(np.argmax(reading.prior))) for n in lengths]
    basis = _principal(rows, len(lengths))
    small = np.einsum("pkd,kc->pcd", rows, basis)
    seen = _pursuit(small, reading, np.minimum(small.shape[1], (lengths[None] > np.arange(len(rows))[:, None]).sum(1)))
    gates = _directions(seen, len(lengths))
    gates = gates[_in_order(gates, np.sign((gates @ basis.T).sum(1)), seen, reading)]
    amplitude = _amplitude(small, lengths, reading.codes.shape[1])
    gates *= amplitude[:, None]
    words: list[NDArray[np.int64]] | None = None
    for _ in range(TURNS):
        before = words
        words = _likeliest(small, gates, reading, words)
        gates = _fitted(small, reading.codes, words, gates)
        if before is not None and all(np.array_equal(a, b) for a, b in zip(before, words, strict=True)):
            break
    assert words is not None
    return words


@dataclass(frozen=True)
class _Seen:
    """A codeword found at a position. amplitudes: [c], its amplitude in each projected row."""

    position: int
    amplitudes: NDArray[np.float64]


def _principal(rows: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the orthonormal directions [k, at most count] of largest energy, summed over all positions."""
    _, vectors = np.linalg.eigh(np.einsum("pkd,pld->kl", rows, rows))
    directions: NDArray[np.float64] = vectors[:, ::-1][:, :count]
    return directions


def _pursuit(rows: NDArray[np.float64], reading: WordsRead, counts: NDArray[np.int64]) -> list[_Seen]:
    """Return the codewords that matching pursuit finds. counts: [positions], the number at each position."""
    codes = reading.codes
    dimensions = codes.shape[1]
    likely = np.isfinite(reading.prior)
    allowance = 2 * max(reading.noise, LEAST_NOISE) ** 2 * dimensions * np.where(likely, reading.prior, 0)
    seen = []
    for position, count in enumerate(counts):
        own = rows[position].astype(np.float32)
        products = own @ codes.T
        chosen: list[int] = []
        for _ in range(count):
            scores = np.where(likely, (products.astype(np.float64) ** 2).sum(0) + allowance, -np.inf)
            scores[chosen] = -np.inf
            chosen.append(int(scores.argmax()))
            basis = codes[chosen].astype(np.float64)
            amplitudes = np.linalg.lstsq(basis.T, own.T.astype(np.float64), rcond=None)[0]
            products = (own - (amplitudes.T @ basis).astype(np.float32)) @ codes.T
        seen += [_Seen(position, amplitude) for amplitude in amplitudes[:count]] if count else []
    return seen


def _directions(seen: list[_Seen], count: int) -> NDArray[np.float64]:
    """Return the unit direction [count, c] of each sentence's amplitudes.

    Grouping is started from each position with the most codewords. The best result is returned.
    """
    by_position: dict[int, NDArray[np.float64]] = {}
    for position in sorted({sighting.position for sighting in seen}):
        by_position[position] = np.stack([sighting.amplitudes for sighting in seen if sighting.position == position])
    best, most = np.zeros((count, len(seen[0].amplitudes))), -np.inf
    for start in by_position.values():
        if len(start) < max(map(len, by_position.values())):
            continue
        centres = _unit(start)
        if len(centres) < count:  # more sentences than directions: some share a direction
            centres = np.concatenate([centres, centres[: count - len(centres)]])
        total = 0.0
        for _ in range(20):
            sums, total = np.zeros_like(centres), 0.0
            for points in by_position.values():
                gains = centres @ points.T
                groups, columns = linear_sum_assignment(-gains)
                sums[groups] += points[columns]
                total += float(gains[groups, columns].sum())
            centres = _unit(sums)
        if total > most:
            best, most = centres, total
    return best


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-300)


def _in_order(
    directions: NDArray[np.float64], signs: NDArray[np.float64], seen: list[_Seen], reading: WordsRead
) -> NDArray[np.int64]:
    """Return the index of each sentence's direction, matched by sign and by where the energy ends."""
    positions = len(reading.rows)
    energy = np.zeros((len(directions), positions))
    for sighting in seen:
        gains = directions @ sighting.amplitudes
        nearest = int(np.argmax(np.abs(gains)))
        energy[nearest, sighting.position] += gains[nearest] ** 2
    typical = energy.sum() / max((energy > 0).sum(), 1) / 2
    reached = np.cumsum(energy - typical, axis=1)
    gains = reached[:, np.array(reading.lengths) - 1]  # [directions, sentences]
    opposed = signs[:, None] * np.array(reading.signs) < 0
    rows, columns = linear_sum_assignment(np.where(opposed, energy.sum(), 0.0) - gains)
    order = np.empty(len(columns), np.int64)
    order[columns] = rows
    return order


def _amplitude(rows: NDArray[np.float64], lengths: NDArray[np.int64], dimensions: int) -> NDArray[np.float64]:
    """Return the lengths [sentences] of G_s, assuming that all sentences' gradients have the same length."""
    energy = (rows**2).sum() / max(len(lengths), 1)
    return np.sqrt(energy / (lengths * dimensions))


def _likeliest(
    rows: NDArray[np.float64], gates: NDArray[np.float64], reading: WordsRead, words: list[NDArray[np.int64]] | None
) -> list[NDArray[np.int64]]:
    """Return each sentence's likeliest words, given G and the current words of the other sentences, in one pass."""
    codes = reading.codes
    variance = max(reading.noise**2, (LEAST_NOISE * np.abs(gates).max()) ** 2, 1e-300)
    now: list[NDArray[np.int64] | None] = [None] * len(gates) if words is None else list(words)
    for s, length in enumerate(reading.lengths):
        own = np.einsum("c,pcd->pd", gates[s], rows[:length])
        for other, others in enumerate(now):
            if other != s and others is not None:
                both = min(length, len(others))
                own[:both] -= (gates[s] @ gates[other]) * codes[others[:both]]
        scores = (own / variance).astype(np.float32) @ codes.T + reading.prior.astype(np.float32)
        now[s] = scores.argmax(1)
    return [words for words in now if words is not None]


def _fitted(
    rows: NDArray[np.float64], codes: NDArray[np.float32], words: list[NDArray[np.int64]], gates: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return G by least squares given the words.

    A small ridge pulls G towards its old value, so that the solution is unique even for equal texts.
    """
    count = len(words)
    gram, product = np.zeros((count, count)), np.zeros((count, rows.shape[1]))
    for position in range(len(rows)):
        active = [s for s in range(count) if len(words[s]) > position]
        basis = codes[[int(words[s][position]) for s in active]].astype(np.float64)
        gram[np.ix_(active, active)] += basis @ basis.T
        product[active] += basis @ rows[position].T
    ridge = 1e-3 * np.trace(gram) / count
    return np.linalg.solve(gram + ridge * np.eye(count), product + ridge * gates)
