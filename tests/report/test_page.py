"""The report: its figures, its sentences, and a page that opens offline and trusts no text."""

from __future__ import annotations

import json
import math
import re
import struct
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from epsilometer.auditing.claims import NO_CLAIM, NOT_REFUTED, trials_needed
from epsilometer.auditing.estimation import estimate
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import EPSILONS
from epsilometer.core.tables import (
    ABLATIONS,
    CLAIMS,
    DENIABILITY,
    DOWNSTREAM,
    ESTIMATES,
    ESTIMATORS,
    FIRST_TOKENS,
    OUTPUTS,
    SIMILARITY,
    TOKENS,
)
from epsilometer.report import figures, page
from epsilometer.report.page import (
    build,
    few_sentence,
    instrument_sentence,
    length_sentence,
    strongest,
    worst_sentence,
)
from epsilometer.report.worth import attribute_sentence, labels, levels, tradeoff_points, tradeoff_sentence
from tests.support.audited import (
    HOSTILE,
    LEVEL,
    TRIALS,
    Row,
    audit,
    downstream,
    estimates,
    frame,
)
from tests.support.html import CHROMIUM, Elements


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    build(folder / "audit.html", folder / "figures", audit())
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
        assert "dp_bart" in words  # the picture stands alone, so it has a legend
        assert "identity (control)" in words


def test_equal_inputs_give_equal_bytes(built: Path, tmp_path: Path) -> None:
    shuffled = audit(estimates=estimates().sample(fraction=1.0, shuffle=True, seed=3))
    build(tmp_path / "audit.html", tmp_path / "figures", shuffled)
    for first in sorted(p for p in built.rglob("*") if p.is_file()):
        assert (tmp_path / first.relative_to(built)).read_bytes() == first.read_bytes(), first.name


def test_what_is_infinite_is_said_to_be_above_the_ceiling(elements: Elements) -> None:
    ceiling = estimate(TRIALS, TRIALS).ceiling
    text = "".join(elements.text)
    assert f"above {ceiling:.2f}" in text
    assert not re.search(r"\b(inf|nan|None)\b", text)


def test_violated_claims_stand_first(elements: Elements) -> None:
    text = "".join(elements.text)
    claims = text[text.index("Do the claims hold?") : text.index("The worst case of each claim")]
    assert claims.count("✕ violated") == 1
    assert "4 of 4" in claims  # both attacks on both data sets
    assert claims.index("✕ violated") < claims.index("0 of 4")
    # 900 and 700 of 1,000 allowed are testable with 1,000 right guesses, and 995 are not: 3 x 4 + 3 x 4 of 36 tests.
    assert "24 of 36 tests could come out either way. Each of them is at level 0.01 / 24 = 4 × 10⁻⁴" in claims
    tested, not_testable = claims.split("Not testable at this number of trials")
    assert "mvc" not in tested
    assert not_testable.count("mvc") == 3
    assert f"4.63{trials_needed(0.995, LEVEL):,}" in not_testable
    assert "No claim is made by identity." in claims


def test_what_is_worth_a_look_is_said(elements: Elements) -> None:
    text = "".join(elements.text)
    look = text[text.index("What the rewrites look like") : text.index("What the audit's own settings do")]
    sentences = text[text.index("Found automatically") : text.index("What the rewrites look like")]
    assert "mvc on queries at ε = 5: 70.0% of the rewrites are one and the same" in sentences
    assert "dp_bart on queries: no attack does better than chance at the largest budget, ε = 2500" in sentences
    assert HOSTILE in look  # a hostile rewrite of a dispute, as text
    assert "differ by 0.35 nats in the median" in look
    assert "T = 100" in look
    assert "embedding, not length" in look
    varied = text[text.index("What the audit's own settings do") :]
    assert "flights 50.0\N{NO-BREAK SPACE}%, " + HOSTILE + " 25.0\N{NO-BREAK SPACE}%" in varied
    cut = varied[varied.index("How mechanisms cut a text of queries") :]
    assert cut.index("3flights to unknown") < cut.index("4flights to bos " + HOSTILE)
    assert "judge: asked 2,000, at random 3, cost 0.25" in look


def test_the_strongest_attack_is_named_with_its_corrected_loss() -> None:
    best = strongest(estimates()).filter(dataset="queries", mechanism="mvc", epsilon=5.0).row(0, named=True)
    assert best["attack"] == "embedding"
    assert best["loss"] == estimate(820, TRIALS, alpha=0.005).loss


def test_the_closest_mechanism_within_the_target_is_named(elements: Elements) -> None:
    text = "".join(elements.text)
    # identity is out (it leaks all), dp_bart leaks nothing but is farther off than mvc, whose loss is 1.39 by length.
    assert "on queries mvc at ε = 0.5 keeps most within 1.75 nats: cosine 0.40 (0.30 to 0.50)" in text
    points = tradeoff_points(strongest(estimates()), audit().similarity, downstream()).filter(measure="cosine")
    front = points.filter("best").select("mechanism", "epsilon").rows()
    assert front == [("dp_bart", 0.5), ("mvc", 0.5), ("mvc", 2500.0)]  # and no control
    assert tradeoff_sentence(points, 0.25).startswith("On queries dp_bart at ε = 0.5")
    assert "hardly" not in tradeoff_sentence(points, 0.25, ["mvc"])
    assert ", which hardly reads the texts of some data sets, keeps most" in tradeoff_sentence(
        points, 0.25, ["dp_bart"]
    )
    assert "no measured budget" in tradeoff_sentence(points.filter(mechanism="mvc"), 1.5)
    assert tradeoff_sentence(points.clear(), 1.0) == ""


def test_who_was_spared_the_optimal_adversary_is_said() -> None:
    spared = estimates().filter(dataset="queries")
    assert strongest(spared)["optimal"].all()  # nobody met it
    own = frame(("queries", HOSTILE, 0.5, "likelihood", 990, None, NOT_REFUTED)).filter(attack="likelihood")
    unequal = pl.concat([spared.filter(pl.col("epsilon") == 0.5), own])
    assert strongest(unequal).select("mechanism", "optimal").rows() == [
        (HOSTILE, True),
        ("dp_bart", False),
        ("mvc", False),
    ]
    points = tradeoff_points(strongest(unequal), audit().similarity, downstream()).filter(measure="cosine")
    said = tradeoff_sentence(points, 1.75)
    assert said.startswith("On queries mvc at ε = 0.5, which no optimal adversary attacks, keeps most within 1.75 nats")


def test_what_classifiers_learn_stands_beside_the_loss(elements: Elements) -> None:
    text = "".join(elements.text)
    # The interval is that of the mean over test texts; the seeds are points beside it.
    assert "On queries mvc at ε = 0.5 keeps most within 1.75 nats: macro F1 of intent 0.60 (0.55 to 0.64)" in text
    points = tradeoff_points(strongest(estimates()), audit().similarity, downstream())
    assert points["measure"].unique(maintain_order=True).to_list() == ["macro F1 of intent", "cosine"]
    worth = points.filter(measure="macro F1 of intent").select("mechanism", "epsilon", "best").rows()
    # Each measure has a front of its own: on that of the cosine the largest budget of mvc lies as well.
    assert worth == [(HOSTILE, 5.0, True), ("mvc", 0.5, True), ("mvc", 2500.0, False)]
    assert levels(downstream()).select("what", pl.col("value").round(6)).rows() == [
        ("majority", 0.01),
        ("clean texts", 0.8),
    ]
    seeds = points.filter(mechanism="mvc", epsilon=0.5)["seeds"].to_list()
    assert [values and [round(value, 2) for value in values] for values in seeds] == [
        [0.58, 0.59, 0.6, 0.61, 0.62],
        None,
    ]
    few = tradeoff_points(strongest(estimates()), audit().similarity, downstream().filter(pl.col("seed") < 3))
    assert not few.filter(measure="macro F1 of intent")["best"].any()
    assert "macro F1 of intent was trained for fewer than 5 seeds" in tradeoff_sentence(few, 1.5)
    none = tradeoff_points(strongest(estimates()), audit().similarity, downstream().clear())
    assert none["measure"].unique().to_list() == ["cosine"]


def test_levels_that_are_alike_share_a_name() -> None:
    points = tradeoff_points(strongest(estimates()), audit().similarity, downstream())
    for clean, named in ((0.8, ["clean texts", "majority"]), (0.03, ["clean texts, majority", ""])):
        near = levels(downstream()).with_columns(
            value=pl.when(what="clean texts").then(clean).otherwise(pl.col("value"))
        )
        drawn = figures.tradeoff(points, near, estimates()["mechanism"], 1.5)
        rows = drawn["datasets"]["levels tradeoff queries macro F1 of intent"]
        assert [row["what"] for row in rows] == named
        assert len({row["value"] for row in rows}) == 2  # both lines are drawn


def test_attackers_stand_between_their_ends(elements: Elements) -> None:
    (attribute,) = labels(downstream())["attribute"]
    assert attribute["clean"] == {"macro": "0.70 ± 0.02", "binary": "0.80 ± 0.00"}
    assert attribute["majority"] == {"macro": "0.33", "binary": None}
    row = next(row for row in attribute["rows"] if row["mechanism"] == "mvc")
    assert (row["static"]["macro"], row["adaptive"]["macro"], row["empty"]) == ("0.50 ± 0.02", "0.60 ± 0.02", 7)
    assert "beats the static one in 1 of 3 cases" in attribute_sentence(downstream())
    assert attribute_sentence(downstream().filter(role="task")) == ""
    text = "".join(elements.text)
    table = text[text.index("Private attributes inferred") : text.index("What each mechanism leaks at each budget")]
    assert (
        table.index("clean texts") < table.index(HOSTILE) < table.index("0.60 ± 0.02") < table.rindex("commonest class")
    )


def test_worst_cases_name_their_witness(elements: Elements) -> None:
    text = "".join(elements.text)
    worst = text[text.index("The worst case of each claim") : text.index("The strongest attack")]
    assert f"Beyond its claim: {HOSTILE} at ε = 5." in worst
    assert f"cat for {HOSTILE} rather than dog" in worst
    assert "∞" in worst
    assert "Monte Carlo, 4,000 draws for each of 24 words; refutes claims up to 4.58; no draw could refute it" in worst
    assert "bird for cat rather than dog" not in worst  # a witness of a claim that was not tested shows nothing
    assert "17.00 bound" in worst
    assert "−∞" in worst  # the slack where an output is possible under one input only
    assert "largest found, 200 inputs; over all words at least 1.00 within the claim" in worst
    assert "exact, 1,000 inputs" in worst
    assert worst.index("✕ violated") < worst.index("Monte Carlo, 4,000")  # in the table, after the words above it
    sound = audit().claims.filter(verdict=NOT_REFUTED)
    assert worst_sentence(sound).startswith("In none of the 1 laws")
    assert "could be computed" in worst_sentence(sound.clear())


def test_mechanisms_that_claim_something_at_some_budgets_only() -> None:
    table = frame(
        ("queries", "gumbel", 1.0, "embedding", 500, None, NO_CLAIM),
        ("queries", "gumbel", 50.0, "embedding", 500, 900.0, NOT_REFUTED),
        ("queries", "identity", 1.0, "embedding", 1000, None, NO_CLAIM),
    )
    assert page._unclaimed(table) == "identity and gumbel at ε = 1"


def test_examples_are_grouped_by_level_of_loss(elements: Elements) -> None:
    text = "".join(elements.text)
    first, second = text.index("queries · loss of about 1 nat"), text.index("queries · loss of about 3 nats")
    assert first < text.index("planes & trains") < second < text.index("flights from boston")


def test_a_bare_audit_has_a_page(tmp_path: Path) -> None:
    """One mechanism without a claim at one budget; no check of the instrument, no examples, no notes."""
    html = _page(tmp_path, frame(("queries", "identity", 1.0, "embedding", 1000, None, NO_CLAIM)))
    text = "".join(Elements(html).text)
    assert "No mechanism but controls was audited." in text
    assert "The instrument was not checked" in text
    assert "Rewrites at comparable loss" not in text
    assert [p.name for p in sorted((tmp_path / "figures").iterdir())] == ["curves-queries.png", "curves-queries.svg"]


def test_a_mechanism_without_a_budget_has_a_dash_in_tables_and_a_line_in_figures(tmp_path: Path) -> None:
    none = pl.when(pl.col("mechanism") != "identity").then("epsilon")
    text = "".join(Elements(_page(tmp_path, estimates().with_columns(epsilon=none))).text)
    assert "identity at ε" not in text
    figure = figures.curves(estimates().with_columns(epsilon=none), "queries")
    lines = [rows for name, rows in figure["datasets"].items() if name.startswith("without budget")]
    assert [[row["mechanism"] for row in rows] for rows in lines] == [["identity"]] * len(lines)
    assert all(row["epsilon"] for name, rows in figure["datasets"].items() if name[:6] == "points" for row in rows)
    everyone = pl.lit(None, pl.Float64)  # no budget at all, a mechanism of one's own among them
    text = "".join(
        Elements(
            _page(
                tmp_path,
                frame(("queries", "mvc", 1.0, "embedding", 1000, None, NO_CLAIM)).with_columns(epsilon=everyone),
            )
        ).text
    )
    assert "against mvc." in text
    assert "mvc went beyond" in text


def test_examples_of_private_data_are_refused(tmp_path: Path) -> None:
    examples = audit().examples.with_columns(dataset=pl.lit("letters"))
    with pytest.raises(UserError, match=r"'letters' must not be shown.*public: true"):
        build(tmp_path / "audit.html", tmp_path / "figures", audit(examples=examples))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimates": pl.DataFrame(schema=ESTIMATES)}, "no estimates to report"),
        ({"estimates": estimates().drop("ceiling")}, "estimates has no column 'ceiling'"),
        ({"datasets": pl.DataFrame({"dataset": ["queries"]})}, "datasets has no column 'source'"),
    ],
)
def test_tables_are_checked(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(tmp_path / "audit.html", tmp_path / "figures", audit(**changes))


# ---------------------------------------------------------------------------------------------------- sentences


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ((0.45, 0.9), "Passed: at all 2 known losses"),
        ((0.55, 0.9), "Look here first. The instrument reported more than the truth at 0.5 nats."),
        ((0.45, 0.8), "Look here first. The instrument missed more than 15 % of it at 1 nats."),
    ],
)
def test_instrument_sentence(losses: tuple[float, float], expected: str) -> None:
    table = pl.DataFrame(
        [(e, 1000, loss, e, 2 * e, 7.0) for e, loss in zip((0.5, 1.0), losses, strict=True)],
        schema=page.INSTRUMENT,
        orient="row",
    )
    assert instrument_sentence(table).startswith(expected)


def test_what_cannot_be_compared_is_hollow_and_named(tmp_path: Path) -> None:
    """Attacks on latents, and beyond the number of candidates that an attack was validated for."""
    rows: list[Row] = [
        ("queries", "dp_bart", 5.0, "embedding", 520, None, NO_CLAIM),
        ("queries", "dp_bart", 5.0, "internal", 1000, None, NO_CLAIM),
    ]
    drawn = figures.curves(frame(*rows), "queries")["datasets"]
    solid = {name: points[0]["solid"] for name, points in drawn.items() if name.startswith("points")}
    assert solid == {"points 0": True, "points 1": False, "points 2": True, "points 3": False}  # the strongest twice
    one_group = figures.curves(frame(rows[0]), "queries")["datasets"]
    assert len([name for name in one_group if name.startswith("points")]) == 2  # no panel that repeats another
    beyond = frame(rows[0], validated=False)
    assert not figures.curves(beyond, "queries")["datasets"]["points 0"][0]["solid"]
    assert "embedding beyond its validated k" in "".join(Elements(_page(tmp_path, beyond)).text)
    assert "beyond its validated k" not in "".join(Elements(_page(tmp_path, frame(rows[0]))).text)
    assert "latents, not released" in "".join(Elements(_page(tmp_path, frame(*rows))).text)


def _page(folder: Path, estimates: pl.DataFrame) -> str:
    """A page with estimates and nothing else."""
    bare = audit(
        estimates=estimates,
        claims=pl.DataFrame(schema=dict(CLAIMS)),
        words=pl.DataFrame(schema=dict(DENIABILITY)),
        similarity=pl.DataFrame(schema=dict(SIMILARITY)),
        downstream=pl.DataFrame(schema=dict(DOWNSTREAM)),
        outputs=pl.DataFrame(schema=dict(OUTPUTS)),
        estimators=pl.DataFrame(schema=dict(ESTIMATORS)),
        ablations=pl.DataFrame(schema=dict(ABLATIONS)),
        first_tokens=pl.DataFrame(schema=dict(FIRST_TOKENS)),
        tokens=pl.DataFrame(schema=dict(TOKENS)),
        tallies=pl.DataFrame(schema=page.TALLIES),
        disputes=pl.DataFrame(schema=page.DISPUTES),
        instrument=pl.DataFrame(schema=page.INSTRUMENT),
        examples=pl.DataFrame(schema=page.EXAMPLES),
        notes=[],
    )
    build(folder / "audit.html", folder / "figures", bare)
    return (folder / "audit.html").read_text(encoding="utf-8")


def test_few_distractors_are_said() -> None:
    assert few_sentence(audit().datasets) == (
        "Few texts serve as distractors on queries (115 of 4,000; five of them 54.0\N{NO-BREAK SPACE}% of the times): "
        "losses there are averages over pairs with these few."
    )
    assert few_sentence(audit().datasets.filter(dataset="letters")) == ""


def test_length_sentence() -> None:
    leaking = frame(
        ("queries", "mvc", 1.0, "length", 800, None, NO_CLAIM),
        ("queries", "mvc", 5.0, "length", 850, None, NO_CLAIM),
        ("queries", "dp_bart", 1.0, "length", 500, None, NO_CLAIM),
        ("queries", "dp_bart", 5.0, "length", 900, None, NO_CLAIM),
    )
    loss = estimate(800, TRIALS).loss
    assert length_sentence(leaking) == f"At every budget, length alone gives away at least: mvc ({loss:.2f})."
    assert "no mechanism whose texts length alone" in length_sentence(leaking.filter(mechanism="dp_bart"))
    assert "ran no attack" in length_sentence(leaking.with_columns(attack=pl.lit("embedding")))


# ------------------------------------------------------------------------------------------- numbers and styles


def test_metrics_are_rounded_sorted_and_finite(tmp_path: Path) -> None:
    table = estimates().with_columns(loss=pl.when(mechanism="identity").then(math.inf).otherwise("loss"))
    figures.metrics(table.sample(fraction=1.0, shuffle=True, seed=1), tmp_path / "reports" / "metrics.json")
    text = (tmp_path / "reports" / "metrics.json").read_text(encoding="utf-8")
    tree = json.loads(text, parse_constant=pytest.fail)  # no Infinity, no NaN
    assert list(tree) == ["letters", "queries"]
    assert list(tree["queries"]["mvc"]) == ["0.5", "5", "2500"]
    assert tree["queries"]["mvc"]["5"] == {
        "embedding": round(estimate(820, TRIALS).loss, 3),
        "length": round(estimate(800, TRIALS).loss, 3),
        "strongest": round(estimate(820, TRIALS, alpha=0.005).loss, 3),
        "strongest_inside": round(estimate(820, TRIALS, alpha=0.005).loss, 3),
    }
    assert tree["queries"]["identity"]["1"]["embedding"] == round(estimate(TRIALS, TRIALS).ceiling, 3)
    assert tree["queries"]["dp_bart"]["5"]["length"] == 0
    figures.metrics(table, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text(encoding="utf-8") == text


def test_plot_table_is_cut_at_the_ceiling(tmp_path: Path) -> None:
    figures.plot_table(estimates(), tmp_path / "plots.csv")
    table = pl.read_csv(tmp_path / "plots.csv")
    assert len(table) == len(estimates())
    assert table.columns == ["dataset", "attack", "mechanism", "epsilon", "loss", "point", "upper", "ceiling"]
    assert table.select((pl.col("upper", "point", "loss") <= pl.col("ceiling")).all()).row(0) == (True, True, True)


def test_every_mechanism_has_a_style_of_its_own() -> None:
    names = [f"m{i:02}" for i in range(40)]
    styles = figures.styles(names)
    assert len({(s.colour, s.shape) for s in styles.values()}) == 40
    assert len({s.colour for s in list(styles.values())[:10]}) == 10
    assert figures.styles(reversed(names)) == styles


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5"), (2500.0, "2,500"), (1e6, "1,000,000"), (10.0, "10"), (1e-5, "1e-05")]
)
def test_budgets_are_written_plainly(value: float, text: str) -> None:
    assert figures.budget(value) == text


# ------------------------------------------------------------------------------------------------------ browser

USE = """<script>setTimeout(() => {
  document.querySelectorAll("[data-mechanism]")[1].click();
  const heads = document.querySelectorAll("#table th[data-sort]");
  heads[5].click();
  const select = document.querySelector(".filters select");
  select.value = "queries";
  select.dispatchEvent(new Event("change"));
}, 3000)</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="neither chromium nor google-chrome is on the PATH")
def test_the_page_works_in_a_browser(built: Path, tmp_path: Path) -> None:
    """Figures are drawn, a mechanism is brought out, the table is sorted by loss and filtered; and nothing fails."""
    used = tmp_path / "audit.html"
    before, _, after = (built / "audit.html").read_text(encoding="utf-8").rpartition("</body>")
    used.write_text(before + USE + after, encoding="utf-8")
    assert CHROMIUM is not None
    flags = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --enable-logging=stderr"
    )
    command = [CHROMIUM, *flags.split(), f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--virtual-time-budget=20000", "--dump-dom", used.as_uri()]
    run = subprocess.run(command, capture_output=True, timeout=120, check=True)
    dom, log = run.stdout.decode(), run.stderr.decode(errors="replace")
    assert [line for line in log.splitlines() if "CONSOLE" in line] == []
    assert '<img src="data:' not in dom  # every still picture gave way to the live figure
    drawn = re.findall(r'<svg[^>]*class="marks".*?</svg>', dom, flags=re.DOTALL)
    assert len(drawn) == 6
    panels = [svg for svg in drawn if "nominal ε" in svg and "empirical loss (nats)" in svg]  # the curves
    assert len(panels) == 2
    for svg in panels:
        assert svg.count('aria-label="Title text') >= 2 or len(re.findall("concat_[01]_group", svg)) >= 2
        assert 'opacity="0.1"' in svg  # mechanisms that were not chosen fade
    body = dom[dom.index('<table id="table"') :]
    rows = re.findall(r'<tr(?: class="")?( hidden="")?><td>([^<]*)</td>.*?<strong>([0-9.]+)</strong>', body)
    assert len(rows) == len(estimates())
    losses = [float(loss) for _, _, loss in rows]
    assert losses == sorted(losses, reverse=True)
    assert all((hidden == "") == (dataset == "queries") for hidden, dataset, _ in rows)


def test_the_ends_of_what_is_allowed_are_drawn() -> None:
    """What `check_epsilons` lets through, a figure's axis holds, both ends in one audit."""
    table = estimates().filter(mechanism="dp_bart", dataset="queries")
    ends = table.with_columns(pl.col("epsilon").replace({0.5: EPSILONS[0], 2500.0: EPSILONS[1]}))
    assert ends["epsilon"].min() == EPSILONS[0]
    assert figures.svg(figures.curves(ends, "queries")).startswith("<svg")


def test_a_slack_of_nothing_has_no_sign() -> None:
    assert figures.nats(-1e-12) == "0.00"
    assert figures.nats(-0.25) == "-0.25"
