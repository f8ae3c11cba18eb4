"""The similarity of a text and its rewrite, by the metrics of `epsilometer.metrics`.

A metric is a class with `measure(originals, rewrites)`: one number per pair, NaN where it is undefined. Most look at
words as `epsilometer.text.words` yields them: case, layout and punctuation do not count, and an emoji is not a word.
Texts are read up to their first 100,000 characters, since alignments take time by the product of two lengths, and by
networks up to their windows.

| metric | what | scale | language |
|---|---|---|---|
| cosine | of the sentence embeddings | -1 to 1 | the encoder's: English by default |
| levenshtein | 1 - edit distance / length of the longer, in characters | 0 to 1 | any |
| jaccard | sets of words: common / all | 0 to 1 | any |
| changed | share of words replaced, inserted or deleted | 0 to 1, less is closer | any |
| bleu, rouge_l | n-grams, longest common subsequence of words | 0 to 1 | any |
| meteor | matched words and stems | 0 to 1 | words any, stems English |
| bertscore | F1 of matched token states | -1 to 1 | the encoder's: English by default |
| part_of_speech | likeness of the sequences of tags | 0 to 1 | English |
| perplexity | of the rewrite alone, under a language model | from 1, less is likelier | the model's: English |
| grammaticality | of the rewrite alone, by a classifier | 0 to 1 | the classifier's |

None of them measures whether a text is good: two texts on one topic have a high cosine.
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

LONGEST = 100_000  # characters
CHEAP = ("levenshtein", "jaccard", "changed", "bleu", "rouge_l", "meteor")  # those that need no model


class Metric(Protocol):
    """A number for a text and its rewrite."""

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the [n] values of n pairs; NaN where a pair has none."""
        ...


def similarity(
    originals: Sequence[str],
    rewrites: Sequence[str],
    metrics: Sequence[str | Path | Metric] | Mapping[str, Mapping[str, Any]] = ("cosine", *CHEAP),
) -> pl.DataFrame:
    """Measure the similarity of each original and its rewrite: a row per pair, a column per metric, null if undefined.

    metrics: names in `epsilometer.metrics` (this module lists them with their scales), paths of files, objects, or a
    mapping from names and paths to settings. Those beyond the default load models. Raises UserError unless originals
    and rewrites are equally many strings, and for unknown metrics.
    """
    chosen = by_name("metrics", metrics, metric, method="measure")
    table = measure(originals, rewrites, chosen)
    say_unread(originals, rewrites, chosen)
    return table


def metric(name: str, settings: Mapping[str, Any]) -> Metric:
    """Return a shipped metric by module name, or one from a user's file. Raises UserError for unknown settings."""
    instance: Metric = build(find("metrics", name, "measure"), settings, f"utility.metrics.{name}")
    return instance


def say_unread(originals: Sequence[str], rewrites: Sequence[str], metrics: Mapping[str, Metric]) -> None:
    """Note how many pairs are read in part, and which metrics read only English if the originals are not English."""
    cut = sum(max(len(a), len(b)) > LONGEST for a, b in zip(originals, rewrites, strict=True))
    if cut:
        note(
            f"metrics read the first {LONGEST:,} characters of a text: of {cut} of {len(originals)} pairs not the rest"
        )
    say_language(list(dict.fromkeys(originals)), metrics)


def measure(originals: Sequence[str], rewrites: Sequence[str], metrics: Mapping[str, Metric]) -> pl.DataFrame:
    """Return one row per pair, one column per metric; null where a metric has no number. Equal pairs are measured once.

    Raises UserError unless originals and rewrites are equally many strings, and for a metric that returns another
    number of values.
    """
    for name, side in (("originals", originals), ("rewrites", rewrites)):
        if isinstance(side, str) or not all(isinstance(text, str) for text in side):
            raise UserError(f"{name} must be a list of strings; an empty rewrite is the empty string", "EPS-A194")
    if len(originals) != len(rewrites):
        raise UserError(
            f"originals and rewrites must be as many, got {len(originals)} and {len(rewrites)}; give "
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
                f"metric {name!r} returned an array of shape {values.shape}, {(len(number),)} is due", "EPS-A196"
            )
        columns[name] = pl.Series(name, values[rows], dtype=pl.Float64).fill_nan(None)
    return pl.DataFrame(columns)
