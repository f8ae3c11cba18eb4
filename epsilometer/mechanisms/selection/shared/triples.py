"""The public corpus of triples from which DP-ST samples: collects, deduplicates, embeds and clusters triples.

As in Meisenbacher et al.'s DP-ST, triples of public texts are written as "s | r | o". Near-duplicates are found by
MinHash (Broder 1997; threshold 0.4 on the Jaccard similarity of character 3-grams, 128 permutations), and one triple of
each group stays. Triples are embedded by the first 32 dimensions of a sentence embedding, and clustered by mini-batch
k-means (Sculley 2010). All texts must be public.

Departures: among near-duplicates the most frequent triple stays; ties go to the shortest, then to the first in
alphabetical order. In the paper the triple with the lowest perplexity under GPT-2 stays. A triple is dropped only if it
is a near-duplicate of a triple that stays. So several triples of a chain of near-duplicates may stay. A triple without
a near-duplicate stays, too; in the paper it is dropped.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.mechanisms.selection.shared.near_duplicates import stand_ins
from epsilometer.models import tagging
from epsilometer.models.devices import described
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER
from epsilometer.models.tagging import HEADS, Triple, TripleReader, tagger
from epsilometer.runtime.progress import track

SCHEMA: tables.Schema = {"subject": pl.String, "relation": pl.String, "object": pl.String, "count": pl.Int64}

_CHUNK = 512  # triples embedded at a time; progress is reported after each chunk
_PART = 2048  # texts read at a time; a killed call repeats at most one part
_READ: tables.Schema = {"text": pl.Int64, "subject": pl.String, "relation": pl.String, "object": pl.String}


@dataclass(frozen=True)
class TripleCorpus:
    """n triples with their unit vectors and clusterings.

    triples:    the n triples.
    vectors:    float32 [n, dimensions], of length 1.
    centroids:  float32 [K, dimensions] for each number K of clusters.
    members:    int32 [n] for each K: the cluster of each triple.
    encoder:    name of the sentence encoder of the vectors; tagger: name of the tagger that extracted the triples.
    heads:      folder of the embedded tagger's weights.
    """

    triples: Sequence[Triple]
    vectors: NDArray[np.float32]
    centroids: Mapping[int, NDArray[np.float32]]
    members: Mapping[int, NDArray[np.int32]]
    encoder: str
    tagger: str
    heads: Path = HEADS

    @cached_property
    def reader(self) -> TripleReader:
        """The tagger that extracts triples."""
        return tagger(self.tagger, self.heads)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self.encoder)

    def encode(self, triples: Sequence[Triple]) -> NDArray[np.float32]:
        """Return unit vectors [n, dimensions] of any triples, computed like those of the corpus."""
        return embed(self._encoder, triples, self.vectors.shape[1])

    def save(self, folder: Path, counts: Mapping[str, int], count_of: Sequence[int]) -> None:
        """Write the files that `load` reads.

        counts: statistics of the corpus, such as numbers of texts and triples; count_of: occurrences of each triple.
        """
        columns = {name: [triple[i] for triple in self.triples] for i, name in enumerate(list(SCHEMA)[:3])}
        tables.write(
            pl.DataFrame({**columns, "count": count_of}, schema=dict(SCHEMA)), folder / "triples.parquet", SCHEMA
        )
        tables.write_array(self.vectors, folder / "embeddings.npy")
        for size, centroids in self.centroids.items():
            tables.write_array(centroids, folder / f"centroids-{size}.npy")
            tables.write_array(self.members[size], folder / f"members-{size}.npy")
        if self.tagger == HEADS.name:
            for name in ("heads.safetensors", "labels.json"):
                (folder / HEADS.name).mkdir(exist_ok=True)
                shutil.copyfile(self.heads / name, folder / HEADS.name / name)
        settings = {"encoder": self.encoder, "tagger": self.tagger, "clusters": sorted(self.centroids)}
        tables.write_json(
            {**settings, "counts": dict(counts)}, folder / "meta.json"
        )  # written last, since without it the folder is not a corpus

    @classmethod
    def load(cls, folder: Path) -> TripleCorpus:
        """Read a folder that `save` wrote. Raises UserError for any other folder."""
        try:
            settings = json.loads((folder / "meta.json").read_text("utf-8"))
            encoder, name, sizes = (
                str(settings["encoder"]),
                str(settings["tagger"]),
                [int(size) for size in settings["clusters"]],
            )
            vectors = np.load(folder / "embeddings.npy", mmap_mode="r", allow_pickle=False)
            centroids = {size: np.load(folder / f"centroids-{size}.npy", allow_pickle=False) for size in sizes}
            members = {size: np.load(folder / f"members-{size}.npy", allow_pickle=False) for size in sizes}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{folder} is not a folder of triples ({type(error).__name__}); make one from public text by stage "
                "`build` (epsilometer pipeline stage build triples-NAME)",
                "EPS-M067",
            ) from error
        table = tables.read(folder / "triples.parquet", SCHEMA)
        shapes = {len(table), len(vectors), *(len(member) for member in members.values())}
        if len(shapes) > 1 or not sizes or not len(table):
            raise UserError(
                f"the files in {folder} do not belong together; make the folder again by stage `build`", "EPS-M068"
            )
        triples = [Triple(*row) for row in table.select(list(SCHEMA)[:3]).iter_rows()]
        return cls(triples, vectors, centroids, members, encoder=encoder, tagger=name, heads=folder / HEADS.name)


@dataclass(frozen=True)
class Clustering:
    """Settings of a corpus of triples.

    clusters:   for each clustering, its number of clusters.
    dimensions: number of leading dimensions of the embedding to use.
    threshold:  smallest Jaccard similarity of near-duplicates.
    encoder:    name of the sentence encoder.
    tagger:     name of the tagger.
    """

    clusters: Sequence[int]
    dimensions: int = 32
    threshold: float = 0.4
    encoder: str = ENCODER
    tagger: str = HEADS.name
    seed: int = 0


def build(texts: Sequence[str], folder: Path, settings: Clustering) -> TripleCorpus:
    """Make a corpus of triples from public texts, write it to a folder, and return it.

    If a call is killed, the same call resumes the extraction and the search for near-duplicates. Raises UserError if
    the texts contain no triple, or fewer triples than clusters.
    """
    clusters, seed = settings.clusters, settings.seed
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Outside the folder's parent, since DVC may track the whole parent.
    unfinished = folder.parent.with_name(f"{folder.parent.name}.unfinished") / folder.name
    counted: Counter[Triple] = Counter()
    with_triple = 0
    for part in _read(texts, settings.tagger, unfinished / "read"):
        counted.update(Triple(*row) for row in part.drop("text").iter_rows())
        with_triple += part["text"].n_unique()
    if not counted:
        raise UserError(
            f"the {len(texts)} texts contain no triple; give English sentences with subject and object", "EPS-M069"
        )
    ranked = sorted(counted, key=lambda triple: (-counted[triple], len(triple.text), triple.text))
    stand_in = stand_ins([triple.text for triple in ranked], settings.threshold, seed, unfinished / "index")
    unique = np.unique(stand_in)
    if max(clusters) > len(unique):
        raise UserError(
            f"clusters must be at most the number of triples, {len(unique)} without near-duplicates, got "
            f"{max(clusters)}",
            "EPS-M070",
        )
    total = np.bincount(stand_in, [counted[triple] for triple in ranked]).astype(int)[unique]
    chosen = [ranked[i] for i in unique]
    model, starts = Encoder(settings.encoder), range(0, len(chosen), _CHUNK)
    parts = [
        embed(model, chosen[i : i + _CHUNK], settings.dimensions) for i in track(starts, len(starts), "embed triples")
    ]
    vectors = np.concatenate(parts)
    clustered = {size: cluster(vectors, size, seed) for size in track(sorted(set(clusters)), len(clusters), "cluster")}
    corpus = TripleCorpus(
        chosen,
        vectors,
        {size: centroids for size, (centroids, _) in clustered.items()},
        {size: members for size, (_, members) in clustered.items()},
        encoder=settings.encoder,
        tagger=settings.tagger,
    )
    counts = {
        "texts": len(texts),
        "texts_with_triples": with_triple,
        "triples": counted.total(),
        "distinct": len(ranked),
        "kept": len(chosen),
    }
    folder.mkdir(exist_ok=True)
    corpus.save(folder, counts, total.tolist())
    shutil.rmtree(unfinished)
    with suppress(OSError):  # it may contain the work of other calls
        unfinished.parent.rmdir()
    return corpus


def _read(texts: Sequence[str], name: str, folder: Path) -> Iterator[pl.DataFrame]:
    """Yield the triples of texts (schema `_READ`) part by part. Each part is stored in a file to resume from."""
    reader = tagger(name)
    of = hashlib.blake2b(f"{name} {described()}".encode() + Path(tagging.__file__).read_bytes(), digest_size=16)
    of.update((HEADS / "heads.safetensors").read_bytes())
    starts = range(0, len(texts), _PART)
    for start in track(starts, len(starts), "find triples"):
        some, own = texts[start : start + _PART], of.copy()
        own.update(json.dumps(some).encode())
        path = folder / f"{own.hexdigest()}.parquet"
        if not path.is_file():
            rows = [(i, *triple) for i, triples in enumerate(reader.triples(some)) for triple in triples]
            tables.write(pl.DataFrame(rows, schema=dict(_READ), orient="row"), path, _READ)
        yield tables.read(path, _READ)


def embed(encoder: Encoder, triples: Sequence[Triple], dimensions: int) -> NDArray[np.float32]:
    """Return the leading dimensions of the embeddings of "s | r | o", scaled to length 1: float32 [n, dimensions]."""
    if dimensions > encoder.dimensions:
        raise UserError(
            f"dimensions must be at most those of the encoder, {encoder.dimensions}, got {dimensions}", "EPS-M071"
        )
    vectors = encoder.encode([triple.text for triple in triples])[:, :dimensions].astype(np.float64)
    return (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)).astype(np.float32)


def cluster(vectors: NDArray[np.float32], size: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Cluster vectors by mini-batch k-means; return centroids [size, dimensions] and each vector's cluster, [n].

    Clusters may be empty.
    """
    from sklearn.cluster import MiniBatchKMeans
    from threadpoolctl import threadpool_limits

    model = MiniBatchKMeans(size, batch_size=8192, max_iter=10, n_init=3, random_state=seed)
    with threadpool_limits(1):  # sums over threads differ with the number of cores
        members = model.fit_predict(np.ascontiguousarray(vectors, np.float64))
    return model.cluster_centers_.astype(np.float32), members.astype(np.int32)
