"""The similarity of a text and its rewrite, by the metrics of `epsilometer.metrics`.

A metric is a class with `measure(originals, rewrites)`, which returns one number per pair, or NaN if it is undefined.
Most metrics compare words as `epsilometer.text.words` yields them: case, layout and punctuation are ignored, and an
emoji is not a word. Texts are truncated to 100,000 characters, since the time of an alignment grows with the product of
both lengths. Networks also truncate texts to the longest input that they can read.

| metric | measures | scale | language |
|---|---|---|---|
| cosine | cosine of the sentence embeddings | -1 to 1 | the encoder's: English by default |
| levenshtein | 1 - edit distance / length of the longer, in characters | 0 to 1 | any |
| jaccard | share of common words among all distinct words | 0 to 1 | any |
| changed | share of words replaced, inserted or deleted | 0 to 1, smaller is more similar | any |
| bleu, rouge_l | n-grams, longest common subsequence of words | 0 to 1 | any |
| meteor | matched words and stems | 0 to 1 | words any, stems English |
| bertscore | F1 of matched token states | -1 to 1 | the encoder's: English by default |
| part_of_speech | similarity of the sequences of tags | 0 to 1 | English |
| perplexity | perplexity of the rewrite under a language model | from 1, smaller is likelier | the model's: English |
| grammaticality | probability that the rewrite is acceptable, by a classifier | 0 to 1 | the classifier's |

No metric measures the quality of a text: two different texts on one topic have a high cosine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.trials.unread import say_language
from epsilometer.core.component import build, by_name, find
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import note

LONGEST = 100_000  # largest number of characters of a text that metrics read
CHEAP = ("levenshtein", "jaccard", "changed", "bleu", "rouge_l", "meteor")  # metrics without a model


class Metric(Protocol):
    """A metric of a text and its rewrite."""

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the values of n pairs [n]; NaN for a pair without a value."""
        ...


def similarity(
    originals: Sequence[str],
    rewrites: Sequence[str],
    metrics: Sequence[str | Path | Metric] | Mapping[str, Mapping[str, Any]] = ("cosine", *CHEAP),
) -> pl.DataFrame:
    """Measure the similarity of each original and its rewrite: a row per pair, a column per metric, null if undefined.

    metrics: names in `epsilometer.metrics` (this module lists them with their scales), paths of files, objects, or a
    mapping from names and paths to settings. Metrics outside `CHEAP` load models. Raises UserError unless originals and
    rewrites are lists of strings with equal lengths, and for unknown metrics.
    """
    chosen = by_name("metrics", metrics, metric, method="measure")
    table = measure(originals, rewrites, chosen)
    say_unread(originals, rewrites, chosen)
    return table


def metric(name: str, settings: Mapping[str, Any]) -> Metric:
    """Return a metric by module name or path, with settings. Raises UserError for unknown settings."""
    instance: Metric = build(find("metrics", name, "measure"), settings, f"utility.metrics.{name}")
    return instance


def say_unread(originals: Sequence[str], rewrites: Sequence[str], metrics: Mapping[str, Metric]) -> None:
    """Print the number of truncated pairs, and a warning if metrics do not read the language of the originals."""
    cut = sum(max(len(a), len(b)) > LONGEST for a, b in zip(originals, rewrites, strict=True))
    if cut:
        note(
            f"metrics read only the first {LONGEST:,} characters of a text; {cut} of {len(originals)} pairs are longer"
        )
    say_language(list(dict.fromkeys(originals)), metrics)


def measure(originals: Sequence[str], rewrites: Sequence[str], metrics: Mapping[str, Metric]) -> pl.DataFrame:
    """Return one row per pair, one column per metric; null if a metric has no value. Equal pairs are measured once.

    Raises UserError unless originals and rewrites are lists of strings with equal lengths, and for a metric that does
    not return one value per pair.
    """
    for name, side in (("originals", originals), ("rewrites", rewrites)):
        if isinstance(side, str) or not all(isinstance(text, str) for text in side):
            raise UserError(f"{name} must be a list of strings; an empty rewrite is the empty string", "EPS-A194")
    if len(originals) != len(rewrites):
        raise UserError(
            f"the numbers of originals and rewrites must be equal, got {len(originals)} and {len(rewrites)}; give "
            "the pairs in order",
            "EPS-A195",
        )
    pairs = [(a[:LONGEST], b[:LONGEST]) for a, b in zip(originals, rewrites, strict=True)]
    number = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    left, right = [a for a, _ in number], [b for _, b in number]
    rows = [number[pair] for pair in pairs]
    columns = {}
    for name, metric in metrics.items():
        values = np.asarray(metric.measure(left, right), np.float64) if number else np.empty(0)
        if values.shape != (len(number),):
            raise UserError(
                f"metric {name!r} returned an array of shape {values.shape}, expected {(len(number),)}", "EPS-A196"
            )
        columns[name] = pl.Series(name, values[rows], dtype=pl.Float64).fill_nan(None)
    return pl.DataFrame(columns)
