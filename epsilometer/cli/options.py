"""Options that several commands take, and what they are read as."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import note

if TYPE_CHECKING:
    from epsilometer.corpora.files import Layout


def shipped(kind: str) -> str:
    """Returns the names of a kind's components; without `core.component`, whose imports would keep --help waiting."""
    files = (Path(__file__).parents[1] / kind).rglob("[!_]*.py")
    return ", ".join(sorted(p.stem for p in files if p.parent.name != "shared"))


A_MECHANISM = f"A shipped mechanism ({shipped('mechanisms')}), or the path of a .py file."

TEXTS = "The texts: .parquet, .csv, .tsv, .jsonl, .txt (also .gz, .zst), or a folder of .txt files."

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Settings = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="A setting of the mechanism.")]

Columns = Annotated[str | None, typer.Option(help="Which columns, separated by commas, or all; a few by default.")]

# How texts are read.
Text = Annotated[list[str], typer.Option(help="The column of the texts; of several each row is one text.")]
Rows = Annotated[int | None, typer.Option("--rows", min=1, max=1 << 31, help="Only the first rows.")]
Separator = Annotated[str | None, typer.Option(help="Between fields; a comma in .csv, a tab in .tsv by default.")]
NoQuotes = Annotated[bool, typer.Option("--no-quotes", help="Double quotes are text, as in GLUE's files.")]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line is data; columns are 1, 2, ...")]
Encoding = Annotated[str, typer.Option(help="Of text files.")]


def read_texts(
    source: str, columns: str | Sequence[str], rows: int | None = None, layout: Layout | None = None
) -> list[str]:
    """Returns the distinct texts of a file or folder; what is left out is said."""
    from epsilometer.corpora.files import PLAIN
    from epsilometer.corpora.reading import prepare, read

    corpus = prepare(read(source, text=columns, rows=rows, layout=layout or PLAIN))
    for key, meaning in {
        "empty_dropped": "texts without a word dropped",
        "duplicates_merged": "duplicate texts merged",
    }.items():
        if corpus.counts[key]:
            note(f"{corpus.counts[key]} {meaning}")
    texts: list[str] = corpus.table["text"].to_list()
    return texts


def writable(path: Path | None) -> Path | None:
    """Returns the path of a file to write, whose folder is made; a UserError says, before any work, if it cannot be."""
    from tempfile import TemporaryFile

    if path is None or (path.exists() and not path.is_dir()):
        return path
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the file to write")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); give another path") from error
    return path


def number(text: str, rule: str) -> float:
    """Returns a number; a UserError says the rule."""
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{rule}, got {text!r}") from None


def read_settings(entries: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """Returns settings by key; a value is YAML, as in a parameter file."""
    import yaml

    from epsilometer.core import yaml_text

    settings = {}
    for item in entries:
        key, equals, value = item.partition("=")
        if not equals:
            raise UserError(f"{option} takes key=value, got {item!r}")
        try:
            settings[key] = yaml_text.load(value)
        except yaml.YAMLError:
            raise UserError(
                f"{option} {key}: the value must be readable YAML; put a text that holds one of []{{}}:,*&# in quotes"
            ) from None
        except UserError as error:
            raise UserError(f"{option} {key}: {error}") from None
    return settings


def mechanism_at(text: str) -> tuple[str, float]:
    """Returns the mechanism and the epsilon of `tem=11`."""
    name, equals, epsilon = text.partition("=")
    if not equals:
        raise UserError(f"give a mechanism and its epsilon as tem=11, got {text!r}")
    return name, number(epsilon, "epsilon must be a number")
