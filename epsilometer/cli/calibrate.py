"""Commands that choose an epsilon or a mechanism: `epsilometer calibrate` and `compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.cli.asking import QuestionOptions
from epsilometer.cli.options import (
    TEXTS,
    Json,
    Public,
    Rewritings,
    Settings,
    TextOptions,
    Trials,
    mechanism_at,
    settings_of,
    writable,
)
from epsilometer.cli.output import show, tell
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import note
from epsilometer.runtime.withholding import withheld

if TYPE_CHECKING:
    import polars as pl

    from epsilometer.auditing.question import Question
    from epsilometer.cells.calibrating.losses import Search

BUDGET, MEASURE = 20_000, "sampled"

Target = Annotated[
    float,
    typer.Option(
        help="The value to meet: a loss in nats, a probability for --measure delta, a mean for rouge_l, or the figure "
        "of --question."
    ),
]
Mechanisms = Annotated[
    list[str],
    typer.Option(
        help="With FILE: names of shipped mechanisms or .py files (required). Without: mechanisms of params.yaml "
        "(default: all)."
    ),
]
Match = Annotated[
    str | None,
    typer.Option("--match", help="Candidates have equal numbers of words (words) or any length (none)."),
]


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search for epsilon (`cells.calibrating.losses.Search`)."""

    attack: Annotated[str, typer.Option(help="The name of an attack, or `strongest` for the best of all.")] = (
        "strongest"
    )
    sees: Annotated[
        str,
        typer.Option(help="Use attacks that see only the text, only what is released (released), or all (inside)."),
    ] = "released"
    match: Match = None
    low: Annotated[
        float | None, typer.Option(help="Smallest epsilon searched (default: the smallest in params.yaml).")
    ] = None
    high: Annotated[
        float | None, typer.Option(help="Largest epsilon searched (default: the largest in params.yaml).")
    ] = None
    width: Annotated[
        float | None,
        typer.Option(
            help="Stop when the upper bound on epsilon is at most this times the lower bound (default: 1.25; 1.01 for "
            "exact measures)."
        ),
    ] = None
    budget: Rewritings = BUDGET
    measure: Annotated[
        str,
        typer.Option(
            help="The measure that meets the target. sampled: the loss that attacks prove. attribute: the largest loss "
            "of an attribute, in the cells under anonymity. Computed from the mechanism's law, without rewriting: the "
            "average loss over pairs of texts (average), the worst pair's loss (worst), or its delta at --at (delta)."
        ),
    ] = MEASURE
    at: Annotated[float | None, typer.Option(help="The level of delta, in nats; only with --measure delta.")] = None
    asked_for: QuestionOptions = field(default_factory=QuestionOptions)

    @property
    def search(self) -> Search:
        """The search. Raises UserError for values outside their range."""
        from epsilometer.cells.calibrating.losses import Search

        options = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "asked_for"}
        return Search(**options, question=self.asked_for.chosen)


def calibrate(
    target: Target,
    file: Annotated[Path | None, typer.Argument(help=f"{TEXTS} Default: the data sets of params.yaml.")] = None,
    mechanism: Mechanisms = [],  # noqa: B006
    dataset: Annotated[list[str], typer.Option(help="Data sets of params.yaml (default: all).")] = [],  # noqa: B006
    *,
    searching: SearchOptions,
    reading: TextOptions,
    settings: Settings = [],  # noqa: B006 - typer copies it
    public: Public = None,
    as_json: Json = False,
) -> None:
    """Find the epsilon at which a mechanism's loss meets a target.

    Prints a row for each mechanism and data set, and spends at most --budget rewrites on each row. Trials are fresh.
    Without a FILE it needs the data sets that `make audit` prepared. It then stores its measurements in
    data/calibrating, to resume a stopped search and to reuse them for another target.

    With --question, the target is for the largest figure of that question over its attacks or kinds. Measurements of
    other questions are not stored.

    The exit code is 3 if a search does not end with status `found`.
    """
    search = searching.search
    if file is None:
        if settings or public:
            raise UserError(
                "--set and --public need a FILE of texts; without one, change the settings in params.yaml", "EPS-U021"
            )
        rows = _cells(target, search, mechanism, dataset)
    else:
        if not mechanism or dataset:
            raise UserError(
                "a FILE of texts needs --mechanism and takes no --dataset; name a mechanism, and leave out --dataset",
                "EPS-U022",
            )
        texts = searching.asked_for.texts(file, reading)
        chosen = {name: settings_of(name, settings, public) for name in mechanism}
        with withheld():
            rows = [_of_file(texts, name, target, search, settings=chosen[name], file=file) for name in mechanism]
    conclude(rows, as_json)


def _cells(target: float, search: Search, mechanisms: Sequence[str], datasets: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of the cells of params.yaml."""
    from epsilometer.cells.calibrating.losses import progress
    from epsilometer.pipeline.calibrating import calibrate_cells
    from epsilometer.pipeline.params import read

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
    """Return the row of a mechanism on the texts of a file."""
    from epsilometer.doors.calibrate import calibrate_on

    return calibrate_on(texts, mechanism, target, search, settings=settings, name=file.name)


def conclude(rows: Sequence[Mapping[str, Any]], as_json: bool, of: str = "{mechanism} on {dataset}") -> None:
    """Print the rows, and their reasons on standard error; the exit code is 3 if a search did not succeed.

    of: the template of a row's name.
    """
    from epsilometer.auditing.calibration.sampled import FOUND
    from epsilometer.cells.calibrating.losses import NOT_SEARCHED

    searched = {row["status"] for row in rows} - {NOT_SEARCHED}
    if not as_json:
        for row in rows:
            if row["reason"]:
                note(f"{of.format_map(row)}: {row['reason']}")
        rows = [{key: value for key, value in row.items() if key != "reason"} for row in rows]
    show(rows, as_json)
    if searched != {FOUND}:
        raise typer.Exit(3)


@dataclass(frozen=True)
class AtLossOptions:
    """A loss to which all mechanisms are calibrated before they are compared."""

    at_loss: Annotated[
        float | None, typer.Option(help="Compare all at the epsilons where their loss is this, in nats.")
    ] = None
    match: Match = None
    budget: Rewritings = BUDGET
    out: Annotated[
        Path | None, typer.Option(help="Folder for a figure (PDF), a LaTeX table and sentences.", file_okay=False)
    ] = None
    settings: Settings = field(default_factory=list)

    def check(self, sides: Sequence[tuple[str, float | None]], file: Path | None, of_text: bool) -> None:
        """Refuse options without effect, and an epsilon together with --at-loss, because --at-loss determines epsilon.

        of_text: True for the question which_text.
        """
        if self.at_loss is None:
            if self.match is not None or self.budget != BUDGET or self.out or self.settings:
                raise UserError(
                    "--match, --budget, --out and --set need --at-loss; give it, or leave them out", "EPS-U092"
                )
            if len(sides) > 2:
                raise UserError(
                    f"only --at-loss compares more than two mechanisms, got {len(sides)}; give it, or name two",
                    "EPS-U091",
                )
            return
        if file is None or any(epsilon is not None for _, epsilon in sides):
            raise UserError(
                "--at-loss needs a FILE of texts and mechanisms without an epsilon, for example `compare tem mvc FILE`",
                "EPS-U093",
            )
        if self.out is not None and not of_text:
            raise UserError("--out writes the figures of which_text; leave --out or --question out", "EPS-U125")

    @property
    def search(self) -> Search:
        """The search. Raises UserError for values outside their range."""
        from epsilometer.cells.calibrating.losses import Search

        return Search(match=self.match, budget=self.budget)


def compare(
    first: Annotated[
        str, typer.Argument(help="A mechanism and its epsilon: tem=11. If it takes no epsilon, its name: presidio.")
    ],
    second: Annotated[
        str, typer.Argument(help="The mechanism to compare it with: mvc=70. With --at-loss also several: mvc,santext.")
    ],
    file: Annotated[Path | None, typer.Argument(help=f"{TEXTS} Default: the trials of the last audit.")] = None,
    trials: Trials = None,
    *,
    at: AtLossOptions,
    asked_for: QuestionOptions,
    reading: TextOptions,
    as_json: Json = False,
) -> None:
    """Test which of two mechanisms leaks less.

    Both are attacked on the same trials. McNemar's exact test, with Holm's correction, compares the outcomes. For
    another --question, the sign test compares the trials whose outcomes differ. Without a FILE, the command reads two
    entries of `questions` in params.yaml that have the same settings, data set and trials.

    With --at-loss each mechanism is first calibrated to that loss, with at most --budget rewrites and candidates chosen
    by --match. --set is for the first mechanism. The exit code is 3 if a mechanism could not be calibrated.

    With --out, the losses and the mean cosine of text and rewrite (jaccard without the extra `models`) are also written
    for a paper: at-loss.pdf, at-loss-table.tex (LaTeX with booktabs) and at-loss-text.tex.
    """
    from epsilometer.cells.comparing import compare_cells
    from epsilometer.doors.compare import compare_on
    from epsilometer.pipeline.comparing import compare_entries
    from epsilometer.pipeline.params import read

    names = [first, *second.split(",")]
    sides = [mechanism_at(name) for name in names]
    at.check(sides, file, asked_for.is_which_text)
    if at.at_loss is not None and file is not None:
        texts = asked_for.texts(file, reading)
        mechanisms: dict[str, dict[str, Any]] = {name: {} for name in names}
        mechanisms[first] = settings_of(first, at.settings, None)
        if at.out is not None:
            return _write(texts, mechanisms, at, trials, name=file.name, as_json=as_json)
        rows = _at_loss(texts, mechanisms, at, trials, question=asked_for.chosen, as_json=as_json)
        rows = [{"dataset": file.name, **row} for row in rows]
    elif file is None:
        params = read()
        with withheld():
            if asked_for.is_which_text and params.cells:
                rows = compare_cells(params, sides[0], sides[1], params.audit.alpha)
            else:
                rows = compare_entries(params, sides[0], sides[1], asked_for.question, settings=asked_for.settings)
    else:
        question, texts = asked_for.chosen, asked_for.texts(file, reading)
        with withheld():
            rows = compare_on(texts, sides[0], sides[1], trials, question=question, name=file.name)
    show(rows, as_json)


def _at_loss(
    texts: Sequence[str] | pl.DataFrame,
    mechanisms: Mapping[str, Mapping[str, Any]],
    at: AtLossOptions,
    trials: int | None,
    *,
    question: Question,
    as_json: bool,
) -> list[dict[str, Any]]:
    """Return the rows of the comparison at a loss.

    If no epsilon gives a mechanism this loss, prints why, and exits with code 3.
    """
    from epsilometer.doors.at_loss import calibrated_to, compared_at

    assert at.at_loss is not None
    with withheld():
        every = calibrated_to(texts, mechanisms, at.at_loss, at.search, questions=[question])
        rows = compared_at(every, question, trials).compared if every.is_complete else every.calibrated
    if not every.is_complete:
        conclude(rows, as_json, "{mechanism}")
    return rows


def _write(
    texts: Sequence[str] | pl.DataFrame,
    mechanisms: Mapping[str, Mapping[str, Any]],
    at: AtLossOptions,
    trials: int | None,
    *,
    name: str,
    as_json: bool,
) -> None:
    """Write files for a paper to the folder of --out, and print sentences for it. name: the name of the texts."""
    from epsilometer.doors.at_loss import article  # loads the drawing library before any work

    assert at.at_loss is not None
    assert at.out is not None
    writable(at.out / "at-loss.pdf")
    with withheld():
        measured = article(texts, mechanisms, at.at_loss, at.search, trials=trials, name=name)
    written = measured.write(at.out)
    if as_json:
        show(measured.rows, as_json)
    else:
        tell(*(path.resolve() for path in written), "", *measured.sentences)
    if not all(each.loss for each in measured.mechanisms):
        raise typer.Exit(3)
