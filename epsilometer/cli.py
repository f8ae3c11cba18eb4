"""The command line. A user's error ends with exit code 2 and one message; results go to standard output, notes do not.

Heavy imports stand inside the commands, so that `epsilometer --help` answers at once.
"""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.core.errors import UserError, disk_trouble, printable
from epsilometer.runtime.progress import note

if TYPE_CHECKING:
    from epsilometer.corpora.files import Layout

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Measure how much privacy a text privatization mechanism really gives.",
)

_LINES = 10_000  # rewritten at a time, at most
_MEASURED = 300  # texts on which bounds are measured


def _shipped(kind: str) -> str:
    """The components of a kind by name; without `component`, whose imports would keep --help waiting."""
    files = (Path(__file__).parent / kind).glob("*/[!_]*.py")
    return ", ".join(sorted(p.stem for p in files if p.parent.name != "shared"))


A_MECHANISM = f"A shipped mechanism ({_shipped('mechanisms')}), or the path of a .py file."

TEXTS = "The texts: .parquet, .csv, .tsv, .jsonl, .txt (also .gz, .zst), or a folder of .txt files."

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Settings = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="A setting of the mechanism.")]

# How texts are read.
Text = Annotated[list[str], typer.Option(help="The column of the texts; of several each row is one text.")]
Rows = Annotated[int | None, typer.Option("--rows", min=1, help="Only the first rows.")]
Separator = Annotated[str | None, typer.Option(help="Between fields; a comma in .csv, a tab in .tsv by default.")]
NoQuotes = Annotated[bool, typer.Option("--no-quotes", help="Double quotes are text, as in GLUE's files.")]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line is data; columns are 1, 2, ...")]
Encoding = Annotated[str, typer.Option(help="Of text files.")]


@app.command()
def accept() -> None:
    """Make the last audit the baseline that re-audits are compared with."""
    from epsilometer.core import tables
    from epsilometer.project.params import read
    from epsilometer.reaudit import baseline, history, sources
    from epsilometer.report.history import put_in
    from epsilometer.report.origin import PAGE

    params, commit = read(), history.commit(Path())
    estimates = tables.read("data/estimates.parquet", tables.ESTIMATES)
    past = history.read()
    accepted = baseline.accept(params, sources.records(sources.found(params)), commit)
    if not history.ends_with(past, estimates, params.audit.round):
        history.append(estimates, commit, params.audit.round)
    if PAGE.is_file():
        put_in(PAGE, history.read())
    print(f"{baseline.FOLDER} holds the baseline, {len(accepted.measured)} estimates; commit it to git", flush=True)


@app.command()
def audit(
    file: Annotated[Path | None, typer.Argument(help=TEXTS)] = None,
    mechanism: Annotated[str | None, typer.Option(help=A_MECHANISM)] = None,
    command: Annotated[str | None, typer.Option(help="A program: 'prog --eps {epsilon}', lines in, lines out.")] = None,
    rewrites: Annotated[Path | None, typer.Option(help="Recorded rewrites: original, epsilon, rewrite.")] = None,
    epsilons: Annotated[str | None, typer.Option(help="Privacy budgets: 1,10,100.")] = None,
    attacks: Annotated[
        str | None,
        typer.Option(
            help=f"Attacks, separated by commas: shipped ones ({_shipped('attacks')}) and paths of .py files. "
            "All that need no large model by default.",
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(help="2000, or all that recorded rewrites allow.")] = None,
    candidates: Annotated[int, typer.Option(help="Size k of a candidate set.")] = 2,
    temperature: Annotated[float, typer.Option(help="Below 0 unlike, above 0 alike candidates.")] = -10_000,
    alpha: Annotated[float, typer.Option(help="Error of each interval.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Names every random stream.")] = 0,
    text: Text = ["text"],  # noqa: B006 - typer copies it
    rows: Rows = None,
    separator: Separator = None,
    no_quotes: NoQuotes = False,
    no_header: NoHeader = False,
    encoding: Encoding = "utf-8",
    settings: Settings = [],  # noqa: B006
    attack_settings: Annotated[
        list[str], typer.Option("--attack-set", metavar="ATTACK.KEY=VALUE", help="A setting of an attack.")
    ] = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Measure a mechanism's empirical privacy loss.

    Prints a row an epsilon and attack: how often the adversary was right, the loss that this proves in nats, what it
    could have proved at most (ceiling), the loss between texts of equally many words, and the verdict on the claim.
    With --json all that was measured.
    """
    if sum(given is not None for given in (mechanism, command, rewrites)) != 1:
        raise UserError("give one of --mechanism, --command and --rewrites")
    if rewrites is None and (file is None or epsilons is None):
        raise UserError("give a FILE of texts and --epsilons (only --rewrites needs neither)")
    if rewrites is not None and (file or epsilons):
        raise UserError("leave out FILE and --epsilons: --rewrites brings its own")
    if settings and mechanism is None:
        raise UserError("--set is for --mechanism; write a program's settings into its command")
    from epsilometer.corpora.files import Layout

    chosen = _attacks(attacks, attack_settings)
    layout = Layout(separator, not no_quotes, not no_header, encoding)
    common: dict[str, Any] = {"candidates": candidates, "temperature": temperature, "alpha": alpha, "seed": seed}
    if rewrites is not None:
        from epsilometer.auditing.external import audit_recorded, recorded

        found = audit_recorded(recorded(rewrites, layout), chosen, trials, **common)
    else:
        from epsilometer.auditing import one_call as api
        from epsilometer.auditing.external import CommandMechanism

        rule = "--epsilons must be numbers separated by commas"
        budgets = [_number(part, rule) for part in (epsilons or "").split(",")]
        made = CommandMechanism(command) if command is not None else str(mechanism)
        common |= {"trials": 2000 if trials is None else trials, "settings": _settings(settings)}
        found = api.audit(_texts(str(file), text, rows, layout), made, budgets, chosen, **common)
    _print(found.to_dicts() if as_json else [_told(row) for row in found.iter_rows(named=True)], as_json)


@app.command()
def calibrate(
    target: Annotated[float, typer.Option(help="The loss to meet, in nats.")],
    file: Annotated[Path | None, typer.Argument(help=f"{TEXTS} The data sets of params.yaml else.")] = None,
    mechanism: Annotated[list[str], typer.Option(help="Mechanisms of params.yaml; all of them else.")] = [],  # noqa: B006
    dataset: Annotated[list[str], typer.Option(help="Data sets of params.yaml; all of them else.")] = [],  # noqa: B006
    attack: Annotated[str, typer.Option(help="One attack, or `strongest`: the best of all.")] = "strongest",
    sees: Annotated[
        str, typer.Option(help="Attacks that see the text, what is released, or all (inside).")
    ] = "released",
    match: Annotated[str | None, typer.Option(help="words: candidates of equal length; none: of any.")] = None,
    low: Annotated[float | None, typer.Option(help="Smallest epsilon searched; that of params.yaml else.")] = None,
    high: Annotated[float | None, typer.Option(help="Largest epsilon searched; that of params.yaml else.")] = None,
    width: Annotated[float, typer.Option(help="Stop when the interval's ends are within this ratio.")] = 1.25,
    budget: Annotated[int, typer.Option(help="Most rewrites a mechanism and data set.")] = 20_000,
    text: Text = ["text"],  # noqa: B006
    first_rows: Rows = None,
    separator: Separator = None,
    no_quotes: NoQuotes = False,
    no_header: NoHeader = False,
    encoding: Encoding = "utf-8",
    settings: Settings = [],  # noqa: B006 - typer copies it
    as_json: Json = False,
) -> None:
    """Find the nominal epsilon at which each mechanism's loss meets a target, a row a mechanism and data set.

    Without a FILE it needs the data sets as `make audit` prepared them, and keeps what was measured in
    data/calibrating: a search that was stopped goes on, and one for another target uses what it can. Rewrites and
    attacks fresh trials.
    """
    from epsilometer.corpora.files import Layout
    from epsilometer.project import choosing
    from epsilometer.project.params import read

    wish = choosing.Wish(target, attack, sees, match, low, high, width, budget)

    watch = partial(choosing.said, wish=wish)
    if file is None:
        if settings:
            raise UserError("--set is for a FILE of texts; params.yaml has the settings of its mechanisms")
        rows = list(choosing.calibrate_cells(read(), wish, mechanism, dataset, watch))
    else:
        if not mechanism or dataset:
            raise UserError("with a FILE of texts name one mechanism or more (--mechanism), and no --dataset")
        layout = Layout(separator, not no_quotes, not no_header, encoding)
        texts, given = _texts(str(file), text, first_rows, layout), _settings(settings)
        rows = [choosing.calibrate_texts(file.name, texts, name, given, wish, watch=watch) for name in mechanism]
    if as_json:
        _print(rows, as_json)
        return
    for row in rows:
        if row["reason"]:
            note(f"{row['mechanism']} on {row['dataset']}: {row['reason']}")
    _print([{key: value for key, value in row.items() if key != "reason"} for row in rows], as_json)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help="A mechanism and epsilon: tem=11.")],
    second: Annotated[str, typer.Argument(help="Another, attacked on the same trials: mvc=70.")],
    file: Annotated[Path | None, typer.Argument(help=f"{TEXTS} The last audit's trials else.")] = None,
    trials: Annotated[int, typer.Option(help="On texts of your own.")] = 2000,
    text: Text = ["text"],  # noqa: B006
    first_rows: Rows = None,
    separator: Separator = None,
    no_quotes: NoQuotes = False,
    no_header: NoHeader = False,
    encoding: Encoding = "utf-8",
    as_json: Json = False,
) -> None:
    """Which of two mechanisms leaks less, on the same trials: McNemar's exact test, with Holm's correction."""
    from epsilometer.corpora.files import Layout
    from epsilometer.project import choosing
    from epsilometer.project.params import read

    one, other = _mechanism_at(first), _mechanism_at(second)
    if file is None:
        params = read()
        rows = choosing.compare_cells(params, one, other, params.audit.alpha)
    else:
        layout = Layout(separator, not no_quotes, not no_header, encoding)
        texts = _texts(str(file), text, first_rows, layout)
        rows = choosing.compare_texts(file.name, texts, one, other, trials)
    _print(rows, as_json)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The parameter file.")] = Path("params.yaml"), as_json: Json = False
) -> None:
    """Validate a parameter file and what it names."""
    from epsilometer.project import checking, params

    downloads = checking.check(params.read(file))
    if as_json:
        _print({"file": str(file), "downloads": downloads}, as_json)
    else:
        print(f"{file} is valid", *(f"would be downloaded: {name}" for name in downloads), sep="\n", flush=True)


@app.command()
def plan(
    claim: Annotated[float | None, typer.Option(help="A claimed loss to test, in nats.")] = None,
    leak: Annotated[float | None, typer.Option(help="What leaks in truth; several losses else.")] = None,
    loss: Annotated[float | None, typer.Option(help="A loss to measure, with --width.")] = None,
    width: Annotated[float | None, typer.Option(help="How wide its interval may be, in nats.")] = None,
    power: Annotated[float, typer.Option(help="Probability that the trials suffice.")] = 0.9,
    candidates: Annotated[str, typer.Option(help="Sizes k of a candidate set.")] = "2,4,8,16",
    alpha: Annotated[float, typer.Option(help="Error of the test, or of the interval.")] = 0.01,
    tests: Annotated[int, typer.Option(help="How many tests of an audit share alpha.")] = 1,
    as_json: Json = False,
) -> None:
    """Say how many trials refute a claim, or measure a loss within a width, were the best adversary at work.

    A leak of `inf`: every guess is right. A weaker adversary needs more trials.
    """
    from epsilometer.auditing.planning import trials_for_width, trials_to_refute

    if (claim is None) == (loss is None) or (loss is None) != (width is None) or (leak is not None and claim is None):
        raise UserError("give --claim (and --leak, if it is known), or --loss and --width")
    if tests < 1:
        raise UserError(f"--tests must be at least 1, got {tests}")
    rule = "--candidates must be whole numbers separated by commas"
    rows: list[dict[str, Any]] = []
    for part in candidates.split(","):
        k = int(_number(part, rule))
        if claim is not None:
            for truth in [claim + 0.5, claim + 1, claim + 2, math.inf] if leak is None else [leak]:
                trials = trials_to_refute(claim, truth, power, k, alpha / tests)
                rows.append({"candidates": k, "claim": claim, "leak": truth, "power": power, "trials": trials})
        elif loss is not None and width is not None:
            trials = trials_for_width(loss, width, power, k, alpha / tests)
            rows.append({"candidates": k, "loss": loss, "width": width, "power": power, "trials": trials})
    _print(rows, as_json)


@app.command()
def claims(
    mechanism: Annotated[str, typer.Argument(help=A_MECHANISM)],
    epsilon: Annotated[float | None, typer.Option(help="The privacy budget; the worst of eight else.")] = None,
    vectors: Annotated[Path | None, typer.Option(help="Word vectors, in any format; the embedded ones else.")] = None,
    vocabulary: Annotated[int, typer.Option(help="How many of their words: all pairs of up to 5,000.")] = 1000,
    as_published: Annotated[bool, typer.Option("--as-published", help="The form that the authors published.")] = False,
    settings: Settings = [],  # noqa: B006 - typer copies it
    alpha: Annotated[float, typer.Option(help="Error of a sampled check.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Names the stream of a sampled check.")] = 0,
    as_json: Json = False,
) -> None:
    """Check a claim against its worst case: all pairs of inputs, all outputs.

    Ends with 1 where a claim is violated, with 3 where none could be checked.
    """
    import tempfile

    from epsilometer.auditing import one_call as api
    from epsilometer.auditing.claims import NOT_REFUTED, VIOLATED, describe
    from epsilometer.auditing.largest_loss import largest_loss
    from epsilometer.auditing.worst_case import check_claim, extra_epsilons
    from epsilometer.core.component import find
    from epsilometer.core.guarantees import check_epsilons
    from epsilometer.mechanisms.words.shared.embedded import over_words

    budgets = [epsilon] if epsilon is not None else [0.1, 0.5, 1, 2, 5, 10, 20, 50]
    check_epsilons(budgets, "--epsilon")
    if vocabulary < 2:
        raise UserError(f"--vocabulary must be at least 2 words, got {vocabulary}")
    given = _settings(settings) | ({"as_published": True} if as_published else {})
    default = getattr(find("mechanisms", mechanism, "rewrite"), "default_resource", None)
    with tempfile.TemporaryDirectory() as folder:
        over = over_words(default, vectors, vocabulary, Path(folder)) if "resource" not in given else None
        if over is not None:
            given["resource"] = over
        elif vectors is not None:
            raise UserError(f"--vectors is for mechanisms on word vectors; {mechanism} takes --set resource=...")
        made = api.mechanism(mechanism, given)
        checked = dict.fromkeys([*budgets, *extra_epsilons(made, min(budgets), seed)])
        findings = [check_claim(made, budget, alpha / len(checked), seed) for budget in checked]
        if epsilon is not None:
            found, *others = findings
        else:
            found, others = min(findings, key=lambda one: math.inf if one.slack is None else one.slack), []
        largest, how = largest_loss(made, found.epsilon, found) or (None, None)
    for other in others:
        note(f"at epsilon {other.epsilon:g}, where draws could refute the claim: {other.verdict}")
    result = {
        "mechanism": mechanism,
        "epsilon": found.epsilon,
        "claim": describe(made.guarantee(found.epsilon)),
        "verdict": found.verdict,
        "reason": found.reason,
        "method": found.method,
        "claimed": found.claimed,
        "worst": found.worst,
        "slack": found.slack,
        "witness": found.witness and dict(zip(("x", "x'", "y"), found.witness, strict=True)),
        "bound": found.bound,
        "inputs": found.inputs,
        "draws": found.draws,
        "testable": found.testable,
        "largest": largest,
        "largest by": how,
    }
    if as_json:
        _print(result, as_json)
    else:
        lines = (f"{key:<10} {_shown(value)}" for key, value in result.items() if value is not None)
        print(printable("\n".join(lines)), flush=True)
    verdicts = {one.verdict for one in findings}
    if VIOLATED in verdicts:
        raise typer.Exit(1)
    if NOT_REFUTED not in verdicts:
        raise typer.Exit(3)


@app.command()
def bounds(
    model: Annotated[str, typer.Argument(help="A language model: a folder, a hub id, or a file that pins one.")],
    text: Annotated[Path | None, typer.Option(help="Public texts; a sample of the embedded corpora else.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="Whose prompts to use; told from the model else.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write for a hub model: its pin.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Measure again where there are bounds already.")] = False,
    as_json: Json = False,
) -> None:
    """Measure the clip bounds of a model's logits on public text, and keep them with the model."""
    from epsilometer.auditing import one_call as api
    from epsilometer.core.component import find
    from epsilometer.corpora import synthetic
    from epsilometer.models.bounds import destination, measure, store
    from epsilometer.models.causal_lm import has_chat_template
    from epsilometer.models.generator import architecture

    destination(model, out, replace)
    if text is not None:
        texts, source = _texts(str(text), "text"), text.name
    else:
        texts = [
            line for name in ("queries", "reviews") for line in synthetic.generate(name, _MEASURED // 2, 1)["text"]
        ]
        source = "the embedded corpora"
    texts = texts[:: max(1, len(texts) // _MEASURED)][:_MEASURED]
    usual = {"masked": "dp_mlm", "seq2seq": "dp_prompt", "causal": "dp_paraphrase"}
    name = mechanism or ("dp_prompt" if has_chat_template(model) else usual[architecture(model)])
    if not hasattr(find("mechanisms", name, "rewrite"), "logits"):
        raise UserError(f"{name} clips no logits; --mechanism takes {', '.join(usual.values())}")
    made: Any = api.mechanism(name, {"resource": model})
    found = measure(made.logits(texts), f"{len(texts)} texts of {source}, prompts of {name}")
    kept = store(model, found, out, replace)
    _print([{key: found[key] for key in ("low", "high", "positions", "rule")} | {"kept in": str(kept)}], as_json)


@app.command()
def diff(
    one: Annotated[Path, typer.Argument(help="The folder of an audit: . or runs/NAME.")],
    other: Annotated[Path, typer.Argument(help="The folder of another.")],
    out: Annotated[Path | None, typer.Option(help="Write all columns: .csv, .json, .md or .tex.")] = None,
    as_json: Json = False,
) -> None:
    """Two audits side by side: every estimate that either has.

    `change` is the second plug-in value less the first; `apart` says whether their intervals have no point in common.
    """
    from epsilometer.report import export

    both = export.compare(export.read(one), export.read(other))
    shown = [*export.ROW, "loss_1", "upper_1", "loss_2", "upper_2", "change", "apart", "verdict_1", "verdict_2"]
    if out is not None:
        export.write(both, out)
        print(out.resolve(), flush=True)
    else:
        _print(both.to_dicts() if as_json else both.select(shown).to_dicts(), as_json)


@app.command("export")
def export_(
    file: Annotated[Path, typer.Argument(help="Where to: .csv, .json, .md (Markdown) or .tex (LaTeX).")],
    run: Annotated[Path, typer.Option(help="The folder of the audit.")] = Path(),
    columns: Annotated[str | None, typer.Option(help="Only these: dataset,mechanism,loss,verdict.")] = None,
) -> None:
    """Write the estimates of an audit, with trials, claims and verdicts, for a paper or a spreadsheet."""
    from epsilometer.report import export

    export.write(export.chosen(export.read(run), columns.split(",") if columns else []), file)
    print(file.resolve(), flush=True)


@app.command()
def history(
    mechanism: Annotated[str | None, typer.Option(help="Of this mechanism alone.")] = None, as_json: Json = False
) -> None:
    """How the loss of every cell went from audit to audit: the strongest attack's (with --json those of all)."""
    from epsilometer.auditing.diagnostics import STRONGEST
    from epsilometer.core.errors import unknown
    from epsilometer.reaudit import history as past

    table = past.read()
    if table.is_empty():
        _need_project()
        raise UserError(f"{past.FILE} has no audit yet; `epsilometer accept` and re-audits write it")
    if mechanism is not None:
        if mechanism not in table["mechanism"]:
            raise unknown("mechanism in the history", mechanism, table["mechanism"].unique())
        table = table.filter(mechanism=mechanism)
    if as_json:
        _print(table.to_dicts(), as_json)
    else:
        dates = past.audits(table)
        _print(past.courses(table.filter(attack=STRONGEST).drop("attack")), as_json)
        print(f"\n{len(dates)} audits from {dates[0]} to {dates[-1]}; losses in nats, as measured", flush=True)


@app.command()
def mechanisms(as_json: Json = False) -> None:
    """List the mechanisms, their claims and sources."""
    import inspect

    from epsilometer.core.component import find, module, names

    rows = []
    for name in names("mechanisms"):
        made = find("mechanisms", name, "rewrite")
        claim = _first(inspect.getdoc(getattr(made, "guarantee", None)))
        rows.append({"mechanism": name, "claim": claim, "source": _first(module("mechanisms", name).__doc__)})
    if as_json:
        _print(rows, as_json)
    else:
        print(*(f"{r['mechanism']}\n  {r['source']}\n  Claim: {r['claim']}" for r in rows), sep="\n\n", flush=True)


@app.command()
def rewrite(
    mechanism: Annotated[str, typer.Option(help=A_MECHANISM)],
    epsilon: Annotated[float, typer.Option(help="The privacy budget.")],
    file: Annotated[
        Path | None, typer.Argument(help="A table, or texts one a line; lines on standard input by default.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write, in the same format; standard output else.")] = None,
    text: Text = ["text"],  # noqa: B006 - typer copies it
    rows: Rows = None,
    separator: Separator = None,
    no_quotes: NoQuotes = False,
    no_header: NoHeader = False,
    encoding: Encoding = "utf-8",
    seed: Annotated[int | None, typer.Option(help="Reproducible, hence invertible: not for publication.")] = None,
    settings: Settings = [],  # noqa: B006
) -> None:
    """Privatise texts: lines, or the text columns of a table (.parquet, .csv, .tsv, .jsonl), each row by itself.

    Draws from the operating system's randomness, exactly (`epsilometer.core.exact`), and spends all but a millionth of
    the epsilon: the rest is room for the rounding of what is drawn from. Lines are read and written block by block.
    """
    from epsilometer.auditing import one_call as api
    from epsilometer.auditing.unread import say, unread
    from epsilometer.core.guarantees import check_epsilons
    from epsilometer.core.mechanism import Unread
    from epsilometer.corpora.files import TABLES, Layout, suffix

    check_epsilons([epsilon], "--epsilon")
    layout = Layout(separator, not no_quotes, not no_header, encoding)
    if file is not None and not file.is_file():
        raise UserError(f"there is no file {str(file)!r}; check the path")
    made, left = api.mechanism(mechanism, _settings(settings)), Unread()

    def private(texts: Sequence[str], first: int) -> list[str]:
        nonlocal left
        left += unread(made, texts)
        return _private(made, epsilon, seed, texts, first)

    if seed is not None:
        note("with --seed the output can be inverted by whoever knows the seed; it is not for publication")
    if file is not None and suffix(file) in TABLES:
        _rewrite_table(file, out, text, rows, layout, private)
    else:
        _rewrite_lines(file, out, rows, encoding, private)
    say(left)


def _private(mechanism: Any, epsilon: float, seed: int | None, texts: Sequence[str], first: int) -> list[str]:
    """The rewrites of texts of which the first has this number; each on one line, and telling a terminal nothing."""
    import numpy as np

    from epsilometer.auditing.rewriting import Job
    from epsilometer.core.exact import SLACK
    from epsilometer.core.randomness import Noise

    numbers = np.arange(len(texts))
    fresh = Noise.operating_system(len(texts))
    noise = fresh if seed is None else Noise.named(first + numbers, seed, "rewrite", epsilon)
    spent = epsilon * (1 - SLACK) if seed is None else epsilon
    (made,) = Job(texts, numbers, [spent], [noise]).run(mechanism, numbers).rewrites
    return [printable(" ".join(text.split())) for text in made.texts]


def _rewrite_table(
    file: Path, out: Path | None, columns: Sequence[str], rows: int | None, layout: Layout, private: Any
) -> None:
    """Rewrite columns of a table; the others stay."""
    import polars as pl

    from epsilometer.core.errors import unknown
    from epsilometer.corpora import files
    from epsilometer.corpora.reading import check_strings

    kind = files.suffix(file)
    if out is None and kind == ".parquet":
        raise UserError("give --out a .parquet file: Parquet is no format for standard output")
    if out is not None and files.suffix(out) != kind:
        raise UserError(f"--out must end with {kind}, as the input does, got {str(out)!r}")
    table = files.read(file, layout)
    table = table if rows is None else table.head(rows)
    for column in columns:
        if column not in table.columns:
            raise UserError(
                f"{file} has the columns {', '.join(table.columns)}: {unknown('text column', column, table.columns)}"
            )
        check_strings(table, column, str(file))
    others = [name for name in table.columns if name not in columns]
    if others:
        note(f"only {', '.join(columns)} is rewritten; as they are stay {', '.join(others)}")
    texts = [" ".join(text.split()) for column in columns for text in table[column].fill_null("")]
    length = sum(len(text) + 1 for text in texts)
    rewritten = [text for block in _paced(iter(texts), private, length, len(texts)) for text in block]
    each = [rewritten[i * len(table) : (i + 1) * len(table)] for i in range(len(columns))]
    content = files.write(
        table.with_columns(pl.Series(c, t, pl.String) for c, t in zip(columns, each, strict=True)), out, kind, layout
    )
    if out is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def _rewrite_lines(file: Path | None, out: Path | None, rows: int | None, encoding: str, private: Any) -> None:
    """Rewrite lines: those of a file once all are known to be readable, those of standard input as they come."""
    from epsilometer.corpora.files import content

    if out is not None and out.suffix in (".gz", ".zst"):
        raise UserError(f"lines are not written compressed, got --out {str(out)!r}; leave out {out.suffix}")
    length, count = math.inf, None
    lines: Iterable[bytes] = sys.stdin.buffer
    if file is not None:
        lines = io.BytesIO(content(file))
        sizes = [len(text) + 1 for text in islice(_decoded(lines, str(file), encoding), rows)]
        length, count = sum(sizes), len(sizes)
        lines.seek(0)
    with out.open("wb") if out is not None else nullcontext(sys.stdout.buffer) as written:
        texts = islice(_decoded(lines, str(file or "standard input"), encoding), rows)
        for block in _paced(texts, private, length, count):
            written.write("".join(text + "\n" for text in block).encode())
            written.flush()


def _paced(texts: Iterator[str], private: Any, length: float, count: int | None = None) -> Iterator[list[str]]:
    """The rewrites of texts, in blocks of some seconds. length: how many characters there are, infinite if unknown."""
    from epsilometer.runtime.progress import Pace, span

    def shorter(seconds: float) -> str:
        if count is None or count < 20:
            return ""
        fewer = 10 ** (len(str(count - 1)) - 1)
        return f" for {count} texts; shorter: --rows {fewer}: about {span(seconds * fewer / count)}"

    done, units, block = 0, 0, list[str]()
    with Pace("rewrite", length, shorter) as pace:
        while True:
            text = next(texts, None)
            if text is not None:
                block.append(text)
                units += len(text) + 1
            if block and (text is None or units >= pace.next or len(block) == _LINES):
                pace.begin(units)
                yield private(block, done)
                pace.end()
                done, units, block = done + len(block), 0, []
            if text is None:
                return


@app.command()
def report(as_json: Json = False) -> None:
    """Print where the report is, and its estimates."""
    from epsilometer.core import tables
    from epsilometer.report import origin

    shown = ["dataset", "mechanism", "epsilon", "attack", "trials", "loss", "point", "upper", "ceiling", "verdict"]
    _need_project()
    estimates = tables.read("data/estimates.parquet", tables.ESTIMATES)
    page = origin.PAGE
    origin.refresh()
    if not page.is_file():
        raise UserError(f"{page} does not exist; `dvc repro` makes it")
    if as_json:
        _print({"report": str(page.resolve()), "estimates": estimates.to_dicts()}, as_json)
    else:
        _print(estimates.select(shown).to_dicts(), as_json)
        print(f"\n{page.resolve()}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point `epsilometer`."""
    try:
        app(arguments)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        denied = f"{error.filename} may not be read or written; change its permissions"
        trouble = denied if isinstance(error, PermissionError) else disk_trouble(error)
        if trouble is None:
            raise
        print(f"error: {trouble}, then run again", file=sys.stderr)
        sys.exit(2)


def _texts(
    source: str, columns: str | Sequence[str], rows: int | None = None, layout: Layout | None = None
) -> list[str]:
    from epsilometer.corpora.files import PLAIN
    from epsilometer.corpora.reading import prepare, read

    corpus = prepare(read(source, text=columns, rows=rows, layout=layout or PLAIN))
    for key, meaning in {
        "empty_dropped": "texts without a word dropped",
        "duplicates_merged": "duplicate texts merged",
    }.items():
        if corpus.counts[key]:
            note(f"{corpus.counts[key]} {meaning}")
    found: list[str] = corpus.table["text"].to_list()
    return found


def _number(text: str, rule: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{rule}, got {text!r}") from None


def _mechanism_at(given: str) -> tuple[str, float]:
    name, equals, epsilon = given.partition("=")
    if not equals:
        raise UserError(f"give a mechanism and its epsilon as tem=11, got {given!r}")
    return name, _number(epsilon, "epsilon must be a number")


def _need_project() -> None:
    """Refuse a folder that holds no project."""
    if not Path("params.yaml").is_file():
        from epsilometer.project.params import NO_PROJECT

        raise UserError(f"there is no params.yaml here; {NO_PROJECT}")


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    """What of a row of an audit fits on a terminal; the strongest attack is named."""
    best = row["best_attack"]
    shown = ("trials", "candidates", "successes", "success_rate", "loss", "point", "upper", "ceiling", "equal_loss")
    named = {"epsilon": row["epsilon"], "attack": row["attack"] if best is None else f"{row['attack']}: {best}"}
    return named | {"sees": row["sees"]} | {k: row[k] for k in (*shown, "verdict", "claim")}


def _attacks(names: str | None, settings: Sequence[str]) -> dict[str, dict[str, Any]] | None:
    """The attacks and their settings as `api.audit` takes them; None for its default."""
    if names is None and not settings:
        return None
    if names is None:
        raise UserError("--attack-set needs --attacks, which names the attacks to run")
    chosen: dict[str, dict[str, Any]] = {}
    for name in names.split(","):
        if name in chosen:
            raise UserError(f"--attacks names {name!r} twice")
        chosen[name] = {}
    for key, value in _settings(settings, "--attack-set").items():
        attack, dot, setting = key.rpartition(".")
        if not dot or attack not in chosen:
            raise UserError(
                f"--attack-set takes ATTACK.KEY=VALUE for one of {', '.join(chosen)}, got {key!r}; name the attack in "
                "--attacks too"
            )
        chosen[attack][setting] = value
    return chosen


def _settings(given: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """Settings as on the command line: the value is YAML, as it would be in a parameter file."""
    import yaml

    settings = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals:
            raise UserError(f"{option} takes key=value, got {item!r}")
        settings[key] = yaml.safe_load(value)
    return settings


def _decoded(lines: Iterable[bytes], name: str, encoding: str) -> Iterator[str]:
    """Texts, their layout normalised: it is not private."""
    for number, line in enumerate(lines, start=1):
        try:
            yield " ".join(line.decode(encoding).split())
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}, line {number}: not {encoding.upper()} (byte {error.start} of the line); give --encoding, or "
                "convert it first"
            ) from error


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {part}" for key, part in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _first(doc: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((doc or "").split("\n\n")[0].split())


def _print(result: Any, as_json: bool) -> None:
    """JSON, or an aligned table of rows."""
    print(json.dumps(_finite(result), indent=1) if as_json else printable(_table(result)), flush=True)


def _finite(value: Any) -> Any:
    """JSON has no infinity: what is unbounded becomes null."""
    if isinstance(value, Mapping):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "nothing was estimated"
    cells = [list(rows[0])] + [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    text = [isinstance(value, str) for value in rows[0].values()]
    return "\n".join(
        "  ".join(c.ljust(w) if t else c.rjust(w) for c, w, t in zip(row, widths, text, strict=True)).rstrip()
        for row in cells
    )


if __name__ == "__main__":
    main()
