"""Numbers in params.yaml: each must be a finite number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from epsilometer.cells.params import Instrument
from epsilometer.pipeline.params import params_type
from epsilometer.project.sections import Section


def sections(kind: Any) -> Iterator[type[Section]]:
    """Every section that a type holds, itself too."""
    if isinstance(kind, type) and issubclass(kind, Section):
        yield kind
        for field in kind.model_fields.values():
            yield from sections(field.annotation)
    for part in get_args(kind):
        yield from sections(part)


def floats() -> list[tuple[type[Section], str]]:
    every = dict.fromkeys((section, name) for section in sections(params_type()) for name in section.model_fields)
    return [(section, name) for section, name in every if section.model_fields[name].annotation is float]


@pytest.mark.parametrize(("section", "name"), floats(), ids=lambda of: of if isinstance(of, str) else of.__name__)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_is_finite(section: type[Section], name: str, value: float) -> None:
    with pytest.raises(ValidationError) as error:
        section.model_validate({name: value})
    assert any(item["loc"] == (name,) for item in error.value.errors())


def test_numbers_in_lists_are_finite() -> None:
    with pytest.raises(ValidationError) as error:
        Instrument.model_validate({"epsilons": [1, math.nan]})
    assert [(item["loc"], item["type"]) for item in error.value.errors()] == [(("epsilons", 1), "finite_number")]
    assert len(floats()) > 20
