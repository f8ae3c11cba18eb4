"""The conformance tests of a component by name: a mechanism, an attack of any kind, a metric."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from epsilometer.auditing import text_audit
from epsilometer.auditing.conformance.attack import check_attack
from epsilometer.auditing.conformance.linking import check_linking
from epsilometer.auditing.conformance.mechanism import check_mechanism
from epsilometer.auditing.conformance.metric import check_metric
from epsilometer.auditing.conformance.rules import TEXTS, Check
from epsilometer.auditing.worth import similarity
from epsilometer.core.component import LINKING, MEMBERSHIP, RECONSTRUCTION, build, find
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import has_budget


def of_mechanism(name: str, settings: Mapping[str, Any], epsilon: float | None = None) -> list[Check]:
    """Return the checks of a mechanism, by name or path, at a budget: 1 by default, if it takes one."""
    built = text_audit.as_mechanism(name, settings, TEXTS)
    return check_mechanism(built, 1.0 if epsilon is None and has_budget(built) else epsilon)


def of_attack(name: str, settings: Mapping[str, Any]) -> list[Check]:
    """Return the checks of an attack; its methods show its kind: `score` is on membership, `prepare` reconstructs
    texts, `link` links."""
    try:
        (chosen,) = text_audit.chosen_attacks({name: settings}).values()
    except UserError as error:
        for kind, method in ((MEMBERSHIP, "score"), (LINKING, "link"), (RECONSTRUCTION, "prepare")):
            with suppress(UserError):
                component = find(kind, name, method)
                break
        else:
            raise error from None  # the message describes attacks on texts, the usual kind
        built = build(component, settings, f"attacks.{name}")
        if kind == LINKING:
            return check_linking(built)
        # These import torch, which not every installation has.
        from epsilometer.auditing.conformance.membership import check_membership
        from epsilometer.auditing.conformance.reconstruction import check_reconstruction
        from epsilometer.models.locate import ENCODER
        from epsilometer.training.shared_model import SharedModel

        if kind == MEMBERSHIP:
            return check_membership(built)
        return check_reconstruction(built, SharedModel(ENCODER, longest=16))
    return check_attack(chosen)


def of_metric(name: str, settings: Mapping[str, Any]) -> list[Check]:
    """Return the checks of a metric, by name or path."""
    return check_metric(similarity.metric(name, settings))
