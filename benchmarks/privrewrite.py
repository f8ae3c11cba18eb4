"""PrivRewrite from within: what each phase keeps, how near the choice comes to the best candidate, and time by k.

    Phases   table 1 of the paper (Applied Sciences 15(22) 11930): cosines of sentence embeddings of a text and what the
             sanitiser makes of it, and the candidates that are left of k; beside them that of the release.
    Choice   section 4.3.2: with probability 1 - beta the utility of the release is below that of the best of the m
             candidates by at most 2 Delta (ln m + ln(1 / beta)) / epsilon_2. The gap by the law of the choice (its
             mean), the bound at beta = .05, and how likely the gap is larger; means over texts with a candidate.
    Time     figure 6b: processor time a text, by a provider that has written nothing before.
    Settings figures 3 to 5 and 6a: beta, tau, the split of the budget and k, one at a time, all else by default.
             The cosine of text and release that the law of the choice lets expect, a mean over texts, and by how much
             it differs from that of the default with a 99 % interval of Student's t over the same texts.

The provider is the embedded encoder-decoder; settings are those of profile privrewrite_medquad.

usage: python -m benchmarks.privrewrite FILE [--texts N]     FILE: Parquet with the columns `text` and `split`
"""

from __future__ import annotations

import math
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import stdtrit

from epsilometer.core import tables
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.selection.privrewrite import PrivRewrite
from epsilometer.models.embedded import seq2seq
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER
from epsilometer.models.provider import LocalProvider
from epsilometer.report import origin
from epsilometer.runtime.machine import hardware

Array = NDArray[np.float64]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/results/privrewrite_phases.md"
EPSILONS = [2, 20, 40]
COUNTS = [10, 20, 30, 40, 50]
K, LONGEST, BETA = 5, 32, 0.05
TIMED = 3  # texts
SETTINGS: dict[str, Sequence[float]] = {
    "beta": [0.0, 0.5, 1.0, 2.0, 4.0],
    "tau": [0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
    "split": [0.1, 0.3, 0.5, 0.7, 0.9],
    "k": COUNTS,
}
VARIED = "| setting | value | cosine | less the default | candidates left |"
PHASES = "| epsilon | sanitised | candidates | released | candidates left |"
CHOICE = "| variant, epsilon | best utility | mean gap | bound | beyond the bound |"


def sanitised(built: PrivRewrite, texts: Sequence[str], epsilon: float) -> Rewrites:
    """What the provider is shown at a total of epsilon."""
    return built.sanitiser.rewrite(texts, built.budgets(epsilon)[0], Noise.named(len(texts), "phases", epsilon))


def phases(built: PrivRewrite, texts: Sequence[str]) -> Iterator[str]:
    """A row an epsilon: mean cosines to the texts, and how many candidates are left."""
    encoder = Encoder(ENCODER)
    sources = encoder.encode(texts)
    for epsilon in EPSILONS:
        shown = sanitised(built, texts, epsilon).texts
        pools = [built._pools([text])[text].texts for text in shown]
        noise = Noise.named(len(texts), "phases", epsilon)  # the same sanitised texts
        released = built.rewrite(texts, epsilon, noise).texts
        written = [y for pool in pools for y in pool]
        of = np.repeat(np.arange(len(texts)), [len(pool) for pool in pools])
        cosines = (
            np.einsum("ij,ij->i", sources[rows], encoder.encode(some)).mean()
            for rows, some in ((slice(None), shown), (of, written), (slice(None), released))
        )
        left = len(written) / len(texts)
        yield f"| {epsilon} | " + " | ".join(f"{cosine:.3f}" for cosine in cosines) + f" | {left:.2f} of {K} |"


def choice(built: PrivRewrite, texts: Sequence[str], epsilon: float) -> tuple[float, float, float, float]:
    """Means over texts: the best utility, the gap, its bound, and the probability of a gap beyond the bound."""
    shown = sanitised(built, texts, epsilon).texts
    pools = built._pools(shown)
    averages, lengths = built._averages(texts)
    limits = 2 * built.sensitivity(lengths) / built.budgets(epsilon)[1]
    rows = []
    for i, text in enumerate(shown):
        if (pool := pools[text]).texts:
            here = averages[i : i + 1]
            law = np.exp(built._log_law(here, lengths[i : i + 1], pool, epsilon)[0])
            utility = built.utility(here, pool.averages)[0]
            gap, bound = utility.max() - utility, limits[i] * (math.log(len(utility)) - math.log(BETA))
            rows.append((utility.max(), law @ gap, bound, law[gap > bound].sum()))
    best, mean, bound, beyond = np.mean(rows, axis=0)
    return float(best), float(mean), float(bound), float(beyond)


def seconds(texts: Sequence[str], shown: Sequence[str], count: int) -> float:
    """Processor time a text for so many candidates. texts: others, for what is done once."""
    provider = LocalProvider(seq2seq(), None, PrivRewrite(resource=seq2seq()).temperature, LONGEST)
    provider.candidates(texts[:1], 1)
    begun = time.process_time()
    provider.candidates(shown, count)
    return (time.process_time() - begun) / len(shown)


def expected(built: PrivRewrite, texts: Sequence[str], epsilon: float) -> tuple[Array, float]:
    """The cosine of each text and its release that the law of the choice lets expect, and the candidates left."""
    encoder, shown = Encoder(ENCODER), sanitised(built, texts, epsilon).texts
    pools, sources = built._pools(shown), encoder.encode(texts)
    averages, lengths = built._averages(texts)
    cosines, left = np.empty(len(texts)), [len(pools[text].texts) for text in shown]
    for i, text in enumerate(shown):
        pool, row = pools[text], slice(i, i + 1)
        law = np.exp(built._log_law(averages[row], lengths[row], pool, epsilon)[0]) if pool.texts else np.ones(1)
        cosines[i] = law @ (encoder.encode(pool.texts or [text]) @ sources[i])
    return cosines, float(np.mean(left))


def varied(texts: Sequence[str], epsilon: float) -> Iterator[str]:
    """A row a setting and value."""
    default = PrivRewrite(resource=seq2seq(), max_new_tokens=LONGEST)
    usual, _ = expected(default, texts, epsilon)
    for setting, values in SETTINGS.items():
        for value in values:
            changed: dict[str, Any] = {setting: value}
            cosines, left = expected(replace(default, **changed), texts, epsilon)
            change = cosines - usual
            reach = stdtrit(len(texts) - 1, 0.995) * change.std(ddof=1) / math.sqrt(len(texts))
            yield f"| {setting} | {value:g} | {cosines.mean():.3f} | {change.mean():.2g} ± {reach:.2g} | {left:.2f} |"


def main(arguments: Sequence[str]) -> None:
    """Write docs/results/privrewrite_phases.md."""
    parser = ArgumentParser(prog="python -m benchmarks.privrewrite", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--texts", metavar="N", type=int, default=20)
    options = parser.parse_args(arguments)
    train = pl.read_parquet(options.file).filter(split="train")["text"]
    texts: list[str] = train.unique(maintain_order=True).head(options.texts).to_list()
    variants = {
        variant: PrivRewrite(resource=seq2seq(), k=K, max_new_tokens=LONGEST, variant=variant)
        for variant in ("full", "naive")
    }
    words = float(np.mean([len(text.split()) for text in texts]))
    lines = [
        "# PrivRewrite from within",
        "",
        "Written by `python -m benchmarks.privrewrite`; do not edit. What the rows are is in its docstring.",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {origin.facts(ROOT)['brief']}, {hardware()}. {len(texts):,} texts of "
        f"{options.file.stem}, {words:.0f} words on average; k = {K}, at most {LONGEST} tokens a candidate, tau .8, "
        "beta 1, half of the budget for each phase.",
    ]
    lines += ["", "## What each phase keeps", "", "Mean cosines to the text.", "", PHASES, "|---" * 5 + "|"]
    lines += phases(variants["full"], texts)
    lines += ["", "## How near the choice comes to the best candidate", "", CHOICE, "|---" * 5 + "|"]
    for variant, built in variants.items():
        for epsilon in EPSILONS:
            best, gap, bound, beyond = choice(built, texts, epsilon)
            lines.append(f"| {variant}, {epsilon} | {best:.3f} | {gap:.4f} | {bound:.4f} | {beyond:.4f} |")
    lines += ["", "## Time by k", "", f"Of {TIMED} texts at {EPSILONS[-1]}.", "", "| k | seconds a text |", "|---|---|"]
    shown = sanitised(variants["full"], texts[:TIMED], EPSILONS[-1]).texts
    lines += [f"| {count} | {seconds(texts, shown, count):.2f} |" for count in COUNTS]
    lines += ["", "## One setting varied", ""]
    lines += [f"At {EPSILONS[-1]}; by default beta 1, tau .8, split .5, k 10.", "", VARIED, "|---" * 5 + "|"]
    lines += varied(texts, EPSILONS[-1])
    tables.write_text("\n".join(lines) + "\n", PAGE)


if __name__ == "__main__":
    main(sys.argv[1:])
