"""Translation of commands and options of earlier versions, before a command's options are parsed.

The help no longer lists the old spellings. For example, `report` becomes `results show`, and `gate --max-loss 1`
becomes `gate --limit which_text=1`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Words = list[str]


@dataclass(frozen=True)
class Call:
    """A call in the current spelling, and its changes: pairs of the old and the new spelling."""

    words: Words
    changed: dict[str, str]

    def notice(self) -> str | None:
        """Return a line with the new spellings; None without changes. Values are omitted, since they may be private."""
        if not self.changed:
            return None
        pairs = ", ".join(f"`{old}` is now `{new}`" for old, new in self.changed.items())
        return f"{pairs}; the old spelling still works"


@dataclass(frozen=True)
class Old:
    """An option of an earlier version.

    words: a function from the option's value to the new arguments. question: the question that the option belongs to,
    if any. flag: True if the option takes no value.
    """

    words: Callable[[str], Words]
    question: str = ""
    flag: bool = False


def _limit(question: str) -> Old:
    return Old(lambda value: ["--limit", f"{question}={value}"], question)


def _setting(question: str, key: str) -> Old:
    """Return the translation of an option to a question's setting whose value is a text, quoted for YAML."""
    return Old(lambda value: ["--with", f"{question}.{key}={json.dumps(value)}"], question)


def _plain(question: str, key: str) -> Old:
    """Return the translation of an option to a question's setting whose value is a number."""
    return Old(lambda value: ["--with", f"{question}.{key}={value}"], question)


def _listed(question: str, key: str) -> Old:
    """Return the translation of an option with comma-separated names to a list; for `all`, the setting is left out."""

    def words(value: str) -> Words:
        names = [name.strip() for name in value.split(",")]
        return [] if value == "all" else ["--with", f"{question}.{key}={json.dumps(names)}"]

    return Old(words, question)


def _flag(*words: str, question: str = "") -> Old:
    return Old(lambda _: [*words], question, flag=True)


def _entry(option: str, key: str) -> Old:
    """Return the translation of an old option to a new option with the value KEY=VALUE."""
    return Old(lambda value: [option, f"{key}={value}"])


def _prices(value: str) -> Words:
    """Return the setting for comma-separated prices; the third price, per request, is optional."""
    every = value.split(",")
    return ["--set", f"prices=[{', '.join(every if len(every) != 2 else [*every, '0'])}]"]


_SETTINGS = {
    "--identifiers": _listed("identifiers", "kinds"),
    "--attribute": _setting("attribute", "attribute"),
    "--group": _setting("attribute", "group"),
    "--kinds": _listed("attribute", "kinds"),
    "--facts": _setting("linking", "facts"),
    "--author": _setting("linking", "author"),
    "--among": _plain("linking", "among"),
    "--linkers": _listed("linking", "attacks"),
}
_OF_AUDIT = _SETTINGS | {
    "--units": _flag(question="which_unit"),
    "--worst": _flag(question="worst_pair"),
    "--keep": _setting("attribute", "keep"),
    "--labelled": _setting("attribute", "labelled"),
}
_LAYOUT = {
    "--separator": _entry("--layout", "separator"),
    "--no-quotes": _flag("--layout", "quotes=false"),
    "--no-header": _flag("--layout", "header=false"),
    "--encoding": _entry("--layout", "encoding"),
}
_ENDPOINT = {
    "--prompt": Old(lambda value: ["--set", f"prompt={json.dumps(value)}"]),
    "--stream": _flag("--set", "stream=true"),
    "--max-tokens": _entry("--set", "max_tokens"),
    "--max-cost": _entry("--set", "max_cost"),
    "--prices": Old(_prices),
}
_OPTIONS: dict[str, dict[str, Old]] = {
    **dict.fromkeys(["exact", "rewrite", "anonymize", "calibrate", "compare", "training canaries"], _LAYOUT),
    **dict.fromkeys(["audit", "ask", "decide", "reaudit"], _LAYOUT | _ENDPOINT),
    "probe": _ENDPOINT,
    "gate": _SETTINGS
    | _LAYOUT
    | _ENDPOINT
    | {f"--{form}": _entry("--report", form) for form in ("json", "markdown", "junit", "sarif", "html")}
    | {
        "--count-partly": _flag("--with", "identifiers.partly=true"),
        "--max-loss": _limit("which_text"),
        "--max-delta-at-4": _limit("tail"),
        "--max-identifiers": _limit("identifiers"),
        "--max-attribute-loss": _limit("attribute"),
        "--max-linking-loss": _limit("linking"),
    },
    "results export": {
        f"--{old}": _flag("--format", new)
        for old, new in {"csv": "csv", "json": "json", "markdown": "md", "latex": "tex"}.items()
    },
    "results history": {"--mechanism": Old(lambda value: [value])},
    "results diff": {"--exact": _flag("--table", "exact")},
    "bounds": {"--text": Old(lambda value: ["--texts", value])},
}
_COMMANDS = {
    "mechanisms": "list",
    "fetch": "check params --fetch",
    "doctor": "check machine",
    "bench": "check estimators",
    "report": "results show",
    **{name: f"results {name}" for name in ("export", "dossier", "diff", "history", "accept")},
    **{name: f"training {name}" for name in ("account", "canaries", "one-run")},
    **{name: f"pipeline {name}" for name in ("repro", "why", "compose", "stage")},
}
_CHECKED = ("params", "mechanism", "attack", "metric", "machine", "estimators")
_PROBE = "--probe-failures"


def translated(words: Sequence[str]) -> Call:
    """Return a call in the current spelling. words: the call, from the command's name on."""
    changed: dict[str, str] = {}
    command, *rest = words
    first = rest[0] if rest else None
    names = [word.partition("=")[0] for word in rest]
    question = next((_OF_AUDIT[name].question for name in names if name in _OF_AUDIT), None)
    kind = next((name for name in names if name in ("--mechanism", "--attack", "--metric")), "")
    new, options = _COMMANDS.get(command, command), _OPTIONS.get(_COMMANDS.get(command, command), {})
    if command == "schema":
        new, rest = "results dossier --schema" if first == "dossier" else "gate --schema", rest[1:]
    elif command == "check" and first not in (*_CHECKED, "--help"):
        new = f"check {kind[2:] or 'params'}"
        options = {kind: Old(lambda value: [value])} if kind else {}
    elif command == "results" and (first is None or (first.startswith("-") and first != "--help")):
        new = "results tables"
    elif command == "results" and f"results {first}" in _OPTIONS:
        options = _OPTIONS[f"results {first}"]
    elif command == "calibrate" and "--training" in names:
        new = "training calibrate"
    elif command == "audit" and _PROBE in rest:
        new, rest, options = "probe", [word for word in rest if word != _PROBE], _OPTIONS["probe"]
    elif command == "audit" and question is not None:
        new = f"ask {question}"  # the new command refuses flags of other questions
        of_it = {name: old for name, old in _OF_AUDIT.items() if not old.flag or old.question == question}
        options = of_it | _OPTIONS["ask"]
    if new != command:
        changed[" ".join([command, kind]) if kind and command == "check" else command] = new
    return Call([*new.split(), *_options(rest, options, changed)], changed)


def _options(words: Sequence[str], options: Mapping[str, Old], changed: dict[str, str]) -> Iterator[str]:
    """Yield a call's options in the current spelling, and add changed options to `changed`."""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        old = options.get(name)
        following = None if old is None or old.flag or equals else next(rest, None)
        if old is None or not (old.flag or equals or following is not None):
            yield word
            continue
        spelled = old.words("VALUE")
        if spelled != ["VALUE"]:  # otherwise the option became an argument of the new command
            changed[name] = " ".join(spelled)
        yield from old.words(value if equals else following or "")
