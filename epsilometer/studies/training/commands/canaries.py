"""`epsilometer training canaries` and `one-run`: the steps before and after the training that a user audits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilometer.cli.options import Alpha, DrawnSeed, FileOptions, Json, TextColumn, number
from epsilometer.cli.output import show
from epsilometer.core.errors import UserError
from epsilometer.core.file_names import no_column
from epsilometer.runtime.progress import note

if TYPE_CHECKING:
    import polars as pl


def canaries(
    file: Annotated[Path, typer.Argument(help="A table of labelled texts: .parquet, .csv, .tsv or .jsonl.")],
    label: Annotated[str, typer.Option(help="Column of the labels.")],
    count: Annotated[
        int, typer.Option(help="Number of canaries; a fair coin decides whether each is trained on.")
    ] = 1000,
    kind: Annotated[
        str, typer.Option(help="mislabelled: canaries are texts with a wrong label; random: random words.")
    ] = "mislabelled",
    replaced: Annotated[
        bool, typer.Option("--replaced", help="Audit replacement: a coin chooses each canary's label of two.")
    ] = False,
    text: TextColumn = None,
    out: Annotated[
        Path | None, typer.Option(help="File to train on (default: FILE.planted, in the format of FILE).")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="File of included canaries (default: FILE.key.csv).")] = None,
    *,
    laid_out: FileOptions,
    seed: DrawnSeed = None,
) -> None:
    """Plant canaries in a training set, and write their key.

    The key says which canaries are in the written training set. Train on this set. Then score every canary in the key,
    included or not. The score is minus the trained model's loss at the canary's label; with --replaced, it is the loss
    at other_label minus the loss at label. Give the scores to `epsilometer training one-run`. Keep both
    files private: they contain texts, and the key says which canaries were included.
    """
    from epsilometer.core.randomness import Noise
    from epsilometer.corpora import files
    from epsilometer.studies.training.planting import CanaryRequest, plant

    laid_out.check(file)
    layout = laid_out.layout
    out = out or file.with_name(f"{file.name.split('.')[0]}.planted{files.suffix(file)}")
    key = key or file.with_name(f"{file.name.split('.')[0]}.key.csv")
    if out.resolve() == key.resolve():
        raise UserError(f"--out and --key must be two files, got {out} for both; name another one", "EPS-U023")
    if files.suffix(out) not in files.TABLES:
        raise UserError(f"--out must end in one of {', '.join(files.TABLES)}, got {out}; name another file", "EPS-U024")
    if out.exists():
        raise UserError(f"{out} exists; name another file (--out), or delete it", "EPS-U025")
    if key.exists():
        raise UserError(
            f"{key} exists, and an overwritten key cannot be recovered; name another file (--key)", "EPS-U026"
        )
    text = text or "text"
    request = CanaryRequest(text, label, count, kind=kind, replaced=replaced)  # type: ignore[arg-type]  # it checks the kind
    table = files.read(file, layout)
    for column in (text, label):
        if column not in table.columns:
            raise no_column(file, "column", column, table.columns)
    streams = Noise.operating_system(1) if seed is None else Noise.named(1, seed, "canaries")
    planted = plant(table, request, streams.generator(0))
    _write_private(key, files.write(planted.key, None, ".csv"))
    _write_private(out, files.write(planted.training, None, files.suffix(out), layout))
    note(
        f"{out} has {len(planted.training)} texts, including {int(planted.key['included'].sum())} of {count} canaries"
        f"{' in their first version and the others in their second' if replaced else ''}; the key is {key}"
    )


def one_run(
    scores: Annotated[
        Path,
        typer.Argument(
            help=(
                "A table with the columns canary and score; a larger score means that the canary was more likely "
                "trained on."
            )
        ),
    ],
    key: Annotated[Path, typer.Option(help="Key written by `epsilometer training canaries`.")],
    delta: Annotated[float, typer.Option(help="Delta of the proved epsilon; below 1/n.")],
    guesses: Annotated[
        int | None,
        typer.Option(
            help="Number of guesses, fixed before seeing the scores (default: the best of several numbers, corrected "
            "for the choice)."
        ),
    ] = None,
    claim: Annotated[
        list[str], typer.Option(metavar="EPSILON,DELTA", help="Claim as EPSILON,DELTA; several pairs are one claim.")
    ] = [],  # noqa: B006
    alpha: Alpha = 0.01,
    as_json: Json = False,
) -> None:
    """Bound epsilon from below by the scores of canaries.

    The bounds steinke and f-dp are valid for every training. The bound gaussian is valid only if the training's
    trade-off curve is that of a Gaussian. Each bound holds with probability 1 - alpha / 2; a bound of 0 means no
    evidence. The exit code is 1 if the claim is violated, and 3 if this number of canaries could not refute it.
    """
    from epsilometer.auditing.claims.verdicts import NOT_TESTABLE, VIOLATED
    from epsilometer.corpora import files
    from epsilometer.studies.training.one_run.scores import one_run as prove

    numbers = _joined(files.read(scores), files.read(key), scores, key)
    claimed = [_pair(text) for text in claim] or None
    table = prove(
        numbers.filter(included="1")["score"],
        numbers.filter(included="0")["score"],
        delta,
        guesses=guesses,
        claim=claimed,
        alpha=alpha,
    )
    show(table.to_dicts(), as_json)
    if code := {VIOLATED: 1, NOT_TESTABLE: 3}.get(table["verdict"][0]):
        raise typer.Exit(code)


def _joined(scores: pl.DataFrame, key: pl.DataFrame, scored: Path, keyed: Path) -> pl.DataFrame:
    """Return a row per canary of the key, with its score as a number and whether it was included.

    scored, keyed: the paths of the two tables, for error messages.
    """
    import polars as pl

    for table, path, columns in ((scores, scored, ("canary", "score")), (key, keyed, ("canary", "included"))):
        for column in columns:
            if column not in table.columns:
                raise no_column(path, "column", column, table.columns)
    coins = key.select(pl.col("canary", "included").cast(pl.String))
    rows = scores.select(pl.col("canary").cast(pl.String), pl.col("score").cast(pl.Float64, strict=False))
    if rows["canary"].is_duplicated().any():
        raise UserError(f"{scored} has several scores for a canary; give one score per canary", "EPS-U027")
    if strange := rows.join(coins, on="canary", how="anti")["canary"].to_list():
        raise UserError(
            f"{scored} has scores of {len(strange)} canaries that are not in {keyed}, such as {strange[0]!r}; give the "
            "key of this training",
            "EPS-U028",
        )
    joined = coins.join(rows, on="canary", how="left")
    if missing := int(joined["score"].fill_null(float("nan")).is_nan().sum()):
        raise UserError(
            f"{scored} lacks a numeric score for {missing} of the {len(coins)} canaries in {keyed}; score all of them, "
            "including those that were not trained on",
            "EPS-U029",
        )
    return joined


def _pair(text: str) -> tuple[float, float]:
    epsilon, comma, delta = text.partition(",")
    rule = "--claim must be an epsilon and a delta, 8,1e-5"
    if not comma:
        raise UserError(f"{rule}, got {text!r}", "EPS-U030")
    return number(epsilon, rule), number(delta, rule)


def _write_private(path: Path, content: bytes) -> None:
    """Write a new file that only its owner may read. If writing fails, the file is deleted."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileNotFoundError:
        raise UserError(f"folder {path.parent} does not exist; create it, or name another file", "EPS-U031") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError:
        path.unlink()
        raise
