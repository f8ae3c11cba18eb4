"""The slot that each adversary names, for every trial and epsilon."""

from epsilometer.pipeline.flows.reproduce import stage

attack = stage("attack")
