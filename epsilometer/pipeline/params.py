"""All sections of params.yaml, of the core and of every installed study."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import model_validator

from epsilometer.core.errors import UserError
from epsilometer.core.study import studies
from epsilometer.pipeline.question_params import QuestionParams
from epsilometer.project import params
from epsilometer.project.params import ProjectParams


class Params(QuestionParams):
    """The sections of the core; `params_type` returns the class that also has the sections of studies."""

    @model_validator(mode="after")
    def _names_something(self) -> Params:
        sections = dict(self.studied())
        if not any(sections.values()):
            *names, last = sections
            raise ValueError(f"needs an entry in at least one of these sections: {', '.join(names)} or {last}")
        return self


@cache
def params_type() -> type[Params]:
    """Return the class with all sections. Raises UserError if two studies define the same section or attribute."""
    of_studies = {study.package: kind for study in studies() if (kind := study.params()) is not None}
    places = dict.fromkeys(_names(Params), "epsilometer")
    for package, kind in of_studies.items():
        for name in _names(kind):
            if (other := places.setdefault(name, package)) != package:
                raise UserError(
                    f"{other} and {package} both have {name!r} in params.yaml; uninstall one of them", "EPS-P071"
                )
    return type(Params.__name__, (Params, *of_studies.values()), {"__module__": __name__, "__doc__": Params.__doc__})


def _names(kind: type[ProjectParams]) -> set[str]:
    """Return the sections and attributes that a class adds to `ProjectParams`."""
    added = {*dir(kind), *kind.model_fields} - {*dir(ProjectParams), *ProjectParams.model_fields}
    return {name for name in added if not name.startswith("_")}


def read(path: Path | str = "params.yaml") -> Params:
    """Read and validate a parameter file, as `project.params.read` does."""
    return params.read(params_type(), path, whole=True)
