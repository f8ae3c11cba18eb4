"""Options that several commands share, and the values that they are parsed into."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from epsilometer.cli.output import tell
from epsilometer.core.errors import UserError
from epsilometer.core.values import number as parsed
from epsilometer.runtime.progress import note

if TYPE_CHECKING:
    import polars as pl

    from epsilometer.accounting.ledger import Standing
    from epsilometer.auditing.external import CommandMechanism
    from epsilometer.auditing.gate_statistics import Verdict
    from epsilometer.auditing.subject import Subject
    from epsilometer.corpora.files import Layout
    from epsilometer.mechanisms.anonymisers.endpoint import Endpoint


_STANDARD = ["/dev/stdout", "/dev/stderr"] + [
    f"{folder}/{n}" for folder in ("/dev/fd", "/proc/self/fd") for n in (1, 2)
]


def writable(path: Path | None) -> Path | None:
    """Return the path of a file to write, and create its folder. Raises UserError if it cannot be written."""
    from tempfile import TemporaryFile

    from epsilometer.core.atomic import is_stream

    if path is None:
        return path
    if os.path.normpath(path) in _STANDARD:
        raise UserError(
            f"{path} is the standard output of this command; leave the option out, or name a file", "EPS-U057"
        )
    if is_stream(path):
        return path
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the file to write", "EPS-U058")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); give another path", "EPS-U059") from error
    return path


def shipped(kind: str) -> str:
    """Return the names of a kind's components, without importing `core.component`, which would slow down --help."""
    folder = Path(__file__).parents[1] / kind
    others = (
        {"shared"} if folder.name == "corpora" else {"shared", "corpora"}
    )  # mechanisms on corpora are a separate kind
    return ", ".join(sorted(p.stem for p in folder.rglob("[!_]*.py") if p.parent.name not in others))


A_MECHANISM = f"A shipped mechanism ({shipped('mechanisms')}), or the path of a .py file."

TEXTS = "The texts: .parquet, .csv, .tsv, .jsonl, .txt (also .gz, .zst), or a folder of .txt files."

TextFile = Annotated[Path | None, typer.Argument(help=TEXTS)]
MechanismName = Annotated[str | None, typer.Option(help=A_MECHANISM)]
Epsilon = Annotated[float | None, typer.Option("--epsilon", help="Privacy budget. Omit for a mechanism without one.")]
Epsilons = Annotated[
    str | None,
    typer.Option(
        "--epsilons", help="Privacy budgets, separated by commas: 1,10,100. Omit for a mechanism without one."
    ),
]
Program = Annotated[
    str | None,
    typer.Option("--command", help="Program that rewrites one text per line: 'prog --eps {epsilon} --seed {seed}'."),
]
Workers = Annotated[
    int, typer.Option("--workers", min=1, help="Number of parallel processes; results do not depend on it.")
]
Attacks = Annotated[
    str | None,
    typer.Option(
        "--attacks",
        help=f"Attacks, separated by commas: shipped ones ({shipped('attacks/identification')}) and paths of .py files "
        "(default: all that need no large model).",
    ),
]
Trials = Annotated[
    int | None,
    typer.Option("--trials", help="Number of trials at each privacy budget (default: the question's usual number)."),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        help=(
            "Temperature of candidate sampling: below 0 prefers dissimilar candidates, above 0 similar ones; 0 "
            "samples uniformly."
        ),
    ),
]
Alpha = Annotated[float, typer.Option("--alpha", help="Error probability of each interval or test.")]
Rewritings = Annotated[int, typer.Option("--budget", help="Maximum number of rewrites.")]
Baseline = Annotated[Path | None, typer.Option("--baseline", help="File of accepted results, which --accept writes.")]
Accept = Annotated[bool, typer.Option("--accept", help="Measure and write --baseline, without a verdict.")]
Vectors = Annotated[
    Path | None, typer.Option("--vectors", help="File of word vectors, in any format (default: the bundled vectors).")
]
DrawnSeed = Annotated[
    int | None,
    typer.Option("--seed", help="Seed for reproducible output (default: the operating system's randomness)."),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every random stream.")]
TextColumn = Annotated[str | None, typer.Option("--text", help="Column of the texts (default: text).")]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Settings = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="A setting of the mechanism.")]

Public = Annotated[
    Path | None,
    typer.Option(
        "--public", help="Public texts that the mechanism chooses from: a file, or a folder of selected exemplars."
    ),
]


@dataclass(frozen=True)
class EndpointOptions:
    """Options for a deployed service: its address, whether it may see private texts, and limits on its requests."""

    endpoint: Annotated[
        str | None,
        typer.Option(
            help="URL of an OpenAI-compatible chat (with --model; the key is OPENAI_API_KEY) or of any HTTP service "
            "(with --template)."
        ),
    ] = None
    template: Annotated[
        Path | None,
        typer.Option(
            help=(
                "YAML file of a request: method, headers, body with {text}, and the answer's path in the reply "
                "(docs/how-to/deployed.md)."
            ),
            dir_okay=False,
        ),
    ] = None
    model: Annotated[str | None, typer.Option(help="Model name, for chat endpoints.")] = None
    private_texts: Annotated[
        bool, typer.Option("--private-texts", help="Confirm that the service may see the texts.")
    ] = False
    max_requests: Annotated[int | None, typer.Option(help="Maximum number of requests, retries included.")] = None
    dry: Annotated[
        bool, typer.Option("--dry", help="Print the number and cost of the requests without sending any.")
    ] = False

    def check(self) -> None:
        """Refuse options that have no effect without --endpoint."""
        idle = [f"--{part.name.replace('_', '-')}" for part in fields(self) if getattr(self, part.name) != part.default]
        if self.endpoint is None and idle:
            raise UserError(
                f"{', '.join(idle)} {'is' if len(idle) == 1 else 'are'} for --endpoint; give its URL", "EPS-U048"
            )

    def mechanism(self, settings: Sequence[str], *, private: bool = True) -> Endpoint:
        """Return the service as a mechanism, with further settings KEY=VALUE.

        private: True if the texts are private. Raises UserError if the texts are private but the service must not see
        private texts, or if a setting is missing.
        """
        from epsilometer.core.component import build
        from epsilometer.mechanisms.anonymisers.endpoint import Endpoint

        chosen = {part.name: value for part in fields(self) if (value := getattr(self, part.name)) != part.default}
        chosen["url"] = chosen.pop("endpoint")
        if self.template is not None:
            chosen["resource"] = chosen.pop("template")
        others = read_settings(settings)
        if twice := [*(chosen.keys() & others.keys())]:
            raise UserError(f"--set {twice[0]} repeats another option; leave one of them out", "EPS-U049")
        built: Endpoint = build(Endpoint, chosen | others, "--endpoint")
        built.check(public=not private)
        return built


@dataclass(frozen=True)
class Rewriting:
    """The mechanism, program or service that rewrites a file's texts."""

    file: TextFile = None
    mechanism: MechanismName = None
    command: Program = None
    workers: Workers = 1
    settings: Settings = field(default_factory=list)
    public: Public = None
    service: EndpointOptions = field(default_factory=EndpointOptions)

    @property
    def rewriter(self) -> str | CommandMechanism | Endpoint:
        """The mechanism's name, or the program or service."""
        from epsilometer.auditing.external import CommandMechanism

        if self.service.endpoint is not None:
            return self.service.mechanism(self.settings)
        return CommandMechanism(self.command, self.workers) if self.command is not None else str(self.mechanism)

    @property
    def label(self) -> str | None:
        """The name of the mechanism, program or service in results; None without one."""
        if self.service.endpoint is not None:
            from epsilometer.models.endpoint import Address

            try:
                return Address.of(self.service.endpoint).host
            except UserError:  # the endpoint raises this error itself, later
                return "endpoint"
        if self.command is not None:
            from epsilometer.auditing.external import program_name

            return program_name(self.command)
        return self.mechanism

    @property
    def chosen(self) -> dict[str, Any] | None:
        """The settings of the named mechanism."""
        return None if self.mechanism is None else settings_of(self.mechanism, self.settings, self.public)

    def check_source(self, other: object = None, option: str | None = None) -> None:
        """Refuse two sources, no source, and endpoint options without --endpoint.

        option, other: the name and value of a further option that names a source.
        """
        sources = (self.mechanism, self.command, self.service.endpoint, other)
        if sum(source is not None for source in sources) != 1:
            *names, last = ["--mechanism", "--command", "--endpoint", *([] if option is None else [option])]
            raise UserError(f"give one of {', '.join(names)} and {last}", "EPS-U050")
        self.service.check()

    def check_needs(self) -> None:
        """Refuse options that have no effect with this source."""
        if self.workers != 1 and self.command is None:
            raise UserError("--workers needs --command; give both, or leave out --workers", "EPS-U051")
        if self.public is not None and self.mechanism is None:
            raise UserError("--public needs --mechanism; give both, or leave out --public", "EPS-U052")
        if self.settings and self.mechanism is None and self.service.endpoint is None:
            raise UserError(
                "--set needs --mechanism or --endpoint; write the settings of a program into --command", "EPS-U053"
            )


def out_option(check: Callable[[Path | None], Path | None]) -> Any:
    """Return the option `--out` of a command that prints its result by default."""
    return typer.Option("--out", help="File to write instead of printing.", callback=check)


def schema_option(schema: Callable[[], dict[str, Any]]) -> Any:
    """Return the option `--schema`, which prints the JSON schema of a command's files and ends the command."""

    def say(wanted: bool) -> None:
        if wanted:
            tell(json.dumps(schema(), indent=1))
            raise typer.Exit

    about = "Print the JSON schema of what this command writes."
    return typer.Option("--schema", help=about, is_eager=True, callback=say)


@contextmanager
def told_if_dry() -> Iterator[None]:
    """Print the expected requests and end the command, if the block inside makes a dry run."""
    from epsilometer.models.spending import Dry

    try:
        yield
    except Dry as dry:
        tell(str(dry))
        raise typer.Exit from None


Columns = Annotated[
    str | None, typer.Option(help="Columns to print, separated by commas, or all (default: the main columns).")
]


@dataclass(frozen=True)
class FileOptions:
    """The layout of text files."""

    entries: Annotated[
        list[str],
        typer.Option(
            "--layout",
            metavar="KEY=VALUE",
            help="Layout of a text file: separator=';', quotes=false, header=false (columns are named 1, 2, ...) or "
            "encoding=latin-1; repeatable.",
        ),
    ] = field(default_factory=list)

    def check(self, *read: str | Path | None) -> None:
        """Refuse a layout that has no effect on any of the files that are read."""
        idle = [f"--layout {key}" for key in self._values if key != "encoding"]
        if not idle:
            return
        from epsilometer.corpora.files import DELIMITED, suffix

        if not any(suffix(Path(file)) in DELIMITED for file in read if file is not None):
            raise UserError(
                f"{', '.join(idle)} {'is' if len(idle) == 1 else 'are'} for {' and '.join(DELIMITED)} files; leave "
                f"{'it' if len(idle) == 1 else 'them'} out",
                "EPS-U055",
            )

    @property
    def layout(self) -> Layout:
        """The layout for readers. Raises UserError for an invalid value."""
        from epsilometer.corpora.files import Layout

        return Layout(**self._values)

    @property
    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for entry in self.entries:
            key, _, value = entry.partition("=")
            if key in ("quotes", "header") and value in ("true", "false"):
                values[key] = value == "true"
            elif key in ("separator", "encoding"):
                values[key] = value
            else:
                raise UserError(
                    f"--layout takes separator=CHARACTER, quotes=false, header=false or encoding=NAME, got {entry!r}",
                    "EPS-U071",
                )
        return values


@dataclass(frozen=True)
class TextOptions:
    """Options for reading a file of texts: columns, rows and layout."""

    text: Annotated[
        list[str], typer.Option(help="Column of the texts; repeat it to join several columns of a row into one text.")
    ] = field(default_factory=lambda: ["text"])
    rows: Annotated[int | None, typer.Option("--rows", min=1, max=1 << 31, help="Read only this many rows.")] = None
    files: FileOptions = field(default_factory=FileOptions)

    def distinct(self, source: str | Path) -> list[str]:
        """Return the distinct texts of a file or folder; a note says which texts are left out."""
        self.files.check(source)
        texts: list[str] = self.table(source)["text"].to_list()
        return texts

    def table(self, source: str | Path, columns: Sequence[str] = ()) -> pl.DataFrame:
        """Return the distinct texts, these columns, and the file's annotated identifiers.

        A list in one of these columns becomes a text with one item per line.
        """
        import polars as pl

        from epsilometer.corpora.reading import prepare, read

        raw = read(str(source), text=self.text, labels=columns, rows=self.rows, layout=self.files.layout)
        lists = [name for name in columns if isinstance(raw.schema[name], pl.List)]
        corpus = prepare(raw.with_columns(pl.col(*lists).list.join("\n")) if lists else raw, columns)
        for key, meaning in {
            "empty_dropped": "texts without a word dropped",
            "duplicates_merged": "duplicate texts merged",
        }.items():
            if corpus.counts[key]:
                note(f"{corpus.counts[key]} {meaning}")
        return corpus.table


@dataclass(frozen=True)
class LedgerOptions:
    """Options for the texts' authors, and for the ledger of the privacy budget that releases spend for each author."""

    person: Annotated[str | None, typer.Option(help="Column with the author of each text.")] = None
    ledger: Annotated[
        Path | None, typer.Option(help="Folder of the ledger (default: .epsilometer-ledger beside the private texts).")
    ] = None
    again: Annotated[
        bool, typer.Option("--again", help="Also release texts of people whose texts an earlier release used.")
    ] = False

    def folder(self, file: Path) -> Path:
        """Return the folder of the ledger for the people of a file."""
        return self.ledger or file.parent / ".epsilometer-ledger"

    def say(self, standing: Standing) -> None:
        """Note how many people are also in an earlier release, if any, and the largest budget spent on a person."""
        if standing.again:
            note(
                f"{standing.again:,} people are in an earlier release, so its statement no longer holds: the "
                f"releases of one person now add up to at most {standing.after.describe()}"
            )


@dataclass(frozen=True)
class PerText:
    """Options for files that list how often each text was recognised."""

    out: Annotated[
        list[Path],
        typer.Option(help="Write how often each text was recognised, as .jsonl or .html; repeatable."),
    ] = field(default_factory=list)
    show_texts: Annotated[
        bool, typer.Option("--show-texts", help="Include the texts in --out, which is then as private as they are.")
    ] = False

    def check(self) -> None:
        """Refuse, before any work, files that cannot be written, and --show-texts without --out."""
        from epsilometer.report import per_text

        if self.show_texts and not self.out:
            raise UserError("--show-texts needs --out; give both, or leave out --show-texts", "EPS-U056")
        for path in self.out:
            per_text.check(path)
            writable(path)

    def write(self, by_text: pl.DataFrame, name: str, texts: Sequence[str]) -> None:
        """Write the rows to every file of --out, with the texts if --show-texts is given."""
        from epsilometer.report import per_text

        per_text.write(by_text, self.out, name, texts if self.show_texts else None)

    def write_verdict(self, verdict: Verdict, of: Subject) -> None:
        """Write the rows of a gate's verdict."""
        from epsilometer.core.guarantees import stored
        from epsilometer.report import per_text

        if self.out:
            self.write(per_text.of_verdict(verdict, of.pool.texts, stored(of.epsilon)), of.name, of.pool.texts)


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with each parameter that is a dataclass replaced by its fields, one option for each field.

    Dataclasses may be nested. They group options that several commands share, or that belong together.
    """
    own = inspect.signature(command, eval_str=True).parameters
    groups = {name: p.annotation for name, p in own.items() if is_dataclass(p.annotation)}
    options = [option for name, p in own.items() for option in (_options(groups[name]) if name in groups else [p])]
    for option in options:
        _read_plainly(option.annotation)

    @wraps(command)
    def flattened(**values: Any) -> None:
        gathered = {name: _gathered(group, values) for name, group in groups.items()}
        command(**values, **gathered)

    by_name = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    flattened.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
    flattened.__annotations__ = {option.name: option.annotation for option in options}
    return flattened


def _read_plainly(annotation: Any) -> None:
    """Make an option of type float accept only plain digits (`values.number`), as in lists and parameter files."""
    kind, about = getattr(annotation, "__origin__", None), getattr(annotation, "__metadata__", None)
    if about and (kind is float or float in getattr(kind, "__args__", ())):
        about[0].parser, about[0].metavar = parsed, "<float>"


def _options(group: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for part in fields(group):
        if is_dataclass(hints[part.name]):
            yield from _options(hints[part.name])
        else:
            default = part.default if part.default_factory is MISSING else part.default_factory()
            default = inspect.Parameter.empty if default is MISSING else default
            kind = inspect.Parameter.KEYWORD_ONLY
            yield inspect.Parameter(part.name, kind, default=default, annotation=hints[part.name])


def _gathered(group: Any, values: dict[str, Any]) -> Any:
    """Build the dataclass from its options, and remove these options from `values`."""
    hints = get_type_hints(group, include_extras=True)
    return group(
        **{
            part.name: _gathered(hints[part.name], values) if is_dataclass(hints[part.name]) else values.pop(part.name)
            for part in fields(group)
        }
    )


def numbers(text: str | None, rule: str) -> list[float] | None:
    """Return comma-separated numbers; None stays None. Raises UserError with the rule for any other text."""
    return None if text is None else [number(part, rule) for part in text.split(",")]


def number(text: str, rule: str) -> float:
    """Return a number. Raises UserError with the rule for any other text."""
    try:
        return parsed(text)
    except ValueError:
        raise UserError(f"{rule}, got {text!r}", "EPS-U060") from None


def read_settings(entries: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """Return settings from KEY=VALUE entries, by key. Values are YAML, as in a parameter file."""
    import yaml

    from epsilometer.core import yaml_text

    settings = {}
    for item in entries:
        key, equals, value = item.partition("=")
        if not equals:
            raise UserError(f"{option} takes key=value, got {item!r}", "EPS-U061")
        try:
            settings[key] = yaml_text.load(value, plain=True)
        except yaml.YAMLError:
            raise UserError(
                f"{option} {key}: the value must be readable YAML; put a text that holds one of []{{}}:,*&# in quotes",
                "EPS-U062",
            ) from None
        except UserError as error:
            raise error.at(f"{option} {key}") from None
    return settings


def settings_of(mechanism: str, entries: Sequence[str], public: Path | None) -> dict[str, Any]:
    """Return the settings of a mechanism by key, including the resource that --public names."""
    settings = read_settings(entries)
    if public is None:
        return settings
    from epsilometer.auditing.text_audit import on_public

    return on_public(mechanism, settings, public)


def mechanism_at(text: str) -> tuple[str, float | None]:
    """Return a mechanism's name and its epsilon: ("tem", 11) for `tem=11`, ("presidio", None) for `presidio`."""
    name, equals, epsilon = text.partition("=")
    return name, number(epsilon, "epsilon must be a number") if equals else None
