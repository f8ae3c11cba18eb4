"""The tables of the study of training, and their paths relative to the project's folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from epsilometer.auditing.schemas import ESTIMATES
from epsilometer.core.guarantees import budget_name
from epsilometer.core.tables import Schema

CANDIDATES: Schema = {  # guesses of a noisy gradient's source; a row per level and number of candidates
    "level": pl.Float64,  # sigma or kappa; null without noise
    "law": pl.Float64,  # success rate between two texts, by the noise's law; null for more texts, or if unknown
    "bound": pl.Float64,  # the largest success rate of any adversary (`reconstruction_bounds.exact_match`)
    **ESTIMATES,  # `epsilon` is the level
}

_TARGET: Schema = {  # a model under attack
    "training": pl.String,  # cell of private_training
    "level": pl.Float64,  # the level of its noise; null without noise
    "seed": pl.Int64,
    "overfit": pl.Int64,  # factor on its epochs, for overfitting on purpose; 1 otherwise
    "attack": pl.String,
}

MEMBERSHIP: Schema = {  # results of membership attacks; a row per attack, and `strongest` (`results.membership`)
    **_TARGET,
    "best_attack": pl.String,  # the attack behind the row `strongest`; null in other rows
    "references": pl.Int64,  # number of reference models
    "references_level": pl.Float64,  # the level of the references' noise; null without noise
    "alpha": pl.Float64,  # error probability of the row's intervals, given the models (`results.rates`)
    "members": pl.Int64,  # number of members among the scored examples
    "others": pl.Int64,  # number of others among the scored examples
    "auc": pl.Float64,  # area under the ROC curve
    "auc_low": pl.Float64,
    "auc_high": pl.Float64,
    "leakage": pl.Float64,  # TPR - FPR
    "leakage_low": pl.Float64,
    "leakage_high": pl.Float64,
    "gap": pl.Float64,  # the model's accuracy on members minus that on others
    "gap_low": pl.Float64,
    "gap_high": pl.Float64,
    "loss": pl.Float64,  # lower bound in nats for this model; it refutes no claim
    "loss_point": pl.Float64,  # point estimate; infinite if no error was made
    "loss_ceiling": pl.Float64,  # the lower bound that guesses without error would prove
    "named": pl.String,  # "members" or "others": the group that the adversary of this loss names
    "delta": pl.Float64,
}

MEMBERSHIP_AREAS: Schema = {  # a row per attack and level, from the least noise to the most (`paired_areas`)
    "attack": pl.String,
    "level": pl.Float64,  # null without noise
    "models": pl.Int64,  # number of models of this level, one per seed
    "auc": pl.Float64,  # mean area over models, on examples that the attack scores for every model
    "covariance": pl.List(pl.Float64),  # this area's covariance with the area of each row
    "pairs": pl.Int64,  # the smaller of the numbers of members and of others
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
    "set_on": pl.Int64,  # number of others that set the threshold; if below 1 / at, it is their largest score
    "members": pl.Int64,  # number of members on which the rate is measured
    "others": pl.Int64,  # number of others on which the rate is measured
}

MEMBERSHIP_CURVES: Schema = {**_TARGET, "fpr": pl.Float64, "tpr": pl.Float64}  # corners of the ROC curves

RUNS: Schema = {  # scores of the trained heads of a cell of private_training
    "level": pl.Float64,  # null without noise
    "seed": pl.Int64,
    "split": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
}

BUDGETS: Schema = {  # epsilons of every training, a row per accountant (`accounting.statement`)
    "cell": pl.String,
    "level": pl.Float64,
    "effective_sigma": pl.Float64,  # sigma of Gaussian noise of the same size on the sum over a step
    "neighbours": pl.String,
    "sampling": pl.String,
    "accountant": pl.String,
    "delta": pl.Float64,
    "lower": pl.Float64,  # lower bound on epsilon; null if the accountant gives none
    "upper": pl.Float64,  # upper bound on epsilon
}

RECONSTRUCTED: Schema = {  # a row per text whose gradient was sent, with the text that an attack recovered
    "level": pl.Float64,  # sigma or kappa; null without noise, and for the blind baseline
    "size": pl.Int64,  # texts in the batch
    "attack": pl.String,  # `blind`: the blind baseline
    "batch": pl.Int64,  # the number of the batch
    "row": pl.Int64,  # the row number of the text in the audited split
    "truth": pl.String,  # the true text, truncated and decoded from its tokens
    "found": pl.String,  # the recovered text
    "true_ids": pl.List(pl.Int64),  # without special tokens
    "found_ids": pl.List(pl.Int64),
    "log_likelihood": pl.Float64,  # of the recovered batch, in nats, up to a term common to all texts; may be null
    "log_prior": pl.Float64,  # of the recovered batch
    "true_log_likelihood": pl.Float64,  # of the true batch
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
    "attack": pl.String,  # also `blind`, and `bound`: an upper bound for every attack, without an interval
    "measure": pl.String,  # one of `reconstruction.MEASURES`, truth_less_likely, or information (in nats)
    "texts": pl.Int64,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}


def features_path(name: str) -> Path:
    """Return the folder of the features of a data set's texts (`runs.features`)."""
    return Path(f"data/features/{name}")


def featured_path(name: str) -> Path:
    """Return the path of the ids and labels of the texts in `features_path`, in the same order."""
    return features_path(name) / "texts.parquet"


def trained_path(cell: str, level: float | None, seed: int | None = None) -> Path:
    """Return the folder of a cell at one level, or of one seed's training in it. level: None without noise."""
    folder = Path(f"data/trained/{cell}/{budget_name(level)}")
    return folder if seed is None else folder / str(seed)


HEAD_FILE = "head.safetensors"  # file in the folder of a training


def head_path(cell: str, level: float | None, seed: int) -> Path:
    """Return the path of the trained head of a cell at one level, by one seed."""
    return trained_path(cell, level, seed) / HEAD_FILE


def runs_path(cell: str, level: float | None) -> Path:
    """Return the path of the scores of a cell's heads at one level: level, seed, split, metric, value."""
    return trained_path(cell, level) / "runs.parquet"


def budgets_path() -> Path:
    """Return the path of the epsilons of all cells of `private_training`, schema `BUDGETS`."""
    return Path("data/budgets.parquet")


def references_path(name: str) -> Path:
    """Return the folder of the answers of an entry of `references`."""
    return Path(f"data/references/{name}")


def membership_path(name: str, what: str | None = None) -> Path:
    """Return the path of the results of membership attacks on a cell.

    what: None for schema `MEMBERSHIP`, `rates` for `MEMBERSHIP_RATES`, `roc` for `MEMBERSHIP_CURVES`, `areas` for
    `MEMBERSHIP_AREAS`.
    """
    return _table("membership", name, what)


def one_run_path(name: str) -> Path:
    """Return the path of the losses that canaries prove, in one run per level."""
    return Path(f"data/one_run/{name}.parquet")


def sent_path(name: str) -> Path:
    """Return the folder of stage `sent`: the texts, and inner products of their gradients."""
    return Path(f"data/sent/{name}")


def reconstruction_path(name: str, what: str | None = None) -> Path:
    """Return the path of the results of attacks on sent gradients.

    what: None for averages, `texts` for a row per text, `candidates` for guesses among k texts.
    """
    return _table("reconstruction", name, what)


def searched_path(name: str, size: int, level: float | None) -> Path:
    """Return the path of the texts that attacks recovered from all batches of one size at one level."""
    return Path(f"data/searched/{name}/{size}-{budget_name(level)}.json")


def training_pairs_path() -> Path:
    """Return the path of the comparison of heads at equal amounts of noise (`studies.training.pairs`)."""
    return Path("data/training_pairs.parquet")


def training_curves_path() -> Path:
    """Return the path of the curves of every attack on training over noise levels (`studies.training.curves`)."""
    return Path("data/training_curves.parquet")


def _table(folder: str, name: str, what: str | None) -> Path:
    return Path(f"data/{folder}/{name}.parquet" if what is None else f"data/{folder}/{name}.{what}.parquet")
