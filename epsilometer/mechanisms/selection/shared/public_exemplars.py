"""Choice of exemplars: a few public texts that represent many, chosen without private texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER
from epsilometer.runtime import checksums

_PIECE = 160  # words per embedded piece, so that its tokens fit into the encoder's window
_PUBLIC: tables.Schema = {"text": pl.String, "exemplar": pl.Int64}


@dataclass(frozen=True)
class ExemplarSet:
    """m exemplars, and the public texts from which they were chosen.

    texts:    the exemplars, m distinct texts.
    vectors:  their sentence embeddings, float64 [m, d], of length 1.
    public:   all public texts.
    encoder:  name of the sentence encoder; seed: seed of the clustering.
    source:   short description of the origin of the public texts, for the claim.
    search:   record of the choice of m by `exemplar_number`; empty if m was given.
    """

    texts: list[str]
    vectors: NDArray[np.float64]
    public: list[str]
    encoder: str = ENCODER
    seed: int = 0
    source: str = "public texts"
    search: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self.encoder)

    @cached_property
    def _last(self) -> dict[tuple[str, ...], NDArray[np.float64]]:
        return {}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return unit vectors [n, d] of texts. The last result is cached, since every budget uses the same texts."""
        key = tuple(texts)
        if key not in self._last:
            self._last.clear()
            self._last[key] = embed(self._encoder, texts)
        return self._last[key]

    def save(self, folder: Path) -> None:
        """Write the files that `load` reads, with checksums: public texts, exemplars and a record of the choice."""
        number = {text: i for i, text in enumerate(self.texts)}
        table = pl.DataFrame({"text": self.public, "exemplar": [number.get(t) for t in self.public]}, schema=_PUBLIC)
        tables.write(table, folder / "public.parquet", _PUBLIC)
        tables.write_array(self.vectors, folder / "vectors.npy")
        tables.write_json(
            {
                "encoder": self.encoder, "seed": self.seed, "exemplars": len(self.texts), "public": len(self.public),
                "source": self.source, "search": dict(self.search),
                "chosen": "the text nearest to each centre of k-means on sentence embeddings",
            },
            folder / "meta.json",
        )  # fmt: skip
        checksums.write(folder)

    @classmethod
    def load(cls, folder: Path) -> ExemplarSet:
        """Read a folder that `save` wrote. Raises UserError for other folders and damaged files."""
        checksums.check(folder)
        try:
            record = _record(folder)
            encoder, seed, count = str(record["encoder"]), int(record["seed"]), int(record["exemplars"])
            source, search = str(record["source"]), dict(record["search"])
            vectors = np.load(folder / "vectors.npy", allow_pickle=False)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _no_folder(folder, error) from error
        table = tables.read(folder / "public.parquet", _PUBLIC)
        texts = table.drop_nulls("exemplar").sort("exemplar")["text"].to_list()
        if not len(texts) == len(vectors) == count:
            raise UserError(f"the files in {folder} do not belong together; choose the exemplars again", "EPS-M063")
        public = table["text"].to_list()
        return cls(texts, vectors, public, encoder=encoder, seed=seed, source=source, search=search)

    @staticmethod
    def source_of(folder: Path) -> str:
        """Return the description of the origin of a folder's public texts, without loading them."""
        try:
            return str(_record(folder)["source"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _no_folder(folder, error) from error


def _record(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "meta.json").read_text("utf-8"))
    return record


def _no_folder(folder: Path, error: Exception) -> UserError:
    return UserError(
        f"{folder} is not a folder of exemplars ({type(error).__name__}); give a file of public texts instead, one per "
        "line, from which exemplars are chosen",
        "EPS-M064",
    )


def choose(
    public: Sequence[str],
    count: int,
    encoder: str = ENCODER,
    seed: int = 0,
    *,
    source: str = "",
    search: Mapping[str, Any] | None = None,
) -> ExemplarSet:
    """Cluster the embeddings of public texts by k-means; return the texts nearest to the centres as exemplars.

    Empty texts and duplicates are left out. source, search: as in `ExemplarSet`; the default source is the number of
    texts. Raises UserError if fewer than `count` texts remain.
    """
    distinct = usable(public)
    check_enough(len(distinct), count)
    vectors = embed(Encoder(encoder), distinct)
    places = central(vectors, count, seed)
    return ExemplarSet(
        [distinct[i] for i in places],
        vectors[places],
        distinct,
        encoder=encoder,
        seed=seed,
        source=source or f"{len(distinct):,} texts",
        search=search or {},
    )


def usable(public: Sequence[str]) -> list[str]:
    """Return the public texts in order, without empty texts and duplicates."""
    return list(dict.fromkeys(text for text in public if text.strip()))


def check_enough(public: int, count: int) -> None:
    """Raise UserError if there are fewer distinct public texts than exemplars."""
    if public < count:
        raise UserError(
            f"{public} distinct non-empty public texts are too few for {count} exemplars; give more public texts, or a "
            "smaller m",
            "EPS-M065",
        )


def central(vectors: NDArray[np.float64], count: int, seed: int) -> list[int]:
    """Return the ascending indices of the unit vectors [n, d] that are nearest to the centres of k-means.

    Raises UserError if there are fewer distinct vectors than centres.
    """
    from sklearn.cluster import KMeans

    if len(np.unique(vectors, axis=0)) < count:
        raise UserError(
            f"the public texts have fewer distinct embeddings than the {count} exemplars requested; give more distinct "
            "texts, or a smaller m",
            "EPS-M066",
        )
    centres = KMeans(count, n_init=4, random_state=seed).fit(vectors).cluster_centers_
    nearness = centres @ vectors.T - (vectors**2).sum(1) / 2  # -(distance^2) / 2, up to a constant
    places: list[int] = []
    for row in nearness:  # if a text is nearest to two centres, the second centre gets its next nearest text
        row[places] = -np.inf
        places.append(int(row.argmax()))
    return sorted(places)


def embed(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return unit vectors [n, d] of texts: means of the embeddings of each text's pieces, scaled to length 1.

    The weight of a piece is its number of words plus 1.
    """
    pieces = [_pieces(text) for text in texts]
    flat = list(dict.fromkeys(piece for parts in pieces for piece in parts))
    vectors = encoder.encode(flat).astype(np.float64)
    place = {piece: i for i, piece in enumerate(flat)}
    sums = np.array(
        [
            np.average(vectors[[place[p] for p in parts]], axis=0, weights=[len(p.split()) + 1 for p in parts])
            for parts in pieces
        ]
    ).reshape(len(texts), encoder.dimensions)
    scaled: NDArray[np.float64] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    return scaled


def _pieces(text: str) -> list[str]:
    words = text.split()
    if len(words) <= _PIECE:
        return [text]
    return [" ".join(words[start : start + _PIECE]) for start in range(0, len(words), _PIECE)]
