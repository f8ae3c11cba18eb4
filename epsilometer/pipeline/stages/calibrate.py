"""`epsilometer calibrate` over an audit's cells, for Prefect flows. Logs omit what mechanisms and attacks print.

usage: python -m epsilometer.pipeline.guard.entry calibrate OUT JSON

JSON: `target`, the fields of `calibrating.Search`, and two lists of names, `mechanisms` and `datasets`.
"""

from __future__ import annotations

import json
from functools import partial

from epsilometer.cells.calibrating import losses as calibrating
from epsilometer.core import tables
from epsilometer.pipeline.calibrating import calibrate_cells
from epsilometer.pipeline.params import read


def main(out: str, request: str) -> None:
    """Calibrate, and write the rows as JSON."""
    settings = json.loads(request)
    target, mechanisms, datasets = settings.pop("target"), settings.pop("mechanisms"), settings.pop("datasets")
    search = calibrating.Search(**settings)
    watch = partial(calibrating.progress, search=search)
    rows = calibrate_cells(read(), target, search, mechanisms=mechanisms, datasets=datasets, watch=watch)
    tables.write_json(list(rows), out)
