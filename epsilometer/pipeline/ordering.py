"""The order in which stages are brought up to date, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter

from dvc.repo import Repo

Needs = Mapping[str, Sequence[str]]
"""the dependencies of each stage, by address"""


def dependencies(repo: Repo, targets: Iterable[str]) -> dict[str, list[str]]:
    """Return the targets and all stages that they depend on, with the dependencies of each, from DVC's graph.

    The project must be locked. Raises DvcException for an unknown target, and for an unreadable file.
    """
    graph = repo.index.graph  # an edge leads from a stage to its dependency
    wanted = {stage for target in targets for stage in repo.stage.collect(target, with_deps=True)}
    return {stage.addressing: [need.addressing for need in graph[stage]] for stage in graph if stage in wanted}


def in_order(
    needs: Needs, at_once: int, start: Callable[[str], None], ended: Callable[[], tuple[str, bool]]
) -> tuple[list[str], list[str]]:
    """Start each stage as soon as its dependencies are done, at most `at_once` at a time.

    Among stages that could start, the stage with the longest chain of dependent stages comes first. If a stage fails,
    the stages that depend on it do not run; all others do.

    start: begins a stage. ended: waits until a started stage has ended; returns its address, and True if it succeeded.
    Returns the stages that failed, and the stages that did not run because of a failure.
    """
    order = TopologicalSorter(needs)
    order.prepare()
    behind = _behind(needs)
    ready: list[str] = []
    running: set[str] = set()
    failed: list[str] = []
    left = dict.fromkeys(needs)
    while order.is_active():
        ready = sorted([*ready, *order.get_ready()], key=lambda stage: -behind[stage])
        while ready and len(running) < at_once:
            stage = ready.pop(0)
            del left[stage]
            running.add(stage)
            start(stage)
        if not running:
            break  # the remaining stages depend on one that failed
        stage, succeeded = ended()
        running.remove(stage)
        if succeeded:
            order.done(stage)
        else:
            failed.append(stage)
    return failed, [*left]


def missed(failed: Sequence[str], left: Sequence[str]) -> str:
    """Return a sentence with the stages that failed and the stages that did not run."""
    return f"failed: {', '.join(failed)}; not run because of that: {', '.join(left) or 'none'}"


def _behind(needs: Needs) -> dict[str, int]:
    """Return, for each stage, the length of the longest chain of stages that depend on it."""
    lengths = dict.fromkeys(needs, 0)
    for stage in reversed([*TopologicalSorter(needs).static_order()]):
        for need in needs[stage]:
            lengths[need] = max(lengths[need], lengths[stage] + 1)
    return lengths
