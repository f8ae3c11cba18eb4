"""`epsilometer release`: a whole corpus under central differential privacy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilometer.cli.options import LedgerOptions, Settings, TextOptions, Workers, read_settings, shipped, writable
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import note

if TYPE_CHECKING:
    from epsilometer.auditing.corpora.publishing import Publication
    from epsilometer.core.corpus_mechanism import CorpusMechanism, PrivateCorpus


def release(
    file: Annotated[Path, typer.Argument(help="The private texts: .parquet, .csv, .tsv, .jsonl, .txt.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget for all that a person wrote.")],
    out: Annotated[
        Path, typer.Option(help="Table to write (.csv, .parquet, .jsonl); a statement is written beside it.")
    ],
    mechanism: Annotated[
        str, typer.Option(help=f"A mechanism on corpora ({shipped('mechanisms/corpora')}), or the path of a .py file.")
    ] = "vote_histogram",
    label: Annotated[str | None, typer.Option(help="Column of labels, which --labels lists.")] = None,
    labels: Annotated[
        str | None, typer.Option(help="The public labels, separated by commas; texts with other labels do not count.")
    ] = None,
    public: Annotated[Path | None, typer.Option(help="Public texts, a file with a column `text`.")] = None,
    per_person: Annotated[int, typer.Option(min=1, help="Number of texts to count for each person.")] = 1,
    workers: Workers = 1,
    ray: Annotated[
        str | None, typer.Option(help="Ray cluster for the workers: auto, or HOST:PORT of a cluster already joined.")
    ] = None,
    *,
    recording: LedgerOptions,
    reading: TextOptions,
    settings: Settings = [],  # noqa: B006
) -> None:
    """Release a corpus under central differential privacy.

    Public texts are labelled and weighted by noisy votes of the private ones.

    Noise comes from the operating system and is added once, to the votes of the whole corpus. A ledger records the
    budget spent for each person; without --person each text counts as a person. Figures of private texts are printed
    for the curator, and not written to any file.
    """
    from epsilometer.auditing.corpora.checks import for_the_curator
    from epsilometer.auditing.corpora.publishing import Publication, statement_of
    from epsilometer.core.guarantees import check_epsilons
    from epsilometer.corpora import files

    check_epsilons([epsilon], "--epsilon")
    if files.suffix(out) not in (".csv", ".tsv", ".parquet", ".jsonl"):
        raise UserError(f"--out must end with .csv, .tsv, .parquet or .jsonl, got {str(out)!r}", "EPS-U073")
    for path in (out, statement_of(out)):
        writable(path)
    if (label is None) != (labels is None):
        raise UserError(
            "--label and --labels must be given together: the list must be public, since a list taken from private "
            "texts reveals which rare labels occur",
            "EPS-U074",
        )
    built = _on_workers(_built(mechanism, public, labels, per_person=per_person, entries=settings), workers, ray)
    corpus = _corpus(file, reading, recording.person, label)
    if recording.person is None:
        note("without --person each text counts as a person: an author of two texts is protected half as well")
    publication = Publication(mechanism, built, epsilon, recording.folder(file), again=recording.again)
    released, standing = publication.publish(corpus, out)
    note(f"{len(released.texts):,} texts are in {out}, and their claim is in {statement_of(out).name}")
    _say_guesses(publication)
    recording.say(standing)
    for line in for_the_curator(built, corpus, released).describe():
        note(f"for the curator alone, not for publication: {line}")


def _say_guesses(publication: Publication) -> None:
    from epsilometer.core.guarantees import Granularity

    if publication.guesses is not None:
        claim = publication.mechanism.guarantee(publication.epsilon)
        others = "the texts of everybody else" if claim.granularity is Granularity.USER else "all other texts"
        note(
            f"an adversary who knows {others} is right in at most {publication.guesses:g} of 100 guesses; 50 is chance"
        )


def _on_workers(built: CorpusMechanism, workers: int, ray: str | None) -> CorpusMechanism:
    """Return the mechanism, with workers that embed the private texts."""
    from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram
    from epsilometer.runtime.scaling import Engine

    if (engine := Engine(workers, ray)).here:
        return built
    if not isinstance(built, VoteHistogram):
        raise UserError(
            f"--workers and --ray divide the embedding of private texts, and {type(built).__name__} embeds none; leave "
            "them out",
            "EPS-U124",
        )
    return built.on(replace(built.public, engine=engine))


def _built(
    mechanism: str, public: Path | None, labels: str | None, *, per_person: int, entries: list[str]
) -> CorpusMechanism:
    """Return the mechanism with its settings. Raises UserError for an unknown or a missing setting."""
    import inspect

    from epsilometer.core.component import CORPORA, build, find

    definition = find(CORPORA, mechanism, "release")
    takes = inspect.signature(definition).parameters
    options = {
        "--public": ("resource", public),
        "--labels": ("labels", None if labels is None else tuple(label.strip() for label in labels.split(","))),
        "--per-person": ("most", None if per_person == 1 else per_person),
    }
    settings = read_settings(entries)
    for option, (name, value) in options.items():
        if value is not None and name not in takes:
            raise UserError(f"{option} has no effect on {mechanism}; leave it out", "EPS-U075")
        if value is not None:
            settings[name] = value
    if "resource" in takes and "resource" not in settings:
        raise UserError(
            f"{mechanism} builds its release from public texts; give a file of texts that were collected apart from "
            "the private ones (--public)",
            "EPS-U076",
        )
    built: CorpusMechanism = build(definition, settings, f"the settings of {mechanism}")
    return built


def _corpus(file: Path, reading: TextOptions, person: str | None, label: str | None) -> PrivateCorpus:
    """Return the texts of a file, with persons and labels. Texts without a word are left out; repeated texts stay."""
    import polars as pl

    from epsilometer.core.corpus_mechanism import PrivateCorpus
    from epsilometer.corpora.authors import people_of
    from epsilometer.corpora.reading import read

    reading.files.check(file)
    columns = list(dict.fromkeys(name for name in (person, label) if name is not None))
    table = read(file, text=reading.text, labels=columns, rows=reading.rows, layout=reading.files.layout)
    table = table.filter(pl.col("text").str.contains(r"\w")).with_columns(pl.col(columns).cast(pl.String))
    people = None if person is None else people_of(table, person, "text", str(file))
    return PrivateCorpus(
        table["text"].to_list(),
        people,
        None if label is None else table[label].to_list(),
    )
