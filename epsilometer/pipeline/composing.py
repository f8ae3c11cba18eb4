"""dvc.yaml: the stages of the core and of studies that a parameter file needs.

The definitions are in `stages.yaml`, in the folder of this file and of each study, in DVC's format with two more keys:

- `when`: sections of params.yaml; the stage is needed if one of them has entries. The default is the section under
  `foreach`.
- `components`: the kinds of components of the stage's entries, for stage `code`.

A study adds its inputs to the lists of the stages `resources` and `report`. If `foreach` is a bare name, it names a
property of `Params`, and dvc.yaml spells out the entries of this property. A dependency may name a model by a setting,
such as `${embedding.model}`. If the model is a user's own folder, the dependency becomes its path; otherwise it is left
out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path, PurePath
from textwrap import indent
from typing import Any

import yaml

from epsilometer.core import atomic, yaml_text
from epsilometer.core.component import PACKAGE
from epsilometer.core.errors import UserError
from epsilometer.core.study import studies
from epsilometer.pipeline import dvc_files
from epsilometer.pipeline.params import Params

FILE = Path("dvc.yaml")
COMPOSE = "`epsilometer pipeline compose`"
_CORE = PACKAGE / "pipeline/stages.yaml"
_EXTENDED = ("resources", "report")  # the stages to whose lists a study adds
_ABOUT = """\
# The stages that params.yaml needs, written by `epsilometer pipeline compose`. Stage `code` records the code that each
# stage depends on, file by file; `epsilometer pipeline why` lists changes. `root` is the project's folder, from this
# file's folder.
"""
_HEAD = f"{_ABOUT}stages:\n"
_OURS = ("when", "components")
_WIDTH = 118
_INDENT = 2  # indentation of the names of stages, in columns
_OUR_COMMAND = "epsilometer stage "
_ENTRY = re.compile(r"\$\{item\.(\w+)\}")
_SETTING = re.compile(r"(.*\})\.\w+")  # matches a setting of an entry
_MODEL = re.compile(r"(\$\{root\}/)?\$\{(?!item\.)(\w+\.[\w.]+)\}")
_EMBEDDED = "data/embedded"


@cache
def fragments() -> dict[str, dict[str, Any]]:
    """Return every stage of the core and of studies, by name, with the two keys that DVC does not know."""
    every = yaml_text.load(_CORE.read_bytes())
    for study in studies():
        file = study.folder / "stages.yaml"
        for name, stage in yaml_text.load(file.read_bytes()).items() if file.is_file() else ():
            if name in every and name not in _EXTENDED:
                raise UserError(
                    f"the study {study.package} has a stage {name}, which exists already; rename it", "EPS-P070"
                )
            every[name] = _extended(every[name], stage) if name in every else stage
    return every


def _extended(stage: Mapping[str, Any], more: Mapping[str, list[str]]) -> dict[str, Any]:
    return {**stage, **{key: [*dict.fromkeys((*stage.get(key, ()), *values))] for key, values in more.items()}}


def stages(params: Params, folder: Path = Path()) -> dict[str, dict[str, Any]]:
    """Return the stages that parameters need, by name, as dvc.yaml must have them. folder: the run's folder."""
    settings = params.model_dump(mode="json")
    needed = {name: _spelled(stage, params) for name, stage in fragments().items()}
    needed = {name: stage for name, stage in needed.items() if _wanted(stage, settings)}
    needed = {name: _with_models(stage, settings, folder) for name, stage in needed.items()}
    outs = [_fixed(out) for stage in needed.values() for out in _places(stage)]
    stated = params.model_dump(mode="json", exclude_unset=True)  # DVC cannot read defaults
    return {name: _written(stage, outs, stated, settings) for name, stage in needed.items()}


def compose(params: Params, folder: Path = Path()) -> str:
    """Return the text of dvc.yaml for these parameters. folder: the run's folder."""
    layout: dict[str, Any] = {"sort_keys": False, "default_flow_style": None, "width": _WIDTH, "allow_unicode": True}
    texts = (yaml.dump({name: stage}, Dumper=_Dumper, **layout) for name, stage in stages(params, folder).items())
    return _HEAD + "\n".join(indent(text, "  ") for text in texts)


def write(params: Params, folder: Path = Path()) -> bool:
    """Write dvc.yaml into a folder, unless the file is up to date. Return True if the file was written.

    A user's own stages stay unchanged, below the stages that params.yaml needs. Other keys stay above or below the key
    `stages`, as they were.
    """
    file = folder / FILE
    before = file.read_text(encoding="utf-8") if file.is_file() else ""
    first, last = _of_users(before)
    text = "".join((*(f"{key}\n\n" for key in first), compose(params, folder), *(f"\n{own}\n" for own in last)))
    if before == text:
        return False
    atomic.write_text(text, file)
    return True


def check(params: Params) -> None:
    """Raise UserError if dvc.yaml lacks a stage that params.yaml needs, defines it differently, or has unneeded stages.

    A user's own stages are allowed.
    """
    needed, there = stages(params), dvc_files.stages()
    ours = {name: stage for name, stage in there.items() if name in fragments()}
    for what, names in (
        ("no stage for", needed.keys() - ours.keys()),
        ("stages without entries for", ours.keys() - needed.keys()),
        ("other stages than it needs for", {name for name in needed if name in ours and ours[name] != needed[name]}),
    ):
        if names:
            raise UserError(
                f"dvc.yaml has {what} {', '.join(sorted(names))} of params.yaml; {COMPOSE} writes the stages that "
                "params.yaml needs",
                "EPS-P017",
            )


def _of_users(text: str) -> tuple[list[str], list[str]]:
    """Return a user's own parts of dvc.yaml in two lists: the keys above `stages`; own stages and the keys below."""
    try:
        root, written = yaml.compose(text, Loader=yaml.SafeLoader), yaml_text.load(text) or {}
    except (yaml.YAMLError, UserError) as error:
        raise UserError(
            f"{FILE} is not readable YAML ({error}); mend it, or delete it and run {COMPOSE}", "EPS-P018"
        ) from error
    before, after = list[str](), list[str]()
    if not isinstance(root, yaml.MappingNode):
        return before, after
    there, nodes = before, {key.value: value for key, value in root.value}
    for name, block in _blocks(text, root, written, 0):
        if name != "stages":
            there.append(block)
            continue
        there = after
        if isinstance(nodes[name], yaml.MappingNode):
            every = _blocks(text, nodes[name], written[name], _INDENT)
            after += [own for stage, own in every if _is_own(stage, written[name][stage])]
    return before, after


def _is_own(name: str, stage: Any) -> bool:
    """Return True if a stage is a user's own: no version of this package, present or earlier, has written it."""
    command = stage.get("do", stage).get("cmd") if isinstance(stage, Mapping) else None
    return name not in fragments() and not str(command).startswith(_OUR_COMMAND)


def _blocks(text: str, node: yaml.MappingNode, values: Mapping[str, Any], column: int) -> Iterator[tuple[str, str]]:
    """Yield each key of a mapping, and its text with the comment above it.

    A key in flow style, or in another column than `column`, is reformatted.
    """
    lines, comment = text.splitlines(), " " * column + "#"
    starts = {key.value: key.start_mark for key, _ in node.value}
    last = node.end_mark.line if node.end_mark.index < len(text) else len(lines)
    for (name, start), end in zip(starts.items(), [*(mark.line for mark in starts.values()), last][1:], strict=True):
        if node.flow_style or start.column != column:
            block = yaml.dump({name: values[name]}, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True)
            yield name, indent(block, " " * column).rstrip()
            continue
        first = start.line
        while first and lines[first - 1].startswith(comment):
            first -= 1
        while not lines[end - 1].strip() or lines[end - 1].startswith((comment, "#")):
            end -= 1
        yield name, "\n".join(lines[first:end]).removeprefix(_ABOUT)


class _Dumper(yaml.SafeDumper):
    """Writes repeated values in full, without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _spelled(stage: Mapping[str, Any], params: Params) -> Mapping[str, Any]:
    over = stage.get("foreach", "${")
    if over.startswith("${"):
        return stage
    return {**stage, "foreach": {key: asdict(entry) for key, entry in getattr(params, over).items()}}


def _with_models(stage: Mapping[str, Any], settings: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Return a stage whose deps have the path of each model that is a user's own folder, and no other models."""
    body, deps = stage.get("do", stage), []
    for dep in body.get("deps", ()):
        if (named := _MODEL.fullmatch(dep)) is None:
            deps.append(dep)
            continue
        root = settings["root"]
        model = os.path.normpath(os.path.join(root if named[1] else "", dvc_files.lookup(settings, named[2])))
        embedded = PurePath(model).is_relative_to(os.path.normpath(os.path.join(root, _EMBEDDED)))
        if (folder / model).is_dir() and not embedded:
            deps.append(model)
    return {**stage, "do": {**body, "deps": deps}} if "do" in stage else {**stage, "deps": deps}


def _wanted(stage: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    sections = [*stage.get("when", ())]
    if dvc_files.entries(stage, settings) == {}:
        return False
    return not sections or any(dvc_files.lookup(settings, section) for section in sections)


def _written(
    stage: Mapping[str, Any], outs: list[str], stated: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a stage in DVC's format, without empty or missing settings, or deps under data/ that no stage makes."""
    body, entries = stage.get("do", stage), dvc_files.entries(stage, settings) or {}
    params = (_of_entries(key, entries, stated) for key in body.get("params", ()))
    lists = {
        "deps": [dep for dep in body.get("deps", ()) if not dep.startswith("data/") or _is_made(_fixed(dep), outs)],
        "params": [*dict.fromkeys(key for key in params if _is_set(key, stated))],
    }
    written = {
        key: lists.get(key, value) for key, value in body.items() if key not in _OURS and lists.get(key, value) != []
    }
    return {"foreach": stage["foreach"], "do": written} if "do" in stage else written


def _of_entries(key: str, entries: Mapping[str, Any], stated: Mapping[str, Any]) -> str:
    """Return the key of a setting if all entries state the setting, otherwise the key of the section."""
    if (section := _SETTING.fullmatch(key)) is None:
        return key
    filled = (_ENTRY.sub(partial(_value, entry), key).replace("${key}", name) for name, entry in entries.items())
    return key if all(_is_stated(setting, stated) for setting in filled) else section[1]


def _is_stated(setting: str, stated: Any) -> bool:
    for part in setting.split("."):
        if not isinstance(stated, dict) or part not in stated:
            return False
        stated = stated[part]
    return True


def _is_set(key: str, stated: Mapping[str, Any]) -> bool:
    fixed = _fixed(key).rstrip(".")
    return not fixed or dvc_files.lookup(stated, fixed) not in ({}, [], None)


def _is_made(dep: str, outs: list[str]) -> bool:
    return any(out.startswith(dep) or dep.startswith(out) for out in outs)


def _fixed(path: str) -> str:
    """Return the part of a path before its first placeholder."""
    return path.partition("${")[0]


def _places(stage: Mapping[str, Any]) -> Iterator[str]:
    """Yield the outs of a stage. If its entries are spelled out, yield each out once per entry."""
    entries = stage.get("foreach")
    for out in _outs(stage):
        if isinstance(entries, Mapping):
            for entry in entries.values():
                yield _ENTRY.sub(partial(_value, entry), out)
        else:
            yield out


def _value(entry: Mapping[str, Any], match: re.Match[str]) -> str:
    return str(entry[match[1]])


def _outs(stage: Mapping[str, Any]) -> Iterator[str]:
    body = stage.get("do", stage)
    for out in [*body.get("outs", ()), *body.get("metrics", ()), *body.get("plots", ())]:
        yield out if isinstance(out, str) else next(iter(out))
