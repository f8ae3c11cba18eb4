"""The texts by which a cell is measured, rewritten at every epsilon, with what became of each."""

from epsilometer.pipeline.flows.reproduce import stage

anonymize = stage("anonymize")
