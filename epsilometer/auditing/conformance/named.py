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
from epsilometer.core.component import LINKING, build, find
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import has_budget
from epsilometer.core.study import AttackKind, studies


def of_mechanism(name: str, settings: Mapping[str, Any], epsilon: float | None = None) -> list[Check]:
    """Return the checks of a mechanism (name or path) at an epsilon; the default is 1 if the mechanism has a budget."""
    built = text_audit.as_mechanism(name, settings, TEXTS)
    return check_mechanism(built, 1.0 if epsilon is None and has_budget(built) else epsilon)


def of_attack(name: str, settings: Mapping[str, Any]) -> list[Check]:
    """Return the checks of an attack. Its method determines its kind: `guess`, `link`, or a method of a study."""
    try:
        (chosen,) = text_audit.chosen_attacks({name: settings}).values()
    except UserError as error:
        kinds = [AttackKind(LINKING, "link", check_linking)]
        kinds += [kind for study in studies() for kind in study.attack_kinds()]
        for kind in kinds:
            with suppress(UserError):
                component = find(kind.folder, name, kind.method)
                break
        else:
            raise error from None  # the message describes attacks on texts, the usual kind
        return kind.check(build(component, settings, f"attacks.{name}"))
    return check_attack(chosen)


def of_metric(name: str, settings: Mapping[str, Any]) -> list[Check]:
    """Return the checks of a metric, by name or path."""
    return check_metric(similarity.metric(name, settings))
