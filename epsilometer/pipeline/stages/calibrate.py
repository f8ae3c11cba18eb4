"""`epsilometer calibrate` over an audit's cells, for flows: nothing that mechanisms and attacks print reaches a log.

usage: python -m epsilometer.pipeline.guard.entry calibrate OUT JSON

JSON: `target`, the fields of `calibrating.Search`, and `mechanisms` and `datasets`, lists of names.
"""

from __future__ import annotations

import json
from functools import partial

from epsilometer.core import tables
from epsilometer.project.calibrating import losses as calibrating
from epsilometer.project.params import read


def main(out: str, asked: str) -> None:
    """Calibrate, and write the rows as JSON."""
    given = json.loads(asked)
    target, mechanisms, datasets = given.pop("target"), given.pop("mechanisms"), given.pop("datasets")
    search = calibrating.Search(**given)
    watch = partial(calibrating.progress, search=search)
    rows = calibrating.calibrate_cells(read(), target, search, mechanisms=mechanisms, datasets=datasets, watch=watch)
    tables.write_json(list(rows), out)
