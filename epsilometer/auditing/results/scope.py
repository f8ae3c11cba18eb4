"""The scope of a gate's verdict: the deployment or its law, and the adversaries that guessed."""

from __future__ import annotations

from dataclasses import dataclass

from epsilometer.auditing.results.distinct_texts import UNSEEN
from epsilometer.auditing.trials.memory import Memory

LAW, DEPLOYMENT = "law", "deployment"


@dataclass(frozen=True)
class Scope:
    """The scope of a verdict.

    memory: statistics of answers to repeated texts, None with too few repeats. query_access: True if an adversary with
    query access guessed, None if no attack guessed. black_box: True if the mechanism states no law.
    """

    memory: Memory | None = None
    query_access: bool | None = None
    black_box: bool = False

    @property
    def of(self) -> str | None:
        """LAW or DEPLOYMENT: the scope of the verdict's error probabilities; None with too few repeated texts to tell.

        If a deployment repeats its answers, trials sample only this deployment's texts: another deployment with the
        same law but other answers may be on the other side of the limit.
        """
        if self.memory is None:
            return None
        return DEPLOYMENT if self.memory.repeated else LAW

    def sentences(self, passed: bool) -> list[str]:
        """Return the sentences to print with the verdict. passed: True if the gate passed."""
        said = []
        if self.memory is not None and self.memory.repeated:
            said.append(self.memory.said())
        if passed and self.query_access is not None:
            said.append(
                "the attack shadow found no leak beyond the limit by repeated queries; other leaks may exist"
                if self.query_access
                else "the attack shadow, which has query access, did not run: a leak that only repeated queries "
                "show may pass"
            )
        return [*said, UNSEEN] if passed and self.black_box else said
