"""Intervals of means, shares and F1 over the measured texts, clustered by their source.

Several rewrites of one text are not independent observations. So texts are resampled as clusters, each with all of its
rewrites. Means and F1 have BCa bootstrap intervals (Efron 1987) over these clusters. Shares have Clopper and Pearson's
interval with the effective number of observations; if there are few clusters, this number is corrected for its
uncertainty (Korn and Graubard 1998). A bootstrap gives no interval for an event that was never observed. With fewer
than `_FEW` clusters, a bootstrap understates the variation. In this case, means have Student's interval if that is
wider, and F1 is bounded by intervals of shares.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv
from scipy.stats import DegenerateDataWarning, bootstrap
from scipy.stats import t as student

_RESAMPLES = 4_999  # (resamples + 1) * alpha / 2 is whole for usual alphas, so bounds are order statistics
_BEYOND = 5  # fewest resamples beyond each bound for a reliable bound
_FEW = 20  # with fewer sources, a bootstrap interval covers the mean less often than stated
_BATCH = 500  # resamples held in memory at a time


def mean_interval(values: ArrayLike, sources: ArrayLike, alpha: float) -> tuple[float, float, float]:
    """Return the mean, and its lower and upper bound at confidence 1 - alpha.

    values: [n], at least one. sources: [n], the source text of each value. If all values are 0 or 1, the result is that
    of `share_interval`. Otherwise, for one source or equal values, both bounds are the mean.
    """
    x, (_, source) = np.asarray(values, float), np.unique(np.asarray(sources), return_inverse=True)
    if np.isin(x, (0, 1)).all():
        return share_interval(x, source, alpha)
    mean = float(x.mean())
    if source.max() == 0 or np.ptp(x) == 0:
        return mean, mean, mean
    return mean, *_mean_over_sources(x, source, alpha)


def share_interval(hits: ArrayLike, sources: ArrayLike, alpha: float) -> tuple[float, float, float]:
    """Return the share of 1s, and its bounds at confidence 1 - alpha. hits, sources: [n], at least one."""
    x, (_, source) = np.asarray(hits, float), np.unique(np.asarray(sources), return_inverse=True)
    sums, counts = np.bincount(source, x), np.bincount(source)
    share, n, texts = float(x.mean()), len(x), len(sums)
    size = float(texts)  # if all hits are equal, only the number of texts counts
    if 0 < share < 1 and texts > 1:
        clustered = _variance(sums, counts)
        effective = n / (n - 1) * share * (1 - share) / clustered if clustered > 0 else n
        size = min(n, effective * float(student.isf(alpha / 2, n - 1) / student.isf(alpha / 2, texts - 1)) ** 2)
    hit = share * size
    low = float(betaincinv(hit, size - hit + 1, alpha / 2)) if share > 0 else 0.0
    high = float(betaincinv(hit + 1, size - hit, 1 - alpha / 2)) if share < 1 else 1.0
    return share, low, high


def clustered_share(hits: ArrayLike, sources: ArrayLike, alpha: float) -> tuple[float, float, float]:
    """Return the share of 1s, and its lower and upper bound. hits, sources: [n], at least one.

    The interval is BCa over sources. Instead, the interval is that of `share_interval` if each source occurs once, if
    sources are few, if all resamples are equal, or if alpha is too small for the number of resamples.
    """
    x, (_, source) = np.asarray(hits, float), np.unique(np.asarray(sources), return_inverse=True)
    share, low, high = share_interval(x, source, alpha)
    coarse = alpha / 2 * (_RESAMPLES + 1) < _BEYOND - 1e-9
    if coarse or source.max() + 1 < _FEW or source.max() + 1 == len(x) or share in (0, 1):
        return share, low, high
    resampled = _mean_over_sources(x, source, alpha)
    return (share, *resampled) if resampled[0] < resampled[1] else (share, low, high)


def f1_interval(
    truth: NDArray[np.integer], guesses: NDArray[np.integer], classes: int, alpha: float, *, sources: ArrayLike
) -> tuple[float, float]:
    """Return the interval, over test texts, of the mean macro F1 of these classifiers, at confidence 1 - alpha.

    truth: [n] indices of classes, at least one. guesses: [classifiers, n]. sources: [n], a label shared by dependent
    texts, such as their author. The interval covers the score of these classifiers on other texts, not the scores of
    other classifiers. If no classifier errs, if texts come from few sources, or if all resamples have the same errors,
    the interval is widened by means of two shares. Its lower bound is then at most the lower bound of the share of
    texts that all classifiers get right. Its upper bound is at least the upper bound of the share that any classifier
    gets right.
    """
    source = _in_order(sources)
    every, clusters = np.arange(classes), int(source.max()) + 1
    is_class = truth[:, None] == every
    guessed = guesses[:, :, None] == every
    hits = _sums((guessed & is_class).transpose(1, 0, 2), source)
    both = _sums((guessed.astype(float) + is_class).transpose(1, 0, 2), source)  # F1 = 2 hits / both

    def statistic(rows: NDArray[np.int64], axis: int) -> NDArray[np.float64]:
        lead = rows.shape[:-1]
        flat = rows.reshape(-1, rows.shape[-1])
        places = flat + clusters * np.arange(len(flat))[:, None]
        weights = np.bincount(places.ravel(), minlength=len(flat) * clusters).reshape(len(flat), -1)
        total = weights @ both
        f1: NDArray[np.float64] = (2 * (weights @ hits) / np.where(total > 0, total, 1)).mean(axis=-1)
        return f1.reshape(lead)

    mean = float(statistic(np.arange(clusters)[None], -1)[0])
    low, high = _resampled(statistic, clusters, mean, alpha) if clusters > 1 else (mean, mean)
    if low < high and clusters >= _FEW:
        return low, high
    right = guesses == truth
    least = share_interval(right.all(axis=0), source, alpha)[1]
    most = share_interval(right.any(axis=0), source, alpha)[2]
    return min(low, least), max(high, most)


def _in_order(sources: ArrayLike) -> NDArray[np.int64]:
    """Number the sources [n] in the order of their first occurrence, so that names do not affect resampling."""
    _, first, source = np.unique(np.asarray(sources), return_index=True, return_inverse=True)
    numbers: NDArray[np.int64] = first.argsort().argsort()[source]
    return numbers


def _sums(values: NDArray[Any], source: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sums [sources, m] of values [n, ...], flattened to m numbers, over the texts of each source."""
    sums = np.zeros((int(source.max()) + 1, values[0].size))
    np.add.at(sums, source, values.reshape(len(values), -1))
    return sums


def _mean_over_sources(x: NDArray[np.float64], source: NDArray[np.integer], alpha: float) -> tuple[float, float]:
    """Return the BCa interval of a mean over two or more sources; with few sources, joined with Student's interval."""
    sums, counts = np.bincount(source, x), np.bincount(source)

    def statistic(rows: NDArray[np.int64], axis: int) -> NDArray[np.float64]:
        means: NDArray[np.float64] = sums[rows].sum(axis) / counts[rows].sum(axis)
        return means

    low, high = _resampled(statistic, len(sums), float(x.mean()), alpha)
    if len(sums) >= _FEW:
        return low, high
    reach = float(student.isf(alpha / 2, len(sums) - 1)) * _variance(sums, counts) ** 0.5
    return min(low, float(x.mean()) - reach), max(high, float(x.mean()) + reach)


def _variance(sums: NDArray[Any], counts: NDArray[np.integer]) -> float:
    """Return the variance of a mean from the sums [sources] and counts [sources] of two or more sources."""
    total, sources = counts.sum(), len(sums)
    return sources / (sources - 1) * float(((sums - sums.sum() / total * counts) ** 2).sum()) / float(total) ** 2


def _resampled(statistic: Any, clusters: int, mean: float, alpha: float) -> tuple[float, float]:
    """Return the BCa interval of a statistic of resampled clusters; both bounds are the mean if resamples are equal."""
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", DegenerateDataWarning)
        interval = bootstrap(
            (np.arange(clusters),),
            statistic,
            n_resamples=_RESAMPLES,
            batch=_BATCH,
            vectorized=True,
            confidence_level=1 - alpha,
            method="BCa",
            rng=np.random.default_rng(0),
        ).confidence_interval
    low, high = float(interval.low), float(interval.high)
    return (low, high) if np.isfinite([low, high]).all() else (mean, mean)
