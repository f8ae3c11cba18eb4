"""`epsilometer audit`: the losses that attacks prove. It is the short form of `epsilometer ask which_text`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from epsilometer.cli.ask import Drawing, Guessing, RewriteSource, answer
from epsilometer.cli.asking import of_one
from epsilometer.cli.options import Json, PerText, TextOptions, numbers
from epsilometer.core.errors import UserError


def audit(
    source: RewriteSource,
    drawing: Drawing,
    guessing: Guessing,
    out: PerText,
    reading: TextOptions,
    fpr: Annotated[
        float | None, typer.Option(help="False positive rate at which the true positive rate is printed (tpr).")
    ] = None,
    prior: Annotated[
        str | None, typer.Option(help="Prior probability of each candidate: .7,.3 (default: equal).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure a mechanism's empirical privacy loss.

    Prints one row for each epsilon and attack: how often the attack was right (success_rate), the loss in nats that
    this proves (loss), its upper bound (upper), and the verdict on the claim (overall). A loss marked ≥ has reached the
    ceiling: more trials could prove more.
    --columns all and --json add the rest: the loss by averaged posteriors if the law is known (posterior_loss), the
    loss between texts with equal numbers of words (equal_loss), and the largest pure loss that the most confident
    guesses prove (worst_output).

    `epsilometer ask` measures the figures of other questions.
    """
    from epsilometer.auditing.results.losses import SHORT, Losses

    out.check()
    reading.files.check(source.file, source.rewrites)
    if out.out and source.rewrites is not None:
        raise UserError("--out needs texts that the audit rewrites itself; leave out --out or --rewrites", "EPS-U018")
    design, question = drawing.design, of_one("which_text", [])
    if fpr is not None:
        design = replace(design, fpr=fpr)
    if prior is not None:
        design = replace(design, prior=tuple(numbers(prior, "--prior must be numbers") or ()))
    source.check(question)
    request = source.request(question, reading, drawing=drawing, guessing=guessing, design=design)
    if fpr is not None and not as_json and guessing.columns is None:
        request = replace(request, columns=",".join((*SHORT, "tpr", "tpr_low")))
    losses = answer(question, request, as_json)
    if out.out and isinstance(losses, Losses) and request.texts is not None:
        out.write(losses.by_text, str(source.label), request.texts["text"].to_list())
