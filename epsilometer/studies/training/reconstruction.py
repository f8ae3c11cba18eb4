"""Measures of an attack's recovery of the texts behind a gradient: per text, and as means with intervals.

The recovered texts of a batch have no order. They are assigned to the true texts so that the sum of ROUGE-L is largest.
ROUGE-L is an F1 here, like the scores .222 and .333 in Table 8 of Faustini, Fernandes, McIver and Dras (IEEE Access 13,
2025). The paper's formula instead divides by the longer length, which would give .200 and .250.

| measure | meaning |
|---|---|
| rouge_l, jaccard, meteor, cosine | `metrics` of the recovered and the true text; 1 if the two are equal |
| in_place | share of the true tokens that are recovered at their own position |
| exact | 1 if all words are equal and in the same order |
| identifiers | share of the text's identifiers (`leakage`) in the recovered text; null for a text without identifiers |

The **blind baseline** recovers a public text of nearest length in tokens, assigned in the same way. The baseline does
not use the gradient, so its score is no leak.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.worth.leakage import Identifier
from epsilometer.auditing.worth.similarity import measure, metric
from epsilometer.core import tables
from epsilometer.studies.training.params import TrainingParams
from epsilometer.studies.training.results.reconstruction_bounds import information
from epsilometer.studies.training.sending import noise
from epsilometer.studies.training.tables import RECONSTRUCTED, sent_path
from epsilometer.text.words import words

BLIND = "blind"  # the name of the blind baseline among attacks
METRICS = ("rouge_l", "jaccard", "meteor", "cosine")
MEASURES = (*METRICS, "in_place", "exact", "identifiers")
_LEAST = {"cosine": -1.0}  # the minimum of a measure's range; 0 for all others


def assigned(truths: Sequence[str], recovered: Sequence[str]) -> NDArray[np.int64]:
    """Return the index [n] of each true text's recovered text. The assignment has the largest sum of ROUGE-L."""
    from scipy.optimize import linear_sum_assignment

    pairs = [(truth, other) for truth in truths for other in recovered]
    scores = metric("rouge_l", {}).measure(*map(list, zip(*pairs, strict=True)))
    columns: NDArray[np.int64] = linear_sum_assignment(scores.reshape(len(truths), -1), maximize=True)[1]
    return columns.astype(np.int64)


def in_place(truth: Sequence[int], recovered: Sequence[int]) -> float:
    """Return the share of the true tokens that are recovered at their own position."""
    return sum(a == b for a, b in zip(truth, recovered, strict=False)) / len(truth)


def measured(texts: pl.DataFrame, identifiers: Mapping[int, Sequence[Identifier]]) -> pl.DataFrame:
    """Return a table of pairs of true and recovered texts with their measures, schema `RECONSTRUCTED`.

    texts: a row per pair, with the columns `row`, `truth`, `found`, `true_ids` and `found_ids` among others.
    identifiers: the identifiers in each true text, by row.
    """
    truths, recovered = texts["truth"].to_list(), texts["found"].to_list()
    columns = measure(truths, recovered, {name: metric(name, {}) for name in METRICS}).with_columns(
        pl.Series(
            "in_place", [in_place(*ids) for ids in texts.select("true_ids", "found_ids").iter_rows()], pl.Float64
        ),
        pl.Series("exact", [float(words(a) == words(b)) for a, b in zip(truths, recovered, strict=True)], pl.Float64),
        pl.Series(
            "identifiers",
            [_recovered(identifiers[row], text) for row, text in zip(texts["row"], recovered, strict=True)],
            pl.Float64,
        ),
    )
    return pl.concat([texts, columns], how="horizontal").select(list(RECONSTRUCTED))


def averages(table: pl.DataFrame, alpha: float) -> Iterator[dict[str, Any]]:
    """Yield a row per level, batch size, attack and measure: the mean over batches and its interval at 1 - alpha.

    table: schema `RECONSTRUCTED`. The texts of a batch share their noise, so the independent units are batches. The
    measure `truth_less_likely` is the share of texts for which the recovered text explains the sent gradient better
    than the true text. For such texts, a better search would not help the attack.
    """
    likelier = pl.col("log_likelihood") + pl.col("log_prior") > pl.col("true_log_likelihood") + pl.col("true_log_prior")
    table = table.with_columns(truth_less_likely=likelier.cast(pl.Float64))
    for (level, size, attack), part in table.group_by("level", "size", "attack", maintain_order=True):
        for name in (*MEASURES, "truth_less_likely"):
            present = part.drop_nulls(name)
            if len(present):
                batches = present.group_by("batch", maintain_order=True).agg(pl.col(name).mean())[name]
                value, low, high = bounded_mean(name, batches, alpha)
                named = {"level": level, "size": size, "attack": attack, "measure": name}
                yield named | {"texts": len(present), "value": value, "low": low, "high": high}


def bounds(params: TrainingParams, name: str) -> Iterator[dict[str, Any]]:
    """Yield an upper bound on the information in one text's gradient, in nats, per level of an entry.

    Levels whose noise has no such bound are left out. name: the entry of `reconstruction`.
    """
    of = params.reconstruction[name].sent
    entry, parts = params.sent[of], tables.read_json(sent_path(of) / "about.json")["parts"]
    for level in entry.steps:
        release = noise(entry.noise, level).release(parts)
        if release is not None:
            shared = {"level": level, "size": 1, "attack": "bound", "measure": "information", "texts": None}
            yield shared | {"value": information(release), "low": None, "high": None}


def bounded_mean(name: str, values: ArrayLike, alpha: float) -> tuple[float, float, float]:
    """Return a measure's mean over batches, and lower and upper bounds on it at confidence 1 - alpha.

    name: the measure; values: [batches], at least one, in order. The interval assumes only the measure's range and
    independent batches, so it is valid even for few batches (`estimation.betting`). For a single batch, it covers
    nearly the whole range.
    """
    x, least = np.asarray(values, np.float64), _LEAST.get(name, 0.0)
    shares = np.clip((x - least) / (1 - least), 0, 1)  # rounded cosines may exceed 1
    mean, (low, high) = float(x.mean()), (least + (1 - least) * end for end in interval(shares, alpha, fixed=True))
    return mean, min(low, mean), max(high, mean)


def public_text(length: int, public: Sequence[Sequence[int]], generator: np.random.Generator) -> int:
    """Return the index of a public text, uniform among those whose length in tokens is nearest to `length`."""
    away = np.array([abs(len(ids) - length) for ids in public])
    near = np.flatnonzero(away == away.min())
    return int(near[generator.integers(len(near))])


def _recovered(identifiers: Sequence[Identifier], recovered: str) -> float | None:
    if not identifiers:
        return None
    return sum(identifier.survives(recovered) for identifier in identifiers) / len(identifiers)
