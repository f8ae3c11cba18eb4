"""In which order stages are brought up to date, of those that may run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter

from dvc.repo import Repo

Needs = Mapping[str, Sequence[str]]
"""the stages that each depends on, by address"""


def dependencies(repo: Repo, targets: Iterable[str]) -> dict[str, list[str]]:
    """The stages to bring up to date for these, and those that each depends on, from DVC's graph; its lock is held.

    Raises DvcException where a target is none, or a file cannot be read.
    """
    graph = repo.index.graph  # an edge leads from a stage to what it depends on
    wanted = {stage for target in targets for stage in repo.stage.collect(target, with_deps=True)}
    return {stage.addressing: [need.addressing for need in graph[stage]] for stage in graph if stage in wanted}


def in_order(
    needs: Needs, at_once: int, start: Callable[[str], None], ended: Callable[[], tuple[str, bool]]
) -> tuple[list[str], list[str]]:
    """Start each stage as soon as what it depends on is done, so many at a time; of several, that with the longest
    chain of others behind it. Where one fails, those that depend on it are not run, and all others are.

    start: begins a stage. ended: waits until one that was begun has ended; which, and whether it succeeded.
    Returns the stages that failed, and those that were not run for that.
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
            break  # what is left depends on a stage that failed
        stage, succeeded = ended()
        running.remove(stage)
        if succeeded:
            order.done(stage)
        else:
            failed.append(stage)
    return failed, [*left]


def missed(failed: Sequence[str], left: Sequence[str]) -> str:
    """What did not come about, in words."""
    return f"failed: {', '.join(failed)}; not run for that: {', '.join(left) or 'none'}"


def _behind(needs: Needs) -> dict[str, int]:
    """The length of the longest chain of stages that wait for each."""
    lengths = dict.fromkeys(needs, 0)
    for stage in reversed([*TopologicalSorter(needs).static_order()]):
        for need in needs[stage]:
            lengths[need] = max(lengths[need], lengths[stage] + 1)
    return lengths
