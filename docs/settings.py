"""The page of settings, from the models of params.yaml; `make docs` writes it.

Each setting is described once, in its `Field(description=...)`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from epsilometer.pipeline.params import params_type
from epsilometer.project.sections import Section

HEAD = """# Settings

For whoever writes or edits `params.yaml`: every setting, its values, its default and what it does.
`epsilometer check params` says whether a file is valid before anything runs. Settings of mechanisms, attacks and
metrics stand in their own files ([list](mechanisms.md)).

Written from the code that reads the file. `{name: …}` stands for entries that
you name.
"""
LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
TYPES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true, false", "null": "null"}


def page() -> str:
    """Returns the page: a table of the top level, and one of each section."""
    schema = params_type().model_json_schema()
    sections = {name: part for name, part in schema["$defs"].items() if "properties" in part}
    bases = {cls.__name__: cls.__bases__[0].__name__ for cls in below(Section)}
    parts = [HEAD, table("Top level", "", schema["properties"], schema, sections)]
    for name in sorted(sections):
        base, section = bases[name], sections[name]
        inherited = sections.get(base, {}).get("properties", {})
        own = {key: setting for key, setting in section["properties"].items() if inherited.get(key) != setting}
        purpose = section["description"].partition("\n")[0]
        more = f"\n\nBeside these it has all settings of [{base}](#{base.lower()})." if inherited else ""
        parts.append(table(name, purpose + more, own, section, sections))
    return "\n".join(parts)


def below(cls: type) -> Iterator[type]:
    """Yield all classes that derive from a class."""
    for derived in cls.__subclasses__():
        yield derived
        yield from below(derived)


def table(name: str, purpose: str, settings: dict[str, Any], section: dict[str, Any], sections: dict[str, Any]) -> str:
    """Returns a section's heading and table, a row for each of these settings of it."""
    lines = [f"## {name}\n", *([purpose + "\n"] if purpose else [])]
    lines += ["| setting | values | default | |", "|---|---|---|---|"]
    for key, setting in settings.items():
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
