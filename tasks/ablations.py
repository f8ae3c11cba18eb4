"""The loss of a cell when one factor of the audit is varied."""

from epsilometer.pipeline.flows.reproduce import stage

ablations = stage("ablations")
