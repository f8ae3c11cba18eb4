"""Rules that a component must follow, and the results of checking them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

FALSE_ALARM = 1e-6  # probability that a statistical test fails a correct component
TEXTS = (
    "please book a table for two",
    "show me flights from boston to denver",
    "play some quiet music now",
    "what is the weather in paris on may 5",
    "wake me up at six",
    "yes",
)


class Holds(str):
    """A remark on a rule that holds, such as the smallest departure that the rule's test detects."""


Rule = tuple[str, Callable[[], str | None]]
"""A rule, and a function that checks it: None or a remark if the rule holds, otherwise the problem and its remedy."""


@dataclass(frozen=True)
class Check:
    """A checked rule. problem: the problem and its remedy, None if the rule holds. remark: a note if the rule holds."""

    rule: str
    problem: str | None
    remark: str | None = None


def checked(rules: Iterator[Rule]) -> list[Check]:
    """Return the checks of rules, in their order."""
    checks = []
    for rule, holds in rules:
        try:
            problem = holds()
        except Exception as error:  # the component's author must see any error
            problem = f"raises {type(error).__name__}: {error}"
        remark = str(problem) if isinstance(problem, Holds) else None
        problem = None if remark is not None else problem
        checks.append(Check(rule, problem, remark))
        if problem is not None and len(checks) == 1:
            break  # if the first rule (the interface) fails, the others are meaningless
    return checks


def lacks(component: object, name: str, arguments: int, page: str = "") -> str | None:
    """Return the problem if a method is missing or takes another number of arguments. page: a page on the method."""
    if not callable(getattr(component, name, None)):
        return f"the method {name} is missing; add it{page and f' ({page})'}"
    return refuses(component, name, arguments)


def refuses(component: object, name: str, arguments: int) -> str | None:
    """Return the problem if a method does not take this number of arguments by position."""
    try:
        inspect.signature(getattr(component, name)).bind(*[None] * arguments)
    except TypeError:
        signature = inspect.signature(getattr(component, name))
        return f"{name}{signature} cannot be called with {arguments} positional arguments; change its parameters"
    return None
