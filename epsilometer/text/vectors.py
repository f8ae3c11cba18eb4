"""Static word vectors, one per word, with exact Euclidean distances.

Vectors can come from an npz archive (arrays `words`, `vectors`), word2vec's text or binary format (with a first line
`words dimensions`), GloVe's text format (without that line), a transformer's token embeddings, or gensim's vectors in
memory. The format of a file is detected from its content.

Privacy claims depend on the distances, so distances are computed in float64. float32 only finds candidates; float64
decides between candidates near a threshold.
"""

from __future__ import annotations

import threading
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from epsilometer.core import resource_limits
from epsilometer.core.atomic import whole
from epsilometer.core.errors import UserError
from epsilometer.text.packaged_vectors import read_packaged
from epsilometer.text.vector_files import read_embeddings, read_vectors
from epsilometer.text.words import words as words_of

_SLICE = 64  # most rows of a matrix product
# The order in which BLAS sums, and so the last bits, may depend on the shapes of a product. So shapes are restricted:
_EVEN = 4  # the number of rows is a multiple of this
_FEW = 512  # with at most this many targets, products have exactly _SLICE rows
_WIDE = 8  # the number of targets is a multiple of this
_ROWS = 512  # rows of distances in memory at a time, if their last bits do not matter
_SCORES = 1 << 24  # float32 numbers in memory at a time: 64 MiB
_COLUMNS = 4096  # columns of scores at a time, so that they stay in the processor's cache
_HEAD = 64  # number of first dimensions, which are compared before all others
_RARE = 1 / 256  # if at most this share of pairs is near in the first dimensions, those pairs are compared one by one
_PAIRS = 1 << 13  # pairs of vectors in memory at a time
_CELLS = 1 << 16  # distances at a time, so that the working arrays stay in the processor's cache
_NEAR = 1e-3  # squared distances below this share of the squared norms are recomputed exactly; see `distances`


def _products(rows: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the [n, m] inner products of rows [n, d] and targets [m, d], with n at most _SLICE.

    The bits of an inner product depend only on its two vectors. For this purpose, the targets after the last multiple
    of _WIDE are multiplied separately, in a matrix product of constant shape.
    """
    out, even = np.empty((len(rows), len(targets))), len(targets) - len(targets) % _WIDE
    np.matmul(rows, targets[:even].T, out=out[:, :even])
    if even < len(targets):
        rest = np.zeros((_WIDE, targets.shape[1]))
        rest[: len(targets) - even] = targets[even:]
        every = np.resize(rows, (_SLICE, rows.shape[1])) @ rest.T
        out[:, even:] = every[: len(rows), : len(targets) - even]
    return out


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


_LIMITED = threading.local()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run matrix products on one thread. Entering is as slow as a small product: enter once for many products."""
    if getattr(_LIMITED, "now", False):
        yield
        return
    _LIMITED.now = True
    try:
        with _blas().limit(limits=1, user_api="blas"):
            yield
    finally:
        _LIMITED.now = False


class WordVectors:
    """Words and their vectors.

    words: [V] distinct; vectors: float32 [V, d], finite.
    Raises UserError for duplicate words, infinite or NaN values, unequal numbers of words and vectors, or fewer than
    two words.
    """

    def __init__(self, words: Sequence[str], vectors: NDArray[np.floating], name: str = "the word vectors") -> None:
        self.words = [str(word) for word in words]
        try:
            self.vectors = np.ascontiguousarray(vectors, np.float32)
        except (ValueError, TypeError) as error:
            raise UserError(
                f"{name}: every word must have a vector of the same number of numbers ({error}); correct them",
                "EPS-D068",
            ) from error
        if self.vectors.ndim != 2 or self.vectors.shape[0] != len(self.words) or self.vectors.shape[1] == 0:
            raise UserError(
                f"{name}: vectors must have one row per word, got shape {self.vectors.shape} for {len(self.words)} "
                "words; give an array [words, dimensions]",
                "EPS-D069",
            )
        if len(self.words) < 2:
            raise UserError(
                f"{name}: a vocabulary needs at least 2 words, got {len(self.words)}; give more words", "EPS-D070"
            )
        word, times = Counter(self.words).most_common(1)[0]
        if times > 1:
            raise UserError(
                f"{name}: the word {word!r} occurs {times} times; keep one vector for each word", "EPS-D071"
            )
        # A row is finite if its minimum and maximum are; testing only these two needs no copy of the matrix.
        finite = np.isfinite(self.vectors.min(axis=1)) & np.isfinite(self.vectors.max(axis=1))
        broken = np.flatnonzero(~finite)
        if len(broken):
            raise UserError(
                f"{name}: the vector of {self.words[broken[0]]!r} (entry {broken[0] + 1}) contains a value that is not "
                f"finite; correct or remove such entries ({len(broken)} in all)",
                "EPS-D072",
            )

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def load(cls, path: Path | str) -> WordVectors:
        """Read word vectors from a file of any format, a pin, or a transformer's folder.

        Raises UserError if the file is missing or damaged.
        """
        path = Path(path)
        if path.is_dir():
            return cls.from_transformer(path)
        if not path.is_file():
            raise UserError(f"file {str(path)!r} not found; give the path of a file of word vectors", "EPS-D073")
        if path.suffix == ".json":
            return cls(*read_packaged(path), str(path))
        with path.open("rb") as file:
            start = file.read(4)
        if start != b"PK\x03\x04":  # the start of a zip archive, and so of an npz archive
            return cls(*read_vectors(path), str(path))
        words, vectors = read_arrays(path, "words", "vectors")
        if words.dtype.kind != "U" or words.ndim != 1:
            raise UserError(
                f"{path}: 'words' must be an array of strings [V], got {words.dtype} {words.shape}; write it again",
                "EPS-D074",
            )
        return cls(words.tolist(), vectors, str(path))

    @classmethod
    def from_gensim(cls, keyed_vectors: Any) -> WordVectors:
        """Return the words and vectors of gensim's KeyedVectors (version 4 or later) in memory."""
        try:
            words, vectors = keyed_vectors.index_to_key, keyed_vectors.vectors
        except AttributeError as error:
            raise UserError(
                f"a {type(keyed_vectors).__name__} has no index_to_key and vectors; give gensim's KeyedVectors, the "
                "attribute `wv` of a model",
                "EPS-D075",
            ) from error
        return cls(words, vectors, "gensim's vectors")

    @classmethod
    def from_transformer(cls, folder: Path) -> WordVectors:
        """Return the input embeddings of a transformer's whole words; see `vector_files.read_embeddings`."""
        return cls(*read_embeddings(folder), str(folder))

    def save(self, path: Path | str) -> None:
        """Write an npz archive (`words`, `vectors`). Equal vectors give equal bytes."""
        write_arrays(path, words=np.array(self.words), vectors=self.vectors)

    def whole_words(self) -> WordVectors:
        """Return only the entries whose word `epsilometer.text.words.words` returns unchanged.

        Words of other entries (capitals, punctuation, phrases) never occur in a tokenised text. As outputs, they would
        only reveal that a text is a rewrite.
        """
        whole = np.array([words_of(word) == [word] for word in self.words])
        if whole.all():
            return self
        return WordVectors([w for w, k in zip(self.words, whole, strict=True) if k], self.vectors[whole])

    def first(self, count: int) -> WordVectors:
        """Return only the first `count` words."""
        return WordVectors(self.words[:count], self.vectors[:count])

    def normalised(self) -> WordVectors:
        """Return the vectors scaled to length 1. Raises UserError for a zero vector."""
        norms = np.linalg.norm(self.vectors.astype(np.float64), axis=1, keepdims=True)
        if not norms.all():
            word = self.words[int(np.argmin(norms))]
            raise UserError(
                f"the vector of {word!r} is zero and has no direction; leave it out before normalising", "EPS-D076"
            )
        return WordVectors(self.words, self.vectors / norms)

    @cached_property
    def exact(self) -> NDArray[np.float64]:
        """The vectors in float64, [V, d]."""
        return self.vectors.astype(np.float64)

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """The squared lengths, [V]."""
        return np.einsum("ij,ij->i", self.exact, self.exact)

    @cached_property
    def _half(self) -> NDArray[np.float32]:
        """Half the squared lengths in float32, [V]."""
        return (self.squares / 2).astype(np.float32)

    @cached_property
    def _head(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The first _HEAD dimensions of the vectors, and half the squared lengths in these dimensions."""
        head = np.ascontiguousarray(self.vectors[:, :_HEAD])
        exact = head.astype(np.float64)
        return head, (np.einsum("ij,ij->i", exact, exact) / 2).astype(np.float32)

    def between(self, left: NDArray[np.integer], right: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the Euclidean distances between words left[i] and right[i], [n]."""
        out = np.empty(len(left))
        for start in range(0, len(left), _PAIRS):
            part = slice(start, start + _PAIRS)
            out[part] = np.linalg.norm(self.exact[left[part]] - self.exact[right[part]], axis=1)
        return out

    def distances(self, words: NDArray[np.integer], to: NDArray[np.integer] | None = None) -> NDArray[np.float64]:
        """Return the Euclidean distances [n, m] from n words to m words. to: None means all words."""
        targets = np.arange(len(self)) if to is None else to
        exact, squares = (self.exact, self.squares) if to is None else (self.exact[to], self.squares[to])
        out = np.empty((len(words), len(targets)))
        for start in range(0, len(words), _SLICE):
            rows = np.asarray(words[start : start + _SLICE])
            size = _SLICE if len(targets) <= _FEW else len(rows) + -len(rows) % _EVEN
            full = rows[np.arange(size) % len(rows)]
            with one_thread():  # several threads would split sums by size, which changes bits
                products = _products(self.exact[full], exact)[: len(rows)]
            step = max(1, _CELLS // len(targets))
            for piece in (slice(first, first + step) for first in range(0, len(rows), step)):
                some, norms, squared = rows[piece], self.squares[rows[piece], None] + squares, products[piece]
                squared *= 2
                np.subtract(norms, squared, squared)
                # |x|^2 + |y|^2 - 2xy gives twelve digits of a distance, except between (nearly) equal vectors.
                norms *= _NEAR
                near, word = np.nonzero(squared < norms)
                if len(near):
                    squared[near, word] = self.between(some[near], targets[word]) ** 2
                np.sqrt(squared, out=out[start : start + len(rows)][piece])
        return out

    def near(self, words: NDArray[np.integer], radius: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all pairs of a word in `words` and a word of the vocabulary at most `radius` apart, as two arrays [m].

        The first array has indices into `words`, and the second has the vocabulary word of each pair. Pairs are
        compared in float32, which is much faster than `distances`. So some returned pairs are slightly farther apart
        than `radius`; use `between` to exclude them.
        """
        targets, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        slack = rounding(np.sqrt(self.squares[words]), self.squares.max() ** 0.5, self.vectors.shape[1])
        limit = ((radius**2 - self.squares[words]) / 2).astype(np.float32) + slack
        head, half = self._head
        nearer = ((radius**2 - 2.0 * half[words]) / 2).astype(np.float32) + 2 * slack
        selective = head.shape[1] < self.vectors.shape[1]
        for start in range(0, len(words), _ROWS):
            part = slice(start, start + _ROWS)
            points = self.vectors[words[part]]
            for first in range(0, len(self), _COLUMNS):
                some = slice(first, first + _COLUMNS)
                if selective:  # words that are too far apart in the first dimensions are too far apart in all
                    scores = half[some] - head[words[part]] @ head[some].T
                    row, target = np.divmod(np.flatnonzero(scores <= nearer[part, None]), scores.shape[1])
                    selective = len(row) <= _RARE * scores.size
                if selective:
                    close = self.between(words[part][row], target + first) <= radius
                    rows.append(row[close] + start)
                    targets.append(target[close] + first)
                    continue
                scores = points @ self.vectors[some].T
                np.subtract(self._half[some], scores, out=scores)  # = (distance^2 - |word|^2) / 2
                row, target = np.divmod(np.flatnonzero(scores <= limit[part, None]), scores.shape[1])
                rows.append(row + start)
                targets.append(target + first)
        return np.concatenate(rows), np.concatenate(targets)

    def survey(self, count: int) -> tuple[NDArray[np.int32], NDArray[np.float64], float, float]:
        """Return the `neighbours` of every word, two arrays [V, count], and the smallest and largest distance of words.

        All pairs of words are compared once. count: at least 2.
        """
        nearest, far = np.empty((len(self), count), np.int32), np.empty((len(self), count))
        high = 0.0
        for start in range(0, len(self), _SLICE):
            part = slice(start, start + _SLICE)
            scores = self._half - self.vectors[part] @ self.vectors.T
            slack = self._slack(np.sqrt(self.squares[part]))
            nearest[part], far[part] = self._settled(self.exact[part], scores, slack, count)
            largest = scores.max(axis=1)
            squared = 2 * largest + self.squares[part]
            for row in np.flatnonzero(squared >= max(squared.max(), high**2) - 4 * slack.max()):
                word = np.flatnonzero(scores[row] >= largest[row] - 2 * slack[row])
                high = max(high, float(self.between(np.full(len(word), start + row), word).max()))
        # A word's two nearest words are itself and another word, or two other words with an equal vector.
        closest = np.flatnonzero(far[:, 1] <= far[:, 1].min() * (1 + 1e-9))
        left, right = np.repeat(closest, 2), nearest[closest, :2].ravel()
        low = float(self.between(left[left != right], right[left != right]).min())
        return nearest, far, low, high

    def nearest(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the index [n] of the word nearest to each point [n, d], exactly; of equally near words, the first."""
        return self.neighbours(points, 1)[0][:, 0]

    def neighbours(self, points: NDArray[np.float64], count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the `count` words nearest to each point [n, d], nearest first, and their distances, [n, count]."""
        nearest, far = np.empty((len(points), count), np.int64), np.empty((len(points), count))
        step = max(_SLICE, min(_ROWS, _SCORES // len(self)))  # float32 only chooses which words to compare
        for start in range(0, len(points), step):
            part = points[start : start + step]
            scores = part.astype(np.float32) @ self.vectors.T
            np.subtract(self._half, scores, out=scores)
            slack = self._slack(np.sqrt(np.einsum("ij,ij->i", part, part)))
            rows = slice(start, start + len(part))
            nearest[rows], far[rows] = self._settled(part, scores, slack, count)
        return nearest, far

    def _slack(self, norms: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the bound `rounding` [n] for the scores of points with these norms [n]."""
        return rounding(norms, self.squares.max() ** 0.5, self.vectors.shape[1])

    def _settled(
        self, points: NDArray[np.float64], scores: NDArray[np.float32], slack: NDArray[np.float32], count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the `count` nearest words of points [n, d] and their distances, exactly.

        scores: (distance^2 - |point|^2) / 2 in float32, [n, V]; slack: [n], bound on the error of score differences.
        """
        limit = scores.min(axis=1) if count == 1 else np.partition(scores, count - 1, axis=1)[:, count - 1]
        row, word = np.divmod(np.flatnonzero(scores <= (limit + slack)[:, None]), len(self))
        difference = points[row] - self.exact[word]
        squared = np.einsum("ij,ij->i", difference, difference)
        order = np.lexsort((word, squared, row))
        # `row` ascends, and every point has at least `count` candidates.
        first = np.searchsorted(row, np.arange(len(points)))[:, None] + np.arange(count)
        return word[order[first]], np.sqrt(squared[order[first]])


def rounding(points: NDArray[np.float64], largest: float, dimensions: int) -> NDArray[np.float32]:
    """Return an upper bound [n] on the rounding error of the difference of two float32 scores |y|^2 / 2 - x.y.

    points: [n], norms of the points x; largest: largest norm of the vectors y. The bound is twice the usual bound
    (d + 2) u |x| |y| of an inner product (Higham, "Accuracy and Stability of Numerical Algorithms", eq. 3.5), plus
    an allowance for rounding the inputs.
    """
    return ((dimensions + 6) * 2.0**-23 * (points + largest) * largest).astype(np.float32)


def write_arrays(path: Path | str, **arrays: NDArray) -> None:
    """Write an npz archive atomically."""
    with whole(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_arrays(path: Path, *names: str) -> list[NDArray]:
    """Return these arrays of an npz archive. Raises UserError for a damaged file or a missing array."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if sum(member.file_size for member in archive.zip.infolist()) > resource_limits.unpacked(path):
                raise resource_limits.too_large(path)
            return [archive[name] for name in names]
    except KeyError as error:
        raise UserError(
            f"{path} must contain the arrays {', '.join(names)}: {error.args[0]}; write the file again", "EPS-D077"
        ) from error
    except UserError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read as npz ({error}); write the file again", "EPS-D078") from error
