"""The typed sections of params.yaml that every study needs, and a reader that checks them before models load.

Each study (`core.study`) has a class for its sections. A study's stages read only that class, so they do not depend on
the settings of other studies. `pipeline.params` combines the classes of all studies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from epsilometer.core import yaml_text
from epsilometer.core.component import describe, shipped
from epsilometer.core.device import Device, choose
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.readable import check_name, check_readable
from epsilometer.project import confinement, references
from epsilometer.project.sections import Audit, Cell, Dataset, MechanismEntry, Runtime, Section, Words

NO_PROJECT = (
    "this needs a project, a folder with params.yaml and dvc.yaml: a clone of epsilometer is one, and `epsilometer "
    "init FOLDER` writes one. Without a project, audit, exact, gate, calibrate, compare and rewrite work on a file "
    "of texts, and claims and list work, too"
)


class ProjectParams(Section):
    """The settings that every study needs.

    Paths of sources and mechanisms are relative to the project, paths of resources to the run's folder. A relative path
    must not lead out of the project.

    A study's class adds its sections, and extends the methods for the files and data sets that its entries name.
    """

    root: str = Field(".", description="The project's folder, from the folder of this file.")
    outside: tuple[str, ...] = Field(
        (),
        description="Folders outside the project, relative to it, from which data may be read. An absolute path is "
        "always allowed.",
    )
    title: str = Field("Privacy calibration", description="The title of the report.")
    audit: Audit = Field(description="Seed, round and error probability.")
    datasets: Mapping[str, Dataset] = Field(description="The data sets, by name.")
    device: Device = Field(
        "cpu",
        description="Where networks compute: `cpu`, `cuda`, or `auto`, which is cuda if available and otherwise cpu. "
        "It can change results.",
    )
    words: Words = Field(Words(), description="The word vectors and lists that are built.")
    models: Mapping[str, str] = Field(
        {}, description="Language models that mechanisms read: folders, pins or hub ids, by name."
    )
    mechanisms: Mapping[str, MechanismEntry] = Field({}, description="The mechanisms to audit, by name.")
    runtime: Runtime = Field(Runtime(), description="Settings that cannot change a result.")
    notes: tuple[str, ...] = Field((), description="Sentences that the report shows.")

    @field_validator("datasets")
    @classmethod
    def _not_empty(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        if not value:
            raise ValueError("must not be empty")
        return value

    @model_validator(mode="after")
    def _checked(self) -> ProjectParams:
        self.check()
        confinement.check_names([*self, ("words.sources", self.words.sources)])
        for setting, path in self.data_paths():
            check_name(path, setting)
        confinement.check_data(self.data_paths(), self.outside)
        confinement.check_inside(self.code_paths())
        confinement.check_inside(self.read_paths(), self.root)
        return self

    def check(self) -> None:
        """Raise UserError for an invalid entry, such as one that names an unknown mechanism."""
        for name, entry in self.mechanisms.items():
            references.check_entry(entry, f"mechanisms.{name}")

    def data_paths(self) -> Iterator[tuple[str, str]]:
        """Yield the place in params.yaml of each file of data, and its path relative to the project."""
        yield from ((f"datasets.{name}.source", dataset.source) for name, dataset in self.datasets.items())
        yield from ((f"models.{name}", source) for name, source in self.models.items())
        yield from ((f"words.sources.{name}", source) for name, source in self.words.sources.items())

    def code_paths(self) -> Iterator[tuple[str, str]]:
        """Yield the place in params.yaml of each mechanism's own file, and its path relative to the project."""
        yield from ((f"{place}.file", cell.file) for place, cell in self.cells_by_place() if cell.file)

    def read_paths(self) -> Iterator[tuple[str, str]]:
        """Yield the place and value of each resource and setting that may be a path from the run's folder."""
        for place, cell in self.cells_by_place():
            yield from confinement.strings({"resource": cell.resource, "settings": cell.settings}, place)

    def cells_by_place(self) -> Iterator[tuple[str, MechanismEntry]]:
        """Yield every entry that is a mechanism, or a mechanism on a data set, with its place in params.yaml."""
        for section, entries in self:
            for name, entry in entries.items() if isinstance(entries, Mapping) else ():
                if isinstance(entry, MechanismEntry):
                    yield f"{section}.{name}", entry

    def sections_of_cells(self) -> Iterator[tuple[str, Mapping[str, Cell]]]:
        """Yield every section whose entries are mechanisms on data sets."""
        for section, entries in self:
            if isinstance(entries, Mapping) and any(isinstance(entry, Cell) for entry in entries.values()):
                yield section, entries

    def excerpts(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield excerpts of entries, for stages that depend on only some settings of an entry. Empty in this class.

        An excerpt has three parts: the name of its record, the place of the entry in params.yaml (a.b), and the
        settings that the stages depend on.
        """
        return iter(())

    def studied(self) -> Iterator[tuple[str, bool]]:
        """Yield sections, each with True if it has entries; at least one must have entries. Empty in this class."""
        return iter(())

    def datasets_studied(self) -> Iterator[str]:
        """Yield the data sets that entries name."""
        yield from (cell.dataset for _, cells in self.sections_of_cells() for cell in cells.values())

    def mechanisms_shown(self) -> Iterator[str]:
        """Yield the mechanisms that the report shows in addition to those of `cells`. Empty in this class."""
        return iter(())

    def resources(self) -> Iterator[str]:
        """Yield the outputs of stages that mechanisms may read."""
        yield from (f"data/prepared/{name}.parquet" for name in self.datasets)
        yield from (f"data/vectors/{name}.npz" for name in self.words.sources)
        yield "data/lists.npz"
        yield from (f"data/models/{name}" for name in self.models)

    def path(self, of: str) -> str:
        """Return the path of a source or mechanism file, from the run's folder."""
        return str(Path(self.root) / of)

    def code(self, entry: MechanismEntry) -> Path:
        """Return the Python file of a mechanism, from the run's folder."""
        return Path(self.root, entry.file) if entry.file else shipped("mechanisms")[entry.mechanism]


P = TypeVar("P", bound=ProjectParams)


def read(kind: type[P], path: Path | str = "params.yaml", *, whole: bool = False) -> P:
    """Read and validate a class's sections of a parameter file, and choose the device that the file names.

    whole: True if the class declares all sections, so that an unknown key is an error. Otherwise unknown keys are
    ignored; stage `code`, which always runs, checks the whole file. Raises UserError, with the field, the rule and the
    value.
    """
    check_readable(path)
    try:
        raw = yaml_text.load(Path(path).read_text(encoding="utf-8"), _Loader, plain=True)
    except FileNotFoundError:
        remedy = NO_PROJECT if Path(path) == Path("params.yaml") else "check the path"
        raise UserError(f"{path} does not exist; {remedy}", "EPS-P055") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not readable YAML: {error}", "EPS-P056") from error
    except UserError as error:
        raise error.at(path) from None
    if not isinstance(raw, dict):
        raise UserError(f"{path} must hold settings, got {type(raw).__name__}", "EPS-P057")
    for setting, text in confinement.strings(raw):
        if "\0" in text:
            raise UserError(
                f"{path}: {setting} holds a NUL character, which is not allowed in paths and texts; remove it",
                "EPS-P058",
            )
        if re.search("[\ud800-\udfff]", text):
            raise UserError(
                f"{path}: {setting} has a lone surrogate ({text!a}), which is not valid UTF-8; write the whole "
                "character, or one escape for both surrogates (\\U0001F600)",
                "EPS-P059",
            )
    try:
        params = kind.model_validate(raw if whole else {key: raw[key] for key in raw.keys() & kind.model_fields.keys()})
    except ValidationError as error:
        entries = {"mechanisms", "cells"} & {item["loc"][0] for item in error.errors() if item["loc"]}
        example = f"\n{references.EXAMPLE}" if entries else ""
        raise UserError(f"{path}: {_nearest(kind, error) or describe(error, '')}{example}", "EPS-P060") from error
    choose(params.device)
    return params


class _Loader(yaml.SafeLoader):
    """A YAML loader that refuses a repeated key in a mapping. PyYAML would silently take the last value."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:  # a name or None; the type stubs omit None
        """Return the mapping's node, and refuse repeated keys.

        Keys are compared before `<<` is merged, because a mapping's own key may override a merged key.
        """
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {key.value!r} is twice in one mapping; leave one out",
                        problem_mark=key.start_mark,
                    )
                seen.add(key.value)
        return node


def _nearest(kind: type[ProjectParams], error: ValidationError) -> str | None:
    """Return a hint for an unknown key: the nearest existing one."""
    for item in error.errors():
        if item["type"] == "extra_forbidden":
            *place, key = item["loc"]
            section: Any = kind
            for part in place:
                annotation = (
                    section.model_fields[part].annotation if part in getattr(section, "model_fields", {}) else None
                )
                arguments = getattr(annotation, "__args__", ())
                section = arguments[-1] if arguments else annotation or section
            place_name = ".".join(str(part) for part in place) or "the top level"
            if key == "device":
                return f"{place_name}.device: only `device` at the top level sets the device, for all computations"
            return str(unknown(f"key in {place_name}", key, getattr(section, "model_fields", {})))
    return None
