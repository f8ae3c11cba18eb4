"""The tables of the study of training, and their paths relative to the run's folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from epsilometer.auditing.schemas import ESTIMATES
from epsilometer.core.guarantees import budget_name
from epsilometer.core.tables import Schema

CANDIDATES: Schema = {  # as ESTIMATES, of noisy gradients: a row per level and number of candidates; epsilon: level
    "level": pl.Float64,  # sigma or kappa; null without noise
    "law": pl.Float64,  # success rate expected from the noise between two texts; null for more, or if unknown
    "bound": pl.Float64,  # the largest success rate of any adversary (`reconstruction_bounds.exact_match`)
    **ESTIMATES,
}

_TARGET: Schema = {  # a model under attack
    "training": pl.String,  # cell of private_training
    "level": pl.Float64,  # of its noise; null without
    "seed": pl.Int64,
    "overfit": pl.Int64,  # factor on its epochs, to train too long on purpose; 1 otherwise
    "attack": pl.String,
}

MEMBERSHIP: Schema = {  # results of membership attacks; a row per attack, and `strongest` (`results.membership`)
    **_TARGET,
    "best_attack": pl.String,  # the attack behind the row `strongest`; null in other rows
    "references": pl.Int64,  # number of models that it is compared with
    "references_level": pl.Float64,  # of their noise; null without
    "alpha": pl.Float64,  # error of the row's intervals, which are over examples and given the models (`rates`)
    "members": pl.Int64,  # number of members among the scored examples
    "others": pl.Int64,
    "auc": pl.Float64,  # area under the curve of true against false positives
    "auc_low": pl.Float64,
    "auc_high": pl.Float64,
    "leakage": pl.Float64,  # TPR - FPR
    "leakage_low": pl.Float64,
    "leakage_high": pl.Float64,
    "gap": pl.Float64,  # accuracy of the model on members less that on others
    "gap_low": pl.Float64,
    "gap_high": pl.Float64,
    "loss": pl.Float64,  # in nats, proved for this model; it refutes no claim
    "loss_point": pl.Float64,  # infinite where no error was made
    "loss_ceiling": pl.Float64,
    "named": pl.String,  # whom that loss's rule names: members or others
    "delta": pl.Float64,
}

MEMBERSHIP_AREAS: Schema = {  # a row per attack and level, from the least noise to the most (`paired_areas`)
    "attack": pl.String,
    "level": pl.Float64,  # null without noise
    "models": pl.Int64,  # number of models of this level, one per seed
    "auc": pl.Float64,  # their mean, on the examples that the attack scores on every model
    "covariance": pl.List(pl.Float64),  # with the areas of the attack's levels, in the order of the rows
    "pairs": pl.Int64,  # the members or the others, whichever are fewer
}

MEMBERSHIP_RATES: Schema = {  # a row per attack and false positive rate, at thresholds set on other examples
    **_TARGET,
    "at": pl.Float64,  # the requested false positive rate
    "tpr": pl.Float64,
    "tpr_low": pl.Float64,
    "tpr_high": pl.Float64,
    "fpr": pl.Float64,  # the measured false positive rate
    "fpr_low": pl.Float64,
    "fpr_high": pl.Float64,
    "set_on": pl.Int64,  # others that set the threshold: with fewer than 1 / at, it is their largest score
    "members": pl.Int64,  # number of members that were measured
    "others": pl.Int64,
}

MEMBERSHIP_CURVES: Schema = {**_TARGET, "fpr": pl.Float64, "tpr": pl.Float64}  # corners of the curves, of all examples

RUNS: Schema = {  # scores of the trained heads of a cell of private_training
    "level": pl.Float64,  # null without noise
    "seed": pl.Int64,
    "split": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
}

BUDGETS: Schema = {  # claims of every training, a row per accountant (`accounting.statement`)
    "cell": pl.String,
    "level": pl.Float64,
    "effective_sigma": pl.Float64,  # of Gaussian noise of equal norm on the sum
    "neighbours": pl.String,
    "sampling": pl.String,
    "accountant": pl.String,
    "delta": pl.Float64,
    "lower": pl.Float64,
    "upper": pl.Float64,
}

RECONSTRUCTED: Schema = {  # a text whose gradient was sent, and the text that an attack found for it
    "level": pl.Float64,  # sigma or kappa; null without noise, and for the blind baseline
    "size": pl.Int64,  # of the batch
    "attack": pl.String,  # `blind`: a public text of the same length
    "batch": pl.Int64,  # its number
    "row": pl.Int64,  # the number of the text in the prepared table
    "truth": pl.String,  # as the model reads it: truncated, in its tokens
    "found": pl.String,
    "true_ids": pl.List(pl.Int64),  # without special tokens
    "found_ids": pl.List(pl.Int64),
    "log_likelihood": pl.Float64,  # of the whole batch found, in nats up to a term common to all texts; null if unknown
    "log_prior": pl.Float64,
    "true_log_likelihood": pl.Float64,
    "true_log_prior": pl.Float64,
    "rouge_l": pl.Float64,
    "jaccard": pl.Float64,
    "meteor": pl.Float64,
    "cosine": pl.Float64,
    "in_place": pl.Float64,
    "exact": pl.Float64,
    "identifiers": pl.Float64,  # null for a text without any
}


RECONSTRUCTION: Schema = {  # a row per level, batch size, attack and measure
    "level": pl.Float64,
    "size": pl.Int64,
    "attack": pl.String,  # `blind`; `bound`: the upper bound for every attack, without an interval
    "measure": pl.String,  # of `reconstruction.MEASURES`; truth_less_likely; information, in nats
    "texts": pl.Int64,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}


def features_path(name: str) -> Path:
    """Return the folder of the states of a data set's texts (`training.features`)."""
    return Path(f"data/features/{name}")


def featured_path(name: str) -> Path:
    """Return the path of the ids and labels of the texts in `features_path`, in the same order."""
    return features_path(name) / "texts.parquet"


def trained_path(cell: str, level: float | None, seed: int | None = None) -> Path:
    """Return the folder of a cell of `private_training` at one level (None: no level), or of one of its trainings."""
    folder = Path(f"data/trained/{cell}/{budget_name(level)}")
    return folder if seed is None else folder / str(seed)


HEAD_FILE = "head.safetensors"  # in the folder of a training


def head_path(cell: str, level: float | None, seed: int) -> Path:
    """Return the path of the trained head of a cell at one level, by one seed."""
    return trained_path(cell, level, seed) / HEAD_FILE


def runs_path(cell: str, level: float | None) -> Path:
    """Return the path of the scores of a cell's heads at one level: level, seed, split, metric, value."""
    return trained_path(cell, level) / "runs.parquet"


def budgets_path() -> Path:
    """The claimed losses of all cells of `private_training`: cell, level, neighbours, accountant, lower, upper, ..."""
    return Path("data/budgets.parquet")


def references_path(name: str) -> Path:
    """Return the folder of the models that membership attacks compare with."""
    return Path(f"data/references/{name}")


def membership_path(name: str, what: str | None = None) -> Path:
    """The results of membership attacks on a cell; `rates`: true positive rates at small false positive rates; `roc`:
    ROC curves; `areas`: the areas under them, with their covariance over levels.
    """
    return _table("membership", name, what)


def one_run_path(name: str) -> Path:
    """Return the path of the losses that canaries prove, in one run per level."""
    return Path(f"data/one_run/{name}.parquet")


def sent_path(name: str) -> Path:
    """Return the folder of the gradients that clients send."""
    return Path(f"data/sent/{name}")


def reconstruction_path(name: str, what: str | None = None) -> Path:
    """The results of attacks on sent gradients: averages; `texts`: one row per text; `candidates`: guesses among k."""
    return _table("reconstruction", name, what)


def searched_path(name: str, size: int, level: float | None) -> Path:
    """Return the texts that an entry's attacks found in all batches of one size at one level, before measurement."""
    return Path(f"data/searched/{name}/{size}-{budget_name(level)}.json")


def training_pairs_path() -> Path:
    """Comparison of heads at equally loud noise (`studies.training.pairs`)."""
    return Path("data/training_pairs.parquet")


def training_curves_path() -> Path:
    """Return every attack on training against its noise, with verdicts."""
    return Path("data/training_curves.parquet")


def _table(folder: str, name: str, what: str | None) -> Path:
    return Path(f"data/{folder}/{name}.parquet" if what is None else f"data/{folder}/{name}.{what}.parquet")
