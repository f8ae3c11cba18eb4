"""The baseline of a gate: accepted counts of each attack's successes, and the design of their trials.

A gate with a baseline draws its trials by the baseline's design, because the standard design depends on the installed
extras.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from epsilometer.auditing.estimation.successes import Estimate, estimate
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.trials.design import STANDARD, Design
from epsilometer.core import json_text
from epsilometer.core.atomic import write_text
from epsilometer.core.component import IDENTIFICATION, describe, find
from epsilometer.core.errors import UserError
from epsilometer.core.extras import installed
from epsilometer.core.guarantees import stored

_Stored = TypeVar("_Stored", bound=BaseModel)
_FIRST = "epsilometer/accepted/1"  # the first schema, without alpha, seed and settings of attacks


class Count(BaseModel):
    """Successes of an attack in a number of trials. settings: settings that differ from the attack's defaults."""

    model_config = ConfigDict(extra="forbid")

    trials: int = Field(gt=0)
    successes: int = Field(ge=0)
    settings: Mapping[str, Any] = Field(default_factory=dict)


class Accepted(BaseModel):
    """Counts of a mechanism's trials on texts, with all settings that determined the trials."""

    model_config = ConfigDict(extra="forbid")

    version: Literal["epsilometer/accepted/1", "epsilometer/accepted/2"] = Field(
        alias="schema", default="epsilometer/accepted/2"
    )
    mechanism: str
    epsilon: float | None
    texts: str  # SHA-256 of the distinct texts, in order
    candidates: int = Field(ge=2)
    temperature: float
    alpha: float = STANDARD.alpha
    seed: int | None = None  # seed of the counted trials; a gate's trials differ from them for any seed
    attacks: Mapping[str, Count]

    def design(self, seed: int) -> Design:
        """Return the accepted design with another seed, for a gate."""
        return Design(self.candidates, self.temperature, self.alpha, seed)

    def settings(self, names: Sequence[str] | None = None) -> dict[str, Mapping[str, Any]]:
        """Return the accepted settings of these attacks, by name; by default, the settings of all accepted attacks."""
        chosen = list(self.attacks) if names is None else names
        return {name: self.attacks[name].settings if name in self.attacks else {} for name in chosen}

    def check_installed(self, path: str) -> None:
        """Raise UserError if the accepted attacks or design need an extra that is not installed.

        path: the baseline's path, for messages.
        """
        needs = {extra_of(name): f"the attack {name}" for name in self.attacks}
        if self.temperature:
            needs["models"] = f"candidate sets by similarity (temperature {self.temperature:g})"
        for extra, what in needs.items():
            if extra is not None and not installed(extra):
                raise UserError(
                    f"{path} was accepted with {what}, which needs the extra {extra!r}: pip install "
                    f"'epsilometer[{extra}]', in a workflow `extras: {extra}`",
                    "EPS-A120",
                )

    def estimates(self, of: Subject, path: str) -> dict[str, Estimate]:
        """Return the accepted estimates by attack. Raises UserError if the subject differs from the accepted one.

        path: the baseline's path, for messages.
        """
        first = self.version == _FIRST and self.mechanism == type(of.mechanism).__name__  # _FIRST stored a class name
        same = {
            "mechanism": (self.mechanism, self.mechanism if first else of.name),
            "epsilon": (self.epsilon, stored(of.epsilon)),
            "texts": (self.texts[:12], of.digest[:12]),
            "candidates": (self.candidates, of.design.k),
        }
        for what, (then, now) in same.items():
            if then != now:
                raise UserError(
                    f"{path} was accepted for {what} {then}, not {now}; accept a new baseline (--accept)",
                    "EPS-A121",
                )
        if self.temperature != of.design.temperature:
            raise UserError(
                f"{path} was accepted at temperature {self.temperature:g}, not {of.design.temperature:g}; leave out "
                "--temperature, since the baseline sets it",
                "EPS-A122",
            )
        for name, count in self.attacks.items():
            if name in of.attacks and self.version != _FIRST and count.settings != chosen_settings(of.attacks[name]):
                raise UserError(
                    f"{path} was accepted with other settings of the attack {name}; use these settings, or accept a "
                    "new baseline (--accept)",
                    "EPS-A123",
                )
        return {
            name: estimate(count.successes, count.trials, self.candidates, self.alpha)
            for name, count in self.attacks.items()
        }


def write(accepted: Accepted, path: Path) -> None:
    """Write the baseline as JSON."""
    write_text(accepted.model_dump_json(indent=1, by_alias=True) + "\n", path)


def read(path: Path) -> Accepted:
    """Read a baseline. Raises UserError for a missing file, and for another schema."""
    return read_as(Accepted, path)


def read_as(model: type[_Stored], path: Path) -> _Stored:
    """Read a file that --accept wrote. Raises UserError for a missing file, and for other content."""
    try:
        return model.model_validate(json_text.load(path.read_bytes()))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; accept a baseline first (--accept)", "EPS-A124") from None
    except ValidationError as error:
        raise UserError(f"{path}: {describe(error, '')}; accept a new baseline (--accept)", "EPS-A125") from error
    except (OSError, ValueError) as error:
        wrong = error.strerror if isinstance(error, OSError) else error
        raise UserError(
            f"{path} is not readable JSON ({wrong}); restore it, or accept a new baseline (--accept)", "EPS-A126"
        ) from error


def extra_of(attack: str) -> str | None:
    """Return the extra that an attack (name or path) needs, or None."""
    extra: str | None = getattr(find(IDENTIFICATION, attack, "guess"), "extra", None)
    return extra


def chosen_settings(attack: Any) -> dict[str, Any]:
    """Return the settings of an attack or question that differ from its defaults, as JSON values."""
    if not is_dataclass(attack):
        return {}
    values = {part.name: (getattr(attack, part.name), part.default) for part in fields(attack) if part.init}
    chosen = {name: value for name, (value, default) in values.items() if value != default}
    settings: dict[str, Any] = TypeAdapter(dict[str, Any]).dump_python(chosen, mode="json")
    return settings
