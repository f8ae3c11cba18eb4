"""Verdicts on claims of papers follow from the tables, and the counts follow from the verdicts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from epsilometer.auditing.results.comparison import holm
from epsilometer.cli import results
from epsilometer.pipeline import params, reporting
from epsilometer.report import archive, cited, claims
from epsilometer.report.archive import Grid, Run
from epsilometer.report.cited import Figures
from epsilometer.report.claims import Claim, Judged, Paper, Rule
from tests.support.places import ROOT
from tests.support.refusals import refused

LOSSES = Grid(
    "Losses",
    ["mechanism", "epsilon", "loss", "curve"],
    [["tem", "5", "0.1 to 0.2", "1: 0.5, 10: 0.25"], ["tem", "11", "1.1 to 1.2", ""], ["mvc", "–", "a | b", ""]],
)
HEADS = Grid("What heads score", ["cell", "mcc"], [["tem", "0.5 (0.4 to 0.6)"]])
FIVE, ELEVEN, MVC = "mine/losses; tem, 5; loss", "mine/losses; tem, 11; loss", "mine/losses; mvc; loss"
ONE, TEN = "mine/losses; tem, 5; curve; 1", "mine/losses; tem, 5; curve; 10"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    archive.write(Run("mine", tables=[LOSSES, HEADS]), tmp_path / "results/mine")
    return tmp_path


def ruled(cell: str, relation: str, other: str, **more: Any) -> Rule:
    return Rule.model_validate({"cell": cell, "relation": relation, "other": other, **more})


def least_of_eleven(least: str) -> dict[str, str]:
    return {"cell": ELEVEN, "relation": "ABOVE", "other": least}


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        (ruled(FIVE, "BELOW", ELEVEN), "agrees"),
        (ruled(FIVE, "ABOVE", ELEVEN), "disagrees"),
        (ruled(FIVE, "ABOVE", "0.15"), "undecided here"),
        (ruled(TEN, "NEAR", "0.2", by="0.1", off=0.01), "agrees"),
        (ruled(MVC, "IS NOT", "falls"), "agrees"),
        (ruled(TEN, "BELOW", ONE, of=1000, other_of=1000), "agrees"),
        (ruled(TEN, "BELOW", ONE, of=60, other_of=60), "undecided here"),
        (ruled(TEN, "NEAR", "0.3", by="0.1", of=4, other_of=20), "not testable here"),
        (ruled(ONE, "ABOVE", TEN, factor=1.5), "agrees"),
        (ruled(ONE, "ABOVE", TEN, factor=2), "undecided here"),
        (ruled(ONE, "ABOVE", TEN, factor=2, times=4.1), "disagrees"),
        (ruled(FIVE, "BELOW", "0.1", times=6), "agrees"),
        (ruled(FIVE, "BELOW", "at least 0.1", times=3), "agrees"),
        (ruled(FIVE, "ABOVE", "0.05", factor=9), "agrees"),  # an interval from the table is used unchanged
        (ruled(FIVE, "ABOVE", "0.05", premise=least_of_eleven("1")), "agrees"),
        (ruled(FIVE, "ABOVE", "0.3", premise=least_of_eleven("1")), "disagrees"),
        (ruled(FIVE, "ABOVE", "0.05", premise=least_of_eleven("2")), "not testable here"),
        (ruled(FIVE, "ABOVE", "0.3", premise=least_of_eleven("1.15")), "not testable here"),
    ],
)
def test_a_verdict_follows_from_the_tables(project: Path, rule: Rule, verdict: str) -> None:
    assert rule.verdict(Figures(project)) == verdict


@pytest.mark.parametrize(
    ("rule", "refusal"),
    [
        (ruled(MVC, "ABOVE", "1"), ("EPS-R012",)),
        (ruled(ONE, "ABOVE", "1", factor=0.5), ("EPS-R013", "factor", "0.5", "1")),
        (ruled(ONE, "ABOVE", "1"), ("EPS-R011",)),
    ],
)
def test_a_rule_that_cannot_compare_is_named(project: Path, rule: Rule, refusal: tuple[str, ...]) -> None:
    with refused(*refusal, rule.cell):
        rule.verdict(Figures(project))


def paper(*of: dict[str, Any]) -> Paper:
    texts, words = of[:4], of[4:]
    sections = [{"name": name, "groups": [{"claims": [*some]}]} for name, some in (("Texts", texts), ("Words", words))]
    return Paper.model_validate({"name": "mine", "title": "Claims", "about": "By us.", "sections": sections})


CLAIMS = (
    {"claim": "It leaks", "rule": {"cell": ELEVEN, "relation": "ABOVE", "other": "1"}, "here": f"{{{ELEVEN}}} nats"},
    {"claim": "It leaks more", "place": "table 1", "verdict": "not testable here: another model"},
    {
        "claim": "It falls",
        "rule": {"cell": FIVE, "relation": "ABOVE", "other": "1"},
        "verdict": "by construction: the rule says {rule}",
    },
    {"claim": "So it does", "ours": True, "rule": {"cell": FIVE, "relation": "BELOW", "other": "1"}},
    {"claim": "It learns", "rule": {"cell": "mine/what-heads-score; tem; mcc", "relation": "ABOVE", "other": "0.3"}},
    {"claim": "It claims", "rule": {"cell": ONE, "relation": "ABOVE", "other": "0.7", "exact": True}},
)


def test_claims_of_a_paper_and_ours_are_counted_apart_by_section(project: Path) -> None:
    columns, rows = claims.tally(claims.judged(paper(*CLAIMS), Figures(project)))
    assert columns == claims.COUNTED
    assert rows == [
        ["Texts", "3", "1", "0", "0.01", "0", "1", "1", "1", "1"],
        ["Words", "2", "1", "1", "0.05", "0", "0", "0", "0", "0"],
        ["all", "5", "2", "1", "0.06", "0", "1", "1", "1", "1"],
    ]


def test_a_page_of_claims_has_figures_places_and_verdicts(project: Path) -> None:
    page = claims.page(paper(*CLAIMS), Figures(project))
    assert "| It leaks |  |  | 1.1 to 1.2 nats | agrees |" in page
    assert "| It leaks more | table 1 |  |  | not testable here: another model |" in page
    assert "| by construction: the rule says disagrees |" in page
    assert "| So it does | ours to show |" in page


@pytest.mark.parametrize(
    ("claim", "refusal"),
    [
        ({"claim": "It rises", "verdict": "perhaps"}, ("EPS-R021", "It rises", "perhaps")),
        ({"claim": "It rises"}, ("EPS-R028", "It rises")),
    ],
)
def test_a_claim_without_a_verdict_is_refused(project: Path, claim: dict[str, Any], refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        claims.judged(paper(claim), Figures(project))


def test_a_file_with_an_unknown_field_is_refused_with_its_place(tmp_path: Path) -> None:
    raw = paper(*CLAIMS).model_dump(exclude_none=True)
    raw["sections"][0]["groups"][0]["claims"][0]["rule"]["near"] = 1
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
    with refused("EPS-R027", "mine.yaml", "sections.0.groups.0.claims.0.rule.near"):
        claims.read(tmp_path / "mine.yaml")


@pytest.fixture
def pages(project: Path) -> Path:
    (project / "docs").mkdir()
    (project / "claims").mkdir()
    (project / "claims/mine.yaml").write_text(yaml.safe_dump(paper(*CLAIMS).model_dump(exclude_none=True)))
    page = project / "docs/page.md"
    page.write_text("[9](../results/mine/losses.csv#tem,+5;+loss)\n\n<!-- verdicts -->\n<!-- end -->\n")
    return page


def test_pages_are_filled_with_figures_and_counts(pages: Path) -> None:
    assert claims.fill(pages.parents[1]) == [pages]
    text = pages.read_text()
    assert "[0.1 to 0.2]" in text
    assert "| [mine](../claims/mine.yaml) | 5 | 2 | 1 | 0.06 |" in text
    assert claims.fill(pages.parents[1]) == []


def test_the_command_that_writes_tables_fills_pages(pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, before = pages.parents[1], pages.read_text()
    monkeypatch.setattr(params, "read", lambda: None)
    monkeypatch.setattr(reporting, "write_tables", lambda params, out: out or root / "results/mine")
    results.tables(root / "elsewhere")
    assert pages.read_text() == before, "tables that are written elsewhere are cited by no page"
    results.tables(None)
    assert "[0.1 to 0.2]" in pages.read_text()


FIGURES = Figures(ROOT)
PAPERS = {path.stem: claims.read(path) for path in sorted((ROOT / "claims").glob("*.yaml"))}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_the_figures_of_a_page_are_those_of_the_tables(page: Path) -> None:
    """Where the tables have moved on, `epsilometer results tables` fills the pages anew; read the sentences then."""
    text = page.read_text()
    assert claims.filled(text, ROOT) == text


@pytest.fixture(scope="module")
def every() -> dict[str, list[Judged]]:
    return {name: claims.judged(paper, FIGURES) for name, paper in PAPERS.items()}


@pytest.mark.parametrize("name", PAPERS)
def test_a_papers_page_of_claims_can_be_written(name: str) -> None:
    page = claims.page(PAPERS[name], FIGURES)
    assert not cited.REFERENCE.search(page)
    assert claims.HERE not in page


def test_the_page_of_results_says_of_a_claim_what_its_rule_says(every: dict[str, list[Judged]]) -> None:
    """Of a figure beside a printed one, after 'Agrees', 'Disagrees', 'Undecided' or 'Not testable'."""
    verdicts: dict[str, set[str]] = {}
    for judged in every.values():
        for each in judged:
            if each.claim.rule is not None and ";" not in each.claim.rule.other:
                word = each.claim.rule.verdict(FIGURES).partition(" here")[0]
                verdicts.setdefault(each.claim.rule.cell, set()).add(word)
    text = (ROOT / "docs/results.md").read_text()
    said = []
    for bullet in re.split(r"^(?=- |#)", text, flags=re.MULTILINE):
        if bullet.startswith(("- **Agrees", "- **Disagrees")):
            assert not re.search(r"dp_bart, |dp_paraphrase, ", bullet), "claims on these are not testable"
        _, *parts = re.split(r"(Agrees|Disagrees|Undecided|Not testable):", bullet)
        for word, part in zip(parts[::2], parts[1::2], strict=True):
            references = [cited.reference(link) for link in cited.FIGURE.finditer(part)]
            said += [(word.lower(), figure) for figure in references if figure in verdicts]
    assert len(said) >= 5
    assert not [(word, figure) for word, figure in said if verdicts[figure] != {word}]


def rules(name: str) -> list[tuple[Claim, Rule]]:
    """The rules of the paper's own claims."""
    listed = (claim for section in PAPERS[name].sections for group in section.groups for claim in group.claims)
    return [(claim, claim.rule) for claim in listed if claim.rule is not None and not claim.ours]


def premises(rule: Rule) -> list[Rule]:
    return [] if rule.premise is None else [rule.premise, *premises(rule.premise)]


def test_heads_are_compared_on_the_premise_that_they_learn() -> None:
    compared = [rule for _, rule in rules("empirical-calibration") if "/equally-loud-noises;" in rule.cell]
    assert len(compared) >= 6
    for rule in compared:
        (learns,) = premises(rule)
        assert "none" in learns.cell
        assert (learns.cell.split("; ")[-1], learns.relation, learns.other) == ("mcc", "ABOVE", "0.2")


def test_what_is_printed_of_membership_is_of_the_noise_that_the_row_is_about() -> None:
    """Table 2 has 64.3 per cent without noise, and 52.0 under the loudest; the one had stood for the other."""
    of = {
        "training_members/membership; sst2-bert-none,": ["SST2, BERT, none"],
        "training_members/membership; sst2-bert-gaussian, 1,": ["SST2, BERT, most"],
        "training_figures/membership; cola-bert-quiet, 0.014,": ["CoLA, BERT, least", "IMDb, GPT-2, least"],
        "training_real/membership; cola-bert-gaussian, 1.91,": ["CoLA, BERT, most", "IMDb, GPT-2, most"],
    }
    for of_cell, of_printed in of.items():
        (claim,) = [claim for claim, rule in rules("empirical-calibration") if rule.cell.startswith(of_cell)]
        printed = re.findall(r"printed/areas-of-membership-attacks; ([^;]*);", claim.printed)
        assert list(dict.fromkeys(printed)) == of_printed


def test_the_bound_printed_of_membership_holds_of_two_data_sets_alone() -> None:
    """At most .52 under the least and the most noise (table 1), as the page says: on CoLA and SST2, not on IMDb."""
    columns, table = archive.cells(ROOT / "claims/printed/areas-of-membership-attacks.csv")
    rows = [dict(zip(columns, row, strict=True)) for row in table]
    rows = [row for row in rows if row["noise"] in ("least", "most")]
    assert len(rows) == 12
    most = dict.fromkeys(("CoLA", "SST2", "IMDb"), 0.0)
    for row in rows:
        most[row["data set"]] = max(most[row["data set"]], float(row["MIA"]), float(row["MIA-R"]))
    assert max(most["CoLA"], most["SST2"]) <= 52.0 < most["IMDb"] == 55.2


def test_the_fall_of_membership_attacks_is_corrected_as_the_page_says() -> None:
    run = archive.read(ROOT / "results/training_real")
    (grid,) = [grid for grid in run.tables if grid.heading == "Attacks against noise"]
    rows = [row for row in grid.rows if row[0] == "cola-bert-gaussian" and row[2].startswith("auc")]
    at = [grid.columns.index(name) for name in ("p of the fall", "p of a rise")]
    falls, rises = ({row[1]: float(row[i]) for row in rows} for i in at)
    assert len(falls) == 6
    of_falls = dict(zip(falls, holm(list(falls.values())), strict=True))
    of_both = dict(zip(falls, holm([*falls.values(), *rises.values()])[:6], strict=True))
    assert (of_falls["rmia"], of_falls["shadow"]) == (pytest.approx(0.0021), pytest.approx(0.0065))
    assert of_both["rmia"] < 0.01 < of_both["shadow"]


SIGNAL = "atis_published/what-rewrites-look-like; atis, dp_bart, "
PUBLISHED = (
    "teda_bart/what-rewrites-look-like; atis, dp_bart, ",
    "teda_bart/what-rewrites-look-like; snips, dp_bart, ",
)
COPIES = "teda_texts/what-is-kept-at-equal-epsilon; dp_paraphrase, 2,500; unchanged"


@pytest.mark.parametrize("name", [name for name in PAPERS if name != "prototype"])
def test_every_rule_of_a_papers_claim_states_an_alternative(name: str) -> None:
    """Unless chance has no part in it, or it tests by p-values of its own, or holds by construction anyway."""
    without = [
        claim.claim
        for claim, rule in rules(name)
        if rule.against is None
        and not claim.verdict.startswith("by construction")
        and not (rule.exact or rule.factor or rule.relation in ("IS", "IS NOT", "NO EFFECT AT"))
        and not (rule.cell.endswith("; loss distribution") and rule.relation == "NEAR")
    ]
    assert not without


def test_what_latents_or_more_trials_must_show_is_no_finding() -> None:
    """Guesses by latents are right with probability Φ(m / sigma), and DP-Prompt at its ceiling is as a copier."""
    compared = 0
    for claim, rule in rules("teda"):
        if rule.premise is None and rule.cell.endswith("; internal") and rule.other.endswith("; internal"):
            compared += 1
            assert claim.verdict.startswith("by construction: "), claim.claim
    assert compared >= 10


def test_no_claim_on_texts_of_another_noise_or_a_copier_is_decided_either_way() -> None:
    """DP-BART without the paper's noise, and a DP-Paraphrase that copies: where they agree as where they disagree."""
    counts = {"dp_bart": 0, "dp_paraphrase": 0}
    for claim, rule in rules("teda"):
        compared = f"{rule.cell} {rule.other}"
        required = premises(rule)
        if re.search("dp_bart|DP-BART with other seeds", compared) and "internal" not in compared:
            counts["dp_bart"] += 1
            assert any(
                each.cell.startswith((SIGNAL, *PUBLISHED)) and each.relation == "ABOVE" and each.times == 0.5
                for each in required
            ), claim.claim
        if "dp_paraphrase," in compared:
            counts["dp_paraphrase"] += 1
            assert any(each.cell == COPIES for each in required), claim.claim
        why = claim.verdict.partition(": ")[2]
        assert why or rule.verdict(FIGURES) != "not testable here" or not required, claim.claim
    assert min(counts.values()) >= 20


@pytest.mark.parametrize(
    ("epsilon", "share_in_words", "share"),
    [("250", "a sixth", 6), ("1,000", "an eleventh", 11), ("2,500", "a seventeenth", 17)],
)
def test_the_share_of_the_papers_signal_over_noise_is_that_of_the_tables(
    epsilon: str, share_in_words: str, share: int
) -> None:
    ours = f"{SIGNAL}{epsilon}; signal over noise"
    papers = f"printed/signal-over-noise-of-dp-bart; {epsilon}; signal over noise"
    assert round(float(FIGURES.value(papers)) / float(FIGURES.value(ours))) == share
    verdicts = [claim.verdict for claim, rule in rules("teda") if any(each.cell == ours for each in premises(rule))]
    assert verdicts
    assert all(f"DP-BART at {share_in_words} of the paper's signal over noise" in verdict for verdict in verdicts)


def test_the_premise_of_unlike_candidates_is_the_papers(every: dict[str, list[Judged]]) -> None:
    """Section 3.2.2: unlike candidates maximise what is told apart; nine word mechanisms, and the paper's own."""
    pair = ("; loss", " temperature, -1e+04", " temperature, 0")

    def compares(rule: Rule) -> bool:
        unlike = rule.cell.removesuffix(pair[0]).endswith(pair[1]) and rule.other == rule.cell.replace(pair[1], pair[2])
        return unlike and rule.relation == "ABOVE" and rule.against == 1

    compared = [(claim, rule) for claim, rule in rules("teda") if compares(rule)]
    assert all("section 3.2.2" in claim.place for claim, _ in compared)
    words = {id(each.claim): each.text for each in every["teda"]}
    verdicts = [words[id(claim)] for claim, rule in compared if "factors_words" in rule.cell or "MVC" in claim.place]
    of_chance = "not testable here: a difference of 1 nat would be missed"  # for MVC, with 300 trials
    assert [verdicts.count(word) for word in ("disagrees", of_chance, "agrees", "undecided here")] == [6, 1, 1, 1]
