"""Utility and loss of a cell when one setting of its mechanism is varied."""

from epsilometer.pipeline.flows.reproduce import stage

sweeps = stage("sweeps")
