"""The parameters of a profile, as copied to its run's folder.

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

from epsilometer.core import atomic
from epsilometer.core.errors import UserError, unknown
from epsilometer.pipeline import composing
from epsilometer.pipeline.params import Params, read


def copy(profile: Path, out: Path) -> None:
    """Write a profile's parameters, comments included, for a project in the current folder.

    A file with the same parameters is not touched. Raises UserError for a missing or invalid profile.
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


if __name__ == "__main__":
    try:
        copy(Path(sys.argv[1]), Path(sys.argv[2]))
    except UserError as error:
        sys.exit(f"error: {error}")
