"""Calls that take texts and return exact losses, for notebooks, the command line and stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import polars as pl

from epsilometer.auditing.exact_loss.all_pairs import every_pair
from epsilometer.auditing.exact_loss.losses import FULL
from epsilometer.auditing.exact_loss.measuring import ExactTables, applies, measure, pairwise
from epsilometer.auditing.exact_loss.pairs import FURTHEST, Pairs, all_of, furthest_pairs, of_trials
from epsilometer.auditing.text_audit import Named, as_mechanism, distinct, embed
from epsilometer.auditing.trials.design import STANDARD, Design, as_installed, check_design, check_trials
from epsilometer.auditing.trials.sampling import sample
from epsilometer.auditing.trials.unread import MECHANISM, say, say_language, unread
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import at_budget, check_epsilons, stored
from epsilometer.core.likelihood import shows_more
from epsilometer.core.mechanism import HasLaws, Mechanism, budgets, check_guarantees
from epsilometer.runtime.progress import note

TRIALS = 2000


def exact_loss(
    texts: Sequence[str],
    mechanism: Named,
    epsilons: Sequence[float] | None = None,
    settings: Mapping[str, Any] | None = None,
    trials: int = TRIALS,
    design: Design = STANDARD,
) -> pl.DataFrame:
    """Compute the privacy loss of a mechanism whose law is known, without trials (docs/concepts/exact-loss.md).

    texts, mechanism, epsilons, settings: as in `epsilometer.audit`. design: determines the compared pairs of texts; at
    the default temperature, each text is paired with the text least similar to it. trials: if there are more pairs than
    this number, only the distinct pairs of this many trials are compared. Then `method` says so, and `all_low` to
    `all_high` is a 99 % interval of the average over all pairs; a note prints this interval, too.
    Returns a row for each epsilon and group of pairs ("all" or "equal length"), with the columns of `EXACT` from
    `epsilon` on. Losses are in nats: `average` is the loss of guessing between two texts, averaged over the pairs;
    `median`, `q95` and `worst` are over single pairs; `relative_epsilon` is the largest loss of any output. If outputs
    cannot be enumerated, as for generated text, only the average is given, by importance sampling (see `method`).
    Raises UserError for values outside their range, and for a mechanism whose law is not known.
    """
    return measured(texts, mechanism, epsilons, settings, trials=trials, design=design).losses


def exact_curves(
    texts: Sequence[str],
    mechanism: Named,
    epsilons: Sequence[float] | None = None,
    settings: Mapping[str, Any] | None = None,
    trials: int = TRIALS,
    design: Design = STANDARD,
) -> pl.DataFrame:
    """Compute a mechanism's delta at each level (a loss in nats) from its known law, for an optimal adversary.

    Takes the arguments of `exact_loss` and raises the same errors. Returns the columns of `EXACT_CURVES` from `epsilon`
    on: a lower and an upper bound of the mean delta over the pairs, and an upper bound of the largest delta of a pair.
    """
    return measured(texts, mechanism, epsilons, settings, trials=trials, design=design).curves


def exact_pairs(
    texts: Sequence[str],
    mechanism: Named,
    epsilons: Sequence[float] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> pl.DataFrame:
    """Compute the pure loss of every pair of texts with equally many units, and bounds on the pair's guess loss.

    The arguments are as in `exact_loss`. Returns a row for each epsilon and pair: epsilon, x and other (indices of the
    distinct texts), pure_loss (nats, the larger of both directions), guess_low and guess_high (Bhattacharyya's bounds).
    Raises UserError as `exact_loss` does, and if there are too many laws to compare every pair of laws.
    """
    texts = distinct(texts)
    if epsilons is not None:
        check_epsilons(epsilons)
    built = as_mechanism(mechanism, settings, texts)
    if not isinstance(built, HasLaws):
        raise UserError(
            "the mechanism states no output distribution, so pairs cannot be compared; add `laws` "
            "(docs/how-to/your-own-mechanism.md)",
            "EPS-A077",
        )
    if shows_more(cast(Mechanism, built)):
        raise UserError(
            "`write` may reveal more of a text than its compared units, so no upper bound on a pair's loss holds; use "
            "exact_loss, which gives lower bounds, or a layout that reveals no more",
            "EPS-A078",
        )
    at = [float(epsilon) for epsilon in budgets(built, epsilons)]
    check_guarantees(built, at)
    tables = every_pair(cast(Mechanism, built), texts, at)
    return pl.concat(
        [
            table.select(pl.lit(stored(epsilon), pl.Float64).alias("epsilon"), pl.all())
            for epsilon, table in zip(at, tables, strict=True)
        ]
    )


def measured(
    texts: Sequence[str],
    mechanism: Named,
    epsilons: Sequence[float] | None = None,
    settings: Mapping[str, Any] | None = None,
    trials: int = TRIALS,
    design: Design = STANDARD,
) -> ExactTables:
    """Return the tables of both `exact_loss` and `exact_curves`, from one computation."""
    check_trials(trials)
    check_design(design)
    texts = distinct(texts)
    if epsilons is not None:
        check_epsilons(epsilons)
    built = as_mechanism(mechanism, settings, texts)
    if not applies(built):
        raise UserError(
            "the mechanism states no output distribution, which the exact loss needs; add `laws` or `log_likelihoods` "
            "(docs/how-to/your-own-mechanism.md), or run an audit",
            "EPS-A079",
        )
    at = [float(epsilon) for epsilon in budgets(built, epsilons)]
    check_guarantees(built, at)
    say(unread(built, texts))
    say_language(texts, {MECHANISM: built})
    most = trials if pairwise(built) else max(trials, FULL.draws)  # each draw takes the pair of a separate trial
    measured = measure(built, texts, at, chosen(texts, most, as_installed(design)))
    for row in measured.losses.filter(pl.col("method").str.contains(", ")).to_dicts():
        interval = f"{row['all_low']:.4g} to {row['all_high']:.4g} nats at 99 %"
        note(f"{row['pairs']}{at_budget(row['epsilon'])}: {row['method']}; over all possible trials {interval}")
    return measured


def chosen(texts: Sequence[str], trials: int, design: Design = STANDARD) -> Pairs:
    """Return the pairs of texts that a design compares, at most about `trials` pairs."""
    check_trials(trials)
    if len(texts) < 2:
        raise UserError("an exact loss compares at least 2 texts, got 1; give more texts", "EPS-A080")
    vectors = embed(texts).vectors if design.temperature and len(texts) > 2 else np.zeros((len(texts), 1), np.float32)
    return sampled_pairs(texts, vectors, trials, design)


def sampled_pairs(
    texts: Sequence[str],
    embeddings: np.ndarray[Any, np.dtype[np.float32]],
    trials: int,
    design: Design = STANDARD,
    groups: np.ndarray[Any, np.dtype[np.integer]] | None = None,
) -> Pairs:
    """Return the pairs of `chosen`, from embeddings [texts, dimensions]. groups: as in `sampling.sample`."""
    candidates = design.k
    if candidates == 2 and design.temperature <= FURTHEST and len(texts) <= trials:
        return furthest_pairs(embeddings, texts, groups)
    if candidates == 2 and design.temperature == 0 and len(texts) * (len(texts) - 1) // 2 <= trials:
        return all_of(texts, groups)
    sampled = sample(embeddings, trials, candidates, design.temperature, seed=design.seed, groups=groups)
    return of_trials(sampled, texts)
