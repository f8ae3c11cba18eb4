"""A profile's parameters, copied to its run's folder, and the round of noise in profile and copy.

    python -m epsilometer.pipeline.profiles profiles/atis.yaml runs/atis/params.yaml

A profile has only settings that differ from the defaults. DVC does not know the defaults, so the copy also states the
settings that the profile leaves out. dvc.yaml is written to the copy's folder. The setting `root` in the copy is the
path from the copy's folder to the project's folder.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from epsilometer.core import atomic, tables
from epsilometer.core.errors import UserError, unknown
from epsilometer.pipeline import composing
from epsilometer.pipeline.params import Params, read


def copy(profile: Path, out: Path) -> None:
    """Write a profile's parameters, comments included, for a project in the current folder.

    A copy that is up to date is not touched. Raises UserError for a missing or invalid profile.
    """
    if not profile.is_file():
        raise unknown("profile", profile.stem, sorted(path.stem for path in profile.parent.glob("*.yaml")))
    root = os.path.relpath(Path(), out.parent)
    params = read(profile)
    absent = unwritten(params) | {"root": root}
    text = re.sub(r"^root:.*\n", "", profile.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = with_sections(text, absent, "Settings that the profile leaves out:")
    if not (out.is_file() and out.read_text(encoding="utf-8") == text):
        atomic.write_text(text, out)
    composing.write(read(out), out.parent)  # the copy states `root` and the defaults, too


def unwritten(params: Params) -> dict[str, Any]:
    """Return the settings that a parameter file leaves to their defaults, except settings with an empty default."""
    every = params.model_dump(mode="json", exclude=params.model_fields_set)
    return {name: value for name, value in every.items() if value not in ({}, [], None)}


def with_sections(text: str, sections: Mapping[str, Any], heading: str) -> str:
    """Return the text of a parameter file with additional sections at its end, under a heading."""
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in sections.items()]
    return "\n".join([text.rstrip("\n"), "", f"# {heading}", *lines, ""])


def next_round(folder: Path, params: Params) -> Params:
    """Ask for fresh noise: add one to `audit.round` in the profile, then in the run's params.yaml, its copy.

    If the process is killed between the two writes, params.yaml has the former round, to which the next call adds one.
    Returns the new parameters.
    """
    files = [folder / "params.yaml"]
    if folder.parent.name == "runs":
        files.insert(0, folder / params.root / "profiles" / f"{folder.name}.yaml")
    for file in filter(Path.is_file, files):
        tables.write_text(with_round(file.read_text(encoding="utf-8"), params.audit.round + 1), file)
    return read(folder / "params.yaml")


def with_round(text: str, round: int) -> str:
    """Return a parameter file with another `audit.round`. All other bytes stay, including those of comments."""
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)  # the file was validated before
    (section,) = (value for key, value in root.value if key.value == "audit")
    nodes = {key.value: (key, value) for key, value in section.value}
    if "round" in nodes:
        place = nodes["round"][1]
        return f"{text[: place.start_mark.index]}{round}{text[place.end_mark.index :]}"
    key, value = nodes["seed"]  # a valid file has a seed
    between = ", " if section.flow_style else f"\n{' ' * key.start_mark.column}"
    end = value.end_mark.index
    return f"{text[:end]}{between}round: {round}{text[end:]}"


if __name__ == "__main__":
    try:
        copy(Path(sys.argv[1]), Path(sys.argv[2]))
    except UserError as error:
        sys.exit(f"error: {error}")
