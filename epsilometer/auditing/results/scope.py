"""The scope of a gate's verdict: this deployment or its law, the adversaries that guessed, and what stayed unseen."""

from __future__ import annotations

from dataclasses import dataclass

from epsilometer.auditing.results.distinct_texts import UNSEEN
from epsilometer.auditing.trials.memory import Memory

LAW, DEPLOYMENT = "law", "deployment"


@dataclass(frozen=True)
class Scope:
    """The scope of a verdict.

    memory: how repeated texts were answered, None with too few repeats. query_access: whether an adversary with
    query access guessed, None where nobody guessed. black_box: whether the mechanism states no law.
    """

    memory: Memory | None = None
    query_access: bool | None = None
    black_box: bool = False

    @property
    def of(self) -> str | None:
        """LAW or DEPLOYMENT, to which the verdict's error probabilities apply; None with too few repeats to tell.

        Where answers repeat, trials are draws of this deployment's texts alone: another one with the same law, but
        other answers, may lie on the other side of the limit. With too few repeats almost every trial has a text of
        its own.
        """
        if self.memory is None:
            return None
        return DEPLOYMENT if self.memory.repeated else LAW

    def sentences(self, passed: bool) -> list[str]:
        """Return the sentences that belong beside the verdict; passed: whether no limit is exceeded."""
        said = []
        if self.memory is not None and self.memory.repeated:
            said.append(self.memory.said())
        if passed and self.query_access is not None:
            said.append(
                "the attack shadow finds no code beyond the limit; other codes may exist"
                if self.query_access
                else "no adversary with query access (shadow) guessed: a code that repeated rewriting reveals may pass"
            )
        return [*said, UNSEEN] if passed and self.black_box else said
