"""The dossier agrees with the tables, fits on two pages, can be read in five minutes, and shows no text."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import polars as pl
import pytest
from pydantic import ValidationError

from epsilometer.auditing.decisions.decide import ALL
from epsilometer.auditing.estimation.successes import success_bound
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.schemas import DECISIONS, EXACT, EXACT_CURVES, LEAKAGE
from epsilometer.auditing.worth.releases import STANDING
from epsilometer.cells.tables import curves_path, decisions_path, exact_path
from epsilometer.core import tables
from epsilometer.core.rounding import DOWN, UP
from epsilometer.pipeline import composing, params
from epsilometer.pipeline import dossier as files
from epsilometer.pipeline.stages import decide
from epsilometer.project.paths import inside
from epsilometer.report import paper, sheet
from epsilometer.report.cells import dossier as page
from epsilometer.report.cells import exact_loss
from epsilometer.report.cells.results import TextResults
from epsilometer.report.cells.use import Kept
from epsilometer.report.wording import per_100
from tests.support.exact_losses import curves, losses
from tests.support.html import Elements
from tests.support.refusals import refused
from tests.support.small_audit import audited

BEYOND, NOT_EXCEEDED, OPEN, WITHIN = Status.BEYOND, Status.NOT_EXCEEDED, Status.OPEN, Status.WITHIN

SECRET = "please play song"  # in all texts, and in most rewrites
SOURCE = {"date": "2026-11-25", "commit": "commit 0123"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = audited(tmp_path_factory.mktemp("dossier") / "project", 0.9)
    with inside(folder):
        for cell in ("songs-mine", "songs-same"):
            tables.write(pl.DataFrame(schema=dict(EXACT)), exact_path(cell), EXACT)
            tables.write(pl.DataFrame(schema=dict(EXACT_CURVES)), curves_path(cell), EXACT_CURVES)
        tables.write(pl.DataFrame(schema=dict(LEAKAGE)), "data/leakage.parquet", LEAKAGE)
        tables.write(pl.DataFrame(schema=dict(STANDING)), "data/standing.parquet", STANDING)
        decide.main()
        composing.write(params.read())
    return folder


def of(folder: Path, cell: str = "songs-mine", epsilon: float | None = None) -> page.Dossier:
    with inside(folder):
        results = TextResults(params.read())
        return page.dossier(results, cell, epsilon, source=SOURCE, hashes={"texts": "ab" * 32})


def decided(folder: Path, word: str, **of: object) -> page.Dossier:
    """The dossier where the decision is another."""
    with inside(folder):
        results = TextResults(params.read())
        own = tables.read(decisions_path(), DECISIONS)
        values = {name: pl.lit(value) for name, value in ({"decision": word} | of).items()}
        hit = (pl.col("limit") == ALL) & (pl.col("mechanism") == "mine")
        changed = own.with_columns(
            *(pl.when(hit).then(value).otherwise(pl.col(name)).alias(name) for name, value in values.items())
        )
        results.held[str(decisions_path())] = changed
        return page.dossier(results, "songs-mine", None, source=SOURCE, hashes={})


def test_it_says_what_the_tables_say(project: Path) -> None:
    dossier = of(project)
    with inside(project):
        rows = tables.read(decisions_path(), DECISIONS).filter(mechanism="mine").to_dicts()
    whole = next(row for row in rows if row["limit"] == ALL)
    assert (dossier.decision, dossier.release.candidates, dossier.release.texts) == (whole["decision"], 2, 20)
    assert dossier.decision == BEYOND, "nine texts in ten are shown"
    assert dossier.answer.startswith("No: mine on songs exceeds a limit (guesses between two texts")
    by_limit = {row["limit"]: row for row in rows}
    for limited in dossier.limits:
        shown = limited.model_dump(exclude={"survived", "cases"})
        assert shown == {name: by_limit[limited.limit][name] for name in shown}
    by_number = {named.among: named for named in dossier.named}
    assert [*by_number] == [2, 10, 1000]
    assert 80 < (by_number[2].at_least or 0) <= 97
    assert by_number[1000].at_least is None, "nobody tried among so many"
    assert by_number[2].at_most is None, "a black box has no law"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (WITHIN, "keeps every limit that was tested"),
        (BEYOND, "must not be released at this budget"),
        (NOT_EXCEEDED, "no law bounds its loss"),
        (OPEN, "it is open whether mine on songs keeps the limits (few trials). It would be settled by trials."),
    ],
)
def test_each_decision_has_its_answer_and_no_other_reads_like_a_pass(project: Path, word: str, said: str) -> None:
    dossier = decided(project, word, why="few trials", settles="trials")
    assert said in dossier.answer
    assert ("keeps every limit" in dossier.answer) == (word == WITHIN)
    assert dossier.budgets == {"no budget": word}


def test_what_keeps_no_more_than_one_sentence_is_within_and_not_recommended(project: Path) -> None:
    """Of this project it was not measured. The average alone is bounded where no pair was compared."""
    within = decided(project, WITHIN)
    assert (within.use.more, within.worst_pair) == (None, None)
    assert within.answer.startswith("Its release is not recommended: mine on songs keeps every limit")
    assert "The rewrites were not compared with one fixed sentence." in within.answer
    assert "linking with other data was not tested" in within.answer
    assert "The average alone was bounded." in to_sign(within)
    lawful_one = decided(
        project, WITHIN, worst_pair=4.5, texts_above_4=2, texts_compared=9, pairs_compared=5, pairs_there=190
    )
    assert (lawful_one.texts_above_4, lawful_one.pairs_there) == (2, 190)
    assert "2 of 9 texts are told apart from another text in more than 98.2 of 100 guesses" in to_sign(lawful_one)


def to_sign(dossier: page.Dossier) -> str:
    """The text of the page to sign."""
    html = sheet.page("dossier", page.blocks(dossier)).partition("<hr>")[0]
    return "".join(Elements(html).text)


def test_the_page_to_sign_has_all_that_a_signature_needs_and_no_digest(project: Path) -> None:
    dossier = of(project)
    first, _, second = sheet.page("dossier", page.blocks(dossier)).partition("<hr>")
    for entry in (
        *("Recipient", "Purpose", "Owner of the texts", "Review date", "Signature of the owner", "Texts per person"),
        *("What was audited", "What it means for a person", "Utility of the rewrites", "The risk that remains"),
        "What makes it void",
        "What was not tested",
    ):
        assert entry in first, entry
    assert "1 (assumed)" in first
    assert "of 100 guesses" in first
    assert "ab" * 32 not in first
    assert second.index("ab" * 32) > second.index("What would change this decision"), "digests are at the foot"
    assert "epsilon" not in to_sign(dossier).lower()


def test_several_texts_of_a_person_are_confirmed_and_need_a_bound_of_their_own() -> None:
    """Two texts at .4 nats each lose at most .8; rare outputs and attributes need the largest loss of all."""
    loss = page.Limited(
        limit="loss", allowed=1.0, low=0.1, low_by="law", high=0.4, high_by="law", decision=WITHIN, why=None,
        needed=None, settles=None,
    )  # fmt: skip
    assert page._person(None, [loss], {"largest": None}) == page.Person(
        texts=1, confirmed=False, at_most=per_100(success_bound(0.4, 2)), holds=True
    )
    with refused("EPS-S118", "1", "0"):
        page._person(0, [loss], {"largest": None})
    two = page._person(2, [loss], {"largest": 1.9})
    assert (two.texts, two.confirmed, two.holds) == (2, True, True)
    assert two.at_most == per_100(success_bound(0.8, 2))
    assert not page._person(2, [loss], {"largest": 2.1}).holds, "rare outputs"
    assert not page._person(2, [loss], {"largest": None}).holds, "the average alone says nothing about them"
    assert not page._person(3, [loss], {"largest": 1.0}).holds, "1.2 nats"
    hidden = loss.model_copy(update={"limit": "attribute: gender", "allowed": 0.5})
    assert not page._person(2, [loss, hidden], {"largest": 0.3}).holds
    assert page._person(2, [loss, hidden], {"largest": 0.25}).holds
    row = {"decision": WITHIN, "why": None, "settles": None}
    several = page._person(3, [loss], {"largest": 1.0})
    release = page.Release(
        dataset="songs", mechanism="mine", epsilon=None, control=False, texts=9, trials=9, candidates=2,
        attacks=["lexical"], strongest="lexical", alpha=0.01,
    )  # fmt: skip
    assert page.answer(release, row, Kept(0.4, 0.35, 0.3), several).startswith("Not shown: mine on songs keeps every")
    assert page.answer(release, row, Kept(0.4, 0.35, 0.3), two).startswith("Yes, it may be released")


def test_what_few_trials_could_not_show_is_not_testable(project: Path) -> None:
    with inside(project):
        results = TextResults(params.read())
        results.held["data/estimates.parquet"] = results.estimates.with_columns(loss=0.0, ceiling=0.0)
        few = page.dossier(results, "songs-mine", None, source=SOURCE, hashes={})
    assert few.named[0].at_least is None
    untested = [limited.model_copy(update={"low": None, "low_by": None}) for limited in few.limits]
    html = sheet.page("few", page.blocks(few.model_copy(update={"limits": untested})))
    assert html.count("not testable") == 2, "loss and delta; no attribute is attacked, and no identifier is there"


def lawful(folder: Path, **departs: bool | None) -> page.Dossier:
    """The dossier of a cell with a law of 1 nat, whose strongest attack is `lexical`; departs: by attack."""
    law = losses({("songs", "mine", 0.0): -1.0}).filter(pairs="all").with_columns(epsilon=pl.lit(None, pl.Float64))
    with inside(folder):
        results = TextResults(params.read())
        own = results.estimates.filter(mechanism="mine")
        likely = own.filter(attack="lexical").with_columns(attack=pl.lit("likelihood"))
        of = pl.col("attack").replace_strict(departs, default=None, return_dtype=pl.Boolean)
        results.held["data/estimates.parquet"] = pl.concat([own, likely]).with_columns(departs=of)
        of_drawn = law.with_columns(all_high=1.0, average_high=0.97, relative_method=pl.lit(None, pl.String))
        results.held[str(exact_path("songs-mine"))] = of_drawn
        curve = curves(law.with_columns(average=pl.lit(0.97)))
        results.held[str(curves_path("songs-mine"))] = curve.with_columns(epsilon=pl.lit(None, pl.Float64))
        return page.dossier(results, "songs-mine", None, source=SOURCE, hashes={})


def implementation(dossier: page.Dossier) -> str:
    return next(said.here for said in dossier.hazards if said.about == "Implementation")


def test_a_law_that_any_attack_refutes_is_refuted(project: Path) -> None:
    """The strongest attack may have no posteriors, and says nothing of the law."""
    departed = lawful(project, likelihood=True, lexical=None)
    assert departed.release.strongest == "lexical"
    assert implementation(departed).startswith("The rewrites depart from the stated law.")
    assert not [named for named in departed.named if named.at_most or named.at_most_compared]
    followed = lawful(project, likelihood=False, lexical=None)
    assert implementation(followed).startswith("No departure from the stated law was seen.")
    assert all(named.at_most_compared for named in followed.named)
    assert "was not tested" in implementation(lawful(project))
    assert implementation(of(project)).startswith("The mechanism states no law.")


def test_nobody_names_more_than_the_limit_says(project: Path) -> None:
    """At 1 nat over all pairs 73.2 of 100; on the pairs compared, .97 nats, 72.6.

    Among more texts a mean total variation of .463 over all pairs and a delta of .002 at 4 nats bound it. The report
    says the same of the same cell.
    """
    by_number = {named.among: named for named in lawful(project, likelihood=False).named}
    assert (by_number[2].at_most, by_number[2].at_most_compared) == (73.2, 72.6)
    tv = 2 * success_bound(1.0, 2) - 1
    at_most = [min(success_bound(0, k, tv), success_bound(4, k, 0.002)) for k in (10, 1000)]
    assert [by_number[among].at_most for among in (10, 1000)] == [per_100(chance) for chance in at_most]
    law = losses({("songs", "mine", 0.0): -1.0}).filter(pairs="all").with_columns(all_high=1.0, relative_method=None)
    curve = curves(law.with_columns(average=pl.lit(0.97)))
    shown = {row["candidates"]: row for row in exact_loss.risks(curve, law, {"songs": 4000}).to_dicts()}
    for k in (2, 10, 1000):
        assert by_number[k].at_most_compared == per_100(shown[k]["chance"])
        assert by_number[k].at_most == per_100(shown[k]["everywhere"])
    html = sheet.page("named", page.blocks(lawful(project, likelihood=False)))
    assert "pairs compared" in html
    assert "whoever" not in html
    assert "by anybody" not in html


def test_attacks_are_those_that_the_cell_met(project: Path) -> None:
    """A cell without a law meets no optimal adversary, whatever the project lists."""
    with inside(project):
        attacks = {"lexical": {}, "likelihood": {}, "embedding": {}}
        results = TextResults(params.read().model_copy(update={"attacks": attacks}))
        dossier = page.dossier(results, "songs-mine", None, source=SOURCE, hashes={})
    assert dossier.release.attacks == ["lexical"]
    assert dossier.not_tested[0] == "The optimal adversary (likelihood): no law is known."
    assert "embedding" in dossier.not_tested[1]
    assert "likelihood" not in dossier.not_tested[1]
    assert lawful(project, likelihood=False).release.attacks == ["lexical", "likelihood"]


def test_the_loss_alone_divides_by_the_texts_of_a_person(project: Path) -> None:
    html = sheet.page("several", page.blocks(of(project)))
    assert "texts that are independent of each other, the nats are at most n times as many" in html
    assert "Rare outputs and attributes may grow faster than n" in html


def test_no_text_is_on_any_page_and_two_pages_are_enough(project: Path) -> None:
    dossier = of(project)
    blocks, title = page.blocks(dossier), page.title(dossier)
    html, twin = sheet.page(title, blocks), dossier.model_dump_json(by_alias=True)
    pdf = paper.pdf(title, blocks)
    with inside(project):
        rewrites = Path("data/rewrites").rglob("*.parquet")
        shown = [text for path in rewrites for text in pl.read_parquet(path)["text"]]
    assert any(SECRET in text for text in shown), "there are some to show"
    assert SECRET not in html + twin
    assert len(re.findall(rb"/Type /Page\b", pdf)) == 2
    assert paper.pdf(title, blocks) == pdf
    names = [
        page.Limited(
            limit=f"identifiers: {kind}", allowed=0.01, low=0.0, low_by="count", high=0.0, high_by="all releases",
            decision=WITHIN, why=None, needed=None, settles=None,
        )
        for kind in ("name", "e-mail address", "phone number", "order number", "date")
    ]  # fmt: skip
    hashes = [page.Hash(of=f"part {number}", sha256="ab" * 32) for number in range(6)]
    full = dossier.model_copy(update={"limits": [*dossier.limits, *names], "hashes": hashes})
    assert len(re.findall(rb"/Type /Page\b", paper.pdf(title, page.blocks(full)))) == 2
    words = len(re.sub(r"<style>.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL).split())
    assert words <= 1200, "five minutes at 240 words a minute"
    for term in (
        "Singling out",
        "Linkability",
        "Inference",
        "NIST SP 800-226",
        "not a legal finding",
        "What makes it void",
    ):
        assert term in html


def test_the_twin_keeps_its_schema(project: Path) -> None:
    twin = json.loads(of(project).model_dump_json(by_alias=True))
    assert twin["schema"] == "epsilometer/dossier/4"
    assert page.Dossier.model_validate(twin) == of(project)
    assert set(page.schema()["properties"]) == set(twin)
    with pytest.raises(ValidationError) as caught:
        page.Dossier.model_validate(twin | {"more": 1})
    assert [(item["loc"], item["type"]) for item in caught.value.errors()] == [(("more",), "extra_forbidden")]


def test_figures_show_on_which_side_of_a_limit_they_lie() -> None:
    values = (0.9996, 1.0, 1.0004, 1.25)
    assert [page._beside(value, 1.0, UP) for value in values] == ["0.9996", "1", "1.01", "1.25"]
    assert [page._beside(value, 1.0, DOWN) for value in values] == ["0.99", "1", "1.0004", "1.25"]
    # Neither bound is rounded to a stronger statement.
    assert (page._beside(0.73149, 1.0, UP), page._beside(0.73651, 1.0, DOWN)) == ("0.74", "0.73")
    assert (page._beside(0.001234, 0.01, UP), page._beside(0.001234, 0.01, DOWN)) == ("0.0013", "0.0012")
    assert (page._beside(math.inf, 1.0, UP), page._beside(0.5, None, UP)) == ("inf", "0.5")
    assert (per_100(0.7301), per_100(0.7309, DOWN), per_100(0.5)) == (73.1, 73.0, 50.0)


def test_signs_that_the_fonts_of_pdf_lack_are_spelled() -> None:
    assert paper.pdf("東京 ≥ 1", [sheet.Paragraph("– “naïve” …")]).startswith(b"%PDF")
    assert paper._latin("東 ≥ “ï”") == 'U+6771 >= "ï"'


def test_bad_input(project: Path) -> None:
    with refused("EPS-C022"):
        of(project, "songs-mien")
    with refused("EPS-S082", "3"):
        of(project, epsilon=3.0)
    with (
        inside(project),
        refused("EPS-P020", "20"),
    ):
        files.write(params.read(), "songs-mine", None)
    assert not (project / files.FOLDER).exists()
