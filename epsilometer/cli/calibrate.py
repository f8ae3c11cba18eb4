"""Which epsilon, and which mechanism: `epsilometer calibrate` and `compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.cli.asking import QuestionOptions
from epsilometer.cli.options import (
    TEXTS,
    Json,
    Public,
    Settings,
    TextOptions,
    mechanism_at,
    settings_of,
)
from epsilometer.cli.output import show
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import note
from epsilometer.runtime.withholding import withheld

if TYPE_CHECKING:
    import polars as pl

    from epsilometer.studies.texts.calibrating.losses import Search

BUDGET, MEASURE = 20_000, "sampled"

Target = Annotated[
    float,
    typer.Option(
        help="The loss to meet, in nats; of --measure delta a probability, of rouge_l a mean; of another --question "
        "its figure."
    ),
]
Trainings = Annotated[
    list[str],
    typer.Option(
        help="Of training: entries of sent or private_training, whose sigma and kappa are searched by the loss of one "
        "gradient (--measure sampled or average); with --measure rouge_l entries of reconstruction."
    ),
]
Mechanisms = Annotated[
    list[str],
    typer.Option(
        help="With FILE: shipped names or .py files (required); else mechanisms of params.yaml, all by default."
    ),
]


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search for epsilon (`studies.texts.calibrating.losses.Search`)."""

    attack: Annotated[str, typer.Option(help="One attack, or `strongest`: the best of all.")] = "strongest"
    sees: Annotated[str, typer.Option(help="Attacks that see the text, what is released, or all (inside).")] = (
        "released"
    )
    match: Annotated[str | None, typer.Option(help="words: candidates of equal length; none: of any.")] = None
    low: Annotated[float | None, typer.Option(help="Smallest epsilon searched; that of params.yaml else.")] = None
    high: Annotated[float | None, typer.Option(help="Largest epsilon searched; that of params.yaml else.")] = None
    width: Annotated[
        float | None,
        typer.Option(help="Stop when high / low is at most this: 1.25 by default, 1.01 for exact measures."),
    ] = None
    budget: Annotated[int, typer.Option(help="Most rewrites a mechanism and data set.")] = BUDGET
    measure: Annotated[
        str,
        typer.Option(
            help="The loss that attacks show (sampled); that of the attribute that loses most, in the cells under "
            "anonymity (attribute); or by the mechanism's law, without rewriting anything, the average over pairs "
            "of texts, the worst of them, or delta, with --at."
        ),
    ] = MEASURE
    at: Annotated[float | None, typer.Option(help="The level at which delta is meant, in nats.")] = None
    asked_for: QuestionOptions = field(default_factory=QuestionOptions)

    @property
    def search(self) -> Search:
        """The search. Raises UserError for values outside their range."""
        from epsilometer.studies.texts.calibrating.losses import Search

        options = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "asked_for"}
        return Search(**options, question=self.asked_for.chosen)

    def of_mechanisms_alone(self) -> bool:
        """Whether anything is chosen that a search of trainings does not know."""
        return replace(self, width=None, budget=BUDGET, measure=MEASURE) != SearchOptions()


def calibrate(
    target: Target,
    file: Annotated[Path | None, typer.Argument(help=f"{TEXTS} The data sets of params.yaml else.")] = None,
    mechanism: Mechanisms = [],  # noqa: B006
    dataset: Annotated[list[str], typer.Option(help="Data sets of params.yaml; all of them else.")] = [],  # noqa: B006
    training: Trainings = [],  # noqa: B006
    *,
    searching: SearchOptions,
    reading: TextOptions,
    settings: Settings = [],  # noqa: B006 - typer copies it
    public: Public = None,
    as_json: Json = False,
) -> None:
    """Find the nominal epsilon at which each mechanism's loss meets a target, a row a mechanism and data set.

    Without a FILE it needs the data sets as `make audit` prepared them, and keeps what was measured in
    data/calibrating: a search that was stopped goes on, and one for another target uses what it can. Rewrites and
    attacks fresh trials.

    With --question it searches by the figure of another question: the largest of its attacks or kinds. Nothing of that
    is kept.

    With --training it finds the noise of trainings instead, a row a kind of noise: the sigma and kappa at which one
    gradient tells as much. Ends with 3 where a search ends otherwise than found.
    """
    if training:
        if file or mechanism or dataset or settings or public or searching.of_mechanisms_alone():
            raise UserError(
                "--training goes with --target, --measure, --width, --budget and --json alone, since its attacks and "
                "the range of its levels are given; leave out the rest",
                "EPS-U020",
            )
        _conclude(_trainings(training, target, searching), as_json)
        return
    search = searching.search
    if file is None:
        if settings or public:
            raise UserError(
                "--set and --public are for a FILE of texts; params.yaml has what its mechanisms read", "EPS-U021"
            )
        rows = _cells(target, search, mechanism, dataset)
    else:
        if not mechanism or dataset:
            raise UserError(
                "with a FILE of texts name one mechanism or more (--mechanism), and no --dataset", "EPS-U022"
            )
        texts = searching.asked_for.texts(file, reading)
        chosen = {name: settings_of(name, settings, public) for name in mechanism}
        with withheld():
            rows = [_of_file(texts, name, target, search, settings=chosen[name], file=file) for name in mechanism]
    _conclude(rows, as_json)


def _cells(target: float, search: Search, mechanisms: Sequence[str], datasets: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of the cells of params.yaml."""
    from epsilometer.pipeline.calibrating import calibrate_cells
    from epsilometer.pipeline.params import read
    from epsilometer.studies.texts.calibrating.losses import progress

    watch = partial(progress, search=search)
    with withheld():
        return list(calibrate_cells(read(), target, search, mechanisms=mechanisms, datasets=datasets, watch=watch))


def _of_file(
    texts: Sequence[str] | pl.DataFrame,
    mechanism: str,
    target: float,
    search: Search,
    *,
    settings: Mapping[str, Any],
    file: Path,
) -> dict[str, Any]:
    """The row of a mechanism on the texts of a file."""
    from epsilometer.doors.calibrate import calibrate_on

    return calibrate_on(texts, mechanism, target, search, settings=settings, name=file.name)


def _trainings(training: Sequence[str], target: float, searching: SearchOptions) -> list[dict[str, Any]]:
    """The rows of entries on training."""
    from epsilometer.pipeline.params import read
    from epsilometer.studies.training.calibrating import NoiseTarget, calibrate_training

    aim = NoiseTarget(target, searching.measure, width=searching.width, budget=searching.budget)
    with withheld():
        return list(calibrate_training(read(), training, aim))


def _conclude(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Print the rows, a table without the reasons, which go to standard error; the exit code is 3 where one is open."""
    from epsilometer.auditing.calibration.sampled import FOUND
    from epsilometer.studies.texts.calibrating.losses import NOT_SEARCHED

    searched = {row["status"] for row in rows} - {NOT_SEARCHED}
    if not as_json:
        for row in rows:
            if row["reason"]:
                of = (
                    f"{row['noise']} of {row['training']}"
                    if "training" in row
                    else f"{row['mechanism']} on {row['dataset']}"
                )
                note(f"{of}: {row['reason']}")
        rows = [{key: value for key, value in row.items() if key != "reason"} for row in rows]
    show(rows, as_json)
    if searched != {FOUND}:
        raise typer.Exit(3)


def compare(
    first: Annotated[str, typer.Argument(help="A mechanism and its epsilon, tem=11; presidio, which takes none.")],
    second: Annotated[str, typer.Argument(help="Another, attacked on the same trials: mvc=70.")],
    file: Annotated[Path | None, typer.Argument(help=f"{TEXTS} The last audit's trials else.")] = None,
    trials: Annotated[
        int | None, typer.Option(help="On texts of your own: 2,000 of which_text by default, else the usual number.")
    ] = None,
    *,
    asked_for: QuestionOptions,
    reading: TextOptions,
    as_json: Json = False,
) -> None:
    """Which of two mechanisms leaks less, on the same trials: McNemar's exact test, with Holm's correction.

    With --question by another question: the sign test on the trials in which their outcomes differ. Without a FILE it
    reads two entries of `questions` in params.yaml with the same settings, data set and trials.
    """
    from epsilometer.doors.compare import compare_on
    from epsilometer.pipeline.comparing import compare_entries
    from epsilometer.pipeline.params import read
    from epsilometer.studies.texts.comparing import compare_cells

    left, right = mechanism_at(first), mechanism_at(second)
    if file is None:
        params = read()
        with withheld():
            if asked_for.is_which_text and params.cells:
                rows = compare_cells(params, left, right, params.audit.alpha)
            else:
                rows = compare_entries(params, left, right, asked_for.question, settings=asked_for.settings)
    else:
        question, texts = asked_for.chosen, asked_for.texts(file, reading)
        with withheld():
            rows = compare_on(texts, left, right, trials, question=question, name=file.name)
    show(rows, as_json)
