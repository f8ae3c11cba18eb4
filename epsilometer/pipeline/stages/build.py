"""Stage build@kind-name: a mechanism's resource, built from public texts by the module of its kind in `building`."""

from __future__ import annotations

from importlib import import_module

from epsilometer.cells.params import read


def main(key: str) -> None:
    """Write data/<section>/<name>; stage `code` adds the kind's module to the record of an entry."""
    params = read()
    entry = params.built[key]
    import_module(f"epsilometer.cells.building.{entry.section}").make(params, entry.name)
