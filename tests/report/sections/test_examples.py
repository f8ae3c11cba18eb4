"""Rewrites of the same text at comparable loss."""

from __future__ import annotations

import polars as pl

from epsilometer.report.section import Section
from epsilometer.report.sections import examples
from tests.support.audited import HOSTILE, audit, settings, text_of


def test_examples_are_grouped_by_level_of_loss() -> None:
    table = pl.DataFrame(
        [
            ("queries", "mvc", 0.5, 1.2, "flights to boston", HOSTILE),
            ("queries", "dp_bart", 5.0, 0.9, "flights to boston", "planes & trains"),
            ("queries", "mvc", 5.0, 3.4, "flights to boston", "flights from boston"),
        ],
        schema=dict(examples.EXAMPLES),
        orient="row",
    )
    section = Section("examples", "Examples", "examples.html.j2", {"groups": examples.groups(table)})
    text = text_of(section, audit())
    first, second = text.index("queries · loss of about 1 nat"), text.index("queries · loss of about 3 nats")
    assert first < text.index("planes & trains") < second < text.index("flights from boston")
    assert first < text.index(HOSTILE) < second


def test_the_first_trials_of_public_data_are_shown() -> None:
    """At a loss of about 0, which two mechanisms share; the source and the rewrite of each trial."""
    rows = examples.examples(audit())
    assert rows["dataset"].unique().to_list() == ["queries"]
    assert rows.filter(mechanism="dp_bart").select("epsilon", "original", "rewrite").rows() == [
        (0.5, "flights to boston", "planes & trains"),
        (0.5, "play jazz", HOSTILE),
    ]
    private = {name: one.model_copy(update={"public": False}) for name, one in settings().datasets.items()}
    assert examples.section(audit(settings(datasets=private))) is None
