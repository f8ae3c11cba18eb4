"""Epsilometer measures how much privacy a text privatization mechanism really gives.

    import epsilometer
    epsilometer.audit(texts, "tem", epsilons=[5, 8], trials=500)
    epsilometer.ask("tail", epsilometer.subject(texts, "tem", 5), epsilons=[5, 8])
    epsilometer.gate(epsilometer.subject(texts, "tem", 8), epsilometer.Rules([(epsilometer.question("tail"), 0.01)]))
    epsilometer.calibrate(texts, "tem", target=1.0)
    epsilometer.compare(texts, ("tem", 11), ("mvc", 70))
    epsilometer.exact_loss(texts, "tem", epsilons=[5, 8])
    epsilometer.one_run(included, excluded, delta=1e-5)
    epsilometer.similarity(texts, rewrites, metrics=["cosine", "bleu"])
    epsilometer.anonymity(texts, rewrites, labels, attribute="gender", keep="rating")
    epsilometer.surviving_identifiers(texts, "presidio", trials=500)
    epsilometer.linking_loss(epsilometer.People.by_claims(texts, claims), "presidio")
    epsilometer.probe_failures(service, "anonymiser.example")
    epsilometer.track(table)

To write a mechanism or an attack, use `epsilometer.component`, `Rewrites`, `Guarantee`, `Granularity`, `Neighbours`,
`KernelMechanism` and `choose`. Invalid input raises `epsilometer.UserError`.

`one_run` and `probe_failures` belong to studies, which are plug-ins. Other packages can add studies
(`epsilometer.core.study`). Submodules (`epsilometer.auditing.claims.verdicts`, `epsilometer.auditing.planning`, ...)
load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from epsilometer.core.version import VERSION

if TYPE_CHECKING:
    from epsilometer.auditing.attributes.one_call import AnonymityDesign, anonymity
    from epsilometer.auditing.ceilings.ceiling import ceiling, ceiling_of_pairs
    from epsilometer.auditing.exact_loss.from_texts import exact_curves, exact_loss, exact_pairs
    from epsilometer.auditing.identifiers.surviving import surviving_identifiers
    from epsilometer.auditing.linking.loss import LinkingDesign, linking_loss
    from epsilometer.auditing.linking.people import People
    from epsilometer.auditing.question import question
    from epsilometer.auditing.subject import subject
    from epsilometer.auditing.text_audit import audit
    from epsilometer.auditing.trials.design import Design
    from epsilometer.auditing.worth.similarity import similarity
    from epsilometer.cells.calibrating.losses import Search
    from epsilometer.core.attack import Attack, Context, choose
    from epsilometer.core.component import component
    from epsilometer.core.errors import UserError
    from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
    from epsilometer.core.mechanism import Mechanism, Rewrites
    from epsilometer.doors.ask import ask
    from epsilometer.doors.decide import decide
    from epsilometer.doors.gate import Rules, gate
    from epsilometer.mechanisms.words.shared.kernel import KernelMechanism
    from epsilometer.pipeline.calibrating import calibrate
    from epsilometer.pipeline.comparing import compare
    from epsilometer.report.tracking import track

__all__ = [
    "AnonymityDesign",
    "Attack",
    "Context",
    "Design",
    "Granularity",
    "Guarantee",
    "KernelMechanism",
    "LinkingDesign",
    "Mechanism",
    "Neighbours",
    "People",
    "Rewrites",
    "Rules",
    "Search",
    "UserError",
    "anonymity",
    "ask",
    "audit",
    "calibrate",
    "ceiling",
    "ceiling_of_pairs",
    "choose",
    "compare",
    "component",
    "decide",
    "exact_curves",
    "exact_loss",
    "exact_pairs",
    "gate",
    "linking_loss",
    "question",
    "similarity",
    "subject",
    "surviving_identifiers",
    "track",
]
_MODULES = {
    "AnonymityDesign": "auditing.attributes.one_call",
    "Attack": "core.attack",
    "Context": "core.attack",
    "Design": "auditing.trials.design",
    "Granularity": "core.guarantees",
    "Guarantee": "core.guarantees",
    "KernelMechanism": "mechanisms.words.shared.kernel",
    "LinkingDesign": "auditing.linking.loss",
    "Mechanism": "core.mechanism",
    "Neighbours": "core.guarantees",
    "People": "auditing.linking.people",
    "Rewrites": "core.mechanism",
    "Rules": "doors.gate",
    "Search": "cells.calibrating.losses",
    "UserError": "core.errors",
    "anonymity": "auditing.attributes.one_call",
    "ask": "doors.ask",
    "audit": "auditing.text_audit",
    "calibrate": "pipeline.calibrating",
    "ceiling": "auditing.ceilings.ceiling",
    "ceiling_of_pairs": "auditing.ceilings.ceiling",
    "choose": "core.attack",
    "compare": "pipeline.comparing",
    "component": "core.component",
    "decide": "doors.decide",
    "exact_curves": "auditing.exact_loss.from_texts",
    "exact_loss": "auditing.exact_loss.from_texts",
    "exact_pairs": "auditing.exact_loss.from_texts",
    "gate": "doors.gate",
    "linking_loss": "auditing.linking.loss",
    "question": "auditing.question",
    "similarity": "auditing.worth.similarity",
    "subject": "auditing.subject",
    "surviving_identifiers": "auditing.identifiers.surviving",
    "track": "report.tracking",
}
__version__ = VERSION


def __getattr__(name: str) -> Any:
    if name in __all__:
        return _public(f"epsilometer.{_MODULES[name]}", name)
    try:
        return importlib.import_module(f"epsilometer.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"epsilometer.{name}":
            raise
    if not name.startswith("_") and name in (modules := _of_studies()):
        return _public(modules[name], name)
    raise AttributeError(f"module 'epsilometer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_of_studies()})


def _of_studies() -> dict[str, str]:
    """Return the public names that studies add, each with the module that defines it."""
    from epsilometer.core.study import studies

    return {name: module for study in studies() for module, _, name in (of.partition(":") for of in study.names)}


def _public(module: str, name: str) -> Any:
    from epsilometer.core.extras import explained

    public = explained(lambda: getattr(importlib.import_module(module), name))()
    return public if isinstance(public, type) else explained(public)
