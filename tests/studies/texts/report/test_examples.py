"""Rewrites of the same text at comparable loss."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.claims.verdicts import NO_CLAIM
from epsilometer.auditing.schemas import EXACT
from epsilometer.report.rows import comparable
from epsilometer.report.section import Section
from epsilometer.studies.texts.report import examples
from tests.support.audited import HOSTILE, audit, frame, settings, text_of
from tests.support.exact_losses import losses


def test_examples_are_grouped_by_level_of_loss() -> None:
    table = pl.DataFrame(
        [
            ("queries", "mvc", 0.5, 1.0, "exact, 1.20", "flights to boston", HOSTILE),
            ("queries", "dp_bart", 5.0, 1.0, "0.50 to 1.10 by length", "flights to boston", "planes & trains"),
            ("queries", "mvc", 5.0, 3.0, "exact, 3.40", "flights to boston", "flights from boston"),
        ],
        schema=examples.EXAMPLES,
        orient="row",
    )
    section = Section("examples", "Examples", "Rewrites", blocks=[*examples.groups(table)])
    text = text_of(section, audit())
    assert not any(shown.in_markdown for shown in section.tables), "they hold texts"
    first, second = text.index("queries · loss of about 1 nat"), text.index("queries · loss of about 3 nats")
    assert first < text.index("planes & trains") < second < text.index("flights from boston")
    assert first < text.index(HOSTILE) < second
    assert first < text.index("0.50 to 1.10 by length") < second < text.index("exact, 3.40")


def test_the_first_trials_of_public_data_are_shown() -> None:
    """At a loss of about 0, which two mechanisms share; the source and the rewrite of each trial."""
    rows = examples.examples(audit())
    assert rows["dataset"].unique().to_list() == ["queries"]
    assert rows.filter(mechanism="dp_bart").select("epsilon", "original", "rewrite").rows() == [
        (0.5, "flights to boston", "planes & trains"),
        (0.5, "play jazz", HOSTILE),
    ]
    private = {name: dataset.model_copy(update={"public": False}) for name, dataset in settings().datasets.items()}
    assert examples.section(audit(settings(datasets=private))) is None


def test_levels_are_of_the_loss_by_which_mechanisms_are_compared() -> None:
    """Not of the first attack of the parameters: one blind attack makes all mechanisms look alike."""
    table = frame(
        ("queries", "mvc", 5.0, "blind", 500, None, NO_CLAIM),
        ("queries", "mvc", 5.0, "lexical", 980, None, NO_CLAIM),
        ("queries", "dp_bart", 5.0, "blind", 500, None, NO_CLAIM),
        ("queries", "dp_bart", 5.0, "lexical", 975, None, NO_CLAIM),
        ("queries", "tem", 5.0, "blind", 500, None, NO_CLAIM),
        ("queries", "tem", 5.0, "lexical", 510, None, NO_CLAIM),
        ("queries", "sure", 5.0, "lexical", 1000, None, NO_CLAIM),  # nothing bounds its loss
    )
    shown = examples.at_levels(comparable(table, pl.DataFrame(schema=dict(EXACT)), 0.01))
    assert shown.select("mechanism", "level").rows() == [("dp_bart", 4.0), ("mvc", 4.0)]
    assert {examples.in_words(row).rpartition(" by ")[2] for row in shown.to_dicts()} == {"lexical"}
    law = losses({("queries", "tem", 5.0): 4.2, ("queries", "sure", 5.0): 4.4})
    with_laws = examples.at_levels(comparable(table, law, 0.01))
    exact = with_laws.filter("exact").to_dicts()
    assert [(row["mechanism"], row["level"], examples.in_words(row)) for row in exact] == [
        ("sure", 4.0, "exact, 4.40"),
        ("tem", 4.0, "exact, 4.20"),
    ]
