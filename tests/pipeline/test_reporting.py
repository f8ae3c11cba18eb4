"""The whole page opens offline, escapes all texts, and works in a browser."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from epsilometer.auditing.claims.verdicts import NO_CLAIM
from epsilometer.auditing.estimation.successes import estimate
from epsilometer.pipeline import bodies
from epsilometer.pipeline.reporting import _OF_TEXTS
from epsilometer.project.code import Reading
from epsilometer.report.body import ROOM, Body, first_screen
from epsilometer.report.cells.results import TextResults
from epsilometer.report.figures import Figure
from epsilometer.report.origin import header
from epsilometer.report.page import put
from epsilometer.report.section import Section
from epsilometer.report.wording import proved
from tests.support.audited import HOSTILE, TRIALS, audit, bare, build_page, estimates, frame, settings
from tests.support.html import CHROMIUM, Elements
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.waiting import LAST_RESORT


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    build_page(audit(), folder / "audit.html", folder / "figures")
    return folder


@pytest.fixture(scope="module")
def elements(built: Path) -> Elements:
    return Elements((built / "audit.html").read_text(encoding="utf-8"))


def test_the_page_loads_nothing_from_anywhere(elements: Elements) -> None:
    for tag, attributes in elements.tags:
        for name in ("src", "href", "srcset", "data", "action", "poster", "xlink:href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), f"<{tag} {name}={value[:80]!r}>"
        assert tag not in ("link", "iframe", "object", "embed", "base")
    styles = [text for text in elements.raw if "font:" in text and "--ink" in text]
    assert len(styles) == 1
    assert "url(" not in styles[0]
    assert "@import" not in styles[0]
    policy = next(a["content"] for t, a in elements.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "http" not in policy


def test_texts_and_names_are_escaped(elements: Elements) -> None:
    tags = [tag for tag, _ in elements.tags]
    assert tags.count("script") == 8  # six figures, the drawing library, the page's own
    assert not any("onerror" in attributes for _, attributes in elements.tags)
    text = "".join(elements.text)
    assert HOSTILE in text  # shown as text: the name, the source and the rewrite
    assert "planes & trains" in text


def test_figures_hold_their_data_whatever_the_names(elements: Elements) -> None:
    specifications = [json.loads(raw) for raw in elements.raw if raw.startswith("{")]
    assert len(specifications) == 6
    names = {
        row["mechanism"]
        for s in specifications
        for rows in s["datasets"].values()
        for row in rows
        if "mechanism" in row
    }
    assert names == {"identity", "dp_bart", "mvc", HOSTILE}


@pytest.mark.parametrize("name", ["instrument", "curves-queries", "curves-letters"])
def test_figures_are_written_as_pictures(built: Path, name: str) -> None:
    png = (built / "figures" / f"{name}.png").read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert png.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", png[16:24])
    assert width > 1000
    assert height > 400
    svg = ElementTree.parse(built / "figures" / f"{name}.svg").getroot()
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    words = " ".join(svg.itertext())
    assert ("measured loss" if name == "instrument" else "nominal ε") in words
    if name != "instrument":
        assert "dp_bart" in words  # the picture is shown alone, so it has a legend
        assert "identity (control)" in words


def test_equal_inputs_give_equal_bytes(built: Path, tmp_path: Path) -> None:
    shuffled = audit(estimates=estimates().sample(fraction=1.0, shuffle=True, seed=3))
    build_page(shuffled, tmp_path / "audit.html", tmp_path / "figures")
    first, again = (
        {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        for folder in (built, tmp_path)
    )
    assert {Path("audit.html"), Path("figures/instrument.svg"), Path("figures/instrument.png")} <= first.keys()
    assert first.keys() == again.keys()
    assert not [name for name, content in first.items() if again[name] != content]


def test_what_is_infinite_is_said_as_a_lower_end(elements: Elements) -> None:
    text = "".join(elements.text)
    always_right = proved(estimate(TRIALS, TRIALS, alpha=0.01 / 2).loss)  # two attacks
    assert re.search(rf"at least 99\.\d+ of 100 \({always_right}\)", text)
    assert not re.search(r"\b(inf|nan|None)\b", text)


def test_the_page_lists_its_sections(elements: Elements) -> None:
    """Each link leads to a section, in the page's order; what has no tables has neither."""
    ids = [attributes["id"] for tag, attributes in elements.tags if tag == "section"]
    links = [str(attributes["href"]) for tag, attributes in elements.tags if tag == "a"]
    assert links[: len(ids)] == [f"#{name}" for name in ids]
    assert {link.removeprefix("#") for link in links[len(ids) :]} <= {each.get("id") for _, each in elements.tags}
    assert len(ids) == len(_OF_TEXTS) - 4 + len(["check", "reading", "settings", "licences"])
    assert ids[-1] == "licences"
    assert {"identifiers", "possible", "sweeps", "kept", "anonymity", "training"}.isdisjoint(ids)


def test_the_first_screen_is_read_in_two_minutes(built: Path, tmp_path: Path) -> None:
    """What stands above the first section, once the page says where it comes from; a long title leaves less room."""
    facts = {
        "date": "2026-11-24 03:18 UTC",
        "profile": "default",
        "brief": "commit 0123456789, with uncommitted changes",
    }

    def words(page: Path) -> list[str]:
        text = put(page.read_text(encoding="utf-8"), "header", header(facts))
        return " ".join(Elements(text[text.index("<header>") : text.index("</header>")]).text).split()

    assert len(words(built / "audit.html")) <= ROOM
    assert {"Audited", "letters", "queries", "Next:"} <= {*words(built / "audit.html")}


def test_every_answer_is_on_the_first_screen_and_other_topics_as_far_as_there_is_room() -> None:
    answers = [(f"data set {number}", "word " * 40) for number in range(8)]
    decision = Section("decision", "Decision", "May it be released?", first_screen=answers)
    questions = Section(
        "questions", "Questions", "", first_screen=[("Questions", "one"), ("Membership", "word " * 300)]
    )
    shown = first_screen(Body("title", [decision, questions], [], [], []))
    assert shown == [(topic, [sentence]) for topic, sentence in answers]
    few = first_screen(Body("title", [replace(decision, first_screen=answers[:2]), questions], [], [], []))
    assert [topic for topic, _ in few] == ["data set 0", "data set 1", "Questions"]


def test_a_bare_audit_has_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One mechanism without a claim at one budget; no check of the instrument, no examples, no notes."""
    saved: list[str] = []
    monkeypatch.setattr(Figure, "save", lambda figure, folder: saved.append(figure.name))
    results = bare(frame(("queries", "identity", 1.0, "embedding", 1000, None, NO_CLAIM)))
    build_page(results, tmp_path / "audit.html", tmp_path / "figures")
    page = Elements((tmp_path / "audit.html").read_text(encoding="utf-8"))
    ids = [attributes["id"] for tag, attributes in page.tags if tag == "section"]
    assert ids == ["decision", "basis", "ways", "curves", "claims", "reading", "settings", "licences"]
    assert saved == ["curves-queries"]


def test_a_mechanism_without_a_budget_is_audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its name alone in sentences; and a whole audit may have no budget."""
    monkeypatch.setattr(Figure, "save", lambda figure, folder: None)

    def text_of(estimates: pl.DataFrame) -> str:
        build_page(bare(estimates), tmp_path / "audit.html", tmp_path / "figures")
        return "".join(Elements((tmp_path / "audit.html").read_text(encoding="utf-8")).text)

    none = pl.when(pl.col("mechanism") != "identity").then("epsilon")
    assert "identity at ε" not in text_of(estimates().with_columns(epsilon=none))
    table = frame(("queries", "mvc", 1.0, "embedding", 1000, None, NO_CLAIM))
    text = text_of(table.with_columns(epsilon=pl.lit(None, pl.Float64)))
    assert "No. mvc exceeds a limit: with mvc an attacker is right in at least 99.4 of 100 guesses" in text
    assert "The audited mechanisms have no budget to lower" in text


def test_an_edit_of_a_template_makes_the_page_stale() -> None:
    files = Reading(ROOT).code([bodies()["report"]]).by_path()["files"]
    templates = {str(path.relative_to(ROOT)) for path in (ROOT / "epsilometer").rglob("*.j2")}
    assert templates
    assert templates <= files.keys()
    assert not [name for name in files if name.endswith(".j2") and name not in templates]


def test_tables_are_checked_as_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    estimates().drop("ceiling").write_parquet("data/estimates.parquet")
    with refused("EPS-C063", "ceiling"):
        build_page(TextResults(settings()), tmp_path / "audit.html", tmp_path / "figures")
    with refused("EPS-C001"):
        TextResults(settings()).table("data/claims.parquet", {})


USE = """<script>setTimeout(() => {
  for (const link of document.querySelectorAll("nav a")) link.click();
  document.querySelectorAll("[data-mechanism]")[1].click();
  document.querySelectorAll("#decision details th")[4].click();
}, 3000)</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="neither chromium nor google-chrome is on the PATH")
def test_the_page_works_in_a_browser(built: Path, tmp_path: Path) -> None:
    """Links unfold, figures are drawn then, a mechanism is brought out, a table is sorted by loss; nothing fails."""
    used = tmp_path / "audit.html"
    before, _, after = (built / "audit.html").read_text(encoding="utf-8").rpartition("</body>")
    used.write_text(before + USE + after, encoding="utf-8")
    assert CHROMIUM is not None
    flags = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --enable-logging=stderr"
    )
    command = [CHROMIUM, *flags.split(), f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--virtual-time-budget=20000", "--dump-dom", used.as_uri()]
    run = subprocess.run(command, capture_output=True, timeout=LAST_RESORT, check=True)
    dom, log = run.stdout.decode(), run.stderr.decode(errors="replace")
    assert [line for line in log.splitlines() if "CONSOLE" in line] == []
    assert '<img src="data:' not in dom  # every still picture gave way to the live figure
    figures = re.findall(r'<svg[^>]*class="marks".*?</svg>', dom, flags=re.DOTALL)
    assert len(figures) == 6
    panels = [svg for svg in figures if "nominal ε" in svg and "empirical loss (nats)" in svg]  # the curves
    assert len(panels) == 2
    for svg in panels:
        assert svg.count('aria-label="Title text') >= 2 or len(re.findall("concat_[01]_group", svg)) >= 2
        assert 'opacity="0.1"' in svg  # mechanisms that were not chosen fade
    decided = dom[dom.index("Decisions on letters") : dom.index("Decisions on queries")]
    losses = [float(loss) for loss in re.findall(r"<tr[^>]*>(?:<td.*?</td>){4}<td[^>]*>at least ([0-9.]+)<", decided)]
    assert len(losses) == len(estimates().select("mechanism", "epsilon").unique())
    assert losses == sorted(losses, reverse=True)
