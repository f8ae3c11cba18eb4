"""A study adds sections of params.yaml, stages, sections of the report, and commands.

The core imports no study. An entry point in the group `epsilometer.studies` names the object that defines a study:

    [project.entry-points."epsilometer.studies"]
    lengths = "epsilometer_lengths.study:STUDY"

A module of the study's package defines the class of this object. Every command loads this module, so methods of the
class import heavy packages only when called. No stage imports the module. The package may contain `stages.yaml`, and
the body of each stage in `stages/NAME.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from epsilometer.core.component import PACKAGE
from epsilometer.core.errors import UserError

GROUP = "epsilometer.studies"
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class AttackKind:
    """A kind of attack that `epsilometer check attack` tests.

    folder: the kind of component, as in `component.shipped`. method: the method that an attack of this kind defines.
    check: a function that runs the conformance tests of an attack and returns their results.
    """

    folder: str
    method: str
    check: Callable[[Any], list[Any]]


@dataclass(frozen=True)
class ModelUse:
    """A use of a model, with the number of tokens that the model reads or writes.

    what: the use, such as a cell. model: the model's name in params.yaml.
    """

    what: str
    model: str
    tokens: int


class Study(Protocol):
    """One study. A subclass overrides the members for what its study provides. By default, every member is empty.

    The argument `params` of a method is the whole of params.yaml, as an instance of the class that `params()` returns.
    """

    sections: Sequence[str] = ()
    """Modules with a function `section(results)`, which returns a `report.section.Section`, or None if it has no rows.

    results: a `report.results.Results`. Stage `report` depends on the code of these modules.
    """

    names: Sequence[str] = ()
    """Names that the study adds to the package `epsilometer`, each as "module:name"."""

    @property
    def package(self) -> str:
        """The name of the study's package."""
        return type(self).__module__.rpartition(".")[0]

    @property
    def folder(self) -> Path:
        """The folder of the study's package, with `stages.yaml` and `stages/`."""
        return Path(str(sys.modules[self.package].__file__)).parent

    def file(self, module: str) -> Path:
        """Return the file of a module of the study's package."""
        return self.folder.joinpath(*module.removeprefix(f"{self.package}.").split(".")).with_suffix(".py")

    def params(self) -> type[Any] | None:
        """The study's sections of params.yaml, a subclass of `project.params.ProjectParams`."""
        return None

    groups: Mapping[str, str] = _NOTHING
    """Groups of commands that only this study has, each with a sentence about it."""

    def commands(self) -> Mapping[str, Callable[..., None]]:
        """Commands of `epsilometer` by their words, such as "probe" or "check estimators"."""
        return _NOTHING

    def check(self, params: Any) -> None:
        """Build the components in the settings, before an audit runs. Raises UserError if one cannot be built."""
        return

    def check_texts(self, params: Any, dataset: str, table: Any) -> None:
        """Raise UserError for a data set with too few texts, or unusable ones. table: its prepared texts."""
        return

    def check_mechanism(self, params: Any, cell: Any, mechanism: Any, place: str) -> None:
        """Raise UserError for a mechanism that does not fit the study's settings. place: its place in params.yaml."""
        return

    def models(self, params: Any) -> Iterable[str]:
        """Return the models to download: hub ids, folders or embedded names."""
        return ()

    def uses(self, params: Any) -> Iterable[ModelUse]:
        """Return the uses of models whose time can be predicted."""
        return ()

    def components(self, kind: str, params: Any, entry: Any) -> Iterable[Path]:
        """Return the Python and data files that stages.yaml lists for an entry of this kind of components."""
        return ()

    def accepted(self, params: Any) -> Iterable[str]:
        """Return the names of the stages whose results a baseline stores, such as anonymity@reviews."""
        return ()

    def measure(self, params: Any, folder: Path) -> Mapping[Any, Any]:
        """Return the results of the stages of `accepted`: a `reaudit.drift.Measured` for each `Row`."""
        return _NOTHING

    def searches(self) -> Mapping[str, Callable[..., Iterable[dict[str, Any]]]]:
        """Return measures for `epsilometer calibrate`: functions of params, target, search, mechanisms and datasets."""
        return _NOTHING

    def attack_kinds(self) -> Sequence[AttackKind]:
        """Return the kinds of attacks that the study adds."""
        return ()


@cache
def studies() -> tuple[Study, ...]:
    """Return the installed studies, in the order of their names.

    Raises UserError if a study shipped with epsilometer is not installed, if two studies have the same name, or if a
    study cannot be loaded.
    """
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    names = [point.name for point in points]
    if missing := sorted({path.parent.name for path in (PACKAGE / "studies").glob("*/__init__.py")} - {*names}):
        raise UserError(
            f"the installed epsilometer lacks its studies {', '.join(missing)}, since it was installed before they "
            "were added; run `make setup` (or `pip install -e .`) in its folder",
            "EPS-C118",
        )
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"two installed packages have a study {doubled!r}; uninstall one of them", "EPS-C119")
    every = []
    for point in points:
        try:
            every.append(point.load())
        except (ImportError, AttributeError) as error:
            raise UserError(
                f"the study {point.name} ({point.value}) cannot be loaded: {error}; install its package again, or for "
                "epsilometer's own run `make setup`",
                "EPS-C120",
            ) from error
    return tuple(every)
