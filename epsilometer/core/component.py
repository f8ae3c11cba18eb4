"""Declaration, lookup and construction of components.

A component is a class with typed settings. It is named by its file (`dp_mlm` is
`epsilometer/mechanisms/tokens/dp_mlm.py`) or by the path of a user's own file. No registry lists the names.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from epsilometer.core.errors import UserError, unknown
from epsilometer.core.imports import beside

T = TypeVar("T")

PACKAGE = Path(__file__).parents[1]
_IN_WHEEL = PACKAGE / "embedded"
EMBEDDED = (_IN_WHEEL if _IN_WHEEL.is_dir() else PACKAGE.parent / "data" / "embedded") / "models"  # weights

# Kinds of components, named by their folders in the package.
IDENTIFICATION, LINKING = "attacks/identification", "attacks/linking"
QUESTIONS = "questions"
CORPORA = "mechanisms/corpora"  # mechanisms on whole corpora; not listed under "mechanisms"


class _FromSource(SourceFileLoader):
    """Loader that always compiles a user's file: Python's cache may miss an edit within one second."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def component(cls: type[T]) -> type[T]:
    """Declare a component: keyword-only settings, validated on construction and frozen. Other keys are refused."""
    return cast(type[T], dataclass(cls, frozen=True, kw_only=True, config=ConfigDict(extra="forbid")))


def names(kind: str) -> list[str]:
    """Return the names of the components shipped in `epsilometer/<kind>`, such as "mechanisms"."""
    return sorted(shipped(kind))


@cache
def shipped(kind: str) -> Mapping[str, Path]:
    """Return the files of the components in `epsilometer/<kind>` and its subfolders, by name.

    A subfolder `shared` contains common code and no components. Raises UserError for two files of the same name.
    """
    by_name: dict[str, Path] = {}
    for path in sorted([*(PACKAGE / kind).glob("*.py"), *(PACKAGE / kind).glob("*/*.py")]):
        other = path.parent == PACKAGE / CORPORA and kind != CORPORA
        if path.stem.startswith("_") or path.parent.name == "shared" or other:
            continue
        if path.stem in by_name:
            raise UserError(
                f"{by_name[path.stem]} and {path} have the same name, so one would replace the other; rename one of "
                "them",
                "EPS-C007",
            )
        by_name[path.stem] = path
    return by_name


def file(kind: str, name: str) -> Path:
    """Return the Python file of a component, shipped or a user's own. Raises UserError for an unknown name."""
    if name.endswith(".py"):
        return Path(name)
    if name not in shipped(kind):
        raise unknown(_one_of(kind), name, names(kind))
    return shipped(kind)[name]


def module(kind: str, name: str) -> ModuleType:
    """Return the module of a component, given by name (`dp_mlm`) or by the path of a .py file (`mine/noise.py`)."""
    path = Path(name)
    if path.suffix != ".py":
        if name not in shipped(kind):
            raise unknown(_one_of(kind), name, names(kind))
        return _imported(shipped(kind)[name])
    if not path.is_file():
        raise UserError(
            f"file {name!r} not found; give the path of a Python file or one of {', '.join(names(kind))}", "EPS-C008"
        )
    if path.resolve().is_relative_to(PACKAGE / kind):
        return _imported(path.resolve())
    own_name = f"epsilometer_user_{path.stem}"
    loaded = getattr(sys.modules.get(own_name), "__file__", None)
    if loaded is not None and Path(loaded).resolve() != path.resolve():
        raise UserError(
            f"{loaded} and {name} have the same name, so one would replace the other; rename one of them", "EPS-C009"
        )
    place = str(path.absolute())
    spec = ModuleSpec(own_name, loader := _FromSource(own_name, place), origin=place)
    spec.has_location = True
    if (folder := str(path.parent.resolve())) not in sys.path:
        sys.path.append(folder)  # so that helper modules are found; last, so that no helper shadows a library
    _check_helpers(path)
    own = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = own
    try:
        loader.exec_module(own)
    except Exception as error:
        raise UserError(f"{name} cannot be imported: {type(error).__name__}: {error}", "EPS-C010") from error
    return own


def _one_of(kind: str) -> str:
    """Return the name of a kind in messages, in the singular: "attack" for attacks/linking."""
    return (Path(kind).parent.name or kind).removesuffix("s")


def _imported(file: Path) -> ModuleType:
    """Return the module of a file of this package."""
    return importlib.import_module(".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts))


def _check_helpers(path: Path) -> None:
    """Raise UserError if another module shadows a helper module that a user's file imports from its folder."""
    folder = path.resolve().parent
    for name, file in beside(path).items():
        spec = importlib.util.find_spec(name)
        places = [] if spec is None else [spec.origin] if spec.origin else [*(spec.submodule_search_locations or ())]
        if places and places[0] and folder not in Path(places[0]).resolve().parents:
            raise UserError(
                f"{places[0]} and {file}, which {path.name} imports, have the same name, so one would replace the "
                "other; rename one of them",
                "EPS-C011",
            )


def find(kind: str, name: str, method: str) -> Callable[..., Any]:
    """Return the one class with `method` that the component's module defines, or the module's function `method`."""
    defining = module(kind, name)
    classes = [
        c
        for _, c in inspect.getmembers(defining, inspect.isclass)
        if c.__module__ == defining.__name__ and callable(getattr(c, method, None))
    ]
    if len(classes) == 1:
        return classes[0]
    function = getattr(defining, method, None)
    if not classes and inspect.isfunction(function):
        return function
    raise UserError(
        f"{name} must define exactly one class with a method {method!r} (or one function of that name), got "
        f"{len(classes)} classes",
        "EPS-C012",
    )


def build(cls: Callable[..., Any], settings: Mapping[str, Any], place: str) -> Any:
    """Construct a component from its settings. An error for wrong settings names the settings' `place` in the input."""
    parameters = inspect.signature(cls).parameters
    for key in settings:
        if key == "device" and key not in parameters:
            raise UserError(
                f"{place}.device: a component has no setting `device`; set the device of all networks by `device` in "
                "params.yaml, or outside a project by the environment variable EPSILOMETER_DEVICE",
                "EPS-C013",
            )
        if key not in parameters:
            raise unknown(f"setting in {place}", key, parameters)
    missing = [n for n, p in parameters.items() if p.default is p.empty and n not in settings]
    if missing:
        raise UserError(f"{place}: the setting {missing[0]!r} is missing; add it", "EPS-C014")
    try:
        return cls(**settings)
    except ValidationError as error:
        raise UserError(describe(error, place), "EPS-C015") from error


def describe(error: ValidationError, prefix: str) -> str:
    """Return the first five complaints of a validation, one per line: place, rule and value.

    prefix: text before each place. A complaint without a prefix and a place is shown as its message alone.
    """
    lines = []
    own = [item for item in error.errors() if item["type"] != "default_factory_not_called"]  # only due to others
    for item in own[:5]:
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"])
        message = "missing; add it" if item["type"] == "missing" else item["msg"].removeprefix("Value error, ")
        whole = isinstance(item["input"], dict) or not item["loc"]  # the settings may hold a secret
        value = "" if whole else f", got {item['input']!r}"
        full = (prefix + place).lstrip(".")
        lines.append(f"{full}: {message}{value}" if full else f"{message}{value}")
    return "\n".join(lines)


def by_name(
    kind: str,
    wanted: Sequence[str | Path | Any] | Mapping[str, Mapping[str, Any]],
    make: Callable[[str, Mapping[str, Any]], Any],
    method: str,
) -> dict[str, Any]:
    """Return components of a kind by name. `make` builds a component from a name or path; objects are kept.

    Raises UserError if no component is given, if two have the same name, and for an object without `method`.
    """
    if isinstance(wanted, (str, Path)) or not isinstance(wanted, (Sequence, Mapping)):
        raise UserError(
            f"{_one_of(kind)}s must be a list, or a mapping from names to settings, got {described(wanted)}", "EPS-C016"
        )
    if not wanted:
        raise UserError(
            f"{_one_of(kind)}s is empty; give at least one of {', '.join(names(kind))}, or leave it out", "EPS-C017"
        )
    components: dict[str, Any] = {}
    for entry in wanted:
        is_object = callable(getattr(entry, method, None)) and not inspect.isclass(entry)
        if not (isinstance(entry, (str, Path)) or is_object):
            raise UserError(
                f"each of the {_one_of(kind)}s must be a name, the path of a file, or an object with a method "
                f"{method!r}, got {described(entry)}; shipped: {', '.join(names(kind))}",
                "EPS-C018",
            )
        name = str(entry) if isinstance(entry, (str, Path)) else type(entry).__name__
        if name in components:
            raise UserError(
                f"two {_one_of(kind)}s are named {name!r}; leave one out, or run it in a separate call", "EPS-C019"
            )
        settings = (wanted[name] or {}) if isinstance(wanted, Mapping) else {}
        components[name] = make(name, settings) if isinstance(entry, (str, Path)) else entry
    return components


def described(value: Any) -> str:
    """Describe a value in a message: a number as it is, a class by its name, anything else by its type."""
    if isinstance(value, (bool, int, float)) or value is None:
        return repr(value)
    return f"the class {value.__name__}" if inspect.isclass(value) else type(value).__name__
