"""The report page: one HTML file that opens offline, with everything in it. Losses are in nats."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup, escape

from epsilometer.auditing.claims import (
    NO_CLAIM,
    NOT_REFUTED,
    NOT_TESTABLE,
    VIOLATED,
    divisor,
    overall,
    smallest_p_value,
)
from epsilometer.auditing.diagnostics import CHOSEN, STRONGEST, STRONGEST_INSIDE, anomalies
from epsilometer.core.errors import UserError
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
    SWEEPS,
    TOKENS,
    Schema,
    check,
)
from epsilometer.report import figures as draw
from epsilometer.report import similarity as closeness
from epsilometer.report import sweeps as swept
from epsilometer.report import worth
from epsilometer.report.figures import budget, nats, share
from epsilometer.report.summary import REACH, hardly_read, hardly_read_cells, summary
from epsilometer.report.wording import at_budget, at_budgets, listed, odds

LENGTH = "length"  # the attack that looks at the length of a rewrite and at nothing else

INSTRUMENT: Schema = {
    "epsilon": pl.Float64,
    "trials": pl.Int64,
    "loss": pl.Float64,
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
}
EXAMPLES: Schema = {
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "loss": pl.Float64,
    "original": pl.String,
    "rewrite": pl.String,
}
DATASETS: Schema = {
    "dataset": pl.String,
    "source": pl.String,
    "public": pl.Boolean,
    "texts": pl.Int64,
    "duplicates_merged": pl.Int64,
    "empty_dropped": pl.Int64,
    "unmatched_dropped": pl.Int64,
    "cut": pl.Int64,
    "mean_words": pl.Float64,
    "match": pl.String,
    "distinct": pl.Int64,  # texts that serve as distractors
    "five_commonest": pl.Float64,  # the share of all distractors that the five commonest of them are
}

DISPUTES: Schema = {
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "right": pl.String,
    "wrong": pl.String,
    "trials": pl.Int64,
    "source": pl.String,
    "rewrite": pl.String,
    "other": pl.String,  # another candidate
}
TALLIES: Schema = {"attack": pl.String, "what": pl.String, "count": pl.Float64}

OPTIMAL = "likelihood"  # the attack that no other can beat; it needs the mechanism's law
_FEW = 0.25  # the share of the five commonest distractors from which on an average is said to be one over few texts
CELL = ["dataset", "mechanism", "epsilon"]


@dataclass(frozen=True)
class Settings:
    """What all estimates of an audit have in common; alpha is the error of each interval."""

    trials: int
    candidates: int
    temperature: float
    alpha: float
    seed: int
    round: int


@dataclass(frozen=True)
class AuditData:
    """All that the page shows.

    estimates:  schema `tables.ESTIMATES`; `point` and `upper` may be infinite.
    claims:     schema `tables.CLAIMS`, each claim's worst case; may have no rows.
    words:      schema `tables.DENIABILITY`, plausible deniability of words; may have no rows.
    similarity: schema `tables.SIMILARITY`, how close rewrites are to their originals; may have no rows.
    downstream: schema `tables.DOWNSTREAM`, what classifiers make of rewritten texts; may have no rows.
    outputs:    schema `tables.OUTPUTS`, what the rewrites look like; may have no rows.
    estimators: schema `tables.ESTIMATORS`, fewer trials and another estimator; may have no rows.
    ablations:  schema `tables.ABLATIONS`, losses when one factor is varied; may have no rows.
    first_tokens: schema `tables.FIRST_TOKENS`, of public data sets only; may have no rows.
    tokens:     schema `tables.TOKENS`, of public data sets only; may have no rows.
    tallies:    schema `TALLIES`, what attacks counted while guessing, over all cells; may have no rows.
    disputes:   schema `DISPUTES`, trials that attacks judge unlike, of public data sets only; may have no rows.
    target:     the loss at which the page names the closest mechanism.
    instrument: schema `INSTRUMENT`, two-text randomised response, whose loss is epsilon; may have no rows.
    examples:   schema `EXAMPLES`, of public data sets only; may have no rows.
    datasets:   schema `DATASETS`; `match` says in what the candidates of a trial agree, null for nothing.
    title:      of the page.
    settings:   what the estimates were made with.
    version:    of epsilometer; date, profile and commit are put in by `origin`.
    notes:      what was left out.
    sweeps:     schema `tables.SWEEPS`, one setting of a mechanism varied; may have no rows.
    kept:       what rewrites keep by every metric, and which identifiers survive.
    """

    estimates: pl.DataFrame
    claims: pl.DataFrame
    words: pl.DataFrame
    similarity: pl.DataFrame
    downstream: pl.DataFrame
    outputs: pl.DataFrame
    estimators: pl.DataFrame
    ablations: pl.DataFrame
    first_tokens: pl.DataFrame
    tokens: pl.DataFrame
    tallies: pl.DataFrame
    disputes: pl.DataFrame
    target: float
    instrument: pl.DataFrame
    examples: pl.DataFrame
    datasets: pl.DataFrame
    title: str
    settings: Settings
    version: str
    notes: Sequence[str]
    sweeps: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=dict(SWEEPS)))
    kept: closeness.Kept | None = None


def build(page: Path, figures: Path, audit: AuditData) -> None:
    """Write the page, and each of its figures as SVG and PNG into the folder `figures`.

    Raises UserError for a table that lacks a column, for an audit without estimates, and for examples of a data set
    that is not marked public.
    """
    _check(audit)
    estimates = audit.estimates.sort("dataset", "attack", "mechanism", "epsilon")
    names = estimates["dataset"].unique().sort().to_list()
    stems = {name: f"curves-{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}" for name in names}
    curves = {}
    for name in names:
        draw.save(draw.curves(estimates, name), figures, stems[name])
        drawn = draw.curves(estimates, name, legend=False)  # the page has one legend for all of them
        curves[name] = _Figure.of(stems[name], drawn, f"Calibration curves of data set {name}")
    check_figure = None
    if len(audit.instrument):
        drawn = draw.instrument(audit.instrument.sort("epsilon"))
        draw.save(drawn, figures, "instrument")
        check_figure = _Figure.of("instrument", drawn, "Measured loss against the true loss")
    varied = None
    if len(audit.ablations):
        drawn = draw.ablations(audit.ablations, estimates["mechanism"])
        draw.save(drawn, figures, "ablations")
        varied = _Figure.of("ablations", drawn, "Loss when one factor of the audit is varied")
    settings = None
    if len(audit.sweeps):
        drawn = swept.figure(audit.sweeps, estimates["mechanism"])
        draw.save(drawn, figures, "sweeps")
        settings = _Figure.of("sweeps", drawn, "Utility and loss when one setting of a mechanism is varied")
    alpha, exchange, best = audit.settings.alpha, None, strongest(estimates)
    controls = estimates.filter("control")["mechanism"].unique().sort().to_list()
    points = worth.tradeoff_points(best, audit.similarity, audit.downstream)
    if len(points):
        drawn = draw.tradeoff(points, worth.levels(audit.downstream), estimates["mechanism"], audit.target)
        draw.save(drawn, figures, "tradeoff")
        exchange = _Figure.of("tradeoff", drawn, "Utility against empirical loss")
    hidden = None
    if len(audit.words):
        drawn = draw.deniability(audit.words, estimates["mechanism"])
        draw.save(drawn, figures, "deniability")
        hidden = _Figure.of("deniability", drawn, "Plausible deniability of words")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"nats": nats, "budget": budget, "p": _probability, "share": share, "shade": _shade}
    environment.filters |= {"beyond": _unbounded, "code": _code}
    environment.globals["tested"] = lambda row: row["verdict"] in (VIOLATED, NOT_REFUTED)
    environment.filters["metric"] = closeness.written
    html = environment.get_template("page.html.j2").render(
        audit=audit,
        controls=controls,
        summary=summary(
            estimates,
            best,
            strongest(estimates, STRONGEST_INSIDE),
            overall(estimates, audit.claims),
            audit.target,
            instrument_fault(audit.instrument),
            audit.outputs,
        ),
        reach=REACH,
        chance=odds(1 / audit.settings.candidates),
        facts=_facts(estimates),
        instrument=check_figure,
        instrument_sentence=instrument_sentence(audit.instrument),
        styles=draw.styles(estimates["mechanism"]),
        tradeoff=exchange,
        tradeoff_sentence=worth.tradeoff_sentence(points, audit.target, hardly_read(audit.outputs)),
        labels=worth.labels(audit.downstream),
        attribute_sentence=worth.attribute_sentence(audit.downstream),
        curves=curves,
        rows=_rows(estimates),
        claims=_claims(estimates, alpha),
        untestable=_untestable(estimates),
        unclaimed=_unclaimed(estimates),
        worst=audit.claims.filter(pl.col("verdict") != NO_CLAIM)
        .sort(pl.col("verdict") != VIOLATED, "mechanism", "epsilon")
        .to_dicts(),
        worst_sentence=worst_sentence(audit.claims),
        deniability=hidden,
        heat=_heat(estimates, audit.datasets),
        unread=hardly_read_cells(audit.outputs.filter(~pl.col("mechanism").is_in(controls))),
        length_sentence=length_sentence(estimates),
        anomalies=anomalies(estimates, audit.outputs),
        outputs=audit.outputs.sort("dataset", "mechanism", "epsilon").to_dicts(),
        estimators=_estimators(estimates, audit.estimators),
        estimators_sentence=estimators_sentence(audit.estimators),
        ablations=varied,
        kept=_kept(audit, estimates, figures),
        confidence_two=_confidence(alpha, 2),
        sweeps=settings and {"figure": settings, "sentences": swept.sentences(audit.sweeps)},
        first_tokens=_first_tokens(audit.first_tokens),
        tokens=_tokens(audit.tokens),
        tallies_sentences=tallies_sentences(audit.tallies),
        disputes=audit.disputes.sort("dataset", "right", "wrong").to_dicts(),
        examples=_examples(audit.examples),
        confidence=_confidence(alpha),
        datasets=audit.datasets.to_dicts(),
        few_sentence=few_sentence(audit.datasets),
        script=draw.script(),
        width=draw.WIDTH,
    )
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(html, encoding="utf-8", newline="\n")


def _check(audit: AuditData) -> None:
    check(audit.estimates, ESTIMATES, "estimates")
    check(audit.claims, CLAIMS, "claims")
    check(audit.words, DENIABILITY, "deniability")
    check(audit.similarity, SIMILARITY, "similarity")
    check(audit.downstream, DOWNSTREAM, "downstream")
    check(audit.instrument, INSTRUMENT, "instrument")
    check(audit.outputs, OUTPUTS, "outputs")
    check(audit.estimators, ESTIMATORS, "estimators")
    check(audit.ablations, ABLATIONS, "ablations")
    check(audit.first_tokens, FIRST_TOKENS, "first_tokens")
    check(audit.tokens, TOKENS, "tokens")
    check(audit.tallies, TALLIES, "tallies")
    check(audit.disputes, DISPUTES, "disputes")
    check(audit.examples, EXAMPLES, "examples")
    check(audit.datasets, DATASETS, "datasets")
    if not len(audit.estimates):
        raise UserError("there are no estimates to report; name at least one mechanism and one attack in params.yaml")
    if audit.kept is not None:
        audit.kept.check()
    public = set(audit.datasets.filter("public")["dataset"])
    texts = [audit.examples, audit.disputes, audit.first_tokens, audit.tokens]
    texts += [audit.kept.quartiles] if audit.kept is not None else []
    for name in pl.concat([table["dataset"] for table in texts]).unique().sort():
        if name not in public:
            raise UserError(
                f"examples of data set {name!r} must not be shown: it is not public; set public: true or leave them out"
            )


def _kept(audit: AuditData, estimates: pl.DataFrame, figures: Path) -> dict[str, Any] | None:
    """What the section on similarity shows."""
    if audit.kept is None or not len(audit.kept.each):
        return None
    drawn = {}
    for name in audit.kept.each["dataset"].unique().sort():
        specification = closeness.distributions(audit.kept.each, name, estimates["mechanism"])
        stem, words = closeness.stem(name), f"What the rewrites of data set {name} keep"
        draw.save(specification, figures, stem)
        saved = (figures / f"{stem}.svg").read_text(encoding="utf-8")  # drawing takes a second
        drawn[name] = _Figure.of(stem, specification, words, saved)
    return {
        "figures": drawn,
        "means": closeness.means(audit.kept),
        "leaks": list(closeness.leaks(audit.kept.leakage)),
        "examples": closeness.examples(audit.kept),
    }


@dataclass(frozen=True)
class _Figure:
    """A figure of the page: what scripts draw, and the still picture until then or without them."""

    name: str
    json: str
    picture: str
    words: str

    @classmethod
    def of(cls, name: str, specification: draw.Specification, words: str, drawn: str | None = None) -> _Figure:
        text = json.dumps(specification, ensure_ascii=False, allow_nan=False)
        picture = base64.b64encode((drawn or draw.svg(specification)).encode()).decode()
        # "</script>" in a text must not end the script element that holds the JSON.
        return cls(name, text.replace("<", "\\u003c"), f"data:image/svg+xml;base64,{picture}", words)


# ---------------------------------------------------------------------------------------------------- sentences


def worst_sentence(claims: pl.DataFrame) -> str:
    """Whether the worst case stays within the claims."""
    broken = claims.filter(verdict=VIOLATED).sort("mechanism", "epsilon")
    if len(broken):
        named = listed([at_budget(row["mechanism"], row["epsilon"]) for row in broken.to_dicts()])
        return f"Beyond its claim: {named}."
    laws = claims.filter(pl.col("method").is_in(["exact", "largest found"]), pl.col("slack").is_not_null())
    if len(laws):
        return f"In none of the {len(laws)} laws that could be computed does the worst case exceed the claim."
    return "No law of these mechanisms could be computed."


def strongest(estimates: pl.DataFrame, over: str = STRONGEST) -> pl.DataFrame:
    """A row a data set, mechanism and epsilon: the numbers of the row `over`, and the attack that they are of.

    over: STRONGEST, of what is released, or STRONGEST_INSIDE, of everything. optimal: False where the optimal adversary
    is not among the attacks on what is released, but among those on other mechanisms.
    """
    optimal = pl.col("released") & (pl.col("attack") == OPTIMAL)
    met = (
        estimates.filter(~pl.col("attack").is_in(CHOSEN))
        .with_columns(optimal=optimal.any().over(CELL) | ~optimal.any())
        .select(*CELL, "optimal")
        .unique()
    )
    rows = estimates.filter(attack=over).drop("attack").rename({"best_attack": "attack"})
    return rows.join(met, on=CELL, nulls_equal=True).sort(CELL)


def instrument_sentence(table: pl.DataFrame) -> str:
    """Whether the audit found what it should where the true loss is known."""
    if not len(table):
        return "The instrument was not checked against a known loss in this run."
    fault = instrument_fault(table)
    if fault:
        return f"Look here first. {fault}"
    where = "the one known loss" if len(table) == 1 else f"all {len(table)} known losses"
    return (
        f"Passed: at {where} the reported figure is at most the truth and at least 0.85 of it, "
        "so where it can be checked the instrument overstates nothing and misses little."
    )


def instrument_fault(table: pl.DataFrame) -> str:
    """Where the audit did not find a known loss; empty where it did."""
    above = table.filter(pl.col("loss") > pl.col("epsilon"))["epsilon"].sort().to_list()
    below = table.filter(pl.col("loss") < 0.85 * pl.col("epsilon"))["epsilon"].sort().to_list()
    parts = []
    if above:
        parts.append(f"reported more than the truth at {listed([f'{e:g}' for e in above])} nats")
    if below:
        parts.append(f"missed more than 15 % of it at {listed([f'{e:g}' for e in below])} nats")
    return f"The instrument {' and '.join(parts)}." if parts else ""


def few_sentence(datasets: pl.DataFrame) -> str:
    """On which data sets an average over drawn pairs is one over pairs with few texts."""
    few = datasets.filter(pl.col("five_commonest") >= _FEW).sort("dataset")
    named = [
        f"{row['dataset']} ({row['distinct']:,} of {row['texts']:,}; five of them "
        f"{share(row['five_commonest'])} of the times)"
        for row in few.to_dicts()
    ]
    if not named:
        return ""
    return f"Few texts serve as distractors on {listed(named)}: losses there are averages over pairs with these few."


def length_sentence(estimates: pl.DataFrame) -> str:
    """For which mechanisms length alone tells the candidates apart at every budget."""
    lengths = estimates.filter(~pl.col("control"), attack=LENGTH)
    if not len(lengths):
        return "This audit ran no attack that looks at length alone."
    best = lengths.group_by("mechanism", "epsilon").agg(pl.max("loss"))
    every = best.group_by("mechanism").agg(pl.min("loss")).filter(pl.col("loss") > 0).sort("mechanism")
    if not len(every):
        return "There is no mechanism whose texts length alone tells apart at every budget."
    named = listed([f"{row['mechanism']} ({nats(row['loss'])})" for row in every.to_dicts()])
    return f"At every budget, length alone gives away at least: {named}."


def _confidence(alpha: float, sides: int = 1) -> str:
    """Of one end of an interval, or of both."""
    return f"{100 * (1 - sides * alpha / 2):g} %"


def _code(text: str) -> Markup:
    """The text as HTML, what stands in backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _unbounded(loss: float | None) -> str:
    """A loss with two decimals; `∞` where an output is possible under one input only, `–` where there is none."""
    return "–" if loss is None else f"{loss:,.2f}" if abs(loss) < 1e300 else "−∞" if loss < 0 else "∞"


def _probability(p: float) -> str:
    """A p-value: `0.013`, `3 × 10⁻¹²`."""
    if p >= 0.001:
        return f"{p:.3f}".rstrip("0").rstrip(".")
    if p == 0:
        return "< 10⁻³⁰⁰"
    digit, power = f"{p:.0e}".split("e-")
    return f"{digit} × 10⁻{str(int(power)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


# ------------------------------------------------------------------------------------------------------- tables


def _facts(estimates: pl.DataFrame) -> list[tuple[str, str]]:
    """Number and what it counts."""
    trials, ceilings = estimates["trials"].unique().sort(), estimates["ceiling"].unique().sort()

    def span(values: Iterable[str]) -> str:
        return " to ".join(dict.fromkeys(values))

    return [
        (f"{estimates.filter(~pl.col('control'))['mechanism'].n_unique()}", "mechanisms"),
        (f"{estimates.filter('control')['mechanism'].n_unique()}", "controls"),
        (f"{estimates['dataset'].n_unique()}", "data sets"),
        (f"{estimates.filter(~pl.col('attack').is_in(CHOSEN))['attack'].n_unique()}", "attacks"),
        (span(f"{t:,}" for t in (trials[0], trials[-1])), "trials each"),
        (span(nats(c) for c in (ceilings[0], ceilings[-1])), "nats, the most it can show"),
    ]


def estimators_sentence(estimators: pl.DataFrame) -> str:
    """How far apart the two estimators are, over all cells and attacks at the full number of trials."""
    cell = ["dataset", "mechanism", "epsilon", "attack"]
    full = estimators.filter(pl.col("trials") == pl.col("trials").max().over(cell))
    if not len(full):
        return ""
    apart = (full["loss"] - full["by_rates"]).abs().sort()
    return (
        f"Over {len(full)} estimates the reduced estimator and the one by true and false positive rates differ by "
        f"{nats(apart[len(apart) // 2])} nats in the median and by {nats(apart[-1])} at most."
    )


def tallies_sentences(tallies: pl.DataFrame) -> list[str]:
    """What each attack counted while guessing: `judge: asked 2,000, at random 3, ...`."""
    return [
        f"{attack}: " + ", ".join(f"{what.replace('_', ' ')} {count:,.10g}" for what, count in counts.iter_rows())
        for (attack,), table in tallies.group_by("attack", maintain_order=True)
        for counts in [table.select("what", "count")]
    ]


def _first_tokens(table: pl.DataFrame) -> list[dict[str, Any]]:
    """For each cell its text, and a row an epsilon of `token 57.4 %`."""
    return [
        {
            "dataset": dataset,
            "mechanism": mechanism,
            "text": text,
            "rows": [
                (epsilon, [f"{row['token']} {share(row['probability'])}" for row in tokens.sort("rank").to_dicts()])
                for (epsilon,), tokens in rows.sort("epsilon").group_by("epsilon", maintain_order=True)
            ],
        }
        for (dataset, mechanism, text), rows in table.sort("dataset", "mechanism").group_by(
            "dataset", "mechanism", "text", maintain_order=True
        )
    ]


def _tokens(table: pl.DataFrame) -> list[dict[str, Any]]:
    """For each text the mechanisms and what they cut it into, the fewest parts first."""
    return [
        {
            "dataset": dataset,
            "text": text,
            "rows": rows.sort(pl.col("tokens").list.len(), "mechanism").select("mechanism", "tokens").rows(),
        }
        for (dataset, text), rows in table.sort("dataset").group_by("dataset", "text", maintain_order=True)
    ]


def _estimators(estimates: pl.DataFrame, estimators: pl.DataFrame) -> dict[str, Any]:
    """For each cell at its largest budget, under its strongest attack: the loss by the number of trials."""
    if not len(estimators):
        return {}
    cell = ["dataset", "mechanism", "epsilon", "attack"]
    ends = strongest(estimates).filter(
        pl.col("epsilon").eq_missing(pl.col("epsilon").max().over("dataset", "mechanism"))
    )
    found = estimators.join(ends.select(cell), on=cell, nulls_equal=True).sort(*cell, "trials")
    rows = []
    for values, table in found.group_by(cell, maintain_order=True):
        losses = dict(table.select("trials", "loss").iter_rows())
        rows.append(dict(zip(cell, values, strict=True)) | {"losses": losses, "by_rates": table["by_rates"][-1]})
    return {"trials": found["trials"].unique().sort().to_list(), "rows": rows}


def _rows(estimates: pl.DataFrame) -> list[dict[str, Any]]:
    """The table behind the curves; `first` marks where a new data set or attack begins."""
    rows = estimates.to_dicts()
    before: tuple[str, str] | None = None
    for row in rows:
        group = (row["dataset"], row["attack"])
        row["first"], before = group != before, group
    return rows


def _judged(estimates: pl.DataFrame) -> pl.DataFrame:
    """The tests of claims, those of the strongest apart, which repeat others: with allowed, the share allowed."""
    judged = estimates.filter(pl.col("verdict") != NO_CLAIM, ~pl.col("attack").is_in(CHOSEN))
    return judged.with_columns(allowed=pl.col("expected") / pl.col("trials"))


def _claims(estimates: pl.DataFrame, alpha: float) -> dict[str, Any]:
    """Each testable claim with its hardest test (the one that came nearest to refuting it); violated claims first."""
    judged = _judged(estimates)
    tested = judged.filter(pl.col("verdict") != NOT_TESTABLE).with_columns(
        excess=(pl.col("successes") - pl.col("expected")) / pl.col("trials"),
    )
    claim = ["mechanism", "epsilon", "claim"]
    rows = (
        tested.with_columns(
            tests=pl.len().over(claim),
            violations=(pl.col("verdict") == VIOLATED).sum().over(claim),
        )
        .sort("p_value", "excess", "dataset", "attack", descending=[False, True, False, False])
        .unique(claim, keep="first", maintain_order=True)
        .sort(pl.col("violations") == 0, "mechanism", "epsilon")
    )
    least = [smallest_p_value(*row) for row in judged.select("trials", "expected").iter_rows()]
    shared = divisor(least, alpha)
    return {
        "rows": rows.to_dicts(),
        "tests": len(judged),
        "tested": len(tested),
        "alpha": alpha,
        "divisor": shared,
        "level": alpha / shared,
    }


def _untestable(estimates: pl.DataFrame) -> list[dict[str, Any]]:
    """The claims that no test of this audit could refute: the largest loss that one could, and the trials it takes."""
    claim = ["mechanism", "epsilon", "claim"]
    never = _judged(estimates).filter((pl.col("verdict") == NOT_TESTABLE).all().over(claim))
    rows = never.group_by(claim, maintain_order=True).agg(pl.min("allowed", "trials_needed"), pl.max("refutable"))
    return rows.sort("mechanism", "epsilon").to_dicts()


def _unclaimed(estimates: pl.DataFrame) -> str:
    """The mechanisms without a claim; some have one, but not at every budget."""
    budgets = estimates.group_by("mechanism", "epsilon").agg(silent=(pl.col("verdict") == NO_CLAIM).all())
    silent = budgets.with_columns(never=pl.col("silent").all().over("mechanism")).filter("silent")
    never = silent.filter("never")["mechanism"].unique().sort().to_list()
    partly = silent.filter(~pl.col("never")).select("mechanism", "epsilon").rows()
    return listed([*never, *([at_budgets(partly, [])] if partly else [])])


def _heat(estimates: pl.DataFrame, datasets: pl.DataFrame) -> list[dict[str, Any]]:
    """For each data set: mechanism by budget, smallest first -> the strongest attack on what is released.

    Beside it that of length, that among candidates of equal length, and that of the strongest attack on everything.
    """
    matched = dict(datasets.select("dataset", "match").iter_rows())
    length = estimates.filter(attack=LENGTH).select(*CELL, length="loss")
    inside = strongest(estimates, STRONGEST_INSIDE).filter(~pl.col("released")).select(*CELL, "sees", inside="loss")
    best = strongest(estimates).drop("sees")
    for more in (length, inside):
        best = best.join(more, on=CELL, how="left", nulls_equal=True)
    tables = []
    for (dataset,), table in best.sort("dataset", "control", *CELL[1:]).group_by("dataset", maintain_order=True):
        rows = {
            str(mechanism): [_cell(cell) for cell in cells.to_dicts()]
            for (mechanism,), cells in table.group_by("mechanism", maintain_order=True)
        }
        tables.append({"dataset": dataset, "match": matched.get(dataset), "rows": rows})
    return tables


def _cell(best: dict[str, Any]) -> dict[str, Any]:
    length = best["length"]
    some = best["equal_loss"] is not None and best["equal_trials"] < best["trials"]
    return {
        **{name: best[name] for name in ("epsilon", "loss", "attack", "length", "equal_trials", "sees", "inside")},
        "equal": best["equal_loss"] if some else None,
        "part": min(1.0, length / best["loss"]) if length is not None and best["loss"] else 0.0,
        "full": min(1.0, best["loss"] / best["ceiling"]) if best["ceiling"] else 0.0,
    }


def _shade(full: float) -> str:
    """A colour between white and blue, 0 to 1, on which dark text is legible."""
    parts = (round(white + (dark - white) * full) for white, dark in zip((250, 252, 254), (86, 160, 211), strict=True))
    return "#" + "".join(f"{part:02x}" for part in parts)


def _examples(examples: pl.DataFrame) -> list[dict[str, Any]]:
    """Groups of one data set and one level of loss (to the nearest whole nat), each with its originals."""
    levels = examples.with_columns(level=(pl.col("loss") + 0.5).floor())
    groups = []
    for (dataset, level), table in levels.sort("dataset", "level").group_by("dataset", "level", maintain_order=True):
        texts = [
            {"original": original, "rewrites": rewrites.sort("mechanism", "epsilon").to_dicts()}
            for (original,), rewrites in table.group_by("original", maintain_order=True)
        ]
        groups.append({"dataset": dataset, "level": level, "texts": texts})
    return groups
