"""A figure, a LaTeX table and sentences for a paper: mechanisms at one empirical loss, compared on the same trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import altair as alt

from epsilometer.auditing.results.detectable import POWER
from epsilometer.core.atomic import whole, write_text
from epsilometer.core.rounding import UP, cell, rounded
from epsilometer.report.figures import CONFIG, INK, MUTED, Specification, pdf, styles

Row = Mapping[str, Any]
FIGURE, TABLE, TEXT = "at-loss.pdf", "at-loss-table.tex", "at-loss-text.tex"
_STRONGEST, _FOUND = "strongest", "found"
_SMALLEST = 1e-4  # smaller p-values are not written out
_WIDTH, _ROW = 300, 34  # in pixels: the width of a panel, and the height of a mechanism's row in it
_TEX = {sign: f"\\{sign}" for sign in "{}$&#_%"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
_TEX |= {"^": r"\textasciicircum{}", "ε": r"$\varepsilon$", "∞": r"$\infty$", "−": "$-$", "–": "--"}


@dataclass(frozen=True)
class Measured:
    """A mechanism of a paper.

    name: the name in the paper. calibrated: the row of `calibrate`. loss: the row of the strongest attack, with bounds
    corrected for the choice among the attacks. attacks: the rows of all attacks. alike: the row of the similarity.
    `loss`, `attacks` and `alike` are empty if no epsilon has the target loss.
    """

    name: str
    calibrated: Row
    loss: Row
    attacks: Sequence[Row]
    alike: Row


@dataclass(frozen=True)
class Article:
    """The measurements that a paper shows.

    target: the loss of the calibration, in nats. source: the name of the texts. texts: their number. matched: True
    for candidates with equal numbers of words. alpha: the error of each interval. calibrated: a row for each mechanism.
    losses, similarities: the figures of each mechanism. leaks, keeps: comparisons of pairs of mechanisms, by loss
    and by similarity.
    """

    target: float
    source: str
    texts: int
    matched: bool
    alpha: float
    calibrated: Sequence[Row]
    losses: Sequence[Row]
    leaks: Sequence[Row]
    similarities: Sequence[Row]
    keeps: Sequence[Row]

    def write(self, folder: Path) -> list[Path]:
        """Write the figure (if any epsilon was found), the table and the sentences to a folder; return the paths."""
        figure, table, text = (folder / name for name in (FIGURE, TABLE, TEXT))
        write_text(self.table, table)
        write_text("\n".join(map(tex, self.sentences)) + "\n", text)
        if not self.losses:
            return [table, text]
        with whole(figure) as file:
            file.write(pdf(self.figure))
        return [figure, table, text]

    @property
    def rows(self) -> Mapping[str, Sequence[Row]]:
        """All measurements, by table."""
        names = ("calibrated", "losses", "leaks", "similarities", "keeps")
        return {name: getattr(self, name) for name in names}

    @cached_property
    def mechanisms(self) -> Sequence[Measured]:
        """The mechanisms, in the order of the calibration."""
        every = []
        for row in self.calibrated:
            rows = [each for each in self.losses if each["mechanism"] == row["mechanism"]]
            attacks = [each for each in rows if not each["figure"].startswith(_STRONGEST)]
            alike = next((each for each in self.similarities if each["mechanism"] == row["mechanism"]), {})
            name, loss = self._name[row["mechanism"]], rows[-1] if rows else {}
            every.append(Measured(name, row, loss, attacks=attacks, alike=alike))
        return every

    @cached_property
    def _name(self) -> Mapping[str, str]:
        """The name of each mechanism in the paper. For a file, it is the stem, unless two files have this stem."""
        names = [row["mechanism"] for row in self.calibrated]
        stems = [Path(name).stem for name in names]
        return {name: stem if stems.count(stem) == 1 else name for name, stem in zip(names, stems, strict=True)}

    @property
    def _metric(self) -> str:
        return next((_last(row["figure"]) for row in self.similarities), "similarity")

    @property
    def _share(self) -> str:
        return f"{100 * (1 - self.alpha):g} %"

    @property
    def _loss(self) -> str:
        pairs = "with equal numbers of words" if self.matched else "of any length"
        return f"an empirical loss of {self.target:g} {'nat' if self.target == 1 else 'nats'} between texts {pairs}"

    @property
    def caption(self) -> str:
        """The caption of the table and of the figure."""
        trials = max((row["trials"] for row in self.losses), default=0)
        return (
            f"Mechanisms calibrated to {self._loss}, on {self.texts:,} texts of {self.source}: the loss in nats by the "
            f"strongest attack in the same {trials:,} trials, corrected for the choice of the attack, and the mean "
            f"{self._metric} of text and rewrite. Brackets are {self._share} intervals. The upper end of a loss holds "
            "for these attacks; a stronger attack may show more."
        )

    @property
    def table(self) -> str:
        """The table in LaTeX, for the package booktabs."""
        lines = [["Mechanism", "ε", "Loss", "Strongest attack", self._metric.capitalize()]]
        for each in self.mechanisms:
            row = each.calibrated
            if row["status"] == _FOUND:
                figures = [_cell(each.loss), _last(each.loss["figure"]), _cell(each.alike)]
                lines.append([each.name, cell(row["epsilon"], row["low"], row["high"]), *figures])
            else:
                lines.append([each.name, "–", f"not calibrated ({row['status']})", "–", "–"])
        heads, *body = [" & ".join(map(tex, line)) + r" \\" for line in lines]
        begin = [r"\begin{table}[t]", r"\centering", f"\\caption{{{tex(self.caption)}}}", r"\label{tab:at-loss}"]
        rows = [r"\begin{tabular}{lrrlr}", r"\toprule", heads, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
        return "\n".join([*begin, *rows, r"\end{table}"]) + "\n"

    @property
    def sentences(self) -> list[str]:
        """The sentences. Each states what was compared, the figures, and the confidence."""
        said = [sentence for each in self.mechanisms for sentence in self._of_mechanism(each)]
        compared = [row for row in self.leaks if row.get("p Holm") is not None]
        pairs = {(row["first"], row["second"]): row for row in reversed(compared)}  # the first row of each pair
        said += [self._leaks(row) for row in compared if pairs[row["first"], row["second"]] is row]
        said += [self._keeps(row) for row in self.keeps]
        if compared:
            said.append(
                f"All findings on the loss hold together with a confidence of {self._share}, and so do all findings on "
                f"the {self._metric}."
            )
        return said

    def _of_mechanism(self, each: Measured) -> list[str]:
        row, loss, alike = each.calibrated, each.loss, each.alike
        if row["status"] != _FOUND:
            return [f"No epsilon was found at which {each.name} has {self._loss} ({row['status']})."]
        by = f"the attack {_last(loss['figure'])}"
        if len(each.attacks) > 1:
            by = f"the strongest of {len(each.attacks)} attacks, {_last(loss['figure'])},"
        return [
            f"{each.name} was calibrated to {self._loss}: ε = {row['epsilon']:.3g}, between {row['low']:.3g} and "
            f"{row['high']:.3g} at a confidence of {self._share} ({row['trials']:,} rewrites).",
            f"In {loss['trials']:,} fresh trials {by} shows a loss of {_cell(loss)} nats for {each.name} "
            f"({self._share} interval, whose upper end holds for these attacks).",
            f"The mean {self._metric} of text and rewrite is {_cell(alike)} for {each.name} ({self._share} interval, "
            f"{alike['trials']:,} rewrites).",
        ]

    def _leaks(self, row: Row) -> str:
        """Return the finding on the losses of a pair. Attacks on only one mechanism are named, not compared."""
        first, second = (self._name[row[side]] for side in ("first", "second"))
        alone = [
            each["figure"]
            for each in self.leaks
            if each.get("p Holm") is None and (each["first"], each["second"]) == (row["first"], row["second"])
        ]
        beside = f" Attacks that ran on only one of the two are not compared: {', '.join(alone)}." if alone else ""
        less, more = (first, second) if row["first more"] < row["second more"] else (second, first)
        finding = f"{less} leaks less than {more}" if row["p Holm"] <= self.alpha else _equal(first, second, "leak")
        return (
            f"On the same {row['trials']:,} trials and under the attacks on both ({row['compared']}), {finding}: the "
            f"attack named only the source of {first}'s rewrite in {row['first more']:,} trials, and only that of "
            f"{second}'s in {row['second more']:,} (McNemar's exact test, {_p(row, self.leaks)})."
            f"{_detectable(row, 'right guesses about')}{beside}"
        )

    def _keeps(self, row: Row) -> str:
        """Return the finding on the similarity of a pair."""
        first, second = (self._name[row[side]] for side in ("first", "second"))
        more, less = (first, second) if row["first more"] > row["second more"] else (second, first)
        finding = f"{more} keeps more than {less}" if row["p Holm"] <= self.alpha else _equal(first, second, "keep")
        return (
            f"In {row['trials']:,} trials with the same texts and by the {self._metric}, {finding}: the rewrite by "
            f"{first} is closer to its text in {row['first more']:,}, and that by {second} in {row['second more']:,} "
            f"(sign test, {_p(row, self.keeps)}).{_detectable(row, 'closer rewrites by')}"
        )

    @property
    def figure(self) -> Specification:
        """A panel of losses (by each attack and the strongest) and a panel of similarities; a row per mechanism."""
        every = [each for each in self.mechanisms if each.loss]
        ends = [row["high"] for each in every for row in (*each.attacks, each.loss)]
        top = 1.05 * max([self.target, *filter(math.isfinite, ends)])
        strongest = [_shown(each.name, each.loss, top) for each in every]
        attacks = [_shown(each.name, row, top) for each in every for row in each.attacks]
        alike = [_shown(each.name, each.alike, 1.0) for each in every]
        names = [each.name for each in every]
        shade = alt.value(MUTED)
        ticks = alt.Chart(alt.Data(values=attacks)).mark_tick(thickness=1.5, height=9, opacity=0.8)
        rule = alt.Chart(alt.Data(values=[{"target": self.target}])).mark_rule(strokeDash=[4, 3], color=MUTED)
        title = f"loss in nats (dashes: {self.target:g}; ticks: each attack)"
        losses = [
            rule.encode(x="target:Q"),
            ticks.encode(x="point:Q", y=_place(names), color=shade),
            *_intervals(strongest, names, title, (0, top)),
        ]
        low, high = min([0.0, *(row["low"] for row in alike)]), max(row["high"] for row in alike)
        similar = _intervals(alike, names, f"mean {self._metric} of text and rewrite", (low, min(1.0, 1.15 * high)))
        size = {"width": _WIDTH, "height": _ROW * len(names)}
        panels = [alt.layer(*layers).properties(**size) for layers in (losses, similar)]
        specification: Specification = alt.hconcat(*panels, spacing=28).to_dict()
        return specification | {"config": CONFIG}


def tex(text: str) -> str:
    """Return the text with every sign that LaTeX reads as a command replaced."""
    return "".join(_TEX.get(sign, sign) for sign in text)


def _intervals(rows: Sequence[Row], names: Sequence[str], title: str, ends: tuple[float, float]) -> list[alt.Chart]:
    look = styles(names)
    colours = alt.Scale(domain=list(names), range=[look[name].colour for name in names])
    colour = alt.Color("mechanism:N", scale=colours, legend=None)
    base = alt.Chart(alt.Data(values=list(rows)))
    x = alt.X("low:Q", title=title, scale=alt.Scale(domain=list(ends), nice=False))
    return [
        base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q", y=_place(names), color=colour),
        base.mark_point(size=70, filled=True, opacity=1).encode(x="point:Q", y=_place(names), color=colour),
    ]


def _place(names: Sequence[str]) -> alt.Y:
    axis = alt.Axis(labelFontSize=12, labelColor=INK, labelPadding=10, domain=False, ticks=False, grid=True)
    return alt.Y("mechanism:N", sort=list(names), title=None, axis=axis)


def _shown(name: str, row: Row, top: float) -> Row:
    """Return the point and the ends of a row's interval, clipped at the end of the axis."""
    return {"mechanism": name} | {key: min(row[key], top) for key in ("point", "low", "high")}


def _cell(row: Row) -> str:
    return cell(row["point"], row["low"], row["high"])


def _last(figure: str) -> str:
    """Return the attack in `strongest: attack`, or the metric in `similarity: metric`."""
    return figure.rpartition(": ")[-1]


def _equal(first: str, second: str, verb: str) -> str:
    return f"there is no evidence that {first} and {second} {verb} differently"


def _detectable(row: Row, what: str) -> str:
    """Return a sentence on the smallest difference that the test would detect; empty if a difference was found."""
    least = row["detectable"]
    if least is None:
        return ""
    if least == 1:
        return f" No difference is large enough for so few trials to detect it with a probability of {100 * POWER:g} %."
    return (
        f" With a probability of {100 * POWER:g} %, this test detects that {what} one of the two are more frequent by "
        f"{100 * least:.1f} percentage points of all trials."
    )


def _p(row: Row, family: Sequence[Row]) -> str:
    count = sum(each.get("p Holm") is not None for each in family)
    p = row["p Holm"]
    said = "p < .0001" if p < _SMALLEST else f"p = {rounded(p, 4, UP):.2g}".replace("= 0.", "= .")
    return said if count == 1 else f"{said} after Holm's correction over {count} comparisons"
