"""Figures on pages are those of the tables that they cite."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epsilometer.auditing.results.comparison import holm
from epsilometer.cli import export
from epsilometer.core.errors import UserError
from epsilometer.pipeline import params, reporting
from epsilometer.report import cited
from tests.support.places import ROOT

TABLE = """# mine

## Losses

k = 2.

| mechanism | epsilon | loss        | curve            |
|-----------|---------|-------------|------------------|
| tem       | 5       | 0.1 to 0.2  | 1: 0.5, 10: 0.25 |
| tem       | 11      | 1.1 to 1.2  |                  |
| mvc, slow | –       | a \\| b      |                  |

## Falls

| cell | attack | p      |
|------|--------|--------|
| cola | rmia   | 0.004  |
| cola | shadow | 0.03   |
| cola | none   | –      |
| sst2 | rmia   | 0.0001 |
"""
PAGE = "At 5 it is <!-- figure: results/mine.md; Losses; tem, 5; loss -->9<!-- end --> nats.\n"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    (tmp_path / "results/mine.md").write_text(TABLE)
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_a_figure_is_filled_and_stays(page: Path) -> None:
    assert cited.fill(page.parent) == [page]
    assert page.read_text() == PAGE.replace(">9<", ">0.1 to 0.2<")
    assert cited.fill(page.parent) == []


def test_a_table_that_moved_on_changes_the_page(page: Path) -> None:
    cited.fill(page.parent)
    (page.parent / "results/mine.md").write_text(TABLE.replace("0.1 to 0.2", "0.3 to 0.4"))
    assert cited.fill(page.parent) == [page]
    assert ">0.3 to 0.4<" in page.read_text()


def test_the_command_that_writes_tables_fills_pages(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(params, "read", lambda: None)
    monkeypatch.setattr(reporting, "write_tables", lambda params, out: out or page.parent / "results/mine.md")
    export.results(page.parent / "elsewhere.md")
    assert page.read_text() == PAGE, "tables that are written elsewhere are cited by no page"
    export.results(None)
    assert ">0.1 to 0.2<" in page.read_text()


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("results/mine.md; Losses; mvc, slow; loss", r"a \| b"),
        ("results/mine.md; Losses; tem, 5; curve; 10", "0.25"),
        ("results/mine.md; Losses; tem, 5; curve; 1", "0.5"),
        ("results/mine.md; Falls; cola, rmia; p; Holm, cola", "0.008"),
        ("results/mine.md; Falls; cola, shadow; p; Holm, cola", "0.03"),
    ],
)
def test_rows_and_values_are_found_by_name(page: Path, reference: str, value: str) -> None:
    text = f"<!-- figure: {reference} --><!-- end -->"
    assert cited.filled(text, page) == f"<!-- figure: {reference} -->{value}<!-- end -->"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("results/other.md; Losses; tem, 5; loss", "no file results/other.md"),
        ("results/mine.md; Gains; tem, 5; loss", "no table under 'Gains'"),
        ("results/mine.md; Losses; tem; loss", "2 rows begin with 'tem'"),
        ("results/mine.md; Losses; tem, 1; loss", "0 rows begin with 'tem, 1'"),
        ("results/mine.md; Losses; tem, 5; gain", "a column 'gain'"),
        ("results/mine.md; Losses; tem, 5; curve; 100", "no value at 100"),
        ("results/mine.md", "no table under ''"),
    ],
)
def test_a_reference_to_nothing_is_refused(page: Path, reference: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        cited.filled(f"<!-- figure: {reference} -->1<!-- end -->", page)


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        ("tem, 5; loss BELOW results/mine.md; Losses; tem, 11; loss", "agrees"),
        ("tem, 5; loss ABOVE results/mine.md; Losses; tem, 11; loss", "disagrees"),
        ("tem, 5; loss ABOVE 0.15", "undecided here"),
        ("tem, 5; curve; 10 ± 0.01 NEAR 0.2 BY 0.1", "agrees"),
        ("mvc, slow; loss IS NOT falls", "agrees"),
        ("tem, 5; curve; 10 OF 1000 BELOW results/mine.md; Losses; tem, 5; curve; 1 OF 1000", "agrees"),
        ("tem, 5; curve; 10 OF 60 BELOW results/mine.md; Losses; tem, 5; curve; 1 OF 60", "undecided here"),
        ("tem, 5; curve; 10 OF 4 NEAR 0.3 OF 20 BY 0.1", "not testable here"),
        ("tem, 5; curve; 1 FACTOR 1.5 ABOVE results/mine.md; Losses; tem, 5; curve; 10", "agrees"),
        ("tem, 5; curve; 1 FACTOR 2 ABOVE results/mine.md; Losses; tem, 5; curve; 10", "undecided here"),
        ("tem, 5; curve; 1 FACTOR 2 ABOVE 4.1 TIMES results/mine.md; Losses; tem, 5; curve; 10", "disagrees"),
        ("tem, 5; loss BELOW 6 TIMES 0.1", "agrees"),
        ("tem, 5; loss BELOW 3 TIMES at least 0.1", "agrees"),
        ("tem, 5; loss FACTOR 9 ABOVE 0.05", "agrees"),  # an interval that the table gives stays
        ("tem, 5; loss ABOVE 0.05 GIVEN results/mine.md; Losses; tem, 11; loss ABOVE 1", "agrees"),
        ("tem, 5; loss ABOVE 0.3 GIVEN results/mine.md; Losses; tem, 11; loss ABOVE 1", "disagrees"),
        ("tem, 5; loss ABOVE 0.05 GIVEN results/mine.md; Losses; tem, 11; loss ABOVE 2", "not testable here"),
        ("tem, 5; loss ABOVE 0.3 GIVEN results/mine.md; Losses; tem, 11; loss ABOVE 1.15", "not testable here"),
    ],
)
def test_a_verdict_follows_from_the_tables(page: Path, rule: str, verdict: str) -> None:
    text = f"<!-- verdict: results/mine.md; Losses; {rule} -->?<!-- end -->"
    assert cited.filled(text, page) == text.replace("?", verdict)


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("tem, 5; loss", "no rule"),
        ("mvc, slow; loss ABOVE 1", "no number"),
        ("tem, 5; loss ABOVE 1 GIVEN results/mine.md; Losses; tem, 5; loss", "no rule"),
        ("tem, 5; curve; 1 FACTOR 0.5 ABOVE 1", "FACTOR 0.5 is below 1"),
    ],
)
def test_a_verdict_without_rule_or_number_is_refused(page: Path, claim: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        cited.filled(f"<!-- verdict: results/mine.md; Losses; {claim} -->?<!-- end -->", page)


def test_a_word_that_is_no_verdict_is_refused_with_its_page(page: Path) -> None:
    table = "| claim | printed | verdict |\n|---|---|---|\n| It leaks | so | perhaps |\n<!-- tally --><!-- end -->\n"
    with pytest.raises(UserError, match=f"{re.escape(str(page))}: .*'perhaps'"):
        cited.filled(table, page)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_the_figures_of_a_page_are_those_of_the_tables(page: Path) -> None:
    """Where the tables have moved on, `epsilometer results tables` fills the pages; see what the sentences then say."""
    text = page.read_text()
    assert cited.filled(text, page) == text


def test_the_page_of_results_has_no_figure_of_its_own() -> None:
    """Beside figures from tables, numbers may be settings, in `code`, or what a paper printed, in parentheses."""
    text = (ROOT / "docs/results.md").read_text()
    assert len(cited.FIGURE.findall(text)) > 50
    text = cited.VERDICT.sub("", cited.FIGURE.sub("", text))
    text = re.sub(r"`[^`]*`|\(printed[^)]*\)|\]\([^)]*\)|\d{4}-\d\d-\d\d", "", text)
    assert not re.findall(r"(?<![\w-])[.\d]*\d(?![\w-])", text)


def test_the_page_of_results_says_of_a_claim_what_the_pages_of_claims_say() -> None:
    """Of a figure beside a printed one, after 'Agrees', 'Disagrees', 'Undecided' or 'Not testable'."""
    verdicts: dict[str, set[str]] = {}
    for page in (ROOT / "docs").glob("paper-claims*.md"):
        for claim, verdict in cited.VERDICT.findall(page.read_text()):
            rule = cited.RULE.match(claim)
            if rule is not None and ";" not in rule["other"]:
                verdicts.setdefault(rule["cell"], set()).add(verdict.partition(" here")[0])
    text = (ROOT / "docs/results.md").read_text()
    said = []
    for bullet in re.split(r"^(?=- |#)", text, flags=re.MULTILINE):
        if bullet.startswith(("- **Agrees", "- **Disagrees")):
            assert not re.search(r"dp_bart, |dp_paraphrase, ", bullet), "claims on these are not testable"
        _, *parts = re.split(r"(Agrees|Disagrees|Undecided|Not testable):", bullet)
        for word, part in zip(parts[::2], parts[1::2], strict=True):
            said += [(word.lower(), figure) for figure, _ in cited.FIGURE.findall(part) if figure in verdicts]
    assert len(said) >= 5
    assert not [(word, figure) for word, figure in said if verdicts[figure] != {word}]


def rows_of(page: str) -> list[list[str]]:
    """The rows of a page of claims, with the comments that fill them."""
    lines = (ROOT / f"docs/{page}.md").read_text().splitlines()
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if line.startswith("|")]
    return [row for row in rows if len(row) == 4 and row[3] != "verdict"]


def test_heads_are_compared_on_the_premise_that_they_learn() -> None:
    compared = [row[3] for row in rows_of("paper-claims") if "Equally loud noises; " in row[3]]
    assert len(compared) >= 6
    assert not [verdict for verdict in compared if not re.search(r" GIVEN .*none.*; mcc ABOVE 0\.2 -->", verdict)]


def test_what_is_printed_of_membership_is_of_the_noise_that_the_row_is_about() -> None:
    """Table 2 has 64.3 per cent without noise, and 52.0 under the loudest; the one had stood for the other."""
    of = {
        "results/training_members.md; Membership; sst2-bert-none,": ["SST2, BERT, none"],
        "results/training_members.md; Membership; sst2-bert-gaussian, 1,": ["SST2, BERT, most"],
        "results/training_figures.md; Membership; cola-bert-quiet, 0.014,": ["CoLA, BERT, least", "IMDb, GPT-2, least"],
        "results/training_real.md; Membership; cola-bert-gaussian, 1.91,": ["CoLA, BERT, most", "IMDb, GPT-2, most"],
    }
    printed = "paper-printed.md; Areas of membership attacks; "
    for of_cell, of_printed in of.items():
        (row,) = [row for row in rows_of("paper-claims") if row[3].startswith(f"<!-- verdict: {of_cell}")]
        cited_there = re.findall(rf"{re.escape(printed)}([^;]*);", row[1])
        assert list(dict.fromkeys(cited_there)) == of_printed


def test_the_bound_printed_of_membership_holds_of_two_data_sets_alone() -> None:
    """At most .52 under the least and the most noise (table 1), as the page says: on CoLA and SST2, not on IMDb."""
    text = (ROOT / "docs/paper-printed.md").read_text()
    rows = re.findall(r"^\| (\w+) \| [\w-]+ \| (?:least|most) \| [\d.]+ \| ([\d.]+) \| ([\d.]+) \|", text, re.MULTILINE)
    assert len(rows) == 12
    most = {name: max(float(area) for of, *areas in rows if of == name for area in areas) for name, *_ in rows}
    assert max(most["CoLA"], most["SST2"]) <= 52.0 < most["IMDb"] == 55.2


def test_the_fall_of_membership_attacks_is_corrected_as_the_page_says() -> None:
    text = (ROOT / "docs/results/training_real.md").read_text()
    rows = re.findall(
        r"^\| cola-bert-gaussian +\| (\w+) +\| auc .*?\| ([\d.]+) +\| ([\d.]+) +\| no", text, re.MULTILINE
    )
    falls, rises = ({row[0]: float(row[i]) for row in rows} for i in (1, 2))
    assert len(falls) == 6
    of_falls = dict(zip(falls, holm(list(falls.values())), strict=True))
    of_both = dict(zip(falls, holm([*falls.values(), *rises.values()])[:6], strict=True))
    assert (of_falls["rmia"], of_falls["shadow"]) == (pytest.approx(0.0021), pytest.approx(0.0065))
    assert of_both["rmia"] < 0.01 < of_both["shadow"]


SIGNAL = "results/atis_published.md; What rewrites look like; atis, dp_bart, "
COPIES = " GIVEN results/teda_texts.md; What is kept at equal epsilon; dp_paraphrase, 2,500; unchanged "


def of_teda() -> list[tuple[list[str], str]]:
    """The rows of TeDA's own claims with a rule, each with its rule."""
    return of_paper("paper-claims-teda")


def of_paper(page: str) -> list[tuple[list[str], str]]:
    rows = [row for row in rows_of(page) if "ours to show" not in row[0] and row[1] != "not tested"]
    return [(row, match[1]) for row in rows if (match := re.search("<!-- verdict: (.*?) -->", row[3]))]


@pytest.mark.parametrize("page", ["paper-claims", "paper-claims-teda", "paper-claims-rewriting"])
def test_every_rule_of_a_papers_claim_states_an_alternative(page: str) -> None:
    """Unless chance has no part in it, or it tests by p-values of its own, or holds by construction anyway."""
    without = [
        row[0]
        for row, rule in of_paper(page)
        if " AGAINST " not in rule
        and not row[3].startswith("by construction")
        and not re.search(" EXACT | FACTOR | IS | IS NOT | NO EFFECT AT |; loss distribution NEAR ", rule)
    ]
    assert not without


def test_what_latents_or_more_trials_must_show_is_no_finding() -> None:
    """Guesses by latents are right with probability Φ(m / sigma), and DP-Prompt at its ceiling is as a copier."""
    for row, rule in of_paper("paper-claims-teda"):
        pair = re.fullmatch(
            r"(?:[^;]*; ){2}([^;]*); (\S+) (?:ABOVE|BELOW) (?:[^;]*; ){2}([^;]*); (\S+)(?: AGAINST.*)?", rule
        )
        if pair and pair[2] == pair[4] == "internal":
            assert row[3].startswith("by construction: "), row[0]


def test_no_claim_on_texts_of_another_noise_or_a_copier_is_decided_either_way() -> None:
    """DP-BART without the paper's noise, and a DP-Paraphrase that copies: where they agree as where they disagree."""
    counts = {"dp_bart": 0, "dp_paraphrase": 0}
    for row, rule in of_teda():
        compared, *premises = rule.split(" GIVEN ")
        if re.search("dp_bart|DP-BART with other seeds", compared) and "internal" not in compared:
            counts["dp_bart"] += 1
            assert any(premise.startswith(SIGNAL) and " ABOVE 0.5 TIMES " in premise for premise in premises), row[0]
        if "dp_paraphrase," in compared:
            counts["dp_paraphrase"] += 1
            assert COPIES in rule, row[0]
        verdict, _, why = re.sub("<!--.*?-->", "", row[3]).partition(": ")
        assert why or verdict != "not testable here" or not premises, row[0]
    assert min(counts.values()) >= 20


@pytest.mark.parametrize(
    ("epsilon", "named", "share"), [("250", "a sixth", 6), ("1,000", "an eleventh", 11), ("2,500", "a seventeenth", 17)]
)
def test_the_share_of_the_papers_signal_over_noise_is_that_of_the_tables(epsilon: str, named: str, share: int) -> None:
    page = ROOT / "docs/paper-claims-teda.md"
    of = f"{SIGNAL}{epsilon}; signal over noise"
    printed = f"paper-printed.md; Signal over noise of DP-BART; {epsilon}; signal over noise"
    filled = cited.filled(f"<!-- figure: {of} --><!-- end -->|<!-- figure: {printed} --><!-- end -->", page)
    ours, papers = (float(value) for value in re.findall("-->([\\d.]+)<", filled))
    assert round(papers / ours) == share
    rows = [row[3] for row, rule in of_teda() if f"GIVEN {of} " in rule]
    assert rows
    assert all(f"DP-BART at {named} of the paper's signal over noise" in verdict for verdict in rows)


def test_the_premise_of_unlike_candidates_is_the_papers() -> None:
    """Section 3.2.2: unlike candidates maximise what is told apart; nine word mechanisms, and the paper's own."""
    compared = [
        (row, rule)
        for row, rule in of_teda()
        if re.fullmatch(r"(.*), temperature, -1e\+04; loss ABOVE \1, temperature, 0; loss AGAINST 1", rule)
    ]
    assert all("section 3.2.2" in row[0] for row, _ in compared)
    verdicts = [re.sub("<!--.*?-->", "", row[3]) for row, _ in compared if "factors_words" in row[3] or "MVC" in row[0]]
    of_chance = "not testable here: a difference of 1 nat would be missed"  # of 300 trials, under MVC
    assert [verdicts.count(word) for word in ("disagrees", of_chance, "agrees", "undecided here")] == [6, 1, 1, 1]
    other = [row[0] for row in rows_of("paper-claims-teda") if "temperature, 0; loss ABOVE" in row[3]]
    assert not [claim for claim in other if "unlike" in claim]
