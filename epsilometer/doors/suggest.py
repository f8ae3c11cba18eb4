"""Limits for a gate, proposed from a mechanism's present leak, and a CI workflow that enforces these limits.

A proposed limit is the smallest round number that is at least the largest upper bound measured. So the present
mechanism keeps the limit. If the upper bound of a kind of identifiers, an attribute or a linkage exceeds the largest
round number, no limit is proposed: it would protect nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from epsilometer.auditing.question import Question, check
from epsilometer.auditing.subject import Subject
from epsilometer.core.errors import UserError
from epsilometer.core.rounding import UP, rounded
from epsilometer.doors.ask import answers
from epsilometer.questions.identifiers import Identifiers

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)  # limits on the share of surviving identifiers
LOSSES = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)  # limits on losses, in nats
_CHECKOUT = "actions/checkout@11d5960a326750d5838078e36cf38b85af677262", "v4.4.0"
_PYTHON = "actions/setup-python@a26af69be951a213d495a4c3e4e4022e16d87065", "v5.6.0"
TEXTS = 120  # texts of each kind and shape; if none of 120 identifiers survives, the share is proved to be below .05


@dataclass(frozen=True)
class Proposal:
    """A proposed limit (None: no limit), its question with the settings by key, and the measured figures in words."""

    question: str
    limit: float | None
    settings: Mapping[str, Any]
    said: str

    def __str__(self) -> str:
        """Return a line for people."""
        allowed = "no limit" if self.limit is None else f"a limit of {self.limit:g}"
        return f"{self.question}: {allowed}; {self.said}"


def suggest(of: Subject, asked_of: Mapping[str, tuple[Question, Mapping[str, Any]]]) -> list[Proposal]:
    """Return the proposals for a mechanism. asked_of: each question with its settings, by the question's name.

    Raises UserError if the subject lacks a column that a question reads. If the texts are too few to measure a
    question, the question's proposal has no limit, and says why.
    """
    for question, _ in asked_of.values():
        check(question, of)
    proposals = []
    for name, (question, settings) in asked_of.items():
        count = TEXTS if isinstance(question, Identifiers) else question.usual
        try:
            rows = answers(list(question.observe(of, count)), of.epsilon, of.design.alpha)
        except UserError as error:
            proposals.append(Proposal(name, None, settings, str(error)))
            continue
        by_kind = isinstance(question, Identifiers)
        proposals += _of_identifiers(rows, settings) if by_kind else [_of_loss(name, rows, settings)]
    of.tally.say()
    return proposals


def _of_identifiers(rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> list[Proposal]:
    """Return one proposal for all kinds that the mechanism hides, and one without a limit for each other kind."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_kind.setdefault(row["figure"].removeprefix("identifiers: ").partition(",")[0], []).append(row)
    worst = {kind: max(some, key=lambda row: (row["high"], row["point"])) for kind, some in by_kind.items()}
    hidden = [kind for kind, row in worst.items() if row["high"] <= SHARES[-1]]
    proposals = []
    if hidden:
        most = max(worst[kind]["high"] for kind in hidden)
        trials = max(worst[kind]["trials"] for kind in hidden)
        said = (
            f"a share of at most {rounded(most, 3, UP):g} of each kind survives: {', '.join(hidden)} ({trials} texts "
            "for each shape)"
        )
        proposals.append(Proposal("identifiers", _least(SHARES, most), {**settings, "kinds": hidden}, said))
    for kind, row in worst.items():
        if kind not in hidden:
            survivors = round(row["point"] * row["trials"])
            shape = row["figure"].removeprefix("identifiers: ")
            said = f"{survivors} of {row['trials']} survive ({shape}); hide more of them before setting a limit"
            proposals.append(Proposal("identifiers", None, {}, said))
    return proposals


def _of_loss(name: str, rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> Proposal:
    """Return a proposal for the loss of the strongest attacker, which the last row states."""
    row = rows[-1]
    limit = _least(LOSSES, row["high"])
    shown = f"attackers show {row['point']:.2f} nats ({row['trials']:,} trials)"
    if limit is None:
        return Proposal(name, None, settings, f"{shown}; reduce the leak, or give more texts")
    return Proposal(name, limit, settings, f"{shown}; the upper bound is {rounded(row['high'], 2, UP):g}")


def _least(steps: Sequence[float], most: float) -> float | None:
    """Return the smallest step that is at least `most`, the upper bound; None if every step is smaller."""
    return next((step for step in steps if step >= most), None)


def workflow(inputs: Mapping[str, str], proposals: Sequence[Proposal]) -> str:
    """Return a workflow that runs the gate with the proposed limits.

    inputs: the inputs of the action, except the limits and the settings of questions.
    """
    limited = [each for each in proposals if each.limit is not None]
    settings = [
        f"{each.question}.{key}={yaml.safe_dump(value, default_flow_style=True, width=1 << 20).splitlines()[0]}"
        for each in limited
        for key, value in each.settings.items()
    ]
    values = {**inputs, "limits": "\n".join(f"{each.question}={each.limit:g}" for each in limited)}
    values |= {"with": "\n".join(settings)} if settings else {}
    checkout = {"uses": _CHECKOUT[0], "with": {"submodules": True}}
    python = {"uses": _PYTHON[0], "with": {"python-version": "3.11"}}
    gate = {"uses": "./tools/epsilometer", "with": values}
    job = {"runs-on": "ubuntu-latest", "timeout-minutes": 30, "steps": [checkout, python, gate]}
    whole = {"name": "privacy", "on": ["pull_request"], "permissions": {"contents": "read"}, "jobs": {"gate": job}}
    about = [
        "# Each limit is the smallest round number not below today's upper bound (epsilometer gate --suggest):",
        *(f"# {' '.join(str(each).split())}" for each in proposals),
        "# ./tools/epsilometer is the repository of epsilometer, a submodule of this one.",
    ]
    text = yaml.safe_dump(whole, sort_keys=False, width=1 << 20)
    for action, version in (_CHECKOUT, _PYTHON):  # add the version as a comment for readers
        text = text.replace(action, f"{action}  # {version}")
    return "\n".join(about) + "\n" + text
