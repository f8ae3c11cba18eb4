"""Write settings.md from the models of params.yaml: `python docs/settings.py`.

Each setting is described once, in its `Field(description=...)`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from epsilometer.project.params import Params

PAGE = Path(__file__).parent / "settings.md"
HEAD = """# Settings

For whoever writes or edits `params.yaml`: every setting, its values, its default and what it does. `epsilometer check`
says whether a file is valid before anything runs. Settings of mechanisms, attacks and metrics stand in their own files
([list](mechanisms.md)).

Written by `python docs/settings.py` from the code that reads the file; do not edit. `{name: …}` stands for entries that
you name.
"""
LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
TYPES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true, false", "null": "null"}


def main() -> None:
    """Write docs/settings.md."""
    PAGE.write_text(page())


def page() -> str:
    """Returns the page: a table of the top level, and one of each section."""
    schema = Params.model_json_schema()
    parts = [HEAD, table("Top level", "", schema, schema["$defs"])]
    for name in sorted(schema["$defs"]):
        section = schema["$defs"][name]
        if "properties" in section:
            parts.append(table(name, section["description"], section, schema["$defs"]))
    return "\n".join(parts)


def table(name: str, purpose: str, section: dict[str, Any], sections: dict[str, Any]) -> str:
    """Returns a section's heading and table, a row for each of its settings."""
    lines = [f"## {name}\n", *([purpose.partition("\n")[0] + "\n"] if purpose else [])]
    lines += ["| setting | values | default | |", "|---|---|---|---|"]
    for key, setting in section["properties"].items():
        default = "required" if key in section.get("required", ()) else shown(setting)
        described = setting.get("description") or sections[setting["$ref"].rpartition("/")[2]]["description"]
        cells = (f"`{key}`", values(setting), default, described)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def shown(setting: dict[str, Any]) -> str:
    """Returns a setting's default as YAML has it; a section has defaults of its own."""
    if "default" not in setting or "$ref" in setting:
        return "its own defaults"
    return f"`{json.dumps(setting['default'], ensure_ascii=False)}`"


def values(setting: dict[str, Any]) -> str:
    """Returns which values a setting takes, in words, with links to the sections among them."""
    if "$ref" in setting:
        name = setting["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for alternatives in ("anyOf", "oneOf", "allOf"):
        if alternatives in setting:
            return " or ".join(values(alternative) for alternative in setting[alternatives])
    if "enum" in setting or "const" in setting:
        return ", ".join(f"`{value}`" for value in setting.get("enum", [setting.get("const")]))
    if setting.get("type") == "array":
        return f"list of {values(setting['items'])}"
    if setting.get("type") == "object":
        entries = setting.get("additionalProperties")
        return f"{{name: {values(entries)}}}" if isinstance(entries, dict) and entries else "settings"
    limits = [f"{sign} {setting[key]:g}" for key, sign in LIMITS.items() if key in setting]
    return " ".join([TYPES.get(setting.get("type", ""), "any"), *limits])


if __name__ == "__main__":
    main()
