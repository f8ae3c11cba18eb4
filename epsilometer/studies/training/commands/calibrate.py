"""`epsilometer training calibrate`: the noise of a training at which one gradient tells as much as a target."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from epsilometer.cli.calibrate import BUDGET, MEASURE, conclude
from epsilometer.cli.options import Json
from epsilometer.core.errors import UserError
from epsilometer.runtime.withholding import withheld


def calibrate_training(
    target: Annotated[
        float, typer.Option(help="The loss to meet, in nats; of --measure rouge_l a mean between 0 and 1.")
    ],
    training: Annotated[
        list[str],
        typer.Option(
            help="Entries of sent or private_training, whose sigma and kappa are searched by the loss of one gradient; "
            "with --measure rouge_l entries of reconstruction."
        ),
    ] = [],  # noqa: B006 - typer copies it
    measure: Annotated[
        str,
        typer.Option(
            help="sampled: the loss that attacks show; average: the loss computed from the noise; rouge_l: a mean."
        ),
    ] = MEASURE,
    width: Annotated[
        float | None, typer.Option(help="Stop when high / low is at most this: 1.25 by default, 1.01 for average.")
    ] = None,
    budget: Annotated[int, typer.Option(help="Most trials a kind of noise.")] = BUDGET,
    as_json: Json = False,
) -> None:
    """Find the noise at which one gradient tells as much as a target.

    Prints a row of sigma or kappa for each kind of noise.

    Needs the results of stage sent, features or reconstruction. Ends with 3 where a search ends otherwise than found.
    """
    if not training:
        raise UserError(
            "no training is named; give entries of sent, private_training or reconstruction (--training)", "EPS-S119"
        )
    from epsilometer.pipeline.params import read
    from epsilometer.studies.training.calibrating import NoiseTarget, calibrate_training

    aim = NoiseTarget(target, measure, width=width, budget=budget)
    with withheld():
        params: Any = read()  # which has the sections of every study
        rows = list(calibrate_training(params, training, aim))
    conclude(rows, as_json, "{noise} of {training}")
