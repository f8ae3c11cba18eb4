"""The files that stages hand to each other, relative to the run's folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import polars as pl

from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import budget_name
from epsilometer.corpora.reading import PREPARED
from epsilometer.project.params import Params


@contextmanager
def inside(folder: str | Path) -> Iterator[None]:
    """Make a project's folder the current one. Raises UserError for a folder without params.yaml."""
    if not Path(folder, "params.yaml").is_file():
        raise UserError(f"{str(folder)!r} is no folder of a project (params.yaml); give one, or a list of texts")
    with chdir(folder):
        yield


def prepared(dataset: str) -> pl.DataFrame:
    """All prepared texts of a data set, of all splits."""
    return tables.read(f"data/prepared/{dataset}.parquet", PREPARED)


def audited(params: Params, dataset: str) -> pl.DataFrame:
    """The prepared texts of the audited split, in the order in which candidates number them."""
    return prepared(dataset).filter(pl.col("split") == params.datasets[dataset].use)


def audited_texts(params: Params, dataset: str) -> list[str]:
    """The texts of `audited`."""
    return audited(params, dataset)["text"].to_list()


def sets_path(dataset: str) -> Path:
    """The sets of texts that a data set's trials are of (schema `SETS`); without rows where they are of pairs."""
    return Path(f"data/trials/{dataset}.sets.parquet")


def ceilings_path() -> Path:
    """The largest worth that any mechanism can have on each data set whose trials are of sets (schema `CEILINGS`)."""
    return Path("data/ceilings.parquet")


def possible_path() -> Path:
    """How much of what is possible each cell of such a data set keeps (schema `POSSIBLE`)."""
    return Path("data/possible.parquet")


def rewrites_path(cell: str, epsilon: float | None) -> Path:
    """The table of a cell's rewrites at one epsilon; `none.parquet` for a mechanism without a budget."""
    return Path(f"data/rewrites/{cell}/{budget_name(epsilon)}.parquet")


def stated_path(cell: str) -> Path:
    """The statements of the cell's mechanism about itself at each epsilon (`auditing.claims.stated`)."""
    return Path(f"data/rewrites/{cell}/stated.json")


def latents_path(cell: str, epsilon: float | None) -> Path:
    """The latents of a cell's trials: before the noise, and after it at each epsilon."""
    return Path(f"data/rewrites/{cell}/{'before' if epsilon is None else budget_name(epsilon)}.npy")


def exact_path(cell: str) -> Path:
    """The exact losses of a cell (schema `EXACT`)."""
    return Path(f"data/exact/{cell}.parquet")


def curves_path(cell: str) -> Path:
    """What delta the cell's exact losses leave at each level (schema `EXACT_CURVES`)."""
    return Path(f"data/exact/{cell}.curves.parquet")


def privatized_path(cell: str, epsilon: float) -> Path:
    """The table of rewritten texts that classifiers are trained on, at one epsilon."""
    return Path(f"data/privatized/{cell}/{budget_name(epsilon)}.parquet")


def classifier_path(dataset: str, label: str, kind: str, seed: int) -> Path:
    """The folder of a classifier that was trained on the clean texts of the victims' part."""
    return Path(f"data/classifiers/{dataset}/{label}-{kind}-{seed}")


def anonymized_path(cell: str, epsilon: float | None) -> Path:
    """The table of a cell's rewrites that classifiers try to see through (schema `ANONYMIZED`), at one epsilon."""
    return Path(f"data/anonymized/{cell}/{budget_name(epsilon)}.parquet")


def anonymity_path(cell: str, what: str) -> Path:
    """What a cell's rewrites hide: table `anonymity`, `by_length`, `outcomes` or `attackers` (`utility.schemas`)."""
    return Path(f"data/anonymity/{cell}/{what}.parquet")


def varied_path(what: str, cell: str) -> Path:
    """The results of ablations (`ablations`, `first_tokens`) or sweeps (`sweeps`) of a cell."""
    return Path(f"data/varied/{what}/{cell}.parquet")


def features_path(name: str) -> Path:
    """The folder of the states of a data set's texts (`training.features`)."""
    return Path(f"data/features/{name}")


def featured_path(name: str) -> Path:
    """The ids and labels of the texts whose states lie in `features_path`, in their order."""
    return features_path(name) / "texts.parquet"


def trained_path(cell: str, level: float | None = None, seed: int | None = None) -> Path:
    """The folder of a cell of `private_training`; with a seed, that of one training at one level (None: no level)."""
    folder = Path(f"data/trained/{cell}")
    return folder if seed is None else folder / f"{budget_name(level)}-{seed}"


def head_path(cell: str, level: float | None, seed: int) -> Path:
    """The trained head of a cell at one level, by one seed."""
    return trained_path(cell, level, seed) / "head.safetensors"


def runs_path(cell: str) -> Path:
    """How well the heads of a cell do: level, seed, split, metric, value."""
    return trained_path(cell) / "runs.parquet"


def budgets_path() -> Path:
    """The claimed losses of all cells of `private_training`: cell, level, neighbours, accountant, lower, upper, ..."""
    return Path("data/budgets.parquet")


def references_path(name: str) -> Path:
    """The folder of the models that membership attacks compare with."""
    return Path(f"data/references/{name}")


def membership_path(name: str, what: str | None = None) -> Path:
    """What membership attacks on a cell achieve; `rates`, their true positive rates at small false ones; `roc`, their
    curves of true against false positives; `areas`, those under them with their covariance over levels.
    """
    return _table("membership", name, what)


def one_run_path(name: str) -> Path:
    """What canaries prove in one run a level."""
    return Path(f"data/one_run/{name}.parquet")


def sent_path(name: str) -> Path:
    """The folder of the gradients that clients send."""
    return Path(f"data/sent/{name}")


def reconstruction_path(name: str, what: str | None = None) -> Path:
    """What attacks read off the gradients that are sent: on average; `texts`, one by one; `candidates`, which of k."""
    return _table("reconstruction", name, what)


def searched_path(name: str, attack: str, size: int, level: float | None) -> Path:
    """What one attack found in all batches of one size at one level (None: without noise), before it is measured."""
    return Path(f"data/reconstruction/{name}/{Path(attack).stem}-{size}-{budget_name(level)}.json")


def training_pairs_path() -> Path:
    """Heads of equally loud noises compared (`project.training.pairs`)."""
    return Path("data/training_pairs.parquet")


def training_curves_path() -> Path:
    """Every attack on training against its noise, with verdicts."""
    return Path("data/training_curves.parquet")


def _table(folder: str, name: str, what: str | None) -> Path:
    return Path(f"data/{folder}/{name}.parquet" if what is None else f"data/{folder}/{name}.{what}.parquet")
