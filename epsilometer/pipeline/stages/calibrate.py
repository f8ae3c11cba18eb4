"""`epsilometer calibrate` over an audit's cells, for flows: what mechanisms and attacks write ends in no log.

usage: python -m epsilometer.pipeline.guard.entry calibrate OUT JSON

JSON: the fields of `calibrating.Wish`, and `mechanisms` and `datasets`, lists of names.
"""

from __future__ import annotations

import json

from epsilometer.core import tables
from epsilometer.project import calibrating
from epsilometer.project.params import read


def main(out: str, asked: str) -> None:
    """Write the rows as JSON."""
    given = json.loads(asked)
    mechanisms, datasets = given.pop("mechanisms"), given.pop("datasets")
    wish = calibrating.Wish(**given)
    rows = calibrating.calibrate_cells(read(), wish, mechanisms, datasets, lambda label: calibrating.said(label, wish))
    tables.write_json(list(rows), out)
