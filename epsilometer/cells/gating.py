"""A cell of a project as the subject of a gate, and the cell's estimates in the accepted baseline."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from epsilometer.auditing import text_audit
from epsilometer.auditing.estimation.successes import Estimate
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.trials.design import Design
from epsilometer.cells.measured import settings, trial_set
from epsilometer.cells.params import TextsParams
from epsilometer.cells.reading import mechanism
from epsilometer.core.attack import Embedded
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.guarantees import restored, stored
from epsilometer.project.paths import audited
from epsilometer.reaudit.baseline import read


def subject_of_cell(params: TextsParams, name: str, epsilon: float | None) -> Subject:
    """Return a cell at one of its epsilons, with the attacks of params.yaml and the texts and design of its audit."""
    if name not in params.cells:
        raise unknown("cell", name, list(params.cells))
    cell = params.cells[name]
    budgets = [stored(budget) for budget in cell.budgets]
    if epsilon not in budgets:
        budgets_named = ", ".join("none" if budget is None else f"{budget:g}" for budget in budgets)
        raise UserError(f"epsilon must be one of those of {name} ({budgets_named}), got {epsilon}", "EPS-S070")
    table, built = audited(params, cell.dataset), mechanism(params, name)
    embeddings = Path(f"data/embeddings/{cell.dataset}.npy")
    if not embeddings.is_file():
        raise UserError(f"{embeddings} does not exist; `epsilometer pipeline repro` makes it", "EPS-S071")
    groups = table["words"].to_numpy() if params.match(cell.dataset) == "words" else None
    pool = text_audit.Pool(
        table["text"].to_list(),
        Embedded(params.embedding.model, params.embedding.precision, np.load(embeddings)),
        groups,
    )
    attacks = text_audit.applicable(text_audit.chosen_attacks(params.attacks), built)
    design = Design(params.trials.candidates, params.temperature(cell.dataset), params.audit.alpha, params.audit.seed)
    return Subject(cell.mechanism, built, restored(epsilon), pool=pool, attacks=attacks, design=design)


def accepted(params: TextsParams, of: Subject, name: str, file: Path) -> dict[str, Estimate]:
    """Return the accepted estimates of a cell, by attack. file: the baseline's folder in the run's folder.

    Raises UserError if the baseline has no estimate of this cell at this epsilon, or comes from other trials.
    """
    baseline = read(file.parent)
    baseline.check(settings(params))
    dataset = params.cells[name].dataset
    ours = (dataset, of.name, stored(of.epsilon))
    rows = {  # leaves out the rows of attribute attackers
        row.attack: measured
        for row, measured in baseline.measured.items()
        if row[:3] == ours and row.attack in params.attacks
    }
    if not rows:
        raise UserError(
            f"{file} has no row of {of.name} on {dataset} at this epsilon; audit this epsilon, then accept the new "
            "results (epsilometer results accept)",
            "EPS-S072",
        )
    trials, _ = trial_set(params, dataset)
    if any(measured.trial_set != trials for measured in rows.values()):
        raise UserError(
            f"{file} was accepted with other texts or trials of {dataset}; run the audit, then accept the new results "
            "(epsilometer results accept)",
            "EPS-S073",
        )
    return {attack: measured.estimate for attack, measured in rows.items()}
