"""Fresh noise for a re-audit: add one to `audit.round` in params.yaml and the profile."""

from __future__ import annotations

from pathlib import Path

import yaml

from epsilometer.core import tables
from epsilometer.pipeline.params import Params, read


def next_round(folder: Path, params: Params) -> Params:
    """Add one to `audit.round` in the profile, then in the run's params.yaml, its copy. Returns the new parameters.

    If the process is killed between the two writes, params.yaml has the former round, to which the next call adds one.
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
