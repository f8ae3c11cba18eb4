"""`epsilometer training calibrate`: the noise of a training at which one gradient has a target loss."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from epsilometer.cli.calibrate import BUDGET, MEASURE, conclude
from epsilometer.cli.options import Json
from epsilometer.core.errors import UserError
from epsilometer.runtime.withholding import withheld


def calibrate_training(
    target: Annotated[
        float, typer.Option(help="The loss to meet, in nats; for --measure rouge_l a mean between 0 and 1.")
    ],
    training: Annotated[
        list[str],
        typer.Option(
            help=(
                "Entries of `sent` or `private_training` in params.yaml; the search finds the sigma or kappa at "
                "which one gradient has the target loss. For --measure rouge_l: entries of `reconstruction`."
            )
        ),
    ] = [],  # noqa: B006 - typer copies it
    measure: Annotated[
        str,
        typer.Option(
            help="sampled: the loss by attacks; average: the loss computed from the noise; rouge_l: mean ROUGE-L."
        ),
    ] = MEASURE,
    width: Annotated[
        float | None,
        typer.Option(
            help="Stop when the upper bound is at most this times the lower bound (default: 1.25; 1.01 for average)."
        ),
    ] = None,
    budget: Annotated[int, typer.Option(help="Maximum number of trials per kind of noise.")] = BUDGET,
    as_json: Json = False,
) -> None:
    """Find the noise at which one gradient has a target loss.

    Prints a row with sigma or kappa for each kind of noise.

    Needs the results of stage sent, features or reconstruction. The exit code is 3 if a search does not succeed.
    """
    if not training:
        raise UserError("--training is missing; give entries of sent, private_training or reconstruction", "EPS-S119")
    from epsilometer.pipeline.params import read
    from epsilometer.studies.training.calibrating import NoiseTarget, calibrate_training

    aim = NoiseTarget(target, measure, width=width, budget=budget)
    with withheld():
        params: Any = read()  # has the sections of every study
        rows = list(calibrate_training(params, training, aim))
    conclude(rows, as_json, "{noise} of {training}")
