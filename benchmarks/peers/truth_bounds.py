"""Lower bounds of one peer's estimators on the samples of the truth bench, written as JSON next to the samples.

This script runs in the peer's environment, and does not import this project. The peers' code is unchanged.

usage: python benchmarks/peers/truth_bounds.py jax_privacy|ldp_audit|dp_auditorium FOLDER
"""

from __future__ import annotations

import json
import math
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import numpy as np

CODE = Path(__file__).parent / "code"


def bare(name, path):
    """Register a package without its __init__, which would import Ray or TensorFlow without need."""
    package = ModuleType(name)
    package.__path__ = [str(path)]
    sys.modules[name] = package


def jax_privacy(data, about):
    """Return the bounds of jax_privacy by column."""
    from jax_privacy.auditing import Bonferroni, CanaryScoreAuditor, MultiSplit

    bounds = {"jax_privacy, Bonferroni": [], "jax_privacy, MultiSplit": []}
    for seed, (first, loss) in enumerate(zip(data["first"], data["loss"], strict=True)):
        auditor = CanaryScoreAuditor(loss[first], loss[~first])
        for name, strategy in zip(bounds, (Bonferroni(), MultiSplit(20, seed=seed)), strict=True):
            bound = auditor.epsilon_clopper_pearson(about["error"], about["delta"], threshold_strategy=strategy)
            bounds[name].append(float(bound))
    return bounds


def ldp_audit(data, about):
    """Return the bounds of ldp-audit by column; empty if the samples are not sets of two values."""
    if "sets" not in data:
        return {}
    bare("ldp_audit", CODE / "ldp-audit/ldp_audit")
    from ldp_audit.attacks import attack_ue
    from statsmodels.stats.proportion import proportion_confint

    bounds = []
    for first, sets in zip(data["first"], data["sets"], strict=True):
        named = np.array([attack_ue(bits, 2) == 0 for bits in sets])
        low = proportion_confint((named & first).sum(), first.sum(), about["error"], "beta")[0]
        high = proportion_confint((named & ~first).sum(), (~first).sum(), about["error"], "beta")[1]
        bounds.append(max(0.0, math.log(low / high)))
    return {"ldp-audit": bounds}


def dp_auditorium(data, about):
    """Return the bounds of dp_auditorium by column: the largest epsilon of a grid that its tester rejects."""
    package = CODE / "dp_auditorium/python/dp_auditorium/dp_auditorium"
    for name in ("", ".configs", ".testers"):
        bare(f"dp_auditorium{name}", package / name.lstrip("."))
    from dp_auditorium.configs.privacy_property import ApproximateDp
    from dp_auditorium.configs.property_tester_config import HistogramPropertyTesterConfig
    from dp_auditorium.testers.histogram_tester import HistogramTester

    reach = float(np.quantile(np.abs(data["loss"]), 0.99)) + 1e-6
    bounds = []
    for first, loss in zip(data["first"], data["loss"], strict=True):
        rejected = [0.0]
        for epsilon in np.arange(0.05, 12, 0.05):
            claim = ApproximateDp(epsilon=float(epsilon), delta=about["delta"])
            tester = HistogramTester(HistogramPropertyTesterConfig(False, 20, -reach, reach, claim))
            if tester.reject_property(tester.estimate_lower_bound(loss[first], loss[~first], about["error"])):
                rejected.append(float(epsilon))
        bounds.append(max(rejected))
    return {"dp_auditorium, histogram": bounds}


PEERS = {
    "jax_privacy": (
        jax_privacy,
        lambda: f"jax_privacy {version('jax-privacy')}",
        "`CanaryScoreAuditor.epsilon_clopper_pearson` on the likelihood ratios, one-sided, for large ratios only. "
        "Bonferroni, its default, divides the significance among the thresholds on the hull of the samples. "
        "MultiSplit, with 20 splits, chooses a threshold on half of the samples and takes the median over splits.",
    ),
    "ldp_audit": (
        ldp_audit,
        lambda: f"5cd1c5d, statsmodels {version('statsmodels')}",
        "its attack on unary encodings, run on our samples of two values, and its interval of ln(TPR / FPR), at a "
        "level at which both ends together have the same error as our bound.",
    ),
    "dp_auditorium": (
        dp_auditorium,
        lambda: "google/differential-privacy b5b0286",
        "`HistogramTester` on the likelihood ratios in 20 cells, run at every epsilon from .05 to 12 in steps of .05; "
        "the bound is the largest epsilon that it rejects. It is made to test one claim, not to search.",
    ),
}


def main(name: str, folder: Path) -> None:
    """Write PEER.json."""
    work, release, note = PEERS[name]
    columns: dict[str, dict[str, list[float]]] = {}
    for file in sorted(folder.glob("*.npz")):
        with np.load(file) as data:
            about = json.loads(str(data["about"]))
            for column, bounds in work(dict(data), about).items():
                columns.setdefault(column, {})[about["mechanism"]] = bounds
    out = {"peer": name, "version": release(), "note": note, "columns": columns}
    (folder / f"{name}.json").write_text(json.dumps(out))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
