"""`epsilometer claims` checks a claim in its worst case; `plan` computes the number of trials that an audit needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.cli.options import (
    A_MECHANISM,
    Alpha,
    Epsilon,
    Json,
    Public,
    Seed,
    Settings,
    Vectors,
    number,
    settings_of,
)
from epsilometer.cli.output import show, shown, tell
from epsilometer.core.errors import UserError, printable
from epsilometer.core.guarantees import stored
from epsilometer.runtime.progress import note
from epsilometer.runtime.withholding import withheld

if TYPE_CHECKING:
    from epsilometer.auditing.one_claim import Checked


def claims(
    mechanism: Annotated[str, typer.Argument(help=A_MECHANISM)],
    epsilon: Epsilon = None,
    vectors: Vectors = None,
    vocabulary: Annotated[
        int, typer.Option(help="Number of words. If there are at most 5,000, all pairs are compared.")
    ] = 1000,
    inputs: Annotated[
        int | None,
        typer.Option(
            help=(
                "Number of inputs to compare. Default: all if there are at most 5,000, otherwise 200; 12 if the check "
                "draws outputs."
            )
        ),
    ] = None,
    as_published: Annotated[bool, typer.Option("--as-published", help="Check the mechanism as published.")] = False,
    settings: Settings = [],  # noqa: B006 - typer copies it
    public: Public = None,
    alpha: Alpha = 0.01,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Check a privacy claim against its worst case.

    The worst case is over all pairs of inputs and all outputs. Without --epsilon, eight budgets are checked. The exit
    code is 1 if a claim is violated, and 3 if it could not be checked at any budget.
    """
    from epsilometer.auditing.claims.verdicts import NOT_REFUTED, VIOLATED
    from epsilometer.auditing.one_claim import Inputs, check

    chosen = settings_of(mechanism, settings, public) | ({"as_published": True} if as_published else {})
    with withheld():
        checked = check(mechanism, chosen, epsilon, Inputs(vectors, vocabulary, inputs), alpha=alpha, seed=seed)
    for finding in checked.added:
        note(f"at epsilon {finding.epsilon:g}, which is small enough for draws to refute the claim: {finding.verdict}")
    budgets: dict[str, list[str]] = {}
    for finding in checked.findings:
        budgets.setdefault(finding.verdict, []).append(f"{finding.epsilon:g}")
    result = _result(mechanism, checked, epsilon, budgets)
    if as_json:
        show(result, as_json)
    else:
        named = result if result["epsilon"] is not None else {**result, "epsilon": "-"}
        tell(printable("\n".join(f"{key:<10} {shown(value)}" for key, value in named.items() if value is not None)))
    if VIOLATED in {finding.verdict for finding in (*checked.findings, *checked.added)}:
        raise typer.Exit(1)
    if NOT_REFUTED not in budgets:
        raise typer.Exit(3)


def _result(
    mechanism: str, checked: Checked, epsilon: float | None, budgets: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the result of a check, for printing. budgets: the epsilons of each verdict."""
    worst, (largest, how) = checked.worst, checked.largest or (None, None)
    return {
        "mechanism": mechanism,
        "epsilon": stored(worst.epsilon),
        "claim": checked.claim,
        "verdict": worst.verdict,
        "budgets": None
        if epsilon or math.isnan(worst.epsilon)
        else "; ".join(f"{word} at {', '.join(at)}" for word, at in budgets.items()),
        "by": "its stated law" if worst.method in ("exact", "largest found") else None,
        "reason": worst.reason,
        "method": worst.method,
        "claimed": worst.claimed,
        "worst": worst.worst,
        "slack": worst.slack,
        "witness": worst.witness and dict(zip(("x", "x'", "y"), worst.witness, strict=True)),
        "bound": worst.bound,
        "inputs": worst.inputs,
        "draws": worst.draws,
        "testable": worst.testable,
        "largest": largest,
        "largest by": how,
    }


def plan(
    claim: Annotated[float | None, typer.Option(help="Claimed loss to test, in nats.")] = None,
    leak: Annotated[
        float | None, typer.Option(help="True loss, in nats; `inf` if every guess is right (default: several).")
    ] = None,
    loss: Annotated[float | None, typer.Option(help="Loss to measure, in nats, with --width.")] = None,
    width: Annotated[float | None, typer.Option(help="Largest width of its interval, in nats.")] = None,
    power: Annotated[float, typer.Option(help="Probability that the trials suffice.")] = 0.9,
    candidates: Annotated[str, typer.Option(help="Sizes k of candidate sets.")] = "2,4,8,16",
    alpha: Alpha = 0.01,
    tests: Annotated[int, typer.Option(help="Number of tests that share alpha.")] = 1,
    as_json: Json = False,
) -> None:
    """Compute the trials that an audit needs.

    Prints the number of trials with which the best adversary refutes a claim, or measures a loss. A weaker adversary
    needs more trials.
    """
    from epsilometer.auditing.planning import trials_for_width, trials_to_refute

    if (claim is None) == (loss is None) or (loss is None) != (width is None) or (leak is not None and claim is None):
        raise UserError("give --claim (and --leak, if it is known), or --loss and --width", "EPS-U032")
    if tests < 1:
        raise UserError(f"--tests must be at least 1, got {tests}", "EPS-U033")
    rule = "--candidates must be whole numbers separated by commas"
    rows: list[dict[str, Any]] = []
    for part in candidates.split(","):
        k = int(number(part, rule))
        if claim is not None:
            for truth in [claim + 0.5, claim + 1, claim + 2, math.inf] if leak is None else [leak]:
                trials = trials_to_refute(claim, truth, power, k, level=alpha / tests)
                rows.append({"candidates": k, "claim": claim, "leak": truth, "power": power, "trials": trials})
        elif loss is not None and width is not None:
            trials = trials_for_width(loss, width, power, k, alpha=alpha / tests)
            rows.append({"candidates": k, "loss": loss, "width": width, "power": power, "trials": trials})
    show(rows, as_json)
